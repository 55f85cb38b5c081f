"""Steps that compute numbers from the numbers among a call's arguments before anything runs: in order, by name."""

from __future__ import annotations

from typing import ClassVar, TypeAlias

from tileir.core import DType, Op, Span, attrs, span_field
from tileir.typed.node import Node


@attrs.frozen(cache_hash=True, repr=False)
class NumberNode(Node):
    """Base of steps."""

    head: ClassVar[str] = "{name}: number[({dtype})] = "
    name: str


@attrs.frozen(cache_hash=True, repr=False)
class NumberLiteral(NumberNode):
    """A number of the program; without a dtype it is exact and adapts to its operands."""

    form: ClassVar[str] = "{value}"
    value: bool | int | float = attrs.field(eq=repr)
    dtype: DType | None
    span: Span | None = span_field()


@attrs.frozen(cache_hash=True, repr=False)
class NumberCast(NumberNode):
    """A number converted to ``dtype`` by a cast of the program."""

    form: ClassVar[str] = "cast({input})"
    input: str
    dtype: DType
    span: Span | None = span_field()


@attrs.frozen(cache_hash=True, repr=False)
class NumberArithmetic(NumberNode):
    """``op`` on numbers, computed as on literals: exactly or in f64 without a dtype, else in ``dtype``."""

    form: ClassVar[str] = "{op}({inputs})"
    op: Op
    inputs: tuple[str, ...]
    dtype: DType | None
    span: Span | None = span_field()


NumberStep: TypeAlias = NumberLiteral | NumberCast | NumberArithmetic
"""A number that each call computes from numbers among its arguments and earlier steps before anything runs."""


def step_inputs(step: NumberStep) -> tuple[str, ...]:
    """Return the names that a step reads."""
    match step:
        case NumberArithmetic(inputs=inputs):
            return inputs
        case NumberCast(input=source):
            return (source,)
        case NumberLiteral():
            return ()
