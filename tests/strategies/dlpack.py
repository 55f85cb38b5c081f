"""Libraries that share memory by DLPack, written from its header alone: what they hand out, and when it is released.

Their capsules have no destructors, and only those that are counted a deleter, as Python cannot run one while an error
is on its way: what nobody takes stays.
"""

from __future__ import annotations

import ctypes
from typing import Any

import attrs
import numpy as np

LONG = ctypes.c_int64
DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6, "bfloat16": 4, "float8_e4m3fn": 10, "float8_e5m2": 12}


class Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(LONG)),
        ("strides", ctypes.POINTER(LONG)),
        ("byte_offset", ctypes.c_uint64),
    )


class Managed(ctypes.Structure):
    _fields_ = (("tensor", Tensor), ("manager", ctypes.c_void_p), ("deleter", DELETER))


class Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", DELETER),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    )


_alive: dict[int, Any] = {}


def _release(address: int) -> None:
    library, *_ = _alive.pop(address)
    library.released += 1


_deleter = DELETER(_release)


@attrs.define(eq=False)
class Library:
    """An array of a library that knows DLPack only.

    Attributes:
        array: The memory.
        place: Where it claims to be.
        versions: Whether it knows versions of DLPack, and so can tell that memory is read-only.
        dense: Whether it leaves out the strides of contiguous arrays, as libraries may.
        offset: Bytes that it says apart from the address.
        code: Another class of dtype than that of the array.
        lanes: Elements in one.
        major: The version that it writes.
        counted: Whether releases are counted.
        released: How often memory was released.
        asked: The options that it was asked with.

    """

    array: np.ndarray[Any, Any]
    place: tuple[int, int] = (1, 0)
    versions: bool = True
    dense: bool = False
    offset: int = 0
    code: int | None = None
    lanes: int = 1
    major: int = 1
    counted: bool = False
    released: int = attrs.field(default=0, init=False)
    asked: list[dict[str, Any]] = attrs.field(factory=list, init=False)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Say where it is."""
        return self.place

    def __dlpack__(self, **options: Any) -> Any:
        """Hand out a capsule."""
        if not self.versions and options.keys() - {"stream"}:
            raise TypeError(f"__dlpack__() got an unexpected keyword argument {min(options)!r}")
        self.asked.append(options)
        array, ndim = self.array, self.array.ndim
        managed: Any = Versioned() if self.versions else Managed()
        tensor = managed.tensor
        tensor.data = array.ctypes.data - self.offset
        tensor.byte_offset = self.offset
        tensor.device_type, tensor.device_id = self.place
        tensor.ndim, tensor.lanes = ndim, self.lanes
        named = CODES.get(array.dtype.name)
        tensor.code = self.code if self.code is not None else CODES[array.dtype.kind] if named is None else named
        tensor.bits = array.itemsize * 8
        shape = (LONG * max(ndim, 1))(*array.shape)
        strides = (LONG * max(ndim, 1))(*(step // array.itemsize for step in array.strides))
        tensor.shape = ctypes.cast(shape, ctypes.POINTER(LONG))
        if not self.dense:
            tensor.strides = ctypes.cast(strides, ctypes.POINTER(LONG))
        if self.versions:
            managed.major, managed.minor, managed.flags = self.major, 0, 0 if array.flags.writeable else 1
        address = ctypes.addressof(managed)
        if self.counted:
            managed.deleter = _deleter
        _alive[address] = (self, managed, shape, strides, array)
        return _new(address, b"dltensor_versioned" if self.versions else b"dltensor", None)
