"""Operands and results of a call: arrays of the host and of its device; results are where the operands are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np

from tileir.core import ArgumentError, Diagnostic, DType, attrs, nearest
from tileir.runtime import Context, Event
from tileir.runtime.arrays import (
    Array,
    Format,
    Tensor,
    check_count,
    check_inputs,
    check_outputs,
    misfits,
    to_array,
    unaliased,
)
from tileir.runtime.devices.array import DeviceArray
from tileir.runtime.devices.home import DeviceMemory
from tileir.runtime.devices.overlap import Footprint, footprint, overlap
from tileir.runtime.devices.torch_tensors import host_array
from tileir.runtime.devices.transfer import adopted, described, is_foreign, resident
from tileir.runtime.events import ended_in_queue
from tileir.runtime.offers import StreamingExecutor
from tileir.runtime.plans.plan import Plan
from tileir.runtime.results import ROOMS


@attrs.frozen(eq=False)
class Operands:
    """Arrays of one call.

    Attributes:
        inputs: Inputs of the plan: NumPy arrays, or buffers of its device.
        outputs: Outputs of the plan: NumPy arrays, or buffers of its device.
        reads: Memory of the inputs.
        writes: Memory of the outputs.
        results: Results for the caller.
        written: Device arrays among the results.
        after: Submitted calls, maybe of another context, that write device inputs or use outputs.
        copied: Whether an input had to be copied, so that later changes of it have no effect.
    """

    inputs: Sequence[Any]
    outputs: Sequence[Any]
    reads: Sequence[Footprint]
    writes: Sequence[Footprint]
    results: tuple[Any, ...]
    written: tuple[DeviceArray, ...] = ()
    after: tuple[Event, ...] = ()
    copied: bool = False

    def note(self, event: Event | None) -> None:
        """Make readers of the results wait for an event; None if they are written."""
        for array in self.written:
            array.await_call(event)


def destinations(names: Sequence[str], out: Any) -> Sequence[Any] | None:
    """Return the destinations of the results in declared order; None if there are none.

    Raises:
        ArgumentError: TIL705, a mapping has an unknown name, or lacks one.
    """
    if isinstance(out, dict):
        wrong = [f"there is no result {name!r}{nearest(name, names)}" for name in out if name not in names]
        wrong += [f"out has no array for result {name!r}" for name in names if name not in out]
        if wrong:
            raise ArgumentError(Diagnostic("TIL705", fault) for fault in wrong)
        return [out[name] for name in names]
    return out if out is None or isinstance(out, tuple | list) else (out,)


def residents(names: Sequence[str], values: Sequence[Any], context: Context) -> list[Any]:
    """Return values with device or NumPy arrays for those of other libraries, which are imported once.

    Raises:
        ArgumentError: TIL714, no device of the context shares the memory of one; TIL702, one cannot be shared.
    """

    def found(name: str, value: Any) -> Any:
        array = host_array(value)
        array = resident(name, value, context) if array is None else array
        is_known = isinstance(array, np.ndarray | DeviceArray) or not hasattr(array, "__dlpack__")
        return array if is_known else to_array(name, array)

    return [found(name, value) for name, value in zip(names, values, strict=True)]


def home_of_any(values: Sequence[Any]) -> DeviceMemory | None:
    """Return the home of the first device array; None if there is none."""
    return next((value.home for value in values if isinstance(value, DeviceArray)), None)


def seen_by_host(values: Sequence[Any]) -> list[Any]:
    """Return values with copies on the host of arrays in other memory."""
    return [value.numpy() if isinstance(value, DeviceArray) else value for value in values]


def sent(arrays: Sequence[Array], home: DeviceMemory) -> tuple[DeviceArray, ...]:
    """Return host arrays in the memory of a device."""

    def one(array: Array) -> DeviceArray:
        dtype = DType.of(array.dtype)
        assert dtype is not None  # results have dtypes of tileir
        return DeviceArray.of(home.sent(array), home, dtype, array.shape)

    return tuple(map(one, arrays))


def scalar_of(value: Any) -> object:
    """Return a device array of rank 0 as a host array, for computing sizes."""
    return value.numpy() if isinstance(value, DeviceArray) and not value.shape else value


def format_of(name: str, value: Any) -> Format:
    """Return dtype and shape of an array, wherever it is.

    Raises:
        ArgumentError: TIL702, it is not an array.
    """
    if isinstance(value, DeviceArray) or hasattr(value, "resharded"):  # a distributed array, whose class is not loaded
        return value.dtype, value.shape
    array = described(name, value) if is_foreign(value) else to_array(name, value)
    return array.dtype, array.shape


def operands_of(plan: Plan, home: DeviceMemory, given: Sequence[Any], out: Sequence[Any] | None) -> Operands:
    """Return the inputs and outputs of a call.

    Results are where the inputs are: on the device if one of them is, else on the host; or where ``out`` is.

    Args:
        plan: The plan.
        home: Device of the plan.
        given: A value for each input.
        out: Destinations of the results; None for fresh memory.

    Raises:
        ArgumentError: with an entry for each value that does not fit.
    """
    if not any(map(_is_resident, given)) and (out is None or not any(map(_is_resident, out))):
        return _of_host(plan, given, out)
    check_count("input", plan.inputs, given)
    faults: list[Diagnostic] = []
    reads = [
        _entered(tensor, value, home, faults, output=False) for tensor, value in zip(plan.inputs, given, strict=True)
    ]
    if out is None:
        stays = any(isinstance(value, DeviceArray) for value in reads)
        writes: list[Array | DeviceArray | None] = []
        if not faults:
            writes = [_fresh(tensor, home) for tensor in plan.outputs] if stays else [*plan.fresh_outputs()]
    else:
        check_count("output", plan.outputs, out)
        writes = [
            _entered(tensor, value, home, faults, output=True) for tensor, value in zip(plan.outputs, out, strict=True)
        ]
    if faults:
        raise ArgumentError(faults)
    read, written = ([array for array in arrays if array is not None] for arrays in (reads, writes))
    return _joined(plan, home, given, read, written, out)


def call_as_they_are(plan: Plan, home: DeviceMemory, arrays: Sequence[Any], out: Any = None) -> tuple[Any, ...] | None:
    """Run on device arrays that fit and need no waiting; None, with nothing done, for others.

    Args:
        plan: The plan.
        home: Device of the plan.
        arrays: A value for each input.
        out: Destination of the only result; None for fresh memory.
    """
    if not _are_there(arrays, plan.input_formats, home):
        return None
    operands: list[Any] = [array.seen() if home.is_host else array.memory() for array in arrays]
    if out is not None:
        room = _room(out, home)
        if room is None or not _are_there((room,), plan.output_formats, home):
            return None
        place = footprint(room)
        if any(overlap(place, footprint(array)) for array in arrays):
            return None
        plan.run(operands, [room.memory()])
        return (out,)
    if home.is_host:
        made = plan.fresh_outputs()
        results = tuple([DeviceArray.over(array, home) for array in made])
        plan.run(operands, made)
        return results
    results = tuple([_fresh(tensor, home) for tensor in plan.outputs])
    plan.run(operands, [result.memory() for result in results])
    return results


def _room(out: Any, home: DeviceMemory) -> DeviceArray | None:
    """Return the destination of a result if it is writable memory of the device; None for anything else."""
    if home.is_host:
        return None
    if type(out) is not DeviceArray:
        try:
            out = adopted("out", out, home, written=True) if is_foreign(out) else None
        except ArgumentError:  # reported when all operands are checked
            return None
    return None if out is None or out.read_only else out


def _are_there(arrays: Sequence[Any], formats: Sequence[Format], home: DeviceMemory) -> bool:
    """Return whether these are written arrays of a device with these dtypes and shapes."""
    if len(formats) != len(arrays):
        return False
    for (dtype, shape), array in zip(formats, arrays, strict=True):
        if (
            type(array) is not DeviceArray
            or array.dtype is not dtype
            or array.shape != shape
            or array.device is not home.device
            or array.awaited() is not None
            or (home.streams and array.home.executor is not home.executor)
        ):
            return False
    return True


def run_on_device(
    plan: Plan,
    home: DeviceMemory,
    given: Sequence[Any],
    into: Sequence[tuple[Array | DeviceArray | None, Tensor]],
    *,
    stays: bool,
) -> list[Any]:
    """Run, and return the results without destinations: fresh arrays, of the device if they stay there.

    Raises:
        ArgumentError: with an entry for each value that does not fit.
    """

    def fresh(tensor: Tensor) -> Array | DeviceArray:
        return _fresh(tensor, home) if stays else ROOMS.empty(tensor.shape, tensor.dtype.numpy)

    results = [fresh(tensor) if array is None else array for array, tensor in into]
    call = operands_of(plan, home, given, results)
    for event in call.after:
        event.wait()
    plan.run(call.inputs, call.outputs)
    return [result for result, (array, _) in zip(results, into, strict=True) if array is None]


def _of_host(plan: Plan, given: Sequence[Any], out: Sequence[Any] | None) -> Operands:
    values = given if plan.accepts(given) else check_inputs(plan.inputs, given)
    copied = any(value is not one for value, one in zip(values, given, strict=True))
    if out is None:
        results = plan.fresh_outputs()
        return Operands(values, results, values, results, tuple(results), copied=copied)
    results = check_outputs(plan.outputs, out)
    apart = unaliased(values, results)
    copied = copied or any(value is not one for value, one in zip(apart, values, strict=True))
    return Operands(apart, results, apart, results, tuple(out), copied=copied)


def _joined(
    plan: Plan,
    home: DeviceMemory,
    given: Sequence[Any],
    reads: list[Array | DeviceArray],
    writes: list[Array | DeviceArray],
    out: Sequence[Any] | None,
) -> Operands:
    written = [footprint(array) for array in writes]
    overlapping = list(_overlaps(plan.outputs, written)) if out is not None else []
    if overlapping:
        raise ArgumentError(overlapping)
    ended = (end for event in _awaited(writes) for end in ended_in_queue(event))  # overwritten data may be wrong
    after: list[Event] = [*_awaited(reads), *ended, *_behind_others([*reads, *writes], home)]
    copied = any(isinstance(value, np.ndarray) and value is not one for value, one in zip(reads, given, strict=True))
    inputs: list[Any] = []
    places: list[Footprint] = []
    for array in reads:
        place = footprint(array)
        operand = _operand(array, home)
        if out is not None and any(overlap(place, other) for other in written):
            for event in after:
                event.wait()
            operand, copied = _copy(operand, home), True
            place = operand if isinstance(operand, np.ndarray) else place
        inputs.append(operand)
        places.append(place)
    devices = tuple(array for array in writes if isinstance(array, DeviceArray))
    outputs = [_operand(array, home) for array in writes]
    results = tuple(writes) if out is None else tuple(out)
    return Operands(inputs, outputs, places, written, results, devices, tuple(after), copied)


def _is_resident(value: Any) -> bool:
    return type(value) is not np.ndarray and (isinstance(value, DeviceArray) or is_foreign(value))


def _entered(
    tensor: Tensor, value: Any, home: DeviceMemory, faults: list[Diagnostic], *, output: bool
) -> Array | DeviceArray | None:
    """Return a value as a host or device array; None if it does not fit, which is added to ``faults``."""
    try:
        if not _is_resident(value):
            return check_outputs([tensor], [value])[0] if output else check_inputs([tensor], [value])[0]
        array = value if isinstance(value, DeviceArray) else adopted(tensor.name, value, home, written=output)
        array.memory()
    except ArgumentError as error:
        faults.extend(error.diagnostics)
        return None
    kind = "output" if output else "input"
    found = [*misfits(kind, tensor, array, "convert it before it is sent, or by a program")]
    if output and array.read_only:
        found.append(Diagnostic("TIL703", f"output {tensor.name!r} is read-only; pass an array that can be written"))
    if not _is_there(array, home):
        move = f"tileir.to_device({tensor.name}, {home.device.id!r})"
        where = f"{kind} {tensor.name!r} is on {array.device.id}, and this runs on {home.device.id}"
        found.append(Diagnostic("TIL714", f"{where}: move it, by {move}"))
    faults.extend(found)
    return None if found else array


def _is_there(array: DeviceArray, home: DeviceMemory) -> bool:
    """Return whether a device can use an array in place."""
    if array.device.id == home.device.id:
        return True
    seen = array.seen()
    return seen is not None and (home.is_host or not seen.size or home.wrapped(seen) is not None)


def _operand(array: Array | DeviceArray, home: DeviceMemory) -> Any:
    """Return an array in the form that a plan takes: a buffer of its device, or a host array."""
    if isinstance(array, np.ndarray):
        return array
    if array.device.id == home.device.id and not home.is_host:
        return array.memory()
    return array.seen()


def _awaited(arrays: Sequence[Array | DeviceArray]) -> Iterator[Event]:
    """Yield the submitted calls that write device arrays."""
    for array in arrays:
        event = None if isinstance(array, np.ndarray) else array.awaited()
        if event is not None:
            yield event


def _behind_others(arrays: Sequence[Array | DeviceArray], home: DeviceMemory) -> Iterator[Event]:
    """Make the stream of a device follow those of our other executors that use arrays; yield events to wait for.

    Synchronous calls are in the queue of the executor whose arrays they use, and have no other trace.
    """
    others = {id(a.home.executor): a.home for a in arrays if isinstance(a, DeviceArray)}
    for other in others.values():
        if other.executor is not home.executor and other.streams and home.streams:
            executor, theirs = cast("StreamingExecutor", home.executor), cast("StreamingExecutor", other.executor)
            yield from executor.follow(theirs.dlpack_stream)


def _copy(operand: Any, home: DeviceMemory) -> Any:
    if isinstance(operand, np.ndarray):
        return operand.copy()
    fresh = home.executor.allocate(operand.nbytes)
    home.executor.copy(operand, fresh).wait()
    return fresh


def _fresh(tensor: Tensor, home: DeviceMemory) -> DeviceArray:
    return DeviceArray.of(home.allocated(tensor.dtype, tensor.shape), home, tensor.dtype, tensor.shape)


def _overlaps(tensors: Sequence[Tensor], places: Sequence[Footprint]) -> Iterator[Diagnostic]:
    for later, place in enumerate(places):
        for earlier in range(later):
            if overlap(places[earlier], place):
                both = f"{tensors[earlier].name!r} and {tensors[later].name!r}"
                yield Diagnostic("TIL704", f"outputs {both} share memory; pass separate arrays")
