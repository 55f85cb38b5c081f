"""Rounding to the nearest float by exact rational arithmetic, and floats that lie next to where it decides."""

from __future__ import annotations

import math
from fractions import Fraction

from hypothesis import strategies as st

from tileir.core.dtype import DType

DIGITS = {DType.F16: 11, DType.BF16: 8, DType.F32: 24, DType.F64: 53}
LOWEST_EXPONENT = {DType.F16: -24, DType.BF16: -133, DType.F32: -149, DType.F64: -1074}
OVERFLOW = {DType.F16: 16, DType.BF16: 128, DType.F32: 128, DType.F64: 1024}


def same(left: float, right: float) -> bool:
    return (math.isnan(left) and math.isnan(right)) or (
        left == right and math.copysign(1, left) == math.copysign(1, right)
    )


def nearest(value: Fraction, dtype: DType) -> float:
    """Round to nearest even by exact rational arithmetic."""
    if value == 0:
        return 0.0
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent += 0 if size >= Fraction(2) ** exponent else -1
    unit = Fraction(2) ** max(exponent - DIGITS[dtype] + 1, LOWEST_EXPONENT[dtype])
    result = round(size / unit) * unit
    if result >= Fraction(2) ** OVERFLOW[dtype]:
        return math.inf if value > 0 else -math.inf
    return float(result) if value > 0 else -float(result)


def few_bits(digits: int, low: int, high: int) -> st.SearchStrategy[float]:
    """Floats with a few bits far apart, whose products and sums lie in the middle between two others, or next to it."""
    bits = st.lists(st.integers(0, digits - 1), max_size=3)
    numbers = st.tuples(st.sampled_from((1, -1)), bits, st.integers(low, high))
    return numbers.map(lambda drawn: drawn[0] * math.ldexp(1 + sum({2.0**-n for n in drawn[1] if n}), drawn[2]))
