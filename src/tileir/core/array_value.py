"""Arrays as immutable values: dtype, shape and the bytes of the elements, identified by a digest of them."""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import sys
import time
from collections.abc import Iterable
from functools import cached_property
from math import prod
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from tileir.core.dtype import DType
from tileir.core.errors import fail
from tileir.core.nodes import attrs

if TYPE_CHECKING:
    Array: TypeAlias = np.ndarray[Any, Any]


Content: TypeAlias = bytes | memoryview
"""Bytes that never change; large ones are a view of memory that devices can read in place."""

_FEW: Final = 1 << 12
"""Least bytes of a constant that is aligned, so that devices read it in place."""

_PAGES: Final = 1 << 20
"""Least bytes of a constant in pages of its own."""

_HASHED: Final = 64
"""Bytes that hashes read across an array, beside sixteen times as many at its beginning."""

_ALIGNMENT: Final = 64
"""Alignment, in bytes, of constants that devices read in place."""


SETTLED_SECONDS: Final = 2.0
"""Age of the last change of a file after which a later change has another time."""


def settled(path: str | Path) -> tuple[int, ...] | None:
    """Return the identity of a file's present content; None if it is gone, or has just changed."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    if time.time() - found.st_mtime < SETTLED_SECONDS:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@attrs.frozen(eq=False)
class Origin:
    """The place of an array's elements in a mapped file, in order.

    Attributes:
        mapped: The whole mapping of the file.
        offset: Their offset in it, in bytes.
        status: The status of the file before they were copied, by :func:`settled`; None if they are read in place, or
            the
            file had just changed.
        copied: Whether they were copied.
    """

    mapped: np.memmap[Any, Any]
    offset: int
    status: tuple[int, ...] | None = None
    copied: bool = False


def _shape(sizes: Iterable[int]) -> tuple[int, ...]:
    return tuple(map(index, sizes))


@attrs.frozen(slots=False)
class ArrayValue:
    """An array that never changes.

    Two are equal if dtype, shape and all bits of the elements are, so that -0.0 is not 0.0 and a NaN is itself. Hashes
    read only some bytes: weights need not be read to find a function among others.

    Attributes:
        dtype: The element type.
        shape: One size for each axis; () for a scalar.
        data: The elements in row-major order, little-endian; those of bool are 0 or 1. A view must be read-only, of
            memory that never changes.
        origin: Their place in a mapped file, if known.

    Raises:
        TileError: TIL702, a size is negative, or the length of ``data`` is wrong.
    """

    dtype: DType
    shape: tuple[int, ...] = attrs.field(converter=_shape)
    data: Content = attrs.field(repr=False)
    origin: Origin | None = attrs.field(default=None, eq=False, repr=False, kw_only=True)

    def __attrs_post_init__(self) -> None:
        """Check that the bytes are those of the array."""
        if any(size < 0 for size in self.shape):
            raise fail("TIL702", f"an array has no negative sizes, as in {list(self.shape)}")
        needed = prod(self.shape) * self.dtype.itemsize
        if len(self.data) != needed:
            raise fail("TIL702", f"an array {self} has {needed} bytes, not {len(self.data)}")
        if self.dtype.is_bool and np.frombuffer(self.data, np.uint8).max(initial=0) > 1:
            raise fail("TIL702", "the elements of a bool array are the bytes 0 and 1")

    @classmethod
    def of(cls, array: Array) -> ArrayValue:
        """Return the value that an array has now: one copy of its elements, regardless of their strides.

        An array over memory that cannot be written, such as ``numpy.memmap`` with mode ``"r"``, is not copied if
        devices can read its elements in place: in order, from a multiple of 64 bytes on.

        Raises:
            TileError: TIL702, tileir has no such element type.
        """
        native = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
        dtype = DType.of(native.dtype)
        if dtype is None:
            known = ", ".join(each.value for each in DType)
            raise fail("TIL702", f"there are no constants of type {array.dtype}; convert it to one of {known}")
        if dtype.is_bool:
            native = native.view(np.uint8) != 0  # foreign memory may hold other bytes than 0 and 1
        if sys.byteorder != "little":
            native = native.byteswap()
        if native.nbytes < _FEW:
            return cls(dtype, array.shape, native.tobytes())
        owner = None if dtype.is_bool else _owner(native)
        origin = _origin(native, owner)
        constant = None if owner is None or native.nbytes < _PAGES else _part(native, owner)
        if constant is not None:
            return cls(dtype, array.shape, constant, origin=origin)
        if origin is not None:
            origin = attrs.evolve(origin, status=settled(str(origin.mapped.filename)), copied=True)
        return cls(dtype, array.shape, _aligned(native) if native.nbytes < _PAGES else _pages(native), origin=origin)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the parts for pickles and copies: an array, since views of memory cannot be pickled."""
        return type(self).of, (self.numpy(),)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of dtype, shape and elements, in hexadecimal."""
        return self.hashed()

    def hashed(self) -> str:
        """Compute the digest; several threads may do so for several arrays at the same time."""
        hashed = hashlib.sha256(str(self).encode())
        hashed.update(self.data)
        return hashed.hexdigest()

    @property
    def elements(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    def __hash__(self) -> int:
        """Return equal hashes for equal arrays."""
        return self._hash

    @cached_property
    def _hash(self) -> int:
        step = max(1, len(self.data) // _HASHED)
        return hash((self.dtype, self.shape, bytes(self.data[: 16 * _HASHED]), bytes(self.data[::step])))

    def numpy(self) -> Array:
        """Return a read-only array that shares the bytes."""
        array: Array = np.frombuffer(self.data, self.dtype.numpy).reshape(self.shape)
        return array if sys.byteorder == "little" else array.byteswap()

    def __str__(self) -> str:
        return f"{self.dtype.value}[{', '.join(map(str, self.shape))}]"


def _aligned(array: Array) -> memoryview:
    """Return the elements of an array, copied to memory that devices can read in place."""
    room = np.empty(array.nbytes + _ALIGNMENT, np.uint8)
    start = -room.ctypes.data % _ALIGNMENT
    part = room[start : start + array.nbytes]
    np.copyto(part.view(array.dtype).reshape(array.shape), array)
    return part.data.toreadonly()


def _pages(array: Array) -> memoryview:
    """Return the elements of an array, copied to fresh pages."""
    memory = mmap.mmap(-1, array.nbytes) if sys.platform == "win32" else _anonymous(array.nbytes)
    np.copyto(np.frombuffer(memory, array.dtype).reshape(array.shape), array)
    return memoryview(memory).toreadonly()


def _anonymous(nbytes: int) -> mmap.mmap:
    """Return private memory of this process, in large pages if the system has some."""
    memory = mmap.mmap(-1, nbytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel built without large pages
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def _owner(array: Array) -> Array | None:
    """Return the array at the end of the chain of views of an array, if none can be written; else None."""
    while not array.flags.writeable:
        if not isinstance(array.base, np.ndarray):
            return array
        array = array.base
    return None


def _origin(array: Array, owner: Array | None) -> Origin | None:
    """Return the place of an array in the file that its owner maps; None if that is no file."""
    if not isinstance(owner, np.memmap) or owner.filename is None or not array.flags.c_contiguous:
        return None
    return Origin(owner, array.ctypes.data - owner.ctypes.data)


def _part(array: Array, owner: Array) -> memoryview | None:
    """Return the memory of an array, if its elements lie in order in memory that cannot be written; else None."""
    memory: object = owner.base
    if not array.flags.c_contiguous or not isinstance(memory, bytes | mmap.mmap):
        return None
    whole = memoryview(memory).cast("B")
    begin = array.ctypes.data - np.frombuffer(whole, np.uint8).ctypes.data
    inside = whole.readonly and 0 <= begin <= len(whole) - array.nbytes and array.ctypes.data % _ALIGNMENT == 0
    return whole[begin : begin + array.nbytes] if inside else None
