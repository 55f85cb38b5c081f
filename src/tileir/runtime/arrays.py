"""Arrays that callers pass as tensors: NumPy arrays, or objects that share their memory with NumPy."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol, TypeAlias, TypeGuard

import numpy as np

from tileir.core import ArgumentError, Diagnostic, DType, attrs
from tileir.core.numbers.arithmetic import constant, fits
from tileir.runtime.array_files import declared, is_nameless, possible_dtypes
from tileir.runtime.devices.dlpack import HOST_KINDS, imported, place_of
from tileir.runtime.devices.refusals import advice_for, advice_on, missing_elements
from tileir.runtime.devices.torch_tensors import host_array, memory_of, values_of

Array: TypeAlias = np.ndarray[Any, Any]
Format: TypeAlias = tuple[np.dtype[Any], tuple[int, ...]]

_seen_as_bytes: Final[Callable[[Any], Any]] = (ctypes.c_byte * 0).from_buffer
_addressof: Final = ctypes.addressof


class Tensor(Protocol):
    """Requirements on an array, for example a :class:`tileir.semtree.ir.Buffer` or a :class:`TensorSpec`."""

    @property
    def name(self) -> str:
        """Name in the program."""

    @property
    def dtype(self) -> DType:
        """Element type."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""


class Formatted(Protocol):
    """Object with a dtype and a shape, such as an array of NumPy or of a device."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""


@attrs.frozen
class TensorSpec:
    """Name, element type and shape of a tensor."""

    name: str
    dtype: DType
    shape: tuple[int, ...]


def address_of(array: Array) -> int:
    """Return the address of an array's memory.

    The buffer protocol is three times as fast as ``array.ctypes``, but refuses read-only arrays and dtypes that it does
    not know, such as bf16.
    """
    try:
        return _addressof(_seen_as_bytes(array))
    except (TypeError, ValueError):
        return int(array.ctypes.data)


def addresses_of(arrays: Sequence[Array]) -> list[int]:
    """Return the address of each array's memory."""
    try:
        return [_addressof(_seen_as_bytes(array)) for array in arrays]
    except (TypeError, ValueError):
        return [address_of(array) for array in arrays]


def to_array(name: str, value: object, *, writable: bool = False) -> Array:
    """Return ``value`` as a NumPy array of native byte order, without a copy where possible.

    Accepted are NumPy arrays and scalars, Python numbers, and objects with memory that the host can read: with
    ``__array_interface__``, ``__dlpack__``, the buffer protocol or ``__array__``. NumPy makes arrays from unversioned
    DLPack read-only; ``writable`` overrides this if their owner allows it.

    Raises:
        ArgumentError: TIL702, the object is not supported, or its dtype is one that tileir does not have.
    """
    array = _imported(name, value, writable=writable)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if is_nameless(array):
        views = " or ".join(f"view(ml_dtypes.{each.format.numpy})" for each in possible_dtypes(array))
        message = f"{name!r} has elements of {array.dtype.itemsize} bytes and no type, as numpy.load returns them"
        raise ArgumentError.of("TIL702", f"{message}: say what they are, by {views}")
    if array.dtype.names:
        first = array.dtype.names[0]
        message = f"{name!r} has structures of {', '.join(array.dtype.names)} as elements; pass one field of each"
        raise ArgumentError.of("TIL702", f"{message}, such as array[{first!r}]")
    if DType.of(array.dtype) is None:
        names = ", ".join(dtype.value for dtype in DType)
        raise ArgumentError.of("TIL702", f"{name!r} has elements of type {array.dtype}; convert it to one of {names}")
    return array


def _imported(name: str, value: object, *, writable: bool = False, in_place: bool = False) -> Array:
    if type(value) is np.ndarray:
        return value
    if isinstance(value, bool | int | float | np.generic):
        return _scalar(name, value)
    tensor = host_array(value, written=in_place)
    if tensor is not None:
        return tensor
    lacking = missing_elements(value)
    if lacking is not None:
        raise ArgumentError.of("TIL702", f"{name!r} has masked or missing elements; {lacking}")
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "__dlpack__") and not hasattr(value, "__array_interface__"):
        try:
            plain = memory_of(value) if in_place else values_of(value)
        except Exception as error:  # foreign code may raise anything
            raise _unshared(name, value, error) from error
        return _from_dlpack(name, plain, writable=writable, in_place=in_place)
    try:
        if hasattr(value, "__array_interface__"):
            return np.asarray(value)
        if not isinstance(value, str | bytes) and (_is_buffer(value) or hasattr(value, "__array__")):
            return np.asarray(value)
    except Exception as error:  # foreign code may raise anything
        raise _unshared(name, value, error) from error
    raise ArgumentError.of("TIL702", f"{name!r} is {advice_for(value)}")


def _from_dlpack(name: str, value: Any, *, writable: bool, in_place: bool) -> Array:
    try:
        array: Array = np.from_dlpack(value)
        return imported(value) if writable and not array.flags.writeable else array
    except Exception as error:  # foreign code may raise anything
        place = place_of(value)
        if place is not None and place[0] not in HOST_KINDS:
            raise _unshared(name, value, error) from error
    try:  # the host's memory may have dtypes that NumPy does not know, such as bf16
        return imported(value)
    except Exception as error:  # foreign code may raise anything
        if not in_place and (made := converted(value)) is not None:
            return made
        raise _unshared(name, value, error) from error


def converted(value: Any) -> Array | None:
    """Return the array that an object converts itself to, for data that DLPack cannot describe, such as Arrow bits."""
    try:
        return np.asarray(value) if hasattr(value, "__array__") else None
    except Exception:  # foreign code may raise anything
        return None


def _is_buffer(value: Any) -> bool:
    try:
        memoryview(value)
    except (TypeError, ValueError, BufferError):
        return False
    return True


def _unshared(name: str, value: object, error: Exception) -> ArgumentError:
    reason = f"{type(value).__name__} cannot be shared with NumPy ({error})"
    return ArgumentError.of("TIL702", f"{name!r}: {reason}{advice_on(value, error)}")


def _scalar(name: str, value: bool | int | float | np.generic) -> Array:
    """Return a number as an array of rank 0; Python integers are i32 or i64, floats f32."""
    if isinstance(value, float) and not isinstance(value, np.generic):
        return np.asarray(value, np.float32)
    if isinstance(value, bool | np.generic):
        return np.asarray(value)
    for dtype in (np.int32, np.int64):
        if np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
            return np.asarray(value, dtype)
    raise ArgumentError.of("TIL702", f"{name!r} is {value}, which no integer type holds")


def check_inputs(tensors: Sequence[Tensor], values: Sequence[object]) -> list[Array]:
    """Return the arrays of all inputs, contiguous.

    A Python number is converted to the tensor's type, an array is not; arrays with gaps are copied. Untyped elements,
    as ``numpy.load`` returns for ``ml_dtypes``, take the dtype of the tensor.

    Raises:
        ArgumentError: with an entry for each value that does not fit: TIL701, TIL702, TIL705.
    """
    check_count("input", tensors, values)
    arrays: list[Array] = []
    faults: list[Diagnostic] = []
    for tensor, value in zip(tensors, values, strict=True):
        try:
            array = to_array(tensor.name, declared(value, tensor.dtype) if isinstance(value, np.ndarray) else value)
        except ArgumentError as error:
            faults.extend(error.diagnostics)
            continue
        if isinstance(value, bool | int | float) and not isinstance(value, np.generic):
            if not fits(value, tensor.dtype):
                message = f"input {tensor.name!r} is {value}, which {tensor.dtype.value} cannot hold"
                faults.append(Diagnostic("TIL701", message))
                continue
            array = constant(value, tensor.dtype)
        faults.extend(misfits("input", tensor, array))
        arrays.append(array if array.flags.c_contiguous else np.ascontiguousarray(array).reshape(array.shape))
    if faults:
        raise ArgumentError(faults)
    return arrays


def fit_as_they_are(values: Sequence[object], formats: Sequence[Format]) -> TypeGuard[Sequence[Array]]:
    """Return whether inputs can be used without conversion or messages: the fast path of every call."""
    if len(formats) != len(values):
        return False
    for (dtype, shape), value in zip(formats, values, strict=False):
        if (
            type(value) is not np.ndarray
            or value.dtype is not dtype
            or value.shape != shape
            or not value.flags.c_contiguous
        ):
            return False
    return True


def formats_of(tensors: Sequence[Tensor]) -> tuple[Format, ...]:
    """Return the dtype and shape of the array for each tensor."""
    return tuple((tensor.dtype.numpy, tensor.shape) for tensor in tensors)


def check_outputs(tensors: Sequence[Tensor], values: Sequence[object]) -> list[Array]:
    """Return the arrays that outputs are written to; each is used in place.

    Raises:
        ArgumentError: with an entry for each unsuitable array: TIL701, TIL703, TIL704, TIL705.
    """
    check_count("output", tensors, values)
    faults: list[Diagnostic] = []
    arrays: list[Array] = []
    for tensor, value in zip(tensors, values, strict=True):
        array = _destination(tensor, value)
        if not isinstance(array, np.ndarray):
            message = f"output {tensor.name!r} must be an array that shares its memory, of NumPy say, not {array}"
            faults.append(Diagnostic("TIL703", message))
            continue
        faults.extend(misfits("output", tensor, array, _fresh_one(tensor)))
        if type(array) is not np.ndarray or not array.flags.carray:
            faults.extend(_obstacles(tensor, array))
        arrays.append(array)
    faults = faults or list(_overlaps(tensors, arrays))
    if faults:
        raise ArgumentError(faults)
    return arrays


def _destination(tensor: Tensor, value: Any) -> Array | str:
    """Return an output's memory as a NumPy array; if it cannot be shared, its type and the reason."""
    kind = type(value).__name__
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, bool | int | float | np.generic):
        return kind
    if not (hasattr(value, "__array_interface__") or hasattr(value, "__dlpack__") or _is_buffer(value)):
        return kind
    try:
        return _imported(tensor.name, value, writable=True, in_place=True)
    except ArgumentError as error:
        return f"{kind}: {error.diagnostics[0].message}" if hasattr(value, "__dlpack__") else kind


def _fresh_one(tensor: Tensor) -> str:
    return f"pass one that numpy.empty(..., {str(tensor.dtype.numpy)!r}) makes"


def unaliased(inputs: Sequence[Array], outputs: Sequence[Array]) -> list[Array]:
    """Return the inputs, with copies of those that share memory with an output.

    All arrays are contiguous, so comparing the ends of their memory is exact.
    """
    return [
        array.copy() if any(np.may_share_memory(array, output) for output in outputs) else array for array in inputs
    ]


def check_count(kind: str, tensors: Sequence[Tensor], values: Sequence[object]) -> None:
    """Raise TIL705 unless there is a value for each tensor."""
    if len(tensors) != len(values):
        names = ", ".join(tensor.name for tensor in tensors)
        raise ArgumentError.of("TIL705", f"{len(values)} {kind}s were passed; there are {len(tensors)}: {names}")


def misfits(kind: str, tensor: Tensor, array: Formatted, remedy: str | None = None) -> Iterator[Diagnostic]:
    """Yield mismatches of an array's dtype and shape; ``remedy`` says how to change its dtype."""
    if array.dtype != tensor.dtype.numpy:
        found = DType.of(array.dtype)
        spelt = array.dtype.str if found is None else found.value
        change = remedy or f"convert it with astype({str(tensor.dtype.numpy)!r})"
        wanted = f"{tensor.dtype.value} is needed; {change}"
        yield Diagnostic("TIL701", f"{kind} {tensor.name!r} has elements of type {spelt}, where {wanted}")
    if array.shape != tensor.shape:
        if len(array.shape) != len(tensor.shape):
            has = f"has {len(array.shape)} dimensions, shape {array.shape}, where {len(tensor.shape)} are needed"
        else:
            has = f"has shape {array.shape}"
        yield Diagnostic("TIL701", f"{kind} {tensor.name!r} {has}; it must be {tensor.shape}")


def _obstacles(tensor: Tensor, array: Array) -> Iterator[Diagnostic]:
    if np.ma.is_masked(array):
        yield Diagnostic("TIL703", f"output {tensor.name!r} has masked elements; pass a plain array")
    if not array.flags.writeable:
        yield Diagnostic("TIL703", f"output {tensor.name!r} is read-only; pass an array that can be written")
    if not array.flags.c_contiguous:
        yield Diagnostic("TIL703", f"output {tensor.name!r} has gaps; pass a C-contiguous array")
    if not array.flags.aligned:
        yield Diagnostic("TIL703", f"output {tensor.name!r} is not aligned to its elements; pass a fresh array")


def _overlaps(tensors: Sequence[Tensor], arrays: Sequence[Array]) -> Iterator[Diagnostic]:
    for later in range(len(arrays)):
        for earlier in range(later):
            if np.may_share_memory(arrays[later], arrays[earlier]):
                both = f"{tensors[earlier].name!r} and {tensors[later].name!r}"
                yield Diagnostic("TIL704", f"outputs {both} share memory; pass separate arrays")
