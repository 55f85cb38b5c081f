"""Arrays of libraries that hand them out by C functions, DLPack's exchange interface, as PyTorch does.

``__dlpack__`` is mostly written in Python and takes tens of microseconds; a function of the table takes one. It orders
no streams: who asks makes its own wait for the one in which the library works. Source: ``DLPackExchangeAPI`` in the
header of DLPack 1.3.
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
"""What a type has that offers the functions: a capsule with their table."""

CAPSULE: Final = b"dlpack_exchange_api"
_CONTENT: Final = b"dltensor_versioned"
_DEFAULT_STREAM: Final = 1
"""CUDA's handle for the stream that libraries call the default one, where they give none."""


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
"""A :class:`Tensor`: where its data is, then its device, rank and dtype, extents, strides, and an offset in bytes."""


@attrs.frozen
class Format:
    """Dtype, shape and device of an array without gaps, as :class:`Tensor` has them.

    Attributes:
        kind: Device, rank and dtype.
        extents: Its shape.
        strides: How many elements apart neighbours along each axis are.

    """

    kind: bytes
    extents: bytes
    strides: bytes

    @classmethod
    def of(cls, dtype: DType, shape: tuple[int, ...], place: Place) -> Self:
        """Return what such an array is."""
        steps = [1]
        for size in shape[:0:-1]:
            steps.append(steps[-1] * size)
        pack = Struct(f"{len(shape)}q").pack
        return cls(kind_of(dtype, len(shape), place), pack(*shape), pack(*steps[::-1][: len(shape)]))

    def address(self, tensor: Tensor) -> int | None:
        """Return where the data of a tensor is; None where it is another one, or has gaps."""
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
        """Return whether strides are those that are wanted, along axes of more than one element."""
        if strides == self.strides:
            return True
        words = zip(*(memoryview(each).cast("q") for each in (strides, self.strides, self.extents)), strict=True)
        return all(step == wanted or extent == 1 for step, wanted, extent in words)


@attrs.frozen(eq=False, repr=False)
class Exchange:
    """The functions of one type of arrays.

    Attributes:
        addresses: Where they start: what lends an array, what gives one to own, what tells the stream.

    """

    addresses: tuple[int, int, int]
    _owned: Callable[..., int]
    _lent: Callable[..., int]
    _stream: Callable[..., int]

    @classmethod
    def of(cls, value: object) -> Exchange | None:
        """Return the functions for an array; None where its type itself offers none, of a version that is known."""
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
        except Exception:  # code of others may fail in any way, and there is __dlpack__ as well
            return None
        if table.major != VERSION[0] or not (table.owned and table.lent and table.stream):
            return None
        addresses = (table.lent, table.owned, table.stream)
        return cls(addresses, _OWNED(table.owned), _LENT(table.lent), _STREAM(table.stream))

    def place(self, value: object) -> Place | None:
        """Return where an array is; None where its library does not tell."""
        tensor = Tensor()
        try:
            if self._lent(value, tensor):
                return None
        except Exception:  # code of others may fail in any way
            return None
        return tensor.device.kind, tensor.device.number

    def address(self, value: Any, wanted: Format) -> int | None:
        """Return where the elements of an array are; None where it is not as wanted, or :meth:`array` would refuse it.

        The array is not kept alive: whoever works in the stream of the library may give the memory back.
        """
        tensor = Tensor()
        try:
            if _is_lazy(value) or self._lent(value, tensor):
                return None
        except Exception:  # code of others may fail in any way
            return None
        return wanted.address(tensor)

    def is_writable(self, value: Any) -> bool:
        """Return whether the library lets others write to an array, which only what it gives to own says."""
        content = ctypes.c_void_p()
        try:
            if self._owned(value, content) or content.value is None:
                return False
            capsule = _CAPSULE_OF(content.value, _CONTENT, None)
        except Exception:  # as above
            return False
        try:
            return is_writable(capsule)
        finally:
            release(capsule)

    def array(self, value: Any) -> Array | None:
        """Return the memory of an array, which it keeps alive; None for ``__dlpack__`` to say what is wrong.

        The functions look at the memory alone. Tensors whose gradients are recorded, and those whose elements have the
        other sign than their memory, are refused or resolved by ``__dlpack__``.
        """
        if _is_lazy(value):
            return None
        content = ctypes.c_void_p()
        try:
            if self._owned(value, content) or content.value is None:
                return None
            capsule = _CAPSULE_OF(content.value, _CONTENT, None)
        except Exception:  # as above
            return None
        try:
            return taken(capsule)
        except BaseException:
            release(capsule)
            raise

    def stream(self, place: Place) -> int:
        """Return the stream of a device in which the library works now.

        Raises:
            Exception: what the library has set.

        """
        found = ctypes.c_void_p()
        if self._stream(*place, found):
            raise BufferError(f"the stream of device {place} is not told")
        return found.value or _DEFAULT_STREAM


def _is_lazy(value: Any) -> bool:
    """Return whether an array is more than its memory: gradients are recorded, or elements have another sign."""
    return getattr(value, "requires_grad", False) or (hasattr(value, "is_neg") and value.is_neg())


_known: Final[WeakKeyDictionary[type, Exchange | None]] = WeakKeyDictionary()
