"""Edits of the text of a formula: every element has a path, and an edit changes no character beyond what it names.

Paths are written as in ``steps[2].arguments.radius``, ``steps[1].condition.limit`` or ``steps[0].steps[3].function``:
steps count from 0, as they stand in the text, and arguments go by their names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

import attrs

from tileir.core import ArgumentError, nearest
from tileir_formula.editing.changes import Change, EditedText, edited, with_argument_changed, without_arguments
from tileir_formula.ir import (
    Argument,
    Boundary,
    Condition,
    Formula,
    Merge,
    Number,
    Repeat,
    Source,
    Step,
    Subject,
    Value,
)
from tileir_formula.text.layout import Call, Extent, layout_of
from tileir_formula.text.parser import (
    parse,
    parse_argument,
    parse_condition,
    parse_merge,
    parse_name,
    parse_number,
    parse_source,
    parse_value,
)

Element: TypeAlias = "Formula | Step | Repeat | Argument | Condition | Merge | Source | Value"


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


def extents(formula: Formula) -> dict[str, Extent]:
    """Return the extents of the elements of a formula by their paths, including words that are not elements.

    Those are ``name``, ``function`` and ``boundary`` of a step, ``merge.function``, and ``subject``, ``negated`` and
    ``relative`` of a condition.
    """
    found: dict[str, Extent] = {}
    for path, element in elements(formula):
        assert element.span is not None  # it was parsed
        found[path] = (element.span.start, element.span.stop)
        if isinstance(element, Step):
            layout = layout_of(element)
            found[f"{path}.function"] = layout.call.function
            if layout.name is not None:
                found[f"{path}.name"] = layout.name
            if layout.merge is not None:
                found[f"{path}.merge.function"] = layout.merge.function
            found.update({path + word: extent for word, extent in layout.words.items()})
    return found


def replaced(text: str, path: str, value: str) -> EditedText:
    """Write ``value`` in place of the element at ``path``.

    Raises:
        ParseError: The text is not a formula, or the value cannot stand there.
        ArgumentError: TIL221, there is no such element.
    """
    formula = parse(text)
    known = extents(formula)
    if path not in known:
        raise no_element(path, known)
    check_value(dict(elements(formula)).get(path), path, value)
    return edited(text, [Change(*known[path], value)])


def check_value(element: Element | None, path: str, value: str) -> None:
    """Check that a text is of the kind of an element, and no more than one.

    Raises:
        ParseError: It is not.
        ArgumentError: TIL221, it is no word that can stand there.

    """
    match element:
        case Step() | Repeat():
            check_steps(value, most=1)
        case Merge():
            parse_merge(value.removeprefix("with"))
        case Source():
            parse_source(value)
        case Number() if ".arguments." not in path:
            parse_number(value)
        case _ if path.endswith(".condition"):
            parse_condition(value)
        case _ if path.endswith(".condition.reference") and value != "pixel":
            parse_value(value)
        case _ if ".arguments." in path:
            parse_value(value)
        case _:
            words = _WORDS.get(path.rpartition(".")[2])
            if words is None:
                parse_name(value)
            elif value not in words:
                message = f"{path} is one of {', '.join(words)}; it was {value!r:.80}{nearest(value, words)}"
                raise ArgumentError.of("TIL221", message)


_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "boundary": tuple(each.value for each in Boundary),
    "subject": tuple(each.value for each in Subject),
    "negated": ("not",),
    "relative": ("%",),
    "reference": ("pixel",),
}


def check_steps(lines: str, most: int | None = None) -> int:
    """Check that a text consists of steps only, and return their number.

    Raises:
        ParseError: It is not a formula.
        ArgumentError: TIL221, it has inputs, results or no step, or more steps than ``most``.
    """
    formula = parse(lines, "<steps>")
    if formula.inputs != ("image",) or formula.results or not formula.steps:
        raise ArgumentError.of("TIL221", "write steps here, without inputs and results")
    if most is not None and len(formula.steps) > most:
        raise ArgumentError.of("TIL221", "write one step here")
    return len(formula.steps)


def with_argument(text: str, path: str, name: str, value: str) -> EditedText:
    """Give a parameter of the step or merge at ``path`` a value, whether or not the text has one; errors as above."""
    call, arguments = call_at(parse(text), path)
    parse_argument(f"{name}={value}")
    return edited(text, [with_argument_changed(call, arguments, name, value)])


def without_argument(text: str, path: str, name: str) -> EditedText:
    """Leave a parameter at its default; errors as for :func:`replaced`."""
    formula = parse(text)
    element_at(formula, f"{path}.arguments.{name}")
    call, arguments = call_at(formula, path)
    return edited(text, without_arguments(call, arguments, [name]))


def call_at(formula: Formula, path: str) -> tuple[Call, tuple[Argument, ...]]:
    """Return the call of a step or merge in the text, and its arguments.

    Raises:
        ArgumentError: TIL221, there is no such step or merge.
    """
    element = element_at(formula, path)
    if isinstance(element, Step):
        return layout_of(element).call, element.arguments
    if not isinstance(element, Merge):
        raise ArgumentError.of("TIL221", f"{path!r} is no step or merge, and takes no parameters")
    step = element_at(formula, path.removesuffix(".merge"))
    assert isinstance(step, Step)
    merge = layout_of(step).merge
    assert merge is not None
    return merge, element.arguments


def element_at(formula: Formula, path: str) -> Element:
    """Return the element at a path.

    Raises:
        ArgumentError: TIL221, there is none.

    """
    known = dict(elements(formula))
    if path not in known:
        raise no_element(path, known)
    return known[path]


def no_element(path: str, known: Mapping[str, object]) -> ArgumentError:
    """Return the error for a path that leads nowhere."""
    return ArgumentError.of("TIL221", f"the formula has no element {path!r}{nearest(path, known)}")
