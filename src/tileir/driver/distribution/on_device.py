"""Collectives in the memory of a device: messages are made, and taken apart, by functions that are compiled for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tileir.core import DType, attrs
from tileir.driver.distribution.collectives import merged_state
from tileir.runtime.devices.array import DeviceArray
from tileir.runtime.interface import PartingExecutor
from tileir.runtime.offers import QueueingExecutor
from tileir.typed.boxes import Box, elements
from tileir.typed.ir import Collective, Function, Value
from tileir.typed.sharding.mesh import Mesh
from tileir.typed.sharding.messages import Exchange, arriving, elements_of, exchange_of, shares_of, window_of

if TYPE_CHECKING:
    from tileir.runtime.devices.home import Home
    from tileir.runtime.transports import Transport
    from tileir.typed.sharding.borders import Bordered

Arrays: TypeAlias = Mapping[str, DeviceArray]
Run: TypeAlias = Callable[[Function, Arrays], Arrays]


def carried_out_there(
    collective: Collective, mesh: Mesh, transport: Transport, home: Home, values: Arrays, run: Run
) -> DeviceArray:
    """Return what a rank has behind a collective.

    Args:
        collective: What it is; all ranks come to it.
        mesh: The ranks.
        transport: Between them.
        home: The device of this rank.
        values: What it has of values, by name.
        run: Computes a function on the device.

    """
    transport.place = f"{collective.kind.value} {collective.name!r}"
    each = exchange_of(collective, mesh, transport.rank)
    if collective.aggregation is not None:
        merged = _merged_by_engine(collective, mesh, transport, home, values, run)
        if merged is not None:
            return merged
    return _unpacked(each, {**values, **_exchanged(each, transport, home, values, run)}, home, run)


def _exchanged(each: Exchange, transport: Transport, home: Home, values: Arrays, run: Run) -> dict[str, DeviceArray]:
    """Make messages, exchange them, and return what has come, by name, in the order of the exchange."""
    made = values if each.packing is None else {**values, **run(each.packing, values)}
    rooms = [(rank, _room(home, value)) for rank, value in each.received]
    transport.exchange([(rank, made[name]) for rank, name in each.sent if made[name].nbytes], rooms)
    return {value.name: room for (_, value), (_, room) in zip(each.received, rooms, strict=True)}


def _merged_by_engine(
    collective: Collective, mesh: Mesh, transport: Transport, home: Home, values: Arrays, run: Run
) -> DeviceArray | None:
    """Return what a rank has behind a merge that the engine has; None where it has none."""
    group = mesh.group(transport.rank, collective.axes)
    can_be_narrow = len(group) == 2 and collective.dtype in {DType.F16, DType.BF16}
    for narrow in (True, False) if can_be_narrow else (False,):
        shares = shares_of(collective, mesh, transport.rank, narrow=narrow)
        made = values if shares.packing is None else {**values, **run(shares.packing, values)}
        ((_, merged),) = shares.received
        into = _room(home, merged)
        parts = [made[name] for name in dict.fromkeys(name for _, name in shares.sent)]
        assert collective.aggregation is not None
        if transport.merged(parts, into, collective.aggregation, group):
            return _unpacked(shares, {merged.name: into}, home, run)
    return None


@attrs.frozen
class Arriving:
    """A halo that nobody puts together.

    Attributes:
        boxes: The elements that messages bring.
        messages: They.

    """

    boxes: tuple[Box, ...]
    messages: tuple[DeviceArray, ...]

    @classmethod
    def begun(
        cls, collective: Collective, mesh: Mesh, transport: Transport, home: Home, values: Arrays, run: Run
    ) -> Arriving:
        """Exchange the messages of a halo."""
        transport.place = f"{collective.kind.value} {collective.name!r}"
        came = _exchanged(exchange_of(collective, mesh, transport.rank), transport, home, values, run)
        return cls(arriving(collective, mesh, transport.rank), tuple(came.values()))


def has_borders(home: Home, step: Bordered, boxes: Mapping[str, Box], widths: Mapping[str, int]) -> bool:
    """Return whether a device can put borders in their places: whole rows of a result, where copies may begin."""
    executor = home.executor
    if not isinstance(executor, QueueingExecutor) or not isinstance(executor, PartingExecutor):
        return False
    for border in step.borders:
        for name, box in border.places:
            start, _ = _extent(box, boxes[name], widths[name])
            if box[1:] != boxes[name][1:] or start % executor.part_alignment:
                return False
    return True


def _extent(box: Box, have: Box, width: int) -> tuple[int, int]:
    """Return where rows of an array begin in its memory, and how many bytes they have."""
    row = elements(have[1:]) * width
    return (box[0][0] - have[0][0]) * row, (box[0][1] - box[0][0]) * row


def bordered_there(
    step: Bordered,
    sources: Mapping[str, str],
    boxes: Mapping[str, Box],
    home: Home,
    values: Mapping[str, Any],
    run: Run,
) -> dict[str, DeviceArray]:
    """Return what a function has for results, of which borders are computed from halos.

    Args:
        step: The function.
        sources: The value that each halo is around.
        boxes: The elements of each value that the rank has.
        home: The device of this rank.
        values: What it has of values, by name; of halos what has come.
        run: Computes a function on the device.

    """
    executor: Any = home.executor
    found = dict(run(step.inner, values))
    for border in step.borders:
        given = {}
        for name, box in border.windows:
            own, halo = sources.get(name, name), values[name] if name in step.halos else None
            array = values[own]
            dtype = DType.of(array.dtype)
            assert dtype is not None
            value, came = Value(own, dtype, array.shape), () if halo is None else halo.boxes
            messages = {} if halo is None else {f"came_{n}": each for n, each in enumerate(halo.messages)}
            window = window_of(value, boxes[own], came, box)
            given[name] = run(window, {own: array, **messages})[window.outputs[0]]
        made = run(border.function, given)
        for name, box in border.places:
            start, nbytes = _extent(box, boxes[name], found[name].dtype.itemsize)
            executor.copy(made[name].memory(), executor.part(found[name].memory(), start, nbytes))
    return found


def merged_state_there(
    collective: Collective, mesh: Mesh, transport: Transport, home: Home, values: Arrays
) -> tuple[DeviceArray, ...]:
    """Return all components of a state, merged on the host."""
    transport.place = f"{collective.kind.value} {collective.name!r}"
    parts = [values[name].numpy() for name in collective.inputs]
    return tuple(resident(part, home) for part in merged_state(collective, mesh, transport, parts))


def resident(array: Any, home: Home) -> DeviceArray:
    """Return an array on a device."""
    if isinstance(array, DeviceArray):
        return array
    dtype = DType.of(array.dtype)
    assert dtype is not None
    return DeviceArray.of(home.sent(np.asarray(array, order="C")), home, dtype, array.shape)


def at_home(array: Any, home: Home) -> Any:
    """Return a result of a call as an array of a home, which checks what the host reads of it."""
    if array.home is home or array.seen() is not None:
        return array
    return DeviceArray.fresh(array.memory(), home, array.dtype, array.shape, array.awaited())


def _unpacked(each: Exchange, values: Arrays, home: Home, run: Run) -> DeviceArray:
    if each.unpacking is not None:
        return run(each.unpacking, values)[each.result.name]
    if each.received and elements_of(each.result):
        ((_, only),) = each.received
        return values[only.name]
    return _room(home, each.result)


def _room(home: Home, value: Value) -> DeviceArray:
    return DeviceArray.of(home.allocated(value.dtype, value.shape), home, value.dtype, value.shape)
