"""Collectives carried out by a transport, on the parts of arrays that a rank has."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from tileir.core import Aggregation, DType, attrs
from tileir.core.combines import state_rule
from tileir.core.numbers.arithmetic import cast, merge
from tileir.core.numbers.number_system import REAL
from tileir.typed.boxes import Box, elements, shared, sizes_of
from tileir.typed.ir import Collective
from tileir.typed.sharding.exchanges import Piece, dtype_merged, kind_of, pieces
from tileir.typed.sharding.mesh import CollectiveKind, Mesh
from tileir.typed.sharding.overlapped_merges import in_turn

if TYPE_CHECKING:
    from tileir.runtime.transports import Array, Message, Transport
    from tileir.typed.sharding.mesh import Layout


@attrs.frozen(eq=False)
class MemoryPool:
    """Pool of memory of dead values for later values with equal shape and dtype.

    The system allocates large arrays page by page, which takes longer than copying them.
    """

    _free: dict[tuple[tuple[int, ...], np.dtype[Any]], list[Array]] = attrs.field(
        factory=lambda: defaultdict(list), init=False, repr=False
    )

    def take(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Return an array with undefined elements."""
        free = self._free[shape, dtype]
        try:
            return free.pop()
        except IndexError:
            return np.empty(shape, dtype)

    def give(self, array: Array) -> None:
        """Return an array to the pool; the caller must be its only owner."""
        self._free[array.shape, array.dtype].append(array)


Share: TypeAlias = "tuple[tuple[int, ...], Box, Array]"
"""Ranks that need elements of a merge, the places of these, and one rank's values of them."""

_EMPTY: Final[Callable[[tuple[int, ...], np.dtype[Any]], Array]] = np.empty


def carried_out(
    collective: Collective,
    mesh: Mesh,
    transport: Transport,
    parts: Sequence[Array],
    empty: Callable[[tuple[int, ...], np.dtype[Any]], Array] = _EMPTY,
) -> Array:
    """Return a rank's part of the result of a collective.

    Args:
        collective: The collective; all ranks take part.
        mesh: The ranks.
        transport: Transport between them.
        parts: This rank's part of each input.
        empty: Allocates an array for the result of a collective that only moves elements.
    """
    return begun(collective, mesh, transport, parts, empty)()


def begun(
    collective: Collective,
    mesh: Mesh,
    transport: Transport,
    parts: Sequence[Array],
    empty: Callable[[tuple[int, ...], np.dtype[Any]], Array] = _EMPTY,
) -> Callable[[], Array]:
    """Begin a collective, and return a function that waits for it and returns the result of :func:`carried_out`.

    Until then the parts must not change. Float merges of more than two ranks are done at once, as they have two rounds.
    """
    transport.place = _place(collective)
    array, have = parts[0], mesh.box(collective.source, mesh.coordinates(transport.rank))
    if collective.combine is not None:
        state = merged_state(collective, mesh, transport, parts)[collective.result]
        return lambda: state
    if collective.aggregation is None:
        return _moving(collective, mesh, transport, array, have, empty)
    group = mesh.group(transport.rank, collective.axes)
    if collective.kind is CollectiveKind.ALL_REDUCE and len(group) > 2:
        wide = np.asarray(cast(array, dtype_merged(collective.aggregation, collective.dtype, len(group))), order="C")
        result = cast(transport.all_reduce(wide, collective.aggregation, group), collective.dtype)
        return lambda: result
    wanted = {rank: mesh.box(collective.target, mesh.coordinates(rank)) for rank in in_turn(group, transport.rank)}
    shares: list[Share] = [((rank,), box, part_of(array, have, box)) for rank, box in wanted.items()]
    if collective.kind is CollectiveKind.ALL_REDUCE:
        shares = [(tuple(group), have, array)]
    return merging(collective, mesh, transport, shares)


def merging(collective: Collective, mesh: Mesh, transport: Transport, shares: Iterable[Share]) -> Callable[[], Array]:
    """Begin a merge, and return a function that waits for it and returns the rank's part of the result.

    Args:
        collective: The collective; all ranks take part.
        mesh: The ranks.
        transport: Transport between them.
        shares: This rank's values for the others and for itself; each is sent before the next is requested. They are
            pieces of an aggregate that all ranks need entirely.
    """
    how, own, place = collective.aggregation, transport.rank, _place(collective)
    group, target = mesh.group(own, collective.axes), mesh.box(collective.target, mesh.coordinates(own))
    assert how is not None
    dtype = dtype_merged(how, collective.dtype, len(group))
    wide = ((ranks, box, np.asarray(cast(share, dtype), order="C")) for ranks, box, share in shares)
    if collective.kind is CollectiveKind.ALL_REDUCE:
        ends = dict(_for_all(collective, group, transport, wide))
    else:
        ends = {target: _scattered(how, place, group, transport, np.empty(sizes_of(target), dtype.numpy), wide)}

    def end() -> Array:
        transport.place = place
        found = {box: each() for box, each in ends.items()}
        result = found.get(target)
        if result is None:
            result = np.empty(sizes_of(target), dtype.numpy)
            for box, part in found.items():
                part_of(result, target, box)[...] = part
        return cast(result, collective.dtype)

    return end


def _scattered(
    how: Aggregation, place: str, group: Sequence[int], transport: Transport, like: Array, shares: Iterable[Share]
) -> Callable[[], Array]:
    """Send the shares of the other ranks, and return a function that waits for this rank's and merges them in order.

    Shares are those of the following ranks, and last its own. With each send it receives a share from the rank that is
    as far before it and sends at the same time, which engines may rely on.
    """
    parts, ends, own = {}, [], group.index(transport.rank)
    for distance, ((rank,), _, share) in enumerate(shares, 1):
        before = group[own - distance]
        parts[before] = share
        if rank != transport.rank:
            parts[before] = np.empty_like(like)
            transport.place = place
            ends.append(_begun(transport, [(rank, share)], [(before, parts[before])]))

    def end() -> Array:
        for each in ends:
            each()
        return _merged(how, [parts[rank] for rank in group])

    return end


def _for_all(
    collective: Collective, group: Sequence[int], transport: Transport, shares: Iterable[Share]
) -> Iterator[tuple[Box, Callable[[], Array]]]:
    """Begin to merge pieces that all ranks of a group need, and yield functions that wait for each of them.

    More than two ranks exchange twice for a piece: each merges an equal share of it, and distributes it after the next
    piece has begun. So all exchanges have one order.
    """
    how, place, before = collective.aggregation, _place(collective), None
    assert how is not None
    for _, box, share in shares:
        transport.place = place
        again = _met(how, group, transport, share)
        if before is not None:
            yield before[0], before[1]()
        before = box, again
    if before is not None:
        transport.place = place
        yield before[0], before[1]()


def _met(
    how: Aggregation, group: Sequence[int], transport: Transport, array: Array
) -> Callable[[], Callable[[], Array]]:
    """Begin to merge an array for all ranks of a group; return the continuation, which returns the end."""
    own = group.index(transport.rank)
    others = [(number, rank) for number, rank in enumerate(group) if number != own]
    shares = [array for _ in group] if len(group) == 2 else np.array_split(array.reshape(-1), len(group))
    parts = [share if number == own else np.empty_like(shares[own]) for number, share in enumerate(shares)]
    first = _begun(transport, *([(rank, each[number]) for number, rank in others] for each in (shares, parts)))

    def merged() -> Array:
        first()
        return _merged(how, parts)

    def again() -> Callable[[], Array]:
        if len(group) == 2:
            return merged
        mine, result = merged(), np.empty_like(array)
        found = np.array_split(result.reshape(-1), len(group))
        found[own][...] = mine
        second = _begun(transport, [(rank, mine) for _, rank in others], [(rank, found[n]) for n, rank in others])

        def end() -> Array:
            second()
            return result

        return end

    return again


def _begun(transport: Transport, *messages: Sequence[Message]) -> Callable[[], None]:
    """Begin to send and receive messages, except empty ones."""
    sent, received = ([each for each in some if each[1].size] for some in messages)
    return transport.begin(sent, received)


def _merged(how: Aggregation, parts: Sequence[Array]) -> Array:
    """Return the merge of arrays in their order."""
    result, *rest = parts
    for part in rest:
        result = merge(how, result, part)
    return np.asarray(result, order="C")


def _place(collective: Collective) -> str:
    return f"{collective.kind.value} {collective.name!r}"


def merged_state(collective: Collective, mesh: Mesh, transport: Transport, parts: Sequence[Array]) -> tuple[Array, ...]:
    """Return all components of the state over the elements of all ranks, merged in rank order."""
    assert collective.combine is not None
    transport.place = _place(collective)
    group = mesh.group(transport.rank, collective.axes)
    rule = state_rule(collective.combine, [part.dtype for part in parts])
    states: list[list[Array]] = [[np.empty_like(part) for _ in group] for part in parts]
    for part, found in zip(parts, states, strict=True):
        transport.all_gather(np.asarray(part, order="C"), found, group)
    result = tuple(found[0] for found in states)
    for number in range(1, len(group)):
        result = rule.merge.run(REAL, *result, *(found[number] for found in states))
    return tuple(map(np.asarray, result))


def relaid(name: str, part: Array, source: Layout, target: Layout, mesh: Mesh, transport: Transport) -> Array:
    """Return a rank's part of an array after redistribution, from its part before."""
    pairs = [(old, new) for old, new in zip(source, target, strict=True) if old != new]
    axes = tuple(axis for old, _ in pairs for axis in old.axes)
    dtype, shape = DType.of(part.dtype), tuple(max(high for _, high in split.intervals) for split in target)
    assert dtype is not None
    made = Collective(name, kind_of(source, target), (name,), axes, source, target, dtype, shape)
    return carried_out(made, mesh, transport, [part]) if pairs else part


def part_of(array: Array, have: Box, box: Box) -> Array:
    """Return the elements of a box from those that a rank has."""
    return array[_within(have, box)]


@lru_cache(4096)
def _within(have: Box, box: Box) -> tuple[slice, ...]:
    return tuple(slice(low - start, high - start) for (low, high), (start, _) in zip(box, have, strict=True))


def _moving(
    collective: Collective,
    mesh: Mesh,
    transport: Transport,
    array: Array,
    have: Box,
    empty: Callable[[tuple[int, ...], np.dtype[Any]], Array],
) -> Callable[[], Array]:
    """Begin to send elements to others, and return a function that assembles this rank's part."""
    moving = ElementTransfer.begun(collective, mesh, transport, array)

    def end() -> Array:
        target = mesh.box(collective.target, mesh.coordinates(transport.rank))
        result = empty(sizes_of(target), array.dtype)
        for piece in _from(transport.rank, pieces(collective, mesh, transport.rank)):
            part_of(result, target, piece.box)[...] = part_of(array, have, piece.box)
        for box, part in moving.received():
            part_of(result, target, box)[...] = part
        return result

    return end


@attrs.frozen(eq=False)
class ElementTransfer:
    """Elements in transit to a rank: each pair of ranks exchanges one message.

    Attributes:
        place: Name of the collective in messages.
        dtype: Dtype of the elements.
        end: Waits for the messages.
    """

    place: str
    dtype: np.dtype[Any]
    end: Callable[[], None]
    _transport: Transport
    _pieces: Sequence[tuple[Box, Array]]

    @classmethod
    def begun(cls, collective: Collective, mesh: Mesh, transport: Transport, array: Array) -> ElementTransfer:
        """Send the elements of this rank's part that others need; all ranks of the mesh take part."""
        route = _Route.of(collective, mesh, transport.rank)
        transport.place = route.place
        sent = [(rank, _packed(array, places)) for rank, places in route.sent]
        received = [(rank, np.empty(size, array.dtype)) for rank, size, _ in route.received]
        found = [
            (box, message[start:stop].reshape(sizes_of(box)))
            for (_, message), (_, _, runs) in zip(received, route.received, strict=True)
            for box, start, stop in runs
        ]
        return cls(route.place, array.dtype, transport.begin(sent, received), transport, found)

    def received(self) -> Sequence[tuple[Box, Array]]:
        """Wait for the messages and return their elements, by places in the whole tensor."""
        self._transport.place = self.place
        self.end()
        return self._pieces

    def window(self, array: Array, have: Box, box: Box) -> Array:
        """Return the elements of a box from own and received elements."""
        result = np.empty(sizes_of(box), self.dtype)
        for there, part in ((have, array), *self.received()):
            both = _both(box, there)
            if both is not None:
                result[both[0]] = part[both[1]]
        return result


@lru_cache(4096)
def _both(left: Box, right: Box) -> tuple[tuple[slice, ...], tuple[slice, ...]] | None:
    """Return the intersection of two boxes, by places in each; None if empty."""
    both = shared(left, right)
    return (_within(left, both), _within(right, both)) if all(low < high for low, high in both) else None


@attrs.frozen
class _Route:
    """Messages of one rank in a collective that moves elements.

    Attributes:
        place: Name of the collective in messages.
        sent: Ranks that need elements of its part, with their places in it.
        received: Ranks that it receives from, number of elements, and ranges of boxes among these.
    """

    place: str
    sent: tuple[tuple[int, tuple[tuple[slice, ...], ...]], ...]
    received: tuple[tuple[int, int, tuple[tuple[Box, int, int], ...]], ...]

    @classmethod
    @lru_cache(4096)
    def of(cls, collective: Collective, mesh: Mesh, own: int) -> _Route:
        """Return the route of a rank."""
        have = mesh.box(collective.source, mesh.coordinates(own))
        sent, received = [], []
        for rank in range(mesh.size):
            wanted = [each.box for each in _from(own, pieces(collective, mesh, rank))]
            if rank != own and any(map(elements, wanted)):
                sent.append((rank, tuple(_within(have, box) for box in wanted)))
            boxes = [each.box for each in _from(rank, pieces(collective, mesh, own))]
            ends = list(accumulate(map(elements, boxes), initial=0))
            if rank != own and ends[-1]:
                received.append((rank, ends[-1], tuple(zip(boxes, ends, ends[1:], strict=False))))
        return cls(_place(collective), tuple(sent), tuple(received))


def _from(rank: int, given: Sequence[Piece]) -> list[Piece]:
    return [piece for piece in given if piece.owner == rank]


def _packed(array: Array, places: Sequence[tuple[slice, ...]]) -> Array:
    """Return the elements at some places, packed; a contiguous range is not copied."""
    found = [array[each].reshape(-1) for each in places]
    return np.ascontiguousarray(found[0]) if len(found) == 1 else np.concatenate(found)
