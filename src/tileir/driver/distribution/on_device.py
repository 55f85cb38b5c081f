"""Collectives in device memory: compiled functions pack and unpack the messages."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tileir.core import DType, attrs
from tileir.driver.distribution.collectives import merged_state, part_of
from tileir.runtime.devices.array import DeviceArray
from tileir.runtime.interface import PartingExecutor
from tileir.runtime.offers import QueueingExecutor
from tileir.runtime.transports import Merge
from tileir.typed.boxes import Box, elements, sizes_of
from tileir.typed.ir import Collective, Value
from tileir.typed.sharding.mesh import CollectiveKind, Mesh, Split
from tileir.typed.sharding.messages import (
    Exchange,
    arriving,
    cast_of,
    elements_of,
    exchange_of,
    merge_of,
    shares_of,
    window_of,
)

if TYPE_CHECKING:
    from tileir.runtime.devices.home import DeviceMemory
    from tileir.runtime.transports import Transport
    from tileir.typed.sharding.borders import Border, ChunkedAggregate, HaloFunction

Arrays: TypeAlias = Mapping[str, DeviceArray]
Run: TypeAlias = Callable[..., Arrays]
"""Computes a function of arrays by name; the optional third argument is the destination of its only result."""


def carried_out_there(
    collectives: Sequence[Collective],
    mesh: Mesh,
    transport: Transport,
    home: DeviceMemory,
    values: Arrays,
    run: Run,
    spent: Collection[str] = (),
) -> dict[str, DeviceArray]:
    """Return a rank's part of a collective, or of several merges in one group, by name.

    Args:
        collectives: The collectives; all ranks take part.
        mesh: The ranks.
        transport: Transport between them.
        home: Device of this rank.
        values: Its values, by name.
        run: Computes a function on the device.
        spent: Values whose memory may hold the result of a merge.
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
    """Return merges to be done at once, by the name of the first: similar consecutive merges.

    They are collected until they take longer than the latency of an exchange.

    Args:
        steps: Steps of a rank, in order.
        link_us: Latency of an exchange in microseconds.
        link_gbps: Bandwidth from other ranks in 10^9 bytes per second.
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


def _exchanged(
    each: Exchange, transport: Transport, home: DeviceMemory, values: Arrays, run: Run
) -> dict[str, DeviceArray]:
    """Make messages, exchange them, and return received messages, by name, in the order of the exchange."""
    made = values if each.packing is None else {**values, **run(each.packing, values)}
    rooms = [(rank, room_for(home, value)) for rank, value in each.received]
    transport.exchange([(rank, made[name]) for rank, name in each.sent if made[name].nbytes], rooms)
    return {value.name: room for (_, value), (_, room) in zip(each.received, rooms, strict=True)}


def _merged_by_engine(
    collectives: Sequence[Collective],
    mesh: Mesh,
    transport: Transport,
    home: DeviceMemory,
    values: Arrays,
    run: Run,
    spent: Collection[str],
) -> dict[str, DeviceArray] | None:
    """Return a rank's parts of merges that the engine supports, by name; None if unsupported.

    A single part for all ranks is merged in place if it is not needed otherwise, which is faster with NCCL.
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
class PendingHalo:
    """Halo that is not assembled.

    Attributes:
        boxes: Elements of the messages.
        messages: The messages.
    """

    boxes: tuple[Box, ...]
    messages: tuple[DeviceArray, ...]

    @classmethod
    def begun(
        cls, collective: Collective, mesh: Mesh, transport: Transport, home: DeviceMemory, values: Arrays, run: Run
    ) -> PendingHalo:
        """Exchange the messages of a halo."""
        transport.place = f"{collective.kind.value} {collective.name!r}"
        came = _exchanged(exchange_of(collective, mesh, transport.rank), transport, home, values, run)
        return cls(arriving(collective, mesh, transport.rank), tuple(came.values()))


def has_borders(home: DeviceMemory, step: HaloFunction, boxes: Mapping[str, Box], widths: Mapping[str, int]) -> bool:
    """Return whether a device can write borders in place: whole rows of a result, at valid offsets for copies."""
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
    """Return offset and number of bytes of rows of an array in memory."""
    row = elements(have[1:]) * width
    return (box[0][0] - have[0][0]) * row, (box[0][1] - box[0][0]) * row


def bordered_there(
    step: HaloFunction,
    sources: Mapping[str, str],
    boxes: Mapping[str, Box],
    home: DeviceMemory,
    values: Mapping[str, Any],
    run: Run,
) -> dict[str, DeviceArray]:
    """Return the results of a function, with borders computed from halos.

    Args:
        step: The function.
        sources: The value that each halo surrounds.
        boxes: Elements of each value that the rank has.
        home: Device of this rank.
        values: Its values, by name; for halos their messages.
        run: Computes a function on the device.
    """
    executor: Any = home.executor
    found = dict(run(step.inner, values))
    for border in step.borders:
        given = {}
        for name, box in border.windows:
            own, halo = sources.get(name, name), values[name] if name in step.halos else None
            given[name] = _window(own, values[own], boxes[own], halo, box, run)
        made = run(border.function, given)
        for name, box in border.places:
            start, nbytes = _extent(box, boxes[name], found[name].dtype.itemsize)
            executor.copy(made[name].memory(), executor.part(found[name].memory(), start, nbytes))
    return found


def merged_in_pieces_there(
    step: ChunkedAggregate,
    mesh: Mesh,
    transport: Transport,
    home: DeviceMemory,
    boxes: Mapping[str, Box],
    values: Arrays,
    run: Run,
) -> DeviceArray:
    """Return a rank's part of a merge computed in pieces, with the exchange of each overlapping the next.

    Args:
        step: The pieces.
        mesh: The ranks.
        transport: Transport between them.
        home: Device of this rank.
        boxes: Elements of each value that the rank has.
        values: Its values, by name.
        run: Computes a function on the device.
    """

    def made(piece: Border, room: DeviceArray | None = None) -> DeviceArray:
        given = {}
        for name, box in piece.windows:
            part = _rows(values[name], boxes[name], box)
            given[name] = _window(name, values[name], boxes[name], None, box, run) if part is None else part
        ((name, _),) = piece.places
        return run(piece.function, given, room)[name]

    transport.place = f"{step.collective.kind.value} {step.collective.name!r}"
    if step.collective.kind is CollectiveKind.ALL_REDUCE:
        return _merged_for_all(step, mesh, transport, home, made, run)
    return _merged_for_each(step.collective, [piece for _, piece in step.pieces], mesh, transport, home, made, run)


def _merged_for_all(
    step: ChunkedAggregate,
    mesh: Mesh,
    transport: Transport,
    home: DeviceMemory,
    made: Callable[..., DeviceArray],
    run: Run,
) -> DeviceArray:
    """Return the merge of pieces that all ranks need: each is computed in place if the device has parts of buffers."""
    merge, target = step.collective, mesh.box(step.collective.target, mesh.coordinates(transport.rank))
    whole = room_for(home, Value(merge.name, merge.dtype, sizes_of(target)))
    rooms = [_rows(whole, target, piece.places[0][1]) for _, piece in step.pieces]
    found: dict[Box, DeviceArray] = {}
    for (_, piece), room in zip(step.pieces, rooms, strict=True):
        ((name, box),) = piece.places
        layout = tuple(Split((), (interval,)) for interval in box)  # of this rank and its group
        alone = attrs.evolve(merge, source=layout, target=layout)
        values = {name: made(piece, room)}
        found[box] = carried_out_there([alone], mesh, transport, home, values, run, [name])[merge.name]
        if room is not None and found[box] is not room:
            copied = home.executor.copy(found[box].memory(), room.memory())
            if not isinstance(home.executor, QueueingExecutor):
                copied.wait()
    if None not in rooms or not elements(target):
        return whole
    (first, *others), (part, *parts) = found, found.values()
    joined = window_of(Value(merge.name, merge.dtype, part.shape), first, tuple(others), target)
    return run(joined, {merge.name: part, **_arrived(parts)})[joined.outputs[0]]


def _merged_for_each(
    merge: Collective,
    pieces: Sequence[Border],
    mesh: Mesh,
    transport: Transport,
    home: DeviceMemory,
    made: Callable[..., DeviceArray],
    run: Run,
) -> DeviceArray:
    """Return the merge of the values that all ranks send here, while it computes and sends those of later ranks."""
    group, rank = mesh.group(transport.rank, merge.axes), transport.rank
    own, function = group.index(rank), merge_of(merge, mesh, rank)
    parts: dict[int, DeviceArray] = {}
    for distance, piece in enumerate(pieces, 1):
        part, behind, before = made(piece), group[(own + distance) % len(group)], group[own - distance]
        value = Value(merge.input, merge.dtype, part.shape)
        wide = function.inputs[0].dtype
        if wide is not merge.dtype:
            cast = cast_of(value, wide)
            part = run(cast, {merge.input: part})[cast.outputs[0]]
        parts[before] = part if before == rank else room_for(home, function.inputs[0])
        if behind != rank:
            transport.exchange([(behind, part)], [(before, parts[before])])
    return run(function, {v.name: parts[each] for v, each in zip(function.inputs, group, strict=True)})[merge.name]


def _rows(array: DeviceArray, have: Box, box: Box) -> DeviceArray | None:
    """Return a view of rows of an array; None if they are not contiguous, or the device has no parts of buffers."""
    if box == have:
        return array
    home, dtype = array.home, DType.of(array.dtype)
    assert dtype is not None
    start, nbytes = _extent(box, have, array.dtype.itemsize)
    executor, seen = home.executor, array.seen()
    if box[1:] != have[1:] or not nbytes:
        return None
    part = None
    if seen is not None:
        part = home.wrapped(part_of(seen, have, box))
    elif isinstance(executor, PartingExecutor) and start % executor.part_alignment == 0:
        part = executor.part(array.memory(), start, nbytes)
    return None if part is None else DeviceArray.of(part, home, dtype, sizes_of(box))


def _window(name: str, array: DeviceArray, have: Box, halo: PendingHalo | None, box: Box, run: Run) -> DeviceArray:
    """Return elements of a value from a rank's own and received elements."""
    dtype = DType.of(array.dtype)
    assert dtype is not None
    if not elements(box):
        return room_for(array.home, Value(name, dtype, sizes_of(box)))
    value, came = Value(name, dtype, array.shape), () if halo is None else halo.boxes
    window = window_of(value, have, came, box)
    given = {name: array, **_arrived(() if halo is None else halo.messages)}
    return run(window, given)[window.outputs[0]]


def _arrived(arrays: Sequence[DeviceArray]) -> dict[str, DeviceArray]:
    return {f"came_{number}": each for number, each in enumerate(arrays)}


def merged_state_there(
    collective: Collective, mesh: Mesh, transport: Transport, home: DeviceMemory, values: Arrays
) -> tuple[DeviceArray, ...]:
    """Return all components of a state, merged on the host."""
    transport.place = f"{collective.kind.value} {collective.name!r}"
    parts = [values[name].numpy() for name in collective.inputs]
    return tuple(resident(part, home) for part in merged_state(collective, mesh, transport, parts))


def resident(array: Any, home: DeviceMemory) -> DeviceArray:
    """Return an array on a device."""
    if isinstance(array, DeviceArray):
        return array
    dtype = DType.of(array.dtype)
    assert dtype is not None
    return DeviceArray.of(home.sent(np.asarray(array, order="C")), home, dtype, array.shape)


def at_home(array: Any, home: DeviceMemory) -> Any:
    """Return a result of a call as an array of a home that checks data read by the host."""
    if array.home is home or array.seen() is not None:
        return array
    return DeviceArray.fresh(array.memory(), home, array.dtype, array.shape, array.awaited())


def _unpacked(each: Exchange, values: Arrays, home: DeviceMemory, run: Run) -> DeviceArray:
    if each.unpacking is not None:
        return run(each.unpacking, values)[each.result.name]
    if each.received and elements_of(each.result):
        ((_, only),) = each.received
        return values[only.name]
    return room_for(home, each.result)


def room_for(home: DeviceMemory, value: Value) -> DeviceArray:
    """Return a device array with undefined elements, with the dtype and shape of a value."""
    return DeviceArray.of(home.allocated(value.dtype, value.shape), home, value.dtype, value.shape)
