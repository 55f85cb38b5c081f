"""Rounding to the nearest float by exact rational arithmetic, and floats that lie next to where it decides."""

from __future__ import annotations

import math
from fractions import Fraction

from hypothesis import strategies as st

from tileir.core.dtype import FORMATS, DType

DIGITS = {dtype: row.precision for dtype, row in FORMATS.items()}


def same(left: float, right: float) -> bool:
    return (math.isnan(left) and math.isnan(right)) or (
        left == right and math.copysign(1, left) == math.copysign(1, right)
    )


def nearest(value: Fraction, dtype: DType) -> float:
    """Round to nearest even by exact rational arithmetic; NaN beyond the largest number if there are no infinities."""
    if value == 0:
        return 0.0
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent += 0 if size >= Fraction(2) ** exponent else -1
    unit = max(Fraction(2) ** (exponent - DIGITS[dtype] + 1), Fraction(dtype.format.smallest_subnormal))
    result = round(size / unit) * unit
    if result > dtype.format.largest:
        infinity = math.inf if dtype.format.infinities else math.nan
        return infinity if value > 0 else -infinity
    return float(result) if value > 0 else -float(result)


def few_bits(digits: int, low: int, high: int) -> st.SearchStrategy[float]:
    """Floats with a few bits far apart, whose products and sums lie in the middle between two others, or next to it."""
    bits = st.lists(st.integers(0, digits - 1), max_size=3)
    numbers = st.tuples(st.sampled_from((1, -1)), bits, st.integers(low, high))
    return numbers.map(lambda drawn: drawn[0] * math.ldexp(1 + sum({2.0**-n for n in drawn[1] if n}), drawn[2]))
