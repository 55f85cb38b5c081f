"""Number systems of interpreters: that of tileir, or a replacement by a checker."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np

from tileir.core.dtype import DType
from tileir.core.numbers import arithmetic
from tileir.core.numbers.arithmetic import Number
from tileir.core.ops import Aggregation, Op

Array: TypeAlias = np.ndarray[Any, Any]

_UFUNCS: Final = {
    Aggregation.SUM: np.add,
    Aggregation.PROD: np.multiply,
    Aggregation.MAX: np.maximum,
    Aggregation.MIN: np.minimum,
}


class NumberSystem:
    """The numbers of devices, as :mod:`tileir.core.numbers.arithmetic` defines them.

    A subclass may represent floats in another way. Bools and integers are equal in every system: they determine
    positions of elements, and which are computed.
    """

    def storage(self, dtype: DType) -> np.dtype[Any]:
        """Return the NumPy dtype of arrays of ``dtype``."""
        return dtype.numpy

    def encoded(self, array: Array) -> Array:
        """Return an array of NumPy numbers, such as the content of a constant, as numbers of this system."""
        return array

    def constant(self, value: Number, dtype: DType) -> Array:
        """Return a number as an array without axes."""
        return arithmetic.constant(value, dtype)

    def cast(self, array: Array, dtype: DType) -> Array:
        """Convert every element by value."""
        return arithmetic.cast(array, dtype)

    def apply(self, op: Op, dtype: DType, *args: Array) -> Array:
        """Compute ``op`` at every element; ``dtype`` is that of the result."""
        return args[0].view(dtype.numpy) if op is Op.BITS else arithmetic.apply(op, *args)

    def order(self, array: Array, axis: int, *, descending: bool) -> Array:
        """Return the sorted positions of the elements along ``axis``: :func:`tileir.core.numbers.arithmetic.order`."""
        return arithmetic.order(array, axis, descending=descending)

    def merge_at(
        self,
        aggregation: Aggregation,
        dtype: DType,  # noqa: ARG002  # as above
        out: Array,
        places: Array,
        values: Array,
    ) -> None:
        """Merge ``values`` into ``out`` at ``places``, in order; a position may occur several times."""
        if aggregation is Aggregation.ASSIGN:
            out[places] = values
            return
        with np.errstate(all="ignore"):
            _UFUNCS[aggregation].at(out, places, values)

    def product(self, left: Array, right: Array, dtype: DType) -> Array:
        """Multiply matrices, whose products are added up in ``dtype``."""
        result: Array = left.astype(dtype.numpy) @ right.astype(dtype.numpy)
        return result


REAL: Final = NumberSystem()
"""The default number system."""
