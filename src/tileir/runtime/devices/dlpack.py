"""Memory sharing by DLPack for any device and any dtype of tileir.

NumPy reads and writes capsules of the host's memory, and manages their release. Other capsules are disguised for it:
bf16 elements as integers of their size, and device memory as host memory that nobody reads. Capsules have their true
content again before other code sees them.
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
"""DLPack device: its kind, and its number among devices of that kind."""

HOST: Final = (1, 0)
HOST_KINDS: Final = (1, 3, 11)
"""Kinds of devices whose memory the host reads: the host itself, and memory pinned by CUDA or ROCm."""

EXTENSION: Final = 12
"""Kind of devices unknown to DLPack."""

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
"""DLPack type code of each dtype."""

_DTYPES: Final = MappingProxyType({(code, dtype.itemsize * 8): dtype for dtype, code in _CODES.items()})
_CLASSES: Final = MappingProxyType(
    {0: "int", 1: "uint", 2: "float", 3: "handles", 4: "bfloat", 5: "complex", 6: "bool"}
)


class _Device(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_int32), ("number", ctypes.c_int32))


class _Type(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class Tensor(ctypes.Structure):
    """DLPack's ``DLTensor``: the memory of an array."""

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
class _ReceivedCapsule:
    """Capsule that was already requested, as an object that NumPy accepts."""

    capsule: Any

    def __dlpack__(self, **_: object) -> Any:
        """Return the capsule."""
        return self.capsule

    def __dlpack_device__(self) -> Place:
        """Return the device of the capsule."""
        return HOST


@cache
def knows_versions() -> bool:
    """Return whether NumPy supports versioned capsules, which tell whether memory may be written."""
    try:
        np.empty(0).__dlpack__(max_version=VERSION)
    except TypeError:
        return False
    return True


def place_of(value: Any) -> Place | None:
    """Return the device of an object's memory; None if unknown, mostly because it is not an array."""
    try:
        kind, number = value.__dlpack_device__()
        return int(kind), int(number)
    except Exception:  # foreign code may raise anything
        return None


def kind_of(dtype: DType, rank: int, place: Place) -> bytes:
    """Return device, rank and dtype of an array, as :class:`Tensor` has them after the data pointer."""
    tensor = Tensor(None, _Device(*place), rank, _Type(_CODES[dtype], dtype.itemsize * 8, 1))
    return bytes(tensor)[Tensor.device.offset : Tensor.shape.offset]


def spelt(place: Place) -> str:
    """Return the description of a device."""
    kind, number = place
    return f"{_KINDS.get(kind, f'device type {kind}')} (number {number})" if kind not in HOST_KINDS else _KINDS[kind]


def imported(value: Any, **options: object) -> Array:
    """Return the memory of an object with ``__dlpack__``, which it keeps alive; not readable if on a device.

    Args:
        value: The object.
        options: Arguments of ``__dlpack__`` beside the version, such as a stream.

    Raises:
        Exception: Errors of ``__dlpack__``; BufferError, the capsule has an unsupported dtype or version.
    """
    return taken(_asked(value, options))


def taken(capsule: object) -> Array:
    """Return the memory in a capsule, whose content the array owns from now on.

    Raises:
        BufferError: The capsule has an unsupported dtype or version.
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
        array: Array = np.from_dlpack(_ReceivedCapsule(capsule))
    finally:
        kind.code = code
        tensor.device.kind, tensor.device.number = place
    if isinstance(managed, _Managed) and not array.flags.writeable:  # NumPy does not know nor write these
        address, strides = array.__array_interface__["data"][0], array.strides
        return at(address, dtype, array.shape, array, strides=strides)
    return array.view(dtype.numpy)


def is_writable(capsule: object) -> bool:
    """Return whether a capsule declares its memory writable; unversioned capsules do not."""
    managed = _content(capsule)
    return isinstance(managed, _Versioned) and not managed.flags & _READ_ONLY


def release(capsule: object) -> None:
    """Release the content of a capsule unless it was consumed."""
    is_valid, _ = _capsule_functions()
    if is_valid(capsule, b"dltensor_versioned"):
        managed = _content(capsule)
        if managed.deleter:
            _DELETER(managed.deleter)(ctypes.addressof(managed))


def exported(array: Array, place: Place, *, version: object = None, copied: bool = False) -> object:
    """Return a capsule with the memory of an array.

    Args:
        array: Result of :func:`at`, or a NumPy array.
        place: Device of the memory.
        version: Latest version of DLPack that the consumer knows; None for unversioned capsules.
        copied: Whether the memory is a copy for the consumer alone.

    Raises:
        BufferError: The memory is read-only, which unversioned capsules cannot express.
    """
    dtype = DType.of(array.dtype)
    assert dtype is not None  # arrays of others are not ours
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
class _ArrayInterface:
    """Memory at an address, as an object that NumPy accepts; keeps ``owner`` alive."""

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
    """Return the array at an address; if it is one of a device, elements must not be read."""
    described = {
        "version": 3,
        "shape": shape,
        "typestr": f"|u{dtype.itemsize}" if dtype.itemsize == 1 else f"{np.dtype('u2').str[0]}u{dtype.itemsize}",
        "strides": strides,
        "data": (address, read_only),
    }
    return np.asarray(_ArrayInterface(described, owner)).view(dtype.numpy)


def _asked(value: Any, options: Mapping[str, object]) -> object:
    """Return the capsule of an object, versioned if supported."""
    if knows_versions():
        try:
            return value.__dlpack__(max_version=VERSION, **options)
        except TypeError:
            pass
    return value.__dlpack__(**options)


def _content(capsule: object) -> _Managed | _Versioned:
    """Return the content of a capsule that was not consumed.

    Raises:
        BufferError: It has another version, or is not a DLPack capsule.
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
