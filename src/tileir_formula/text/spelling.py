"""Check that text can express a formula that was made from JSON or by hand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tileir.core.errors import Diagnostic
from tileir_formula.ir import Colour, Formula, Near, Number, Region, Repeat, Step, Value, Weights, Word
from tileir_formula.text.reading import LARGEST, WORDS

MAX_DEPTH: Final = 20
"""The deepest nesting of repeated groups."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def faults_of(formula: Formula) -> Iterator[Diagnostic]:
    """Yield the parts that text cannot express; values of parameters are checked by the parameters."""
    for name in formula.inputs:
        if not _is_name(name):
            yield Diagnostic("TIL211", _NO_NAME.format(name), formula.span)
    if not formula.inputs:
        yield Diagnostic("TIL213", "a formula has an input", formula.span)
    remarks = tuple(each for each in (formula.input_remark, formula.result_remark) if each is not None)
    yield from _of_comments(formula, (*formula.comments, *remarks, *formula.result_comments, *formula.last_comments))
    if not formula.results and (formula.result_comments or formula.result_remark is not None):
        yield Diagnostic("TIL211", "there are no results that comments could stand beside", formula.span)
    yield from _of_steps(formula.steps, 0)


_NO_NAME: Final = (
    "no input or step can be called {!r}: a name has letters, digits and _, and is no word of the language"
)


def _of_steps(steps: tuple[Step | Repeat, ...], depth: int) -> Iterator[Diagnostic]:
    for step in steps:
        remark = () if step.remark is None else (step.remark,)
        if not isinstance(step, Repeat):
            yield from _of_comments(step, (*step.comments, *remark))
            if step.name is not None and not _is_name(step.name):
                yield Diagnostic("TIL211", _NO_NAME.format(step.name), step.span)
            yield from _of_condition(step)
            continue
        yield from _of_comments(step, (*step.comments, *remark, *step.last_comments))
        yield from _of_numbers(step.count, *(() if step.limit is None else (step.limit,)))
        if depth == MAX_DEPTH:
            yield Diagnostic("TIL103", f"groups are nested at most {MAX_DEPTH} deep", step.span)
        else:
            yield from _of_steps(step.steps, depth + 1)


def _of_condition(step: Step) -> Iterator[Diagnostic]:
    match step.condition:
        case Near(limit=limit, reference=reference):
            yield from _of_numbers(limit)
            if reference is not None and (fault := fault_of_value(reference)) is not None:
                yield Diagnostic("TIL104", f"the colour {fault}", reference.span)
        case Region(top=top, left=left, height=height, width=width):
            yield from _of_numbers(top, left, height, width)


def _of_numbers(*numbers: Number) -> Iterator[Diagnostic]:
    for number in numbers:
        if (fault := fault_of_value(number)) is not None:
            yield Diagnostic("TIL212", f"the number {fault}", number.span)


def _of_comments(node: Formula | Step | Repeat, comments: tuple[str, ...]) -> Iterator[Diagnostic]:
    for comment in comments:
        if "\n" in comment or comment != comment.strip():
            message = "a comment is a line without white space at its ends; make several comments of it"
            yield Diagnostic("TIL211", message, node.span)


def fault_of_value(value: Value) -> str | None:
    """Return why text cannot express a value; None where it can."""
    match value:
        case Number(value=number):
            return None if abs(number) <= LARGEST else "is at most 1e300, and is a number"
        case Word(word=word):
            return None if _NAME.fullmatch(word) else f"has letters, digits and _; it was {word!r:.80}"
        case Colour(red=red, green=green, blue=blue):
            return None if all(0 <= channel <= 255 for channel in (red, green, blue)) else "has channels from 0 to 255"
        case Weights(rows=rows):
            if not rows or not rows[0] or len({len(row) for row in rows}) > 1:
                return "has a row, and as many weights in each"
            return None if all(abs(weight) <= LARGEST for row in rows for weight in row) else "has weights up to 1e300"


def _is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None and name not in WORDS
