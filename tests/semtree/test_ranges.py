"""Ranges of integers, which hold for every value that these can have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import assume, given, strategies as st

from strategies.effort import examples
from tileir.core.dtype import DType
from tileir.core.numbers import arithmetic
from tileir.core.numbers.ranges import Range, either, exact
from tileir.core.ops import Op
from tileir.semtree.analysis.ranges import is_defined, is_number
from tileir.semtree.ir import Apply, Broadcast, Cast, Const, Type, Var

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

OPS = (
    *(Op.NEG, Op.ABS, Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.MOD, Op.MIN, Op.MAX),
    *(Op.BIT_AND, Op.BIT_OR, Op.BIT_XOR, Op.BIT_LEFT, Op.BIT_RIGHT),
)


def holds(fact: Range, value: int) -> bool:
    divides = value == 0 if fact.divisor == 0 else value % fact.divisor == 0
    return fact.low <= value <= fact.high and divides


@st.composite
def facts(draw: DrawFn) -> tuple[Range, int]:
    """Draw a fact, and a value for which it holds."""
    if draw(st.booleans()):
        value = draw(st.integers(-70, 70))
        return Range.constant(value), value
    divisor = draw(st.integers(1, 16))
    multiples = sorted(draw(st.lists(st.integers(-40, 40), min_size=3, max_size=3)))
    low, value, high = (multiple * divisor for multiple in multiples)
    return Range(low, high, divisor), value


@examples(600)
@given(op=st.sampled_from(OPS), drawn=st.tuples(facts(), facts()))
def test_operations(op: Op, drawn: tuple[tuple[Range, int], tuple[Range, int]]) -> None:
    operands = drawn[: op.info.arity]
    found = exact(op, tuple(fact for fact, _ in operands))
    assume(found is not None)
    assert found is not None
    values = [np.array(value, np.int64) for _, value in operands]
    assert holds(found.wrapped(DType.I64), int(arithmetic.apply(op, *values)))


@examples(200)
@given(drawn=facts(), dtype=st.sampled_from([DType.I8, DType.U8, DType.I16, DType.U32]))
def test_wrapping(drawn: tuple[Range, int], dtype: DType) -> None:
    fact, value = drawn
    scaled = Range(fact.low * 8, fact.high * 8, fact.divisor * 8)
    assert holds(scaled.wrapped(dtype), int(arithmetic.rounded(value * 8, dtype)))
    assert scaled.wrapped(dtype).fits(dtype)


@examples(100)
@given(drawn=st.tuples(facts(), facts()))
def test_either(drawn: tuple[tuple[Range, int], tuple[Range, int]]) -> None:
    (left, first), (right, second) = drawn
    assert holds(either(left, right), first)
    assert holds(either(left, right), second)


def test_a_range_of_one_value_is_known() -> None:
    assert Range.constant(7).known == 7
    assert Range(6, 7).known is None
    assert Range.of(DType.BOOL) == Range(0, 1)


def test_a_quotient_is_defined_where_the_divisor_cannot_be_zero() -> None:
    for op in (Op.DIV, Op.MOD):
        assert is_defined(op, DType.I32, (Range(0, 9), Range(1, 4)))
        assert is_defined(op, DType.I32, (Range(0, 9), Range(-4, -1)))
        for low, high in ((0, 4), (-4, 0), (-1, 1), (0, 0)):
            assert not is_defined(op, DType.I32, (Range(0, 9), Range(low, high)))


@examples(400)
@given(op=st.sampled_from(OPS), drawn=st.tuples(facts(), facts()), dtype=st.sampled_from([DType.I8, DType.U8]))
def test_what_is_defined_for_ranges_is_defined_for_every_value(
    op: Op, drawn: tuple[tuple[Range, int], tuple[Range, int]], dtype: DType
) -> None:
    ranges, values = zip(*drawn[: op.info.arity], strict=True)
    assume(all(each.fits(dtype) for each in ranges))
    if not is_defined(op, dtype, ranges):
        return
    if op in (Op.DIV, Op.MOD):
        assert values[1] != 0
        assert not dtype.is_signed or values != (dtype.minimum, -1)
    elif op in (Op.BIT_LEFT, Op.BIT_RIGHT):
        assert 0 <= values[1] < dtype.bits
    else:
        exactly = int(arithmetic.apply(op, *[np.array(value, np.int64) for value in values]))
        assert dtype.minimum <= exactly <= dtype.maximum


def test_what_cannot_be_nan() -> None:
    kind, condition = Type(DType.F32), Var("c", Type(DType.BOOL))
    whole, unknown = Cast(Var("i", Type(DType.I32)), kind), Var("x", kind)
    assert is_number(Broadcast(whole, 4))
    assert is_number(Cast(Cast(whole, Type(DType.F16)), kind))
    assert is_number(Apply(Op.COND, (condition, whole, Apply(Op.NEG, (whole,)))))
    assert not is_number(unknown)
    assert not is_number(Const(float("nan"), kind))
    assert not is_number(Apply(Op.COND, (condition, whole, unknown)))
    assert not is_number(Apply(Op.ADD, (whole, whole)))
