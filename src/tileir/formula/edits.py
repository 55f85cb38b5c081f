"""Edits of the text of a formula: every element has a path, and an edit changes no character beyond what it names.

Paths are written as in ``steps[2].arguments.radius``, ``steps[1].condition.limit`` or ``steps[0].steps[3].function``:
steps count from 0, as they stand in the text, and arguments go by their names.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias

import attrs

from tileir.core.errors import ArgumentError, Diagnostic
from tileir.core.names import nearest
from tileir.formula.ir import Formula, Merge, Repeat, Step
from tileir.formula.parser import parse
from tileir.formula.printer import INDENT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tileir.core.span import Span
    from tileir.formula.ir import Argument, Condition, Source, Value

Element: TypeAlias = "Formula | Step | Repeat | Argument | Condition | Merge | Source | Value"


@attrs.frozen
class Edited:
    """A text after an edit.

    Attributes:
        text: The whole of it.
        formula: What it says.
        start: Where the characters begin that are other ones than before.
        stop: Where they end now.

    """

    text: str
    formula: Formula
    start: int
    stop: int


def elements(formula: Formula) -> Iterator[tuple[str, Element]]:
    """Yield every element that has a place in the text, with its path."""
    for number, source in enumerate(formula.results):
        yield f"results[{number}]", source
    yield from _of_steps("", formula.steps)


def _of_steps(prefix: str, steps: tuple[Step | Repeat, ...]) -> Iterator[tuple[str, Element]]:
    for number, step in enumerate(steps):
        path = f"{prefix}steps[{number}]"
        yield path, step
        if isinstance(step, Repeat):
            yield f"{path}.count", step.count
            if step.limit is not None:
                yield f"{path}.limit", step.limit
            yield from _of_steps(f"{path}.", step.steps)
            continue
        for place, source in enumerate(step.sources):
            yield f"{path}.sources[{place}]", source
        yield from _of_arguments(path, step.arguments)
        if step.condition is not None:
            yield f"{path}.condition", step.condition
            for field in attrs.fields(type(step.condition)):
                value = getattr(step.condition, field.name)
                if getattr(value, "span", None) is not None:
                    yield f"{path}.condition.{field.name}", value
        if step.merge is not None:
            yield f"{path}.merge", step.merge
            yield f"{path}.merge.source", step.merge.source
            yield from _of_arguments(f"{path}.merge", step.merge.arguments)


def _of_arguments(prefix: str, arguments: tuple[Argument, ...]) -> Iterator[tuple[str, Element]]:
    for argument in arguments:
        yield f"{prefix}.arguments.{argument.name}", argument.value


def replaced(text: str, path: str, value: str) -> Edited:
    """Write ``value`` in place of the element at ``path``.

    Raises:
        ParseError: The text, or what it becomes, is no formula; the text stays as it was.
        ArgumentError: TIL221, there is no such element.

    """
    span = _span_of(parse(text), path)
    return _edited(text, span.start, span.stop, value)


def with_argument(text: str, path: str, name: str, value: str) -> Edited:
    """Give a parameter of the step or merge at ``path`` a value, whether or not the text has one; errors as above."""
    formula = parse(text)
    given = f"{path}.arguments.{name}"
    known = dict(elements(formula))
    if given in known:
        return replaced(text, given, value)
    node = _element(known, path)
    if not isinstance(node, Step | Merge) or node.span is None:
        raise ArgumentError((Diagnostic("TIL221", f"{path!r} is no step or merge, and takes no parameters"),))
    if node.arguments:
        last = node.arguments[-1].span
        assert last is not None  # it was parsed
        return _edited(text, last.stop, last.stop, f", {name}={value}")
    called = re.compile(rf"\b{node.function}\b(?:\s*\(\s*\))?")
    named = text.index("=", node.span.start) + 1 if isinstance(node, Step) and node.name else node.span.start
    place = called.search(text, named + (len("with") if isinstance(node, Merge) else 0))
    assert place is not None  # the function was read there
    return _edited(text, place.start(), place.end(), f"{node.function}({name}={value})")


def without_argument(text: str, path: str, name: str) -> Edited:
    """Leave a parameter at its default; errors as for :func:`replaced`."""
    formula = parse(text)
    known = dict(elements(formula))
    _element(known, f"{path}.arguments.{name}")
    node = _element(known, path)
    assert isinstance(node, Step | Merge)
    spans = [argument.span for argument in node.arguments]
    place = [argument.name for argument in node.arguments].index(name)
    own = spans[place]
    assert own is not None
    start, stop = own.start, own.stop
    if len(spans) == 1:
        start, stop = text.rindex("(", 0, start), text.index(")", stop) + 1
    elif place:
        start = spans[place - 1].stop  # type: ignore[union-attr]
    else:
        stop = spans[1].start  # type: ignore[union-attr]
    return _edited(text, start, stop, "")


def inserted(text: str, path: str, step: str) -> Edited:
    """Write a step, or lines of them, before the one at ``path``, which may be the one after the last of a group.

    Raises:
        ParseError: The text, or what it becomes, is no formula.
        ArgumentError: TIL221, there is no such place.

    """
    formula = parse(text)
    place, indent = _place(text, formula, path)
    lines = "".join(f"{indent}{line}\n" for line in step.splitlines())
    before = "\n" if place and text[place - 1] != "\n" else ""
    return _edited(text, place, place, before + lines)


def removed(text: str, path: str) -> Edited:
    """Take a step away, with the comments above it; errors as for :func:`replaced`."""
    start, stop = _lines(text, parse(text), path)
    return _edited(text, start, stop, "")


def duplicated(text: str, path: str) -> Edited:
    """Write a step a second time, below itself, without its name; errors as for :func:`replaced`."""
    formula = parse(text)
    node = _element(dict(elements(formula)), path)
    start, stop = _lines(text, formula, path)
    lines = text[start:stop] if text[stop - 1 : stop] == "\n" else text[start:stop] + "\n"
    if isinstance(node, Step) and node.name and node.span is not None:
        named = node.span.start - start
        lines = lines[:named] + lines[lines.index("=", named) + 1 :].lstrip(" ")
    before = "" if text[stop - 1 : stop] == "\n" else "\n"
    return _edited(text, stop, stop, before + lines)


def moved(text: str, path: str, target: str) -> Edited:
    """Take a step to before the one at ``target``, or after the last of a group, as its lines are.

    Raises:
        ParseError: The text is no formula.
        ArgumentError: TIL221, there is no such step or place, or it lies inside of the step itself.

    """
    formula = parse(text)
    start, stop = _lines(text, formula, path)
    place, _ = _place(text, formula, target)
    if start < place < stop:
        raise ArgumentError((Diagnostic("TIL221", f"{target!r} lies inside of {path!r}"),))
    lines = text[start:stop] if text[stop - 1 : stop] == "\n" else text[start:stop] + "\n"
    if place <= start:
        changed = text[:place] + lines + text[place:start] + text[stop:]
        return Edited(changed, parse(changed), place, stop)
    between = text[stop:place] if text[place - 1 : place] == "\n" else text[stop:place] + "\n"
    changed = text[:start] + between + lines + text[place:]
    return Edited(changed, parse(changed), start, start + len(between + lines))


def _lines(text: str, formula: Formula, path: str) -> tuple[int, int]:
    """Return where the lines of a step begin, its comments included, and where they end."""
    node = _element(dict(elements(formula)), path)
    if not isinstance(node, Step | Repeat) or node.span is None:
        raise ArgumentError((Diagnostic("TIL221", f"{path!r} is no step"),))
    start = text.rfind("\n", 0, node.span.start) + 1
    left = len(node.comments)
    while left:
        start = text.rfind("\n", 0, start - 1) + 1
        left -= text[start:].lstrip(" \t\r").startswith("//")
    end = text.find("\n", node.span.stop)
    return start, len(text) if end < 0 else end + 1


def _place(text: str, formula: Formula, path: str) -> tuple[int, str]:
    """Return where a step at ``path`` would begin, and how far it would stand inside."""
    known = dict(elements(formula))
    if path in known:
        start, _ = _lines(text, formula, path)
        node = known[path]
        assert node.span is not None
        line = text.rfind("\n", 0, node.span.start) + 1
        return start, text[line : node.span.start]
    group, _, last = path.rpartition("steps[")
    count = sum(1 for each in known if re.fullmatch(re.escape(f"{group}steps[") + r"[0-9]+\]", each))
    if last != f"{count}]":
        _element(known, path)
    if count:
        before = f"{group}steps[{count - 1}]"
        _, indent = _place(text, formula, before)
        return _lines(text, formula, before)[1], indent
    if not group:
        return len(text), ""
    around = _element(known, group[:-1])
    assert around.span is not None
    _, indent = _place(text, formula, group[:-1])
    return text.rfind("\n", 0, around.span.stop) + 1, indent + INDENT


def _span_of(formula: Formula, path: str) -> Span:
    span = _element(dict(elements(formula)), path).span
    assert span is not None  # it was parsed
    return span


def _element(known: Mapping[str, Element], path: str) -> Element:
    if path not in known:
        raise ArgumentError((Diagnostic("TIL221", f"the formula has no element {path!r}{nearest(path, known)}"),))
    return known[path]


def _edited(text: str, start: int, stop: int, value: str) -> Edited:
    changed = text[:start] + value + text[stop:]
    return Edited(changed, parse(changed), start, start + len(value))
