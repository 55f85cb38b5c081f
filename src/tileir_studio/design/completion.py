"""Completions of a text at a place: words of the language, functions, their parameters, choices, and names of steps.

A text that is being written can mostly not be read, so that its last line is looked at, and of the lines before it
those that can.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from tileir.core import TileError, attrs
from tileir.tile.functions import BUILTINS
from tileir_formula.definitions.functions import Function
from tileir_formula.definitions.offers import offered
from tileir_formula.definitions.parameters import ChoiceParameter, FlagParameter
from tileir_formula.ir import Boundary
from tileir_formula.references import places_of
from tileir_formula.text.parser import parse
from tileir_formula.text.printer import value_text

_WORD: Final = re.compile(r"[$A-Za-z_0-9]*\Z")
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_CALL: Final = re.compile(r"(\w+)\s*\(([^()]*)\Z")
_VALUE: Final = re.compile(r"(\w+)\s*=\s*\Z")
_GIVEN: Final = re.compile(r"(\w+)\s*=")
_STEP: Final = re.compile(r"\s*(?:[A-Za-z_]\w*\s*=\s*)?\Z")
_BLANKS: Final = re.compile(r"\s\Z")
_SOURCE: Final = re.compile(r"\bof(?:\s+[$\w]+\s*,)*\s*\Z|\b(?:results|mask)\s[^=]*\Z|\bwith\s+\w+(?:\([^()]*\))?\s+\Z")
_AFTER: Final = (
    (re.compile(r"\boutside\s+\Z"), tuple(each.value for each in Boundary)),
    (re.compile(r"\bwhere\s+\Z"), ("input", "output", "original", "mask", "region", "not")),
    (re.compile(r"\bwhere\s+not\s+\Z"), ("input", "output", "original", "mask", "region")),
    (re.compile(r"\b(?:input|output|original)\s+\Z"), ("within",)),
    (re.compile(r"\bwithin\s+[\d.]+\s*%?\s+of\s+\Z"), ("pixel",)),
)
_FURTHER: Final = ("of", "outside", "where", "with")
_LINES: Final = ("repeat", "results")
_TILE_WORDS: Final = ("function", "scan", "times", "reverse", "while", "do", "default", "no_defract")


@attrs.frozen
class Option:
    """One way to go on.

    Attributes:
        label: What is written.
        kind: ``function``, ``parameter``, ``choice``, ``source``, ``word`` or ``name``.
        about: What it is, in a few words; may be empty.

    """

    label: str
    kind: str
    about: str = ""


@attrs.frozen
class Completions:
    """Continuations of a text.

    Attributes:
        typed: The number of characters before the place that an option replaces.
        options: In the order in which they are offered.

    """

    typed: int
    options: tuple[Option, ...]


def formula_completions(before: str, functions: Mapping[str, Function]) -> Completions:
    """Return how a formula can go on, of which so much stands before the place."""
    *lines, line = before.split("\n")
    if "//" in line:
        return Completions(0, ())
    word = _word_at_the_end(line)
    head = line[: len(line) - len(word)]
    return Completions(len(word), tuple(_formula_options("\n".join(lines), head, functions)))


def _word_at_the_end(line: str) -> str:
    found = _WORD.search(line)
    return "" if found is None else found[0]


def _formula_options(lines: str, head: str, functions: Mapping[str, Function]) -> Iterator[Option]:
    call = _CALL.search(head)
    if call is not None:
        if call[1] in functions:
            yield from _arguments(functions[call[1]], call[2])
        return
    for pattern, words in _AFTER:
        if pattern.search(head):
            yield from (Option(word, "word") for word in words)
            return
    if _SOURCE.search(head):
        yield from (Option(source, "source") for source in _sources(lines, functions))
    elif re.search(r"\bwith\s+\Z", head):
        merging = (each for each in functions.values() if len(each.pictures) == 2)
        yield from (Option(each.name, "function", each.about) for each in merging)
    elif _STEP.match(head):
        yield from (Option(each.name, "function", each.about) for each in functions.values())
        if "=" not in head:
            yield from (Option(word, "word") for word in _LINES)
    elif _BLANKS.search(head):
        yield from (Option(word, "word") for word in _FURTHER if not re.search(rf"\b{word}\b", head))


def _arguments(function: Function, written: str) -> Iterator[Option]:
    value = _VALUE.search(written)
    given = set(_GIVEN.findall(written))
    for parameter in function.parameters:
        if value is None and parameter.name not in given and written.rstrip()[-1:] in ("", ","):
            default = value_text(parameter.default)
            yield Option(f"{parameter.name}=", "parameter", f"{parameter.about} (by default {default})".strip())
        elif value is not None and value[1] == parameter.name:
            words = parameter.words if isinstance(parameter, ChoiceParameter) else ()
            words = ("yes", "no") if isinstance(parameter, FlagParameter) else words
            yield from (Option(word, "choice") for word in words)


def _sources(lines: str, functions: Mapping[str, Function]) -> tuple[str, ...]:
    """Return what a step behind some lines can read."""
    code = "\n".join(line.partition("//")[0] for line in lines.split("\n"))
    opened = max(0, code.count("{") - code.count("}"))
    try:
        formula = parse(lines + "\n}" * opened)
    except TileError:  # a line before is wrong: names tell more than nothing
        named = re.findall(r"^\s*([A-Za-z_]\w*)\s*=", code, re.MULTILINE)
        inputs = re.search(r"^\s*inputs\s+(.*)", code)
        names = _NAME.findall(inputs[1]) if inputs else ["image"]
        return tuple(dict.fromkeys([*names, *(["previous"] if opened else []), *named]))
    wanted = [path for path, step, _ in places_of(formula) if step is None][-1 - opened]
    scope = next(scope for path, _, scope in places_of(formula) if path == wanted)
    return offered(None, scope, functions).sources


def tile_completions(text: str, place: int) -> Completions:
    """Return how a Tile program can go on at a place: with its names, builtin functions and words."""
    before = text[:place].rpartition("\n")[2]
    word = _word_at_the_end(before)
    if "//" in before or not word or word[0].isdecimal():
        return Completions(0, ())
    around = text[: place - len(word)] + " " + text[place:]
    code = "\n".join(line.partition("//")[0] for line in around.split("\n"))
    names = dict.fromkeys(each for each in _NAME.findall(code) if each not in _TILE_WORDS and each not in BUILTINS)
    return Completions(
        len(word),
        (
            *(Option(name, "name") for name in names),
            *(Option(name, "function", _signature(name)) for name in BUILTINS),
            *(Option(each, "word") for each in _TILE_WORDS),
        ),
    )


def _signature(name: str) -> str:
    found = BUILTINS[name]
    if found.most is None:
        return f"{found.least} arguments or more"
    many = f"{found.least} to {found.most}" if found.most != found.least else str(found.least)
    return f"{many} argument{'' if many == '1' else 's'}"
