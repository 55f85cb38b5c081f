"""Transfer of arrays to devices; memory of other libraries is shared without a copy where possible."""

from __future__ import annotations

import copyreg
from collections.abc import Mapping
from typing import Any

import numpy as np

from tileir.core import ArgumentError, DType, with_short_traceback
from tileir.runtime.arrays import Array, converted, to_array
from tileir.runtime.context import Context, owner_of
from tileir.runtime.devices.array import DeviceArray
from tileir.runtime.devices.dlpack import CUDA_KINDS, HOST_KINDS, STREAM_KINDS, Place, at, imported, place_of, spelt
from tileir.runtime.devices.exchange import Exchange
from tileir.runtime.devices.home import DeviceMemory
from tileir.runtime.devices.refusals import way_to_host
from tileir.runtime.devices.torch_tensors import memory_of, values_of
from tileir.runtime.events import all_ended
from tileir.runtime.interface import Buffer, DeviceInfo


@with_short_traceback
def to_device(
    array: Any,
    device: str | DeviceInfo | None = None,
    *,
    context: Context | None = None,
    copy: bool | None = None,
) -> DeviceArray:
    """Return an array in the memory of a device.

    Args:
        array: NumPy array, or any argument that a call accepts: objects with ``__dlpack__``, ``__array_interface__`` or
            ``__cuda_array_interface__``, buffers, numbers.
        device: Device or its id; by default the device whose memory it is in, and for host memory the context's device.
        context: Owner of devices; by default the process-wide context.
        copy: Whether to copy the memory; None to copy only if it cannot be shared, False to never copy.

    Raises:
        ArgumentError: TIL702, it is not an array; TIL707, ``copy`` is invalid; TIL714, it would have to be copied, or
            is on another device that shares no memory; TIL708, there is not enough memory.
        BackendError: TIL801, there is no such device.
    """
    if not isinstance(copy, bool | np.bool_ | None):
        raise ArgumentError.of("TIL707", f"copy is True, False or None, not {copy!r:.80}")
    owner = owner_of(context)
    if isinstance(array, DeviceArray):
        found = array
    elif is_foreign(array):
        found = adopted("array", array, owner.home(device_of("array", array, owner, device)))
    else:
        home = owner.home(owner.device(device))
        made = to_array("array", array, writable=True)
        if copy is False and _is_converted(array, made):
            message = f"{type(array).__name__} has to be converted first, which takes a copy; allow that"
            raise ArgumentError.of("TIL714", message)
        return _placed(made, home, copy)
    if device is None or owner.device(device).id == found.device.id:
        return found if not copy else copy_of(found, owner.home(owner.device(found.device.id)))
    return _moved(found, owner.home(owner.device(device)), copy)


def is_foreign(value: object) -> bool:
    """Return whether a value is an array of another library in device memory."""
    if isinstance(value, np.ndarray | np.generic | bool | int | float | DeviceArray):
        return False
    place = _place(value)
    if place is not None:
        return place[0] not in HOST_KINDS
    return hasattr(value, "__cuda_array_interface__") and not hasattr(value, "__array_interface__")


def adopted(name: str, value: Any, home: DeviceMemory, *, written: bool = False) -> DeviceArray:
    """Return an array over device memory of another library, which stays shared.

    Args:
        name: Name in messages.
        value: Array for which :func:`is_foreign` is true.
        home: Its required device.
        written: Whether it will be written to, which is refused for tensors that require a gradient.

    Raises:
        ArgumentError: TIL714, it is elsewhere, or its layout is not supported.
    """
    place = _place(value)
    if home.place[0] not in CUDA_KINDS if place is None else place != home.place:
        raise _elsewhere(name, value, place, f"{home.device.id} does not share")
    try:
        plain = memory_of(value) if written else values_of(value)
        array, ends = _read(plain, home, by_dlpack=place is not None)
    except Exception as error:  # foreign code may raise anything
        message = f"{name!r}: {type(value).__name__} cannot be shared with {home.device.id} ({error})"
        raise ArgumentError.of("TIL714", message) from error
    if not array.flags.c_contiguous:
        message = f"{name!r} has gaps, or another order than row-major; make it contiguous where it is"
        raise ArgumentError.of("TIL714", message)
    buffer = home.adopted(array)
    dtype = DType.of(array.dtype)
    if buffer is None or dtype is None:
        message = (
            f"{name!r} is on {home.device.id}, but in memory that it cannot use here; copy it, or move it to the host"
        )
        raise ArgumentError.of("TIL714", message)
    found = DeviceArray.of(buffer, home, dtype, array.shape, read_only=not array.flags.writeable)
    if ends:
        found.await_call(all_ended(ends))
    return found


def resident(name: str, value: Any, context: Context) -> Any:
    """Return a value, as a device array if it is another library's array on a device.

    Raises:
        ArgumentError: TIL714, no device of the context shares its memory.
    """
    if not is_foreign(value):
        return value
    place = _place(value)
    home = None if place is None else context.home_at(place)
    return adopted(name, value, context.home(device_of(name, value, context)) if home is None else home)


def device_of(name: str, value: Any, context: Context, device: str | DeviceInfo | None = None) -> DeviceInfo:
    """Return the device whose memory an array of another library is in.

    Raises:
        ArgumentError: TIL714, no device of the context shares its memory.
    """
    place = _place(value)
    info = _device_at(context, place, device)
    if info is None:
        raise _elsewhere(name, value, place, "no device here shares")
    return info


def described(name: str, value: Any) -> Array:
    """Return an array with dtype and shape of a device array; its elements must not be read.

    Raises:
        ArgumentError: TIL714, its owner does not tell.
    """
    place = place_of(value)
    streams = place is not None and place[0] in STREAM_KINDS
    try:
        if place is not None:
            return imported(values_of(value), **({"stream": -1} if streams else {}))
        return _interfaced(value)
    except Exception as error:  # foreign code may raise anything
        message = f"{name!r}: {type(value).__name__} does not tell what it is ({error})"
        raise ArgumentError.of("TIL714", message) from error


def _place(value: object) -> Place | None:
    """Return the device of an array, by C functions if its library has them."""
    exchange = Exchange.of(value)
    place = None if exchange is None else exchange.place(value)
    return place_of(value) if place is None else place


def _elsewhere(name: str, value: object, place: Place | None, who: str) -> ArgumentError:
    where = "a device of CUDA" if place is None else spelt(place)
    message = f"{name!r} is in memory of {where}, which {who}; move it to the host's memory first"
    return ArgumentError.of("TIL714", message + way_to_host(value))


def _device_at(context: Context, place: Place | None, device: str | DeviceInfo | None) -> DeviceInfo | None:
    """Return the device of a context for a DLPack device."""

    def is_there(info: DeviceInfo) -> bool:
        if info.dlpack is None:
            return False
        return info.dlpack[0] in CUDA_KINDS if place is None else info.dlpack == place

    if device is not None and is_there(context.device(device)):
        return context.device(device)
    return next((info for info in context.devices() if is_there(info)), None)


def _read(value: Any, home: DeviceMemory, *, by_dlpack: bool) -> tuple[Array, tuple[Any, ...]]:
    """Return an array that must not be read, and the events after which its elements are complete."""
    executor: Any = home.executor
    exchange = Exchange.of(value) if home.streams else None
    if exchange is not None and (shared := exchange.array(value)) is not None:
        return shared, tuple(executor.follow(exchange.stream(home.place)))
    if by_dlpack:
        options = {"stream": executor.dlpack_stream} if home.streams else {}
        return imported(value, **options), ()
    array, stream = _interfaced(value), value.__cuda_array_interface__.get("stream")
    if stream is None or not home.streams:
        return array, ()
    return array, tuple(executor.follow(stream))


def _interfaced(value: Any) -> Array:
    """Return the memory described by CUDA's array interface."""
    interface: Mapping[str, Any] = value.__cuda_array_interface__
    if interface.get("mask") is not None:
        raise BufferError("it has masked elements; fill them first")
    named = np.dtype(interface["typestr"])
    dtype = DType.of(named)
    if dtype is None:
        raise BufferError(f"elements of type {named} have no equal here")
    address, read_only = interface["data"]
    strides = interface.get("strides")
    return at(address or 0, dtype, tuple(interface["shape"]), value, strides=strides, read_only=read_only)


def _is_converted(value: Any, array: Array) -> bool:
    """Return whether an array has other memory than the object that it was made from."""
    if isinstance(value, np.ndarray):
        return bool(array.size) and not np.may_share_memory(array, value)
    if isinstance(value, bool | int | float | np.generic):
        return True
    again = converted(value)  # an object that makes an array for each request has made another one now
    return bool(array.size) and (array.flags.owndata or not (again is None or np.may_share_memory(array, again)))


def _placed(array: Array, home: DeviceMemory, copy: bool | None) -> DeviceArray:
    buffer = home.wrapped(array) if not copy else None
    read_only = buffer is not None and not array.flags.writeable
    if buffer is None:
        if copy is False and array.size:
            raise ArgumentError.of("TIL714", f"this array cannot be used on {home.device.id} where it is; allow a copy")
        buffer = home.sent(array)
    dtype = DType.of(array.dtype)
    assert dtype is not None  # to_array refuses the others
    return DeviceArray.of(buffer, home, dtype, array.shape, read_only=read_only)


def copy_of(array: DeviceArray, owner: DeviceMemory | None = None) -> DeviceArray:
    """Return a copy on the same device; ``owner`` is the device of its context, if that is another context."""
    buffer, home, dtype = array.ready(), owner or array.home, DType.of(array.dtype)
    assert dtype is not None  # allocated as one
    seen = array.seen()
    if seen is not None:
        return DeviceArray.of(home.sent(seen), home, dtype, array.shape)
    fresh: Buffer = home.allocated(dtype, array.shape)
    home.executor.copy(buffer, fresh).wait()
    return DeviceArray.of(fresh, home, dtype, array.shape)


def _moved(array: DeviceArray, home: DeviceMemory, copy: bool | None) -> DeviceArray:
    array.ready()
    seen = array.seen()
    if seen is None and copy is False:
        raise ArgumentError.of("TIL714", f"{array} has to be copied to get to {home.device.id}; allow that")
    return _placed(array.numpy() if seen is None else seen, home, copy)


def _pickled(array: DeviceArray) -> tuple[Any, ...]:
    return to_device, (array.numpy(), array.device.id)


copyreg.pickle(DeviceArray, _pickled)  # its content, which goes to the device with that name in the default context
