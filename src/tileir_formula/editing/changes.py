"""Edits as values: replaced characters of a text, and the resulting text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from tileir.core.nodes import attrs
from tileir_formula.ir import Argument, Formula
from tileir_formula.text.layout import Call
from tileir_formula.text.parser import parse

BLANKS: Final = " \t\r"
"""What stands between the parts of a step."""


@attrs.frozen(order=True)
class Change:
    """A replacement of the characters from ``start`` up to ``stop`` of the text before the edit."""

    start: int
    stop: int
    text: str


@attrs.frozen
class EditedText:
    """A text after an edit.

    Attributes:
        text: The whole of it.
        formula: Its formula.
        start: Start of the changed characters.
        stop: Their end in the new text.
        changes: The replacements, in the order of the text; all other characters are unchanged.
        moved: The paths of steps whose path has changed, or None for removed ones.
    """

    text: str
    formula: Formula
    start: int
    stop: int
    changes: tuple[Change, ...]
    moved: Mapping[str, str | None]


def edited(text: str, changes: Iterable[Change], moved: Mapping[str, str | None] | None = None) -> EditedText:
    """Return a text with some of its characters changed; changes at one place follow one another as given.

    Raises:
        ParseError: It becomes no formula.

    """
    ordered = tuple(sorted(changes, key=lambda change: (change.start, change.stop)))
    made = changed(text, ordered)
    start = ordered[0].start if ordered else 0
    stop = len(made) - (len(text) - ordered[-1].stop) if ordered else 0
    return EditedText(made, parse(made), start, stop, ordered, MappingProxyType(dict(moved or {})))


def changed(text: str, changes: Iterable[Change], offset: int = 0) -> str:
    """Return a text, or a part of one that begins at ``offset``, after changes in order."""
    pieces: list[str] = []
    done = offset
    for change in changes:
        assert done <= change.start, "changes overlap"
        pieces += [text[done - offset : change.start - offset], change.text]
        done = change.stop
    return "".join([*pieces, text[done - offset :]])


def composed(text: str, first: tuple[Change, ...], second: tuple[Change, ...]) -> tuple[Change, ...]:
    """Return the changes of ``text`` that combine some changes with later ones to their result."""
    between = changed(text, first)
    shift = 0
    ranges: list[tuple[int, int]] = []
    for change in first:
        ranges.append((change.start + shift, change.start + shift + len(change.text)))
        shift += len(change.text) - (change.stop - change.start)
    clusters: list[tuple[int, int]] = []
    for start, stop in sorted([*ranges, *((change.start, change.stop) for change in second)]):
        if clusters and start <= clusters[-1][1]:
            clusters[-1] = (clusters[-1][0], max(stop, clusters[-1][1]))
        else:
            clusters.append((start, stop))

    def before(place: int, is_stop: bool) -> int:
        """Return the position, before the first edit, of a position in the text between the edits."""
        passed = [
            change
            for change, (_, stop) in zip(first, ranges, strict=True)
            if stop < place or (is_stop and stop == place)
        ]
        return place - sum(len(change.text) - (change.stop - change.start) for change in passed)

    made: list[Change] = []
    for start, stop in clusters:
        within = [change for change in second if start <= change.start and change.stop <= stop]
        after = changed(between[start:stop], within, start)
        made.append(Change(before(start, False), before(stop, True), after))
    return tuple(made)


def with_argument_changed(call: Call, arguments: tuple[Argument, ...], name: str, value: str) -> Change:
    """Return the change that gives a parameter of a call a value."""
    for argument in arguments:
        if argument.name == name:
            assert argument.value.span is not None  # it was parsed
            return Change(argument.value.span.start, argument.value.span.stop, value)
    if arguments:
        last = arguments[-1].span
        assert last is not None
        return Change(last.stop, last.stop, f", {name}={value}")
    return Change(call.function[1], call.stop, f"({name}={value})")


def without_arguments(call: Call, arguments: tuple[Argument, ...], names: Iterable[str]) -> list[Change]:
    """Return the changes that take parameters out of a call, and the brackets where none is left."""
    gone = frozenset(names)
    kept = [argument for argument in arguments if argument.name not in gone]
    if len(kept) == len(arguments):
        return []
    if not kept:
        return [Change(call.function[1], call.stop, "")]
    changes: list[Change] = []
    spans = [argument.span for argument in arguments if argument.span is not None]
    is_behind_kept = False
    for place, argument in enumerate(arguments):
        if argument.name not in gone:
            is_behind_kept = True
        elif is_behind_kept:
            changes.append(Change(spans[place - 1].stop, spans[place].stop, ""))
        else:
            changes.append(Change(spans[place].start, spans[place + 1].start, ""))
    return changes
