"""Arrays of libraries with DLPack's exchange interface, a table of C functions, such as PyTorch.

``__dlpack__`` is mostly written in Python and takes tens of microseconds; a function of the table takes one. It does
not synchronise: callers make their own stream wait for the library's current stream. Source: ``DLPackExchangeAPI`` in
the header of DLPack 1.3.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from struct import Struct
from typing import Any, Final, Self
from weakref import WeakKeyDictionary

from tileir.core import DType, attrs
from tileir.runtime.arrays import Array
from tileir.runtime.devices.dlpack import (
    VERSION,
    Place,
    Tensor,
    is_writable,
    kind_of,
    knows_versions,
    release,
    taken,
)

ATTRIBUTE: Final = "__dlpack_c_exchange_api__"
"""Attribute of a type with the functions: a capsule of their table."""

CAPSULE: Final = b"dlpack_exchange_api"
_CONTENT: Final = b"dltensor_versioned"
_DEFAULT_STREAM: Final = 1
"""CUDA's handle of the default stream, for libraries that return none."""


class _Table(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("earlier", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("owned", ctypes.c_void_p),
        ("accepted", ctypes.c_void_p),
        ("lent", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
    )


# These keep the lock of the interpreter, and raise what the function has set as an error.
_OWNED: Final = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.c_void_p))
_LENT: Final = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(Tensor))
_STREAM: Final = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
_POINTER: Final = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_CAPSULE_OF: Final = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)


_WORDS: Final = Struct("P16sPPQ")
"""A :class:`Tensor`: data pointer, device, rank and dtype, extents, strides, and an offset in bytes."""


@attrs.frozen
class Format:
    """Dtype, shape and device of a contiguous array, as :class:`Tensor` has them.

    Attributes:
        kind: Device, rank and dtype.
        extents: Extents.
        strides: Strides in elements.
    """

    kind: bytes
    extents: bytes
    strides: bytes

    @classmethod
    def of(cls, dtype: DType, shape: tuple[int, ...], place: Place) -> Self:
        """Return the format of an array with this dtype, shape and place."""
        steps = [1]
        for size in shape[:0:-1]:
            steps.append(steps[-1] * size)
        pack = Struct(f"{len(shape)}q").pack
        return cls(kind_of(dtype, len(shape), place), pack(*shape), pack(*steps[::-1][: len(shape)]))

    def address(self, tensor: Tensor) -> int | None:
        """Return the data address of a tensor; None if it has another format, or gaps."""
        data, kind, extents, strides, offset = _WORDS.unpack_from(tensor)
        if kind != self.kind or not data:
            return None
        size = len(self.extents)
        if size and not (
            strides
            and ctypes.string_at(extents, size) == self.extents
            and self._has_no_gaps(ctypes.string_at(strides, size))
        ):
            return None
        found: int = data + offset
        return found

    def _has_no_gaps(self, strides: bytes) -> bool:
        """Return whether strides are as expected along axes of more than one element."""
        if strides == self.strides:
            return True
        words = zip(*(memoryview(each).cast("q") for each in (strides, self.strides, self.extents)), strict=True)
        return all(step == wanted or extent == 1 for step, wanted, extent in words)


@attrs.frozen(eq=False, repr=False)
class Exchange:
    """Exchange functions of an array type.

    Attributes:
        addresses: Addresses of the functions that lend an array, that transfer ownership, and that return the stream.
    """

    addresses: tuple[int, int, int]
    _owned: Callable[..., int]
    _lent: Callable[..., int]
    _stream: Callable[..., int]

    @classmethod
    def of(cls, value: object) -> Exchange | None:
        """Return the functions for an array; None if its own type offers none in a known version."""
        kind = type(value)
        try:
            return _known[kind]
        except KeyError:
            found = _known[kind] = cls._read(kind) if ATTRIBUTE in vars(kind) and knows_versions() else None
            return found

    @classmethod
    def _read(cls, kind: type) -> Self | None:
        try:
            table = _Table.from_address(_POINTER(getattr(kind, ATTRIBUTE), CAPSULE))
        except Exception:  # foreign code may raise anything, and there is __dlpack__ as well
            return None
        if table.major != VERSION[0] or not (table.owned and table.lent and table.stream):
            return None
        addresses = (table.lent, table.owned, table.stream)
        return cls(addresses, _OWNED(table.owned), _LENT(table.lent), _STREAM(table.stream))

    def place(self, value: object) -> Place | None:
        """Return the device of an array; None if its library does not tell."""
        tensor = Tensor()
        try:
            if self._lent(value, tensor):
                return None
        except Exception:  # foreign code may raise anything
            return None
        return tensor.device.kind, tensor.device.number

    def address(self, value: Any, wanted: Format) -> int | None:
        """Return the address of an array's elements; None if it has another format, or :meth:`array` would refuse it.

        The array is not kept alive: users of the library's stream may release the memory.
        """
        tensor = Tensor()
        try:
            if _is_lazy(value) or self._lent(value, tensor):
                return None
        except Exception:  # foreign code may raise anything
            return None
        return wanted.address(tensor)

    def is_writable(self, value: Any) -> bool:
        """Return whether the library lets others write to an array, which only an owned tensor tells."""
        content = ctypes.c_void_p()
        try:
            if self._owned(value, content) or content.value is None:
                return False
            capsule = _CAPSULE_OF(content.value, _CONTENT, None)
        except Exception:  # foreign code may raise anything
            return False
        try:
            return is_writable(capsule)
        finally:
            release(capsule)

    def array(self, value: Any) -> Array | None:
        """Return the memory of an array, which it keeps alive; None to let ``__dlpack__`` explain the problem.

        The functions only see memory. ``__dlpack__`` refuses tensors with recorded gradients, and resolves elements
        whose sign differs from their memory.
        """
        if _is_lazy(value):
            return None
        content = ctypes.c_void_p()
        try:
            if self._owned(value, content) or content.value is None:
                return None
            capsule = _CAPSULE_OF(content.value, _CONTENT, None)
        except Exception:  # foreign code may raise anything
            return None
        try:
            return taken(capsule)
        except BaseException:
            release(capsule)
            raise

    def stream(self, place: Place) -> int:
        """Return the library's current stream of a device.

        Raises:
            Exception: The error that the library has set.
        """
        found = ctypes.c_void_p()
        if self._stream(*place, found):
            raise BufferError(f"the stream of device {place} is not told")
        return found.value or _DEFAULT_STREAM


def _is_lazy(value: Any) -> bool:
    """Return whether an array is more than its memory: gradients are recorded, or elements have another sign."""
    return getattr(value, "requires_grad", False) or (hasattr(value, "is_neg") and value.is_neg())


_known: Final[WeakKeyDictionary[type, Exchange | None]] = WeakKeyDictionary()
