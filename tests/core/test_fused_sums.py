"""Fused sums against exact rational arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.rounding import DIGITS, few_bits, nearest, same
from tileir.core.dtype import DType
from tileir.core.numbers.arithmetic import apply, constant, rounded
from tileir.core.ops import Op


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64])
@examples(200)
@given(data=st.data())
def test_fma_cancels_exactly(dtype: DType, data: st.DataObject) -> None:
    numbers = st.integers(2 ** (DIGITS[dtype] - 1), 2 ** DIGITS[dtype] - 1)
    x, y = data.draw(numbers), data.draw(numbers)
    product = -float(rounded(x * y, dtype)) + data.draw(st.integers(-2, 2))
    result = apply(Op.FMA, constant(x, dtype), constant(y, dtype), constant(product, dtype))
    assert float(result) == nearest(Fraction(x) * y + Fraction(float(rounded(product, dtype))), dtype)


EXPONENTS = {DType.F32: (-126, 127), DType.F64: (-1074, 1023)}


@pytest.mark.parametrize("dtype", EXPONENTS)
@examples(200)
@given(data=st.data())
def test_fma_rounds_once_wherever_its_operands_lie(dtype: DType, data: st.DataObject) -> None:
    low, high = EXPONENTS[dtype]

    def draw(exponent: int) -> float:
        within = min(max(exponent, low), high)
        return float(rounded(data.draw(few_bits(DIGITS[dtype], within, within)), dtype))

    x = draw(data.draw(st.integers(low, high)))
    product = data.draw(st.sampled_from((low - 2, low + DIGITS[dtype], 0, high)))
    y = draw(product - math.frexp(x)[1])
    z = draw(product + data.draw(st.integers(-2 * DIGITS[dtype], DIGITS[dtype] + 1)))
    found = float(apply(Op.FMA, *(constant(number, dtype) for number in (x, y, z))))
    assert found == nearest(Fraction(x) * Fraction(y) + Fraction(z), dtype), (x, y, z)


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64])
@pytest.mark.parametrize("sign", [1, -1])
def test_fma_sees_what_is_far_below_the_middle(dtype: DType, sign: int) -> None:
    """The product is the middle between two floats, and only its sum with something tiny says which one is nearer."""
    low = 2.0 ** -((DIGITS[dtype] + 1) // 2)
    x, y = sign * (1 + low), 1 + 2.0 ** -(DIGITS[dtype] - (DIGITS[dtype] + 1) // 2)
    tails = (0.0, *(way * tail for tail in (2.0**-100, 2.0**-52 * (1 - 2.0**-24), 2.0**-76) for way in (1, -1)))
    found = [float(apply(Op.FMA, *(constant(number, dtype) for number in (x, y, tail)))) for tail in tails]
    assert found == [nearest(Fraction(x) * Fraction(y) + Fraction(tail), dtype) for tail in tails]
    assert found[1] != found[2]
    assert found[3] != found[4]


def test_fma_of_special_values_is_that_of_ieee_754() -> None:
    large, inf, nan = 2.0**1000, math.inf, math.nan
    rows = [(large, large, -inf, -inf), (large, large, -large, inf), (-large, large, 1.0, -inf), (large, 2.0, nan, nan)]
    rows += [(0.0, inf, 1.0, nan), (inf, -1.0, inf, nan), (inf, -1.0, 1.0, -inf), (-0.0, 1.0, -0.0, -0.0)]
    rows += [(1.0, -0.0, -0.0, -0.0)]
    rows += [(1e-300, -1e-300, 0.0, -0.0), (1e-200, 1e-200, -0.0, 0.0), (0.0, -1.0, 3.0, 3.0), (1.0, 1.0, -1.0, 0.0)]
    rows += [(2.0**-540, 2.0**-540, -(2.0**-1074), -(2.0**-1074)), (2.0**-600, 2.0**-474, -(2.0**-1074), 0.0)]
    *args, expected = (np.array(column) for column in zip(*rows, strict=True))
    for found, wanted, row in zip(apply(Op.FMA, *args), expected, rows, strict=True):
        assert same(found, wanted), row
    assert all(same(float(apply(Op.FMA, *map(np.array, row[:3]))), row[3]) for row in rows)
    assert apply(Op.FMA, np.array([[1e-300], [2.0]]), np.array([1e-300, 3.0]), np.array(1e-300)).shape == (2, 2)
