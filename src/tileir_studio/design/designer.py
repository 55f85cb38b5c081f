"""The jobs of the designer: the text of a formula to controls and back, and to pictures.

Nothing here knows of HTTP or processes.

The offers for each place of a formula: the part of the flexibility diagram that applies there.

Completions of a text at a place: words of the language, functions, their parameters, choices, and names of steps. A
half-written text can rarely be parsed, so the last line is examined, and those lines before it that parse.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import orjson

from tileir.core import TileError, attrs, fail
from tileir.tile.functions import BUILTINS
from tileir_cli.pictures.files import as_levels
from tileir_formula.definitions.catalogue import default_catalogue
from tileir_formula.definitions.functions import Function
from tileir_formula.definitions.offers import offered, offers
from tileir_formula.definitions.parameters import ChoiceParameter, FlagParameter
from tileir_formula.diagrams.diagram import Legend, Node, diagram_of
from tileir_formula.editing import step_edits
from tileir_formula.editing.changes import EditedText
from tileir_formula.editing.control_tree import controls_of
from tileir_formula.ir import Boundary, Formula, Number, Repeat, Source, Step
from tileir_formula.lower.applying import apply
from tileir_formula.references import places_of
from tileir_formula.running.crafting import craft
from tileir_formula.running.footprint import footprint
from tileir_formula.text.parser import parse
from tileir_formula.text.printer import value_text
from tileir_studio.design.bench import Array, Assignment
from tileir_studio.design.exports import script_of, source_of, writers
from tileir_studio.design.previews import chosen, preview, run, shown_pixels
from tileir_studio.serve.session import STALE, Event, Job, Session
from tileir_studio.views.formula_views import FormulaView, as_event, formula_view, view_of
from tileir_studio.views.subject import text_of, word_of, word_or_none
from tileir_studio.views.views import plain

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
    """One continuation.

    Attributes:
        label: The text to write.
        kind: ``function``, ``parameter``, ``choice``, ``source``, ``word`` or ``name``.
        about: A short description; may be empty.
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
    """Return the continuations of a formula, given the text before the place."""
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
    """Return the sources for a step behind some lines."""
    code = "\n".join(line.partition("//")[0] for line in lines.split("\n"))
    opened = max(0, code.count("{") - code.count("}"))
    try:
        formula = parse(lines + "\n}" * opened)
    except TileError:  # a line before is wrong: names are better than nothing
        named = re.findall(r"^\s*([A-Za-z_]\w*)\s*=", code, re.MULTILINE)
        inputs = re.search(r"^\s*inputs\s+(.*)", code)
        names = _NAME.findall(inputs[1]) if inputs else ["image"]
        return tuple(dict.fromkeys([*names, *(["previous"] if opened else []), *named]))
    wanted = [path for path, step, _ in places_of(formula) if step is None][-1 - opened]
    scope = next(scope for path, _, scope in places_of(formula) if path == wanted)
    return offered(None, scope, functions).sources


def tile_completions(text: str, place: int) -> Completions:
    """Return the continuations of a Tile program at a place: its names, builtin functions and words."""
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


Functions = Mapping[str, Function]


def _functions(_: Session, __: Mapping[str, Any]) -> Iterator[Event]:
    functions = default_catalogue().functions.values()
    yield Event(
        "functions",
        [{"name": each.name, "about": each.about, "pictures": len(each.pictures)} for each in functions],
    )


def _formula(_: Session, request: Mapping[str, Any]) -> Iterator[Event]:
    yield Event("formula", as_event(formula_view(text_of(request), default_catalogue().functions)))


def _edit(_: Session, request: Mapping[str, Any]) -> Iterator[Event]:
    yield Event("formula", as_event(edited_view(request, default_catalogue().functions)))


def _offers(_: Session, request: Mapping[str, Any]) -> Iterator[Event]:
    functions = default_catalogue().functions
    yield Event("offered", plain(offers_view(text_of(request), word_or_none(request, "path"), functions)))


def _complete(_: Session, request: Mapping[str, Any]) -> Iterator[Event]:
    """Yield the continuations of a text: ``language`` is ``tile``, or else a formula; ``place`` counts characters."""
    text, place = text_of(request), request.get("place")
    if type(place) is not int or not 0 <= place <= len(text):
        raise fail("TIL913", "`place` is the number of characters of the text before it")
    if request.get("language") == "tile":
        yield Event("completed", plain(tile_completions(text, place)))
    else:
        yield Event("completed", plain(formula_completions(text[:place], default_catalogue().functions)))


def _original(session: Session, request: Mapping[str, Any]) -> Iterator[Event]:
    """Yield a picture as it was read."""
    shown = shown_pixels(session.bench.picture(word_of(request, "upload"), session.folder))
    yield Event("original", {"size": shown.shape[:2]}, {"original": shown.tobytes()})


def _steps(session: Session, request: Mapping[str, Any]) -> Iterator[Event]:
    """Yield thumbnails of the results of all steps, and their kernels; steps in groups come last."""
    assignment = session.bench.assignment(request, session.folder)
    yield from thumbnails(assignment)
    try:
        found = assignment.formula.explain(*assignment.pictures, measure=True)
    except TileError:  # loops are not measured
        found = assignment.formula.explain(*assignment.pictures)
    yield Event("explained", orjson.loads(found.to_json()))
    for event in thumbnails_in_groups(assignment):
        yield event
        if session.is_stale:
            yield Event(STALE, None)
            return


def _probe(session: Session, request: Mapping[str, Any]) -> Iterator[Event]:
    """Yield the pixels of the inputs that one pixel of a result reads, as boxes: rows, then columns."""
    assignment = session.bench.assignment(request, session.folder)
    function = assignment.formula.executable(*assignment.pictures).typed
    row, column = request.get("row"), request.get("column")
    if not isinstance(row, int) or not isinstance(column, int):
        raise fail("TIL913", "`row` and `column` are whole numbers")
    output = function.outputs[chosen(request, len(function.outputs))]
    channels = next(each for each in function.operations if each.name == output).shape[2]
    found = footprint(function, output, ((row, row + 1), (column, column + 1), (0, channels)))
    names = assignment.formula.formula.inputs
    yield Event("probed", {name: [each[:2] for each in found.get(name, ())] for name in names})


def _export(session: Session, request: Mapping[str, Any]) -> Iterator[Event]:
    """Yield a file: ``form`` is ``png``, ``python``, or a back end that writes source."""
    form = word_of(request, "form")
    assignment = session.bench.assignment(request, session.folder)
    if form == "png":
        from PIL import Image

        results, _ = run(assignment)
        file = io.BytesIO()
        Image.fromarray(as_levels(results[chosen(request, len(results))])).save(file, format="PNG")
        yield Event("file", {"name": "result.png", "type": "image/png"}, {"file": file.getvalue()})
    elif form == "python":
        script = script_of(assignment, "formula.py")
        yield Event("file", {"name": "formula.py", "type": "text/x-python"}, {"file": script.encode()})
    elif form in (known := writers()):
        name = f"formula{known[form].source_suffix}"
        yield Event("file", {"name": name, "type": "text/plain"}, {"file": source_of(assignment, form).encode()})
    else:
        raise fail("TIL913", f"there is no form {form[:64]!r}; they are {', '.join(('png', 'python', *known))}")


DESIGNER: Final[Mapping[str, Job]] = MappingProxyType(
    {
        "functions": _functions,
        "formula": _formula,
        "complete": _complete,
        "formula.edit": _edit,
        "formula.offers": _offers,
        "formula.original": _original,
        "formula.preview": preview,
        "formula.steps": _steps,
        "formula.probe": _probe,
        "formula.export": _export,
    }
)
"""The jobs of the designer."""


def edited_view(request: Mapping[str, Any], functions: Functions) -> FormulaView:
    """Return a formula after an edit: ``action`` names it, ``path`` is its place.

    Raises:
        TileError: TIL913, the request is of another form; or any error of the edit.
    """
    text, action, path = text_of(request), word_of(request, "action"), word_of(request, "path")
    if action not in _ACTIONS:
        raise fail("TIL913", f"there is no edit {action[:64]!r}; they are {', '.join(_ACTIONS)}")
    made = _ACTIONS[action](text, path, request, functions)
    return view_of(made.text, made.formula, controls_of(made.formula, functions), functions)


def _set(text: str, path: str, request: Mapping[str, Any], functions: Functions) -> EditedText:
    value = request.get("value")
    if value is not None and not isinstance(value, str):
        raise fail("TIL913", "`value` is a text, or null")
    return apply(text, path, value, functions).edited


def _add(text: str, path: str, request: Mapping[str, Any], functions: Functions) -> EditedText:
    """Insert a step that calls a function; where that reads two pictures, the step names them."""
    name = word_of(request, "function")
    if name not in functions:
        raise fail("TIL221", f"there is no function {name[:64]!r}")
    fits = offers(parse(text), path, functions)
    step = name
    if len(functions[name].pictures) > 1:
        first = fits.implied or fits.sources[0]
        others = [source for source in fits.sources if source != first] or [first]
        step = f"{name} of {first}, {others[0]}"
    return step_edits.inserted(text, path, step)


def _remove(text: str, path: str, _: Mapping[str, Any], __: Functions) -> EditedText:
    """Remove a step; its readers read its source instead."""
    return step_edits.removed(text, path, redirect=True)


def _duplicate(text: str, path: str, _: Mapping[str, Any], __: Functions) -> EditedText:
    return step_edits.duplicated(text, path)


def _move(text: str, path: str, request: Mapping[str, Any], _: Functions) -> EditedText:
    return step_edits.moved(text, path, word_of(request, "target"))


_ACTIONS: Final[Mapping[str, Callable[[str, str, Mapping[str, Any], Functions], EditedText]]] = MappingProxyType(
    {"set": _set, "add": _add, "remove": _remove, "duplicate": _duplicate, "move": _move}
)


_NUMBER: Final = re.compile(r"\[(\d+)\]")


@attrs.frozen
class PlaceName:
    """A place where a step can go.

    Attributes:
        path: The path for an edit that inserts there.
        label: Its name on the page.
    """

    path: str
    label: str


@attrs.frozen
class OffersView:
    """Offers for a place.

    Attributes:
        text: The formula.
        path: The place.
        places: All places.
        primaries: Functions of one picture.
        merges: Functions of two.
        sources: The sources for a step there.
        implied: The source of a step that names none; None where no text spells it.
        conditions: The meaning of the letters of functions.
    """

    text: str
    path: str
    places: tuple[PlaceName, ...]
    primaries: tuple[Node, ...]
    merges: tuple[Node, ...]
    sources: tuple[str, ...]
    implied: str | None
    conditions: tuple[Legend, ...]


def offers_view(text: str, path: str | None, functions: Mapping[str, Function]) -> OffersView:
    """Return the offers for a place; by default, and where there is no such place, for the end.

    Raises:
        ParseError: The text is no formula.
    """
    formula = parse(text)
    places = tuple(_places(formula))
    last = places[-1].path
    chosen = path if path in {each.path for each in places} else last
    fits = next(offered(None, scope, functions) for place, _, scope in places_of(formula) if place == chosen)
    diagram = diagram_of({name: functions[name] for name in fits.functions})
    return OffersView(
        text, chosen, places, diagram.primaries, diagram.merges, fits.sources, fits.implied, diagram.conditions
    )


def _places(formula: Formula) -> Iterator[PlaceName]:
    """Yield all places, in the order of the text, the end last."""
    for path, step, scope in places_of(formula):
        numbers = [str(int(number) + 1) for number in _NUMBER.findall(path)]
        if step is not None:
            yield PlaceName(path, f"above {'.'.join(numbers)} {_name(step)}")
        else:
            yield PlaceName(path, f"at the end of group {'.'.join(numbers[:-1])}" if scope.groups else "at the end")


def _name(step: Step | Repeat) -> str:
    return step.name or step.function if isinstance(step, Step) else "repeat"


_SIDE: Final = 96
"""The most pixels of the longer side."""

_MOST: Final = 24
"""The most steps at the top with a thumbnail."""

_MOST_IN_GROUPS: Final = 12
"""The most steps in groups with a thumbnail, since each takes kernels of its own."""


def thumbnails(assignment: Assignment) -> Iterator[Event]:
    """Yield the results of the steps and groups at the top."""
    formula = assignment.formula.formula
    numbers = range(1, min(len(formula.steps), _MOST) + 1)
    if numbers:
        every_step = attrs.evolve(formula, results=tuple(Source(number) for number in numbers))
        yield _event([f"steps[{number - 1}]" for number in numbers], _made(assignment, every_step))


def thumbnails_in_groups(assignment: Assignment) -> Iterator[Event]:
    """Yield the result of each step in a group in the first round, one after the other."""
    formula = assignment.formula.formula
    inside = (path for path, step, scope in places_of(formula) if scope.groups and isinstance(step, Step))
    for path in islice(inside, _MOST_IN_GROUPS):
        try:
            yield _event([path], _made(assignment, in_first_round(formula, path)))
        except TileError:  # a group that ends here breaks a rule
            continue


def in_first_round(formula: Formula, path: str) -> Formula:
    """Return a formula whose result is that of a step in groups in the first round of all of these."""
    numbers = [int(number) for number in _NUMBER.findall(path)]
    return attrs.evolve(formula, steps=_until(formula.steps, numbers), results=(Source(numbers[0] + 1),))


def _until(steps: Sequence[Step | Repeat], numbers: Sequence[int]) -> tuple[Step | Repeat, ...]:
    """Return the steps up to one; groups around it get a single round, which ends with it."""
    first, *rest = numbers
    last = steps[first]
    if isinstance(last, Repeat) and rest:
        last = attrs.evolve(last, count=Number(1), limit=None, steps=_until(last.steps, rest))
    return (*steps[:first], last)


def _made(assignment: Assignment, formula: Formula) -> tuple[Array, ...]:
    made = craft(formula, device=assignment.formula.device)(*map(_small, assignment.pictures))
    return made if isinstance(made, tuple) else (made,)


def _event(paths: Sequence[str], made: Sequence[Array]) -> Event:
    pictures, sizes = {}, {}
    for path, picture in zip(paths, made, strict=True):
        try:
            shown = shown_pixels(as_levels(_small(picture)))
        except TileError:  # of two channels, say
            continue
        pictures[path] = shown.tobytes()
        sizes[path] = shown.shape[:2]
    return Event("thumbnails", {"sizes": sizes}, pictures)


def _small(picture: Array) -> Array:
    """Return every n-th pixel of a picture."""
    step = max(1, -(-max(picture.shape[:2]) // _SIDE))
    return np.ascontiguousarray(picture[::step, ::step])
