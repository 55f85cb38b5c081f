"""Arrays as immutable values: dtype, shape and the bytes of the elements, identified by a digest of them."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable
from functools import cached_property
from math import prod
from operator import index
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tileir.core.dtype import DType
from tileir.core.errors import fail
from tileir.core.nodes import attrs

if TYPE_CHECKING:
    Array: TypeAlias = np.ndarray[Any, Any]


def _shape(sizes: Iterable[int]) -> tuple[int, ...]:
    return tuple(map(index, sizes))


@attrs.frozen(cache_hash=True, slots=False)
class ArrayValue:
    """An array that never changes.

    Two are equal where dtype, shape and all bits of the elements are, so that -0.0 is not 0.0 and a NaN is itself.

    Attributes:
        dtype: The element type.
        shape: One size for each axis; () for a scalar.
        data: The elements in row-major order, little-endian; those of bool are 0 or 1.

    Raises:
        TileError: TIL702, a size is negative, or ``data`` are not the bytes of such an array.

    """

    dtype: DType
    shape: tuple[int, ...] = attrs.field(converter=_shape)
    data: bytes = attrs.field(repr=False)

    def __attrs_post_init__(self) -> None:
        """Check that the bytes are those of the array."""
        if any(size < 0 for size in self.shape):
            raise fail("TIL702", f"an array has no negative sizes, as in {list(self.shape)}")
        needed = prod(self.shape) * self.dtype.itemsize
        if len(self.data) != needed:
            raise fail("TIL702", f"an array {self} has {needed} bytes, not {len(self.data)}")
        if self.dtype.is_bool and self.data.strip(b"\0\1"):
            raise fail("TIL702", "the elements of a bool array are the bytes 0 and 1")

    @classmethod
    def of(cls, array: Array) -> ArrayValue:
        """Return the value that an array has now: one copy of its elements, whatever their strides.

        Raises:
            TileError: TIL702, tileir has no such element type.

        """
        native = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
        dtype = DType.of(native.dtype)
        if dtype is None:
            known = ", ".join(each.value for each in DType)
            raise fail("TIL702", f"there are no constants of type {array.dtype}; convert it to one of {known}")
        if dtype.is_bool:
            native = native.view(np.uint8) != 0  # memory of others may hold further bytes than 0 and 1
        if sys.byteorder != "little":
            native = native.byteswap()
        return cls(dtype, array.shape, native.tobytes())

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of dtype, shape and elements, in hexadecimal."""
        hashed = hashlib.sha256(str(self).encode())
        hashed.update(self.data)
        return hashed.hexdigest()

    @property
    def elements(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    def numpy(self) -> Array:
        """Return a read-only array that shares the bytes."""
        array: Array = np.frombuffer(self.data, self.dtype.numpy).reshape(self.shape)
        return array if sys.byteorder == "little" else array.byteswap()

    def __str__(self) -> str:
        return f"{self.dtype.value}[{', '.join(map(str, self.shape))}]"
