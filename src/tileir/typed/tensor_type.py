"""Dtype and shape of one tensor, for which functions are compiled."""

from __future__ import annotations

from collections.abc import Iterable
from operator import index
from typing import TypeAlias

from tileir.core import DType, attrs, dtype_meant, fail

Shape: TypeAlias = tuple[int, ...]


def _dtype(value: DType | str) -> DType:
    """Return an element type from itself or its name.

    Raises:
        TileError: TIL702, there is no such dtype.
    """
    try:
        return DType(value)
    except ValueError:
        raise fail("TIL702", f"{value!r} is not a dtype; {dtype_meant(value)}") from None


def _shape(value: Iterable[int]) -> Shape:
    """Return sizes as a tuple.

    Raises:
        TileError: TIL702, they are not sizes.
    """
    try:
        return tuple(map(index, value))
    except TypeError:
        raise fail("TIL702", f"{value!r} is not a shape; write a tuple of sizes, such as (3, 4), or ()") from None


@attrs.frozen(cache_hash=True)
class TensorType:
    """The dtype and shape of one tensor, or the kind of a number.

    Attributes:
        dtype: The element type; for a number f64, bool, or the first of i32, i64 and u64 that holds it.
        shape: One size for each axis.
        weak: Whether this is a number of Python, of shape () and without a dtype of its own: it adapts as literals do.
        value: An integer from which sizes are computed, so that it is known when compiling; else None.

    Raises:
        TileError: TIL702, there is no such dtype or shape.
    """

    dtype: DType = attrs.field(converter=_dtype)
    shape: Shape = attrs.field(converter=_shape)
    weak: bool = False
    value: int | None = None

    def __str__(self) -> str:
        if self.weak or self.value is not None:
            return f"number({self.dtype.value})" if self.value is None else f"size({self.value})"
        return f"{self.dtype.value}[{', '.join(map(str, self.shape))}]"
