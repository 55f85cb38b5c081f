"""Positions of parts of steps that nodes have no spans for: names, functions, brackets, clauses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from tileir.core import Source as Text, attrs
from tileir.core.text.lexing import END, Faults, Token
from tileir_formula.ir import Condition, Near, Step
from tileir_formula.text.lexer import NAME, Lexer, tokens

Extent: TypeAlias = tuple[int, int]
"""The characters from the first offset to before the second."""

CLAUSES: Final = ("of", "outside", "where", "with")
"""The words that clauses of a step begin with, in their order."""


@attrs.frozen
class Call:
    """A function, and the brackets behind it where there are any."""

    function: Extent
    brackets: Extent | None

    @property
    def stop(self) -> int:
        """The end of the call."""
        return self.function[1] if self.brackets is None else self.brackets[1]


@attrs.frozen
class Layout:
    """The parts of a step.

    Attributes:
        name: The name that later steps read it by.
        call: The function.
        clauses: By their first words, which are part of them.
        merge: The function that merges.
        words: Words that are no nodes, by their paths below the step: ``.boundary``, ``.condition.subject``,
            ``.condition.negated``, ``.condition.reference`` and ``.condition.relative``, a percent sign.
    """

    name: Extent | None
    call: Call
    clauses: Mapping[str, Extent]
    merge: Call | None
    words: Mapping[str, Extent]

    def end_before(self, clause: str) -> int:
        """Return where a missing clause would begin: the end of the part before it."""
        earlier = [self.clauses[word][1] for word in CLAUSES[: CLAUSES.index(clause)] if word in self.clauses]
        return earlier[-1] if earlier else self.call.stop


def layout_of(step: Step) -> Layout:
    """Return the positions of the parts of a parsed step."""
    assert step.span is not None
    found = _tokens(step.span.text, step.span.start)
    named = step.name is not None
    call, place = _call(found, 2 if named else 0)
    clauses: dict[str, Extent] = {}
    begun: list[tuple[str, int]] = []
    while found[place].kind != END:
        word = found[place].text
        later = CLAUSES[CLAUSES.index(begun[-1][0]) + 1 :] if begun else CLAUSES
        if found[place].kind == NAME and word in later:
            begun.append((word, place))
        place += 1
    stops = [*(at for _, at in begun[1:]), place][: len(begun)]
    for (word, at), stop in zip(begun, stops, strict=True):
        clauses[word] = (found[at].start, found[stop - 1].stop)
    words: dict[str, Extent] = {}
    merge = None
    for word, at in begun:
        if word == "outside":
            words[".boundary"] = _extent(found[at + 1])
        elif word == "where":
            assert step.condition is not None
            words.update(_condition_words(step.condition, found, at + 1))
        elif word == "with":
            merge, _ = _call(found, at + 1)
    return Layout(_extent(found[0]) if named else None, call, clauses, merge, words)


def _tokens(text: str, start: int) -> list[Token]:
    """Return the tokens of a part of a formula, with their places in the whole."""
    source = Text(text)
    found = tokens(Lexer.of(source, Faults()))
    return [token._replace(start=token.start + start, stop=token.stop + start) for token in found]


def _call(found: list[Token], place: int) -> tuple[Call, int]:
    """Return the call that begins at a token, and the token behind it."""
    function = _extent(found[place])
    if found[place + 1].kind != "(":
        return Call(function, None), place + 1
    last = place + 1
    while found[last].kind != ")":
        last += 1
    return Call(function, (found[place + 1].start, found[last].stop)), last + 1


def _condition_words(condition: Condition, found: list[Token], place: int) -> dict[str, Extent]:
    words: dict[str, Extent] = {}
    if condition.negated:
        words[".condition.negated"] = _extent(found[place])
        place += 1
    if isinstance(condition, Near):
        words[".condition.subject"] = _extent(found[place])
        if condition.relative:
            words[".condition.relative"] = _extent(found[place + 3])
        words[".condition.reference"] = _extent(found[place + 4 + condition.relative])
    return words


def _extent(token: Token) -> Extent:
    return token.start, token.stop
