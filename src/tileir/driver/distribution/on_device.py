"""Collectives in the memory of a device: messages are made, and taken apart, by functions that are compiled for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tileir.core import DType, attrs
from tileir.driver.distribution.collectives import merged_state
from tileir.runtime.devices.array import DeviceArray
from tileir.runtime.interface import PartingExecutor
from tileir.runtime.offers import QueueingExecutor
from tileir.runtime.transports import Merge
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
    collectives: Sequence[Collective],
    mesh: Mesh,
    transport: Transport,
    home: Home,
    values: Arrays,
    run: Run,
    spent: Collection[str] = (),
) -> dict[str, DeviceArray]:
    """Return what a rank has behind a collective, or behind several merges in one group, by name.

    Args:
        collectives: What they are; all ranks come to them.
        mesh: The ranks.
        transport: Between them.
        home: The device of this rank.
        values: What it has of values, by name.
        run: Computes a function on the device.
        spent: Values in whose memory a merge may have its result.

    """
    first, *_ = collectives
    transport.place = f"{first.kind.value} {first.name!r}"
    if first.aggregation is not None:
        merged = _merged_by_engine(collectives, mesh, transport, home, values, run, spent)
        if merged is not None:
            return merged
    found = {}
    for collective in collectives:
        each = exchange_of(collective, mesh, transport.rank)
        came = _exchanged(each, transport, home, values, run)
        found[collective.name] = _unpacked(each, {**values, **came}, home, run)
    return found


def merged_together(steps: Sequence[object], link_us: float, link_gbps: float) -> dict[str, tuple[Collective, ...]]:
    """Return the merges that are made at once, by the name of the first: those alike that follow each other.

    No more are waited for once they take longer on their way than an exchange of little.

    Args:
        steps: What a rank runs, one after the other.
        link_us: Microseconds that an exchange takes however little is sent.
        link_gbps: 10^9 bytes in a second that a rank gets from others.

    """
    found: list[list[Collective]] = []
    size, before = 0.0, None
    for step in steps:
        like = (step.aggregation, step.axes, step.dtype) if isinstance(step, Collective) else None
        if isinstance(step, Collective) and step.aggregation is not None:
            if like != before or size > link_us * link_gbps * 1e3:
                found.append([])
                size = 0.0
            found[-1].append(step)
            size += math.prod(step.shape) * step.dtype.itemsize
        before = like
    return {group[0].name: tuple(group) for group in found}


def _exchanged(each: Exchange, transport: Transport, home: Home, values: Arrays, run: Run) -> dict[str, DeviceArray]:
    """Make messages, exchange them, and return what has come, by name, in the order of the exchange."""
    made = values if each.packing is None else {**values, **run(each.packing, values)}
    rooms = [(rank, room_for(home, value)) for rank, value in each.received]
    transport.exchange([(rank, made[name]) for rank, name in each.sent if made[name].nbytes], rooms)
    return {value.name: room for (_, value), (_, room) in zip(each.received, rooms, strict=True)}


def _merged_by_engine(
    collectives: Sequence[Collective],
    mesh: Mesh,
    transport: Transport,
    home: Home,
    values: Arrays,
    run: Run,
    spent: Collection[str],
) -> dict[str, DeviceArray] | None:
    """Return what a rank has behind merges that the engine has, by name; None where it has none.

    They are made in place where nobody else needs the one part that all get, which NCCL does in less time.
    """
    merges, shares = [], [shares_of(each, mesh, transport.rank) for each in collectives]
    for collective, each in zip(collectives, shares, strict=True):
        made = values if each.packing is None else {**values, **run(each.packing, values)}
        ((_, merged),) = each.received
        parts = [made[name] for name in dict.fromkeys(name for _, name in each.sent)]
        in_place = len(parts) == 1 and (each.packing is not None or collective.input in spent)
        assert collective.aggregation is not None
        merges.append(Merge(parts, parts[0] if in_place else room_for(home, merged), collective.aggregation))
    if not transport.merged(merges, mesh.group(transport.rank, collectives[0].axes)):
        return None
    return {
        each.result.name: _unpacked(each, {each.received[0][1].name: merge.result}, home, run)
        for each, merge in zip(shares, merges, strict=True)
    }


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
    return room_for(home, each.result)


def room_for(home: Home, value: Value) -> DeviceArray:
    """Return an array of a device with any elements, in the dtype and shape of a value."""
    return DeviceArray.of(home.allocated(value.dtype, value.shape), home, value.dtype, value.shape)
