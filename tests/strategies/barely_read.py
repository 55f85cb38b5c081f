"""Aggregations of operands with few indices: others stand in divided outputs, or in conditions alone."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import strategies as st

from tileir.core.contraction_types import contraction_types
from tileir.core.dtype import DType
from tileir.core.ops import Aggregation, Combination
from tileir.poly.affine import Affine, Rational, total
from tileir.typed.ir import Access, Constraint, Contraction, Function, Value

if TYPE_CHECKING:
    from fuzz.area import Array

_DTYPES = (DType.I32, DType.F32, DType.I8, DType.F16, DType.BOOL, DType.U8)
_FACTORS: tuple[Rational, ...] = (1, 1, -1, 2, Fraction(1, 2), Fraction(1, 3))
_COMBINATIONS = (Combination.NONE, Combination.MUL, Combination.MUL, Combination.ADD, Combination.EQ)
_AGGREGATIONS = (Aggregation.SUM, Aggregation.SUM, Aggregation.MAX, Aggregation.MIN, Aggregation.PROD)


@st.composite
def barely_read(draw: st.DrawFn, largest: int = 12) -> tuple[Function, dict[str, Array]]:
    """Draw one; every index has a condition of its own, some of which no value meets."""
    names = ("i", "j", "k", "l")[: draw(st.integers(1, 4))]
    index, extent = st.sampled_from(names).map(Affine.index), st.integers(1, largest)

    def mixed(*divisors: int) -> Affine:
        several = draw(st.lists(index, min_size=1, max_size=2, unique=True))
        sum_of = total(each * draw(st.sampled_from((1, 1, -1, 2))) for each in several)
        return (sum_of + draw(st.integers(-2, 9))) / draw(st.sampled_from(divisors))

    def limit(name: str) -> Constraint:
        factor = draw(st.sampled_from(_FACTORS))
        bound = 0 if draw(st.integers(0, 19)) == 19 else draw(extent)
        return Constraint((Affine.index(name) + draw(st.integers(-3, 3))) * factor, bound)

    combination, aggregation = draw(st.sampled_from(_COMBINATIONS)), draw(st.sampled_from(_AGGREGATIONS))
    if combination is Combination.ADD and aggregation is Aggregation.PROD:  # whose products have too many digits
        aggregation = Aggregation.SUM
    accesses = [tuple(draw(st.lists(index, max_size=1))) for _ in range(combination.arity)]
    inputs = tuple(
        Value(name, draw(st.sampled_from(_DTYPES)), tuple(draw(extent) for _ in access))
        for name, access in zip("AB", accesses, strict=False)
    )
    output = (*draw(st.lists(index, max_size=1)), *(mixed(1, 2, 2, 3) for _ in range(draw(st.integers(0, 1)))))
    linked = tuple(Constraint(mixed(1), draw(extent)) for _ in range(draw(st.integers(0, 2))))
    types = contraction_types(aggregation, combination, [value.dtype for value in inputs])
    contraction = Contraction(
        "O",
        output,
        tuple(Access(value.name, access) for value, access in zip(inputs, accesses, strict=True)),
        aggregation,
        combination,
        types.operand,
        types.accumulator,
        types.result,
        tuple(draw(extent) for _ in output),
        (*map(limit, names), *linked),
        reduce=draw(st.integers(0, 7)) > 0,
    )
    values = (1, -1) if aggregation is Aggregation.PROD else (-2, -1, 0, 1, 2)
    random = np.random.default_rng(draw(st.integers(0, 99)))
    arrays = {
        value.name: random.choice([abs(x) for x in values] if value.dtype is DType.U8 else values, value.shape)
        for value in inputs
    }
    return Function(inputs, ("O",), (contraction,)), {v.name: arrays[v.name].astype(v.dtype.numpy) for v in inputs}
