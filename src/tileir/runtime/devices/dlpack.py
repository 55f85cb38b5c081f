"""Memory that libraries share by DLPack, of any device and of any dtype that tileir has.

NumPy reads and writes capsules of the host's memory, and looks after who releases them. What it does not know is told
to it in other words: elements of bf16 as integers of the same size, and memory of devices as memory of the host, of
which nobody reads an element. What stands in a capsule is right again before somebody else sees it.
"""

from __future__ import annotations

import ctypes
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from tileir.core import FORMATS, DType, attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tileir.runtime.arrays import Array

Place: TypeAlias = tuple[int, int]
"""A device as DLPack knows it: its kind, and its number among those of this kind."""

HOST: Final = (1, 0)
HOST_KINDS: Final = (1, 3, 11)
"""Kinds of devices whose memory the host reads: itself, and what CUDA or ROCm pinned."""

EXTENSION: Final = 12
"""The kind of devices that DLPack does not know."""

CUDA_KINDS: Final = (2, 13)
STREAM_KINDS: Final = (*CUDA_KINDS, 10)
"""Kinds of devices with streams: CUDA and ROCm."""

_KINDS: Final = MappingProxyType(
    {
        1: "the host",
        2: "CUDA",
        3: "pinned by CUDA",
        4: "OpenCL",
        7: "Vulkan",
        8: "Metal",
        10: "ROCm",
        11: "pinned by ROCm",
        13: "managed by CUDA",
        14: "oneAPI",
        15: "WebGPU",
    }
)

VERSION: Final = (1, 1)
_READ_ONLY: Final = 1
_COPIED: Final = 2
_INTEGER: Final = 0
_UNSIGNED: Final = 1
_FLOAT: Final = 2
_BOOL: Final = 6

_CODES: Final = MappingProxyType(
    {
        DType.BF16: 4,
        DType.F8E4M3FN: 10,
        DType.F8E5M2: 12,
        DType.BOOL: _BOOL,
        **{dtype: _INTEGER if dtype.is_signed else _UNSIGNED for dtype in DType if dtype.is_integer},
        **{dtype: _FLOAT for dtype, form in FORMATS.items() if not form.registered},
    }
)
"""The class of each dtype in DLPack."""

_DTYPES: Final = MappingProxyType({(code, dtype.itemsize * 8): dtype for dtype, code in _CODES.items()})
_CLASSES: Final = MappingProxyType(
    {0: "int", 1: "uint", 2: "float", 3: "handles", 4: "bfloat", 5: "complex", 6: "bool"}
)


class _Device(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_int32), ("number", ctypes.c_int32))


class _Type(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class Tensor(ctypes.Structure):
    """The memory of an array, as DLPack has it."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _Type),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    )


_DELETER: Final = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)


@attrs.frozen(repr=False)
class _Given:
    """A capsule that was asked for already, as NumPy takes it."""

    capsule: Any

    def __dlpack__(self, **_: object) -> Any:
        """Return it."""
        return self.capsule

    def __dlpack_device__(self) -> Place:
        """Say what the capsule says."""
        return HOST


@cache
def knows_versions() -> bool:
    """Return whether NumPy reads and writes capsules with a version, which tell whether memory may be written."""
    try:
        np.empty(0).__dlpack__(max_version=VERSION)
    except TypeError:
        return False
    return True


def place_of(value: Any) -> Place | None:
    """Return where the memory of an object is; None where that cannot be told, mostly because it is no array."""
    try:
        kind, number = value.__dlpack_device__()
        return int(kind), int(number)
    except Exception:  # code of others may fail in any way
        return None


def kind_of(dtype: DType, rank: int, place: Place) -> bytes:
    """Return device, rank and dtype of an array, as :class:`Tensor` has them behind the address of the data."""
    tensor = Tensor(None, _Device(*place), rank, _Type(_CODES[dtype], dtype.itemsize * 8, 1))
    return bytes(tensor)[Tensor.device.offset : Tensor.shape.offset]


def spelt(place: Place) -> str:
    """Return the words for a device."""
    kind, number = place
    return f"{_KINDS.get(kind, f'device type {kind}')} (number {number})" if kind not in HOST_KINDS else _KINDS[kind]


def imported(value: Any, **options: object) -> Array:
    """Return the memory of an object with ``__dlpack__``, which it keeps alive; on devices nobody may read an element.

    Args:
        value: The object.
        options: What its ``__dlpack__`` is asked beside the version: for a stream that will use the memory, say.

    Raises:
        Exception: what ``__dlpack__`` raises; BufferError, the capsule is of a dtype or version without an equal here.

    """
    return taken(_asked(value, options))


def taken(capsule: object) -> Array:
    """Return the memory in a capsule, whose content the array owns from now on.

    Raises:
        BufferError: The capsule is of a dtype or version without an equal here.

    """
    managed = _content(capsule)
    tensor: Tensor = managed.tensor
    kind = tensor.dtype
    dtype = _DTYPES.get((kind.code, kind.bits)) if kind.lanes == 1 else None
    if dtype is None:
        lanes = f" in groups of {kind.lanes}" if kind.lanes != 1 else ""
        raise BufferError(
            f"Unsupported dtype: {_CLASSES.get(kind.code, f'type {kind.code}')} of {kind.bits} bits{lanes}"
        )
    code, place = kind.code, (tensor.device.kind, tensor.device.number)
    kind.code = _UNSIGNED
    tensor.device.kind, tensor.device.number = HOST
    try:
        array: Array = np.from_dlpack(_Given(capsule))
    finally:
        kind.code = code
        tensor.device.kind, tensor.device.number = place
    if isinstance(managed, _Managed) and not array.flags.writeable:  # NumPy does not know, and so writes none of these
        address, strides = array.__array_interface__["data"][0], array.strides
        return at(address, dtype, array.shape, array, strides=strides)
    return array.view(dtype.numpy)


def is_writable(capsule: object) -> bool:
    """Return whether a capsule says that its memory may be written; those without a version do not say it."""
    managed = _content(capsule)
    return isinstance(managed, _Versioned) and not managed.flags & _READ_ONLY


def release(capsule: object) -> None:
    """Give the content of a capsule back, unless somebody has taken it."""
    is_valid, _ = _capsule_functions()
    if is_valid(capsule, b"dltensor_versioned"):
        managed = _content(capsule)
        if managed.deleter:
            _DELETER(managed.deleter)(ctypes.addressof(managed))


def exported(array: Array, place: Place, *, version: object = None, copied: bool = False) -> object:
    """Return a capsule with the memory of an array.

    Args:
        array: What :func:`at` or NumPy made.
        place: Where the memory is.
        version: The latest version of DLPack that the consumer knows; None for none.
        copied: Whether the memory is nobody else's.

    Raises:
        BufferError: Consumers that know no versions cannot be told that the memory is read-only.

    """
    dtype = DType.of(array.dtype)
    assert dtype is not None  # arrays of others are none of ours
    versioned = isinstance(version, tuple) and version >= (1, 0) and knows_versions()
    if not versioned and not array.flags.writeable:
        raise BufferError(
            "this array is read-only, which capsules without a version cannot say: ask with max_version=(1, 0), or copy"
        )
    integers = array.view(f"u{dtype.itemsize}")
    capsule = integers.__dlpack__(max_version=VERSION) if versioned else integers.__dlpack__()
    managed = _content(capsule)
    managed.tensor.dtype.code = _CODES[dtype]
    managed.tensor.device.kind, managed.tensor.device.number = place
    if copied and isinstance(managed, _Versioned):
        managed.flags |= _COPIED
    return capsule


@attrs.frozen(eq=False, slots=False, repr=False)
class _Addressed:
    """Memory at an address, as NumPy takes it; ``owner`` is kept alive."""

    __array_interface__: Mapping[str, object]
    owner: object


def at(
    address: int,
    dtype: DType,
    shape: tuple[int, ...],
    owner: object,
    *,
    strides: tuple[int, ...] | None = None,
    read_only: bool = False,
) -> Array:
    """Return the array at an address, which may be one of a device: then nobody may read an element."""
    described = {
        "version": 3,
        "shape": shape,
        "typestr": f"|u{dtype.itemsize}" if dtype.itemsize == 1 else f"{np.dtype('u2').str[0]}u{dtype.itemsize}",
        "strides": strides,
        "data": (address, read_only),
    }
    return np.asarray(_Addressed(described, owner)).view(dtype.numpy)


def _asked(value: Any, options: Mapping[str, object]) -> object:
    """Return the capsule of an object, with a version if it knows them."""
    if knows_versions():
        try:
            return value.__dlpack__(max_version=VERSION, **options)
        except TypeError:
            pass
    return value.__dlpack__(**options)


def _content(capsule: object) -> _Managed | _Versioned:
    """Return what is in a capsule that nobody has taken.

    Raises:
        BufferError: It is of another version, or none of DLPack.

    """
    is_valid, pointer = _capsule_functions()
    if is_valid(capsule, b"dltensor"):
        return _Managed.from_address(pointer(capsule, b"dltensor"))
    if not is_valid(capsule, b"dltensor_versioned"):
        raise BufferError("this is no capsule of DLPack, or somebody took its content already")
    managed = _Versioned.from_address(pointer(capsule, b"dltensor_versioned"))
    if managed.major != VERSION[0]:
        raise BufferError(
            f"the capsule is of version {managed.major}.{managed.minor} of DLPack, which is not known here"
        )
    return managed


@cache
def _capsule_functions() -> tuple[Callable[[object, bytes], int], Callable[[object, bytes], int]]:
    arguments = (ctypes.py_object, ctypes.c_char_p)
    is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, *arguments)(("PyCapsule_IsValid", ctypes.pythonapi))
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, *arguments)(("PyCapsule_GetPointer", ctypes.pythonapi))
    return is_valid, pointer
