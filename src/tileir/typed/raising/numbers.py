"""Numbers of typed functions as Tile statements: what calls compute, written out again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.core.dtype import DType
from tileir.tile.ir import Assignment, Expr, Name
from tileir.tile.text.grammar import is_tensor_name
from tileir.typed.number_steps import NumberArithmetic, NumberCast, NumberLiteral, NumberStep
from tileir.typed.raising.expressions import application, cast_call, literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tileir.core.text.names import NameScope
    from tileir.typed.ir import Function


def number_statements(function: Function, names: Mapping[str, str], scope: NameScope) -> Iterator[Assignment]:
    """Yield statements that define the inputs of ``function`` which are numbers, called as ``names`` says."""
    spelt: dict[str, str] = {}
    for step in function.numbers:
        spelt[step.name] = scope.fresh(step.name if is_tensor_name(step.name) else "Number")
        yield Assignment(spelt[step.name], _expression(step, spelt), span=step.span)
    for value in function.inputs:
        if value.number is not None:
            source = Name(spelt.get(value.number, value.number))
            yield Assignment(names[value.name], cast_call(value.dtype, source), span=value.span)


def _expression(step: NumberStep, spelt: Mapping[str, str]) -> Expr:
    match step:
        case NumberLiteral(value=value, dtype=dtype):
            number = literal(value, dtype or DType.F64)
            return number if dtype is None else cast_call(dtype, number)
        case NumberCast(input=name, dtype=dtype):
            return cast_call(dtype, Name(spelt.get(name, name)))
        case NumberArithmetic(op=op, inputs=inputs):
            return application(op, [Name(spelt.get(name, name)) for name in inputs])
