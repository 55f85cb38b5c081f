"""Formula to text, which :mod:`tileir_formula.text.parser` reads back as an equal formula, with its comments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from tileir_formula.ir import (
    Argument,
    Colour,
    Condition,
    Formula,
    Mask,
    Merge,
    Near,
    Number,
    Region,
    Repeat,
    Source,
    Step,
    Value,
    Weights,
    Word,
)
from tileir_formula.node import Node

INDENT: Final = "  "

WHOLE: Final = 1e9
"""Weights from here on are written with an exponent or a fraction."""


def to_text(formula: Formula) -> str:
    """Return the text of a formula, a line for each step."""
    lines = [*_comments(formula.comments, "")]
    if formula.comments or formula.inputs != ("image",) or formula.input_remark is not None:
        lines.append(f"inputs {', '.join(formula.inputs)}{_remark(formula.input_remark)}")
    lines += [line for step in formula.steps for line in step_lines(step)]
    lines.extend(_comments(formula.result_comments, ""))
    if formula.results:
        lines.append(f"results {', '.join(map(source_text, formula.results))}{_remark(formula.result_remark)}")
    lines.extend(_comments(formula.last_comments, ""))
    return "".join(f"{line}\n" for line in lines)


def node_text(node: Node) -> str:
    """Return the text of any node, as it stands in the text of a formula."""
    match node:
        case Formula():
            return to_text(node)
        case Step() | Repeat():
            return "\n".join(step_lines(node))
        case Merge():
            return merge_text(node)
        case Near() | Mask() | Region():
            return condition_text(node)
        case Source():
            return source_text(node)
        case Argument(name=name, value=value):
            return f"{name}={value_text(value)}"
        case Number() | Word() | Colour() | Weights():
            return value_text(node)
        case _:
            raise TypeError(f"nodes of type {type(node).__name__} have no text")


def step_lines(step: Step | Repeat, indent: str = "") -> Iterator[str]:
    """Yield the lines of a step, its comments first."""
    yield from _comments(step.comments, indent)
    remark = _remark(step.remark)
    if not isinstance(step, Repeat):
        yield f"{indent}{step_text(step)}{remark}"
        return
    until = "" if step.limit is None else f" until change below {value_text(step.limit)}"
    yield f"{indent}repeat {value_text(step.count)}{until} {{{remark}"
    for inner in step.steps:
        yield from step_lines(inner, indent + INDENT)
    yield from _comments(step.last_comments, indent + INDENT)
    yield f"{indent}}}"


def _remark(remark: str | None) -> str:
    return "" if remark is None else f" // {remark}".rstrip()


def step_text(step: Step) -> str:
    """Return a step without its comments."""
    parts = [f"{step.name} = " if step.name else "", step.function, _arguments(step.arguments)]
    if step.sources:
        parts.append(f" of {', '.join(map(source_text, step.sources))}")
    if step.boundary is not None:
        parts.append(f" outside {step.boundary.value}")
    if step.condition is not None:
        parts.append(f" where {condition_text(step.condition)}")
    if step.merge is not None:
        parts.append(f" with {merge_text(step.merge)}")
    return "".join(parts)


def merge_text(merge: Merge) -> str:
    """Return the merge behind ``with``."""
    return f"{merge.function}{_arguments(merge.arguments)} {source_text(merge.source)}"


def condition_text(condition: Condition) -> str:
    """Return the condition behind ``where``."""
    negation = "not " if condition.negated else ""
    match condition:
        case Mask():
            return f"{negation}mask {source_text(condition.source)}"
        case Region():
            sides = (condition.top, condition.left, condition.height, condition.width)
            return f"{negation}region({', '.join(map(value_text, sides))})"
        case _:
            unit = "%" if condition.relative else ""
            reference = "pixel" if condition.reference is None else value_text(condition.reference)
            return f"{negation}{condition.subject.value} within {value_text(condition.limit)}{unit} of {reference}"


def source_text(source: Source) -> str:
    """Return the name of a step or an input, or ``$`` and the number of a step."""
    return source.name if isinstance(source.name, str) else f"${source.name}"


def value_text(value: Value) -> str:
    """Return a value as it stands in a formula."""
    match value:
        case Number():
            return number_text(value.value)
        case Word():
            return value.word
        case Colour():
            return f"#{value.red:02x}{value.green:02x}{value.blue:02x}"
        case Weights():
            return f"[{'; '.join(' '.join(map(_weight_text, row)) for row in value.rows)}]"


def number_text(number: float) -> str:
    """Return the shortest text that reads back as the number."""
    return repr(number)


def _weight_text(weight: float) -> str:
    """Return a weight, which is a float with or without a written fraction."""
    return repr(int(weight)) if weight.is_integer() and abs(weight) < WHOLE else repr(weight)


def _arguments(arguments: tuple[Argument, ...]) -> str:
    return f"({', '.join(map(str, arguments))})" if arguments else ""


def _comments(comments: Iterable[str], indent: str) -> Iterator[str]:
    for comment in comments:
        yield f"{indent}// {comment}".rstrip()
