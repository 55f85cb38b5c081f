"""Conversions in terms of others: floats to integers that saturate, truth values, and narrow integers by way of i32."""

from __future__ import annotations

from typing import Final

from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.semtree.functions.draft import Term, where
from tileir.semtree.legalise.row import Drafting, Row


def _saturated(draft: Drafting, value: Term, target: DType) -> Term:
    """Truncate towards zero, take the nearer limit of what does not fit, and 0 of NaN."""
    value = draft.let("value", value)
    low, high = int(target.minimum), int(target.maximum)
    inside = draft.let("inside", (value >= float(low)) & (value < float(high + 1)))
    whole = draft.defined(where(inside, value, 0.0).cast(target))
    above = where(value > 0.0, whole.of(high), low)
    return where(inside, whole, where(value.differs(value), 0, above))


def _clamped(_: Drafting, value: Term, target: DType) -> Term:
    """Convert to i32, which has all values of narrower types, and take the nearer limit."""
    wide = value.cast(DType.I32)
    return wide.apply(Op.MAX, int(target.minimum)).apply(Op.MIN, int(target.maximum)).cast(target)


SATURATING: Final = Row("cast<T>(x) = low <= x < end ? cast<T>(x) : x != x ? 0 : x > 0 ? high : low", _saturated)
"""Floats to integers, for back ends that have this where the result fits."""

CLAMPED: Final = Row("cast<T>(x) = cast<T>(min(max(cast<i32>(x), low), high))", _clamped)
"""Floats to integers of 8 and 16 bits."""

TRUTH: Final = Row("cast<bool>(x) = x != 0", lambda _, x, __: x.differs(0))
OF_TRUTH: Final = Row("cast<T>(x) = x ? 1 : 0", lambda _, x, target: where(x, x.cast(target).of(1), 0))
WIDENED: Final = Row("cast<T>(x) = cast<T>(cast<i32>(x))", lambda _, x, target: x.cast(DType.I32).cast(target))
"""Integers of 8 and 16 bits to floats."""
