"""Geometry of collectives: the elements that a rank gets from each other rank, and their number."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product
from typing import Any, TypeAlias

import numpy as np

from tileir.core import Aggregation, Combination, DType, attrs, contraction_types
from tileir.typed.boxes import Box, Interval
from tileir.typed.ir import Collective, Contraction, Gather, Operation, Reduce, Scatter, Shape
from tileir.typed.reductions import rule_of
from tileir.typed.sharding.mesh import CollectiveKind, Layout, Mesh, Split

Array: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]


@attrs.frozen
class Piece:
    """A box of elements, in coordinates of the whole tensor, that one rank has and another one needs."""

    owner: int
    box: Box


@lru_cache(4096)
def pieces(collective: Collective, mesh: Mesh, rank: int) -> tuple[Piece, ...]:
    """Return the elements that a rank gets, including its own, in an order that all ranks agree on.

    For merges, there is a piece of the same elements from each rank of the group, in their order.
    """
    here = mesh.coordinates(rank)
    wanted = mesh.box(collective.target, here)
    if collective.kind.merges:
        return tuple(Piece(owner, wanted) for owner in mesh.group(rank, collective.axes))
    runs = [
        tuple(_runs(split, interval, mesh.position(here, split.axes)))
        for split, interval in zip(collective.source, wanted, strict=True)
    ]
    found = []
    for chosen in product(*runs):
        place = dict(here)
        for split, (position, _) in zip(collective.source, chosen, strict=True):
            place.update({name: mesh.places(split.axes)[position][name] for name in split.axes})
        found.append(Piece(mesh.rank(place), tuple(interval for _, interval in chosen)))
    return tuple(found)


def _runs(split: Split, wanted: Interval, own: int) -> Iterator[tuple[int, Interval]]:
    """Yield intervals that together are the wanted one, each with the position that has it: its own if possible."""
    first, last = wanted
    order = [own, *(position for position in range(len(split.intervals)) if position != own)]
    while first < last:
        for position in order:
            low, high = split.intervals[position]
            if low <= first < high:
                break
        else:
            raise AssertionError(f"no rank has place {first} of {split}")
        stop = min(high, last)
        mine = split.intervals[own]
        if position != own and first < mine[0] < stop:
            stop = mine[0]
        yield position, (first, stop)
        first = stop


@lru_cache(maxsize=4096)
def moved(source: Layout, target: Layout, mesh: Mesh) -> int:
    """Return the number of elements that all ranks together get from others in a change of layout."""
    wanted = held = np.ones((), np.int64)
    for old, new in zip(source, target, strict=True):
        (first, last), (low, high) = _ends(old, mesh), _ends(new, mesh)
        wanted = wanted * (high - low)
        held = held * np.maximum(np.minimum(last, high) - np.maximum(first, low), 0)
    spread = np.broadcast_to(wanted - held, [size for _, size in mesh.axes])
    return int(spread.sum())


@lru_cache(maxsize=4096)
def _ends(split: Split, mesh: Mesh) -> tuple[Array, Array]:
    """Return the starts and stops of the intervals of an axis on each rank, as arrays over the mesh."""
    names = [name for name, _ in mesh.axes]
    order = sorted(range(len(split.axes)), key=lambda number: names.index(split.axes[number]))
    found = np.array(split.intervals, np.int64).reshape(*(mesh.extent([name]) for name in split.axes), 2)
    found = found.transpose(*order, len(order)).reshape(*(n if name in split.axes else 1 for name, n in mesh.axes), 2)
    return found[..., 0], found[..., 1]


@lru_cache(maxsize=4096)
def missing(have: Layout, target: Layout) -> float:
    """Return the greatest fraction of its target that a rank lacks; 1 if the splits use other mesh axes."""
    own = 1.0
    for old, new in zip(have, target, strict=True):
        if old.axes != new.axes:
            return 1.0
        pairs = [(a, b) for a, b in zip(old.intervals, new.intervals, strict=True) if b[0] < b[1]]
        own *= min((max(0, min(a[1], b[1]) - max(a[0], b[0])) / (b[1] - b[0]) for a, b in pairs), default=1.0)
    return 1 - own


def largest(layout: Layout) -> int:
    """Return the number of elements of the rank that has most of them."""
    return math.prod(max(high - low for low, high in split.intervals) for split in layout)


def merged(source: Layout, target: Layout, axes: Sequence[str], mesh: Mesh, operation: Operation) -> int:
    """Return the number of elements that all ranks together get from others in a merge of partial aggregates.

    Each rank of a group merges an equal share. If each needs all of it, shares are passed around afterwards. States of
    tuple reductions are passed around as they are.
    """
    others = mesh.extent(axes) - 1
    sides = (high - low for low, high in (_ends(split, mesh) for split in target))
    count = int(np.broadcast_to(math.prod(sides), [size for _, size in mesh.axes]).sum())
    is_state = isinstance(operation, Reduce) or (isinstance(operation, Collective) and operation.combine is not None)
    return others * count if is_state or source != target else 2 * others * count // (others + 1)


def aggregation_of(operation: Operation) -> Aggregation | None:
    """Return the aggregation that merges results of an operation of which each rank has some of the terms."""
    if isinstance(operation, Gather):
        return Aggregation.SUM  # rows of one rank, and zeros of the others
    return operation.aggregation if isinstance(operation, Contraction | Scatter | Collective) else None


def dtype_merged(how: Aggregation, dtype: DType, ranks: int) -> DType:
    """Return the dtype in which parts of several ranks travel and are merged; two are rounded only once."""
    if ranks == 2 and dtype in {DType.F16, DType.BF16}:
        return dtype
    return contraction_types(how, Combination.NONE, [dtype]).accumulator


def width_merged(operation: Operation, dtype: DType, shape: Shape, ranks: int) -> int:
    """Return the bytes of an element in a merge between ranks, for an operation that reads elements of ``dtype``."""
    if isinstance(operation, Reduce):
        return sum(each.itemsize for each in rule_of(operation, dtype, shape).state)
    how = aggregation_of(operation)
    assert how is not None
    return dtype_merged(how, operation.dtype, ranks).itemsize


def traffic(collective: Collective, mesh: Mesh, dtypes: Mapping[str, DType]) -> int:
    """Return the number of bytes that all ranks together get from others, by the dtypes of values."""
    if collective.combine is not None:
        width = sum(dtypes[name].itemsize for name in collective.inputs)
    elif collective.aggregation is not None:
        width = width_merged(collective, collective.dtype, collective.shape, mesh.extent(collective.axes))
    else:
        return moved(collective.source, collective.target, mesh) * collective.dtype.itemsize
    return merged(collective.source, collective.target, collective.axes, mesh, collective) * width


def target_of(have: Layout, need: Layout, mesh: Mesh) -> Layout:
    """Return a target layout for the needs of a reader: splits of which ranks have enough remain."""
    target = list(need)
    for number, (old, new) in enumerate(zip(have, need, strict=True)):
        others = {axis for place, split in enumerate(target) if place != number for axis in split.axes}
        if old.axes and covers(old, new, mesh) and others.isdisjoint(old.axes):
            target[number] = old
    return tuple(target)


def kind_of(source: Layout, target: Layout) -> CollectiveKind:
    """Return the kind of the collective for a change of layout."""
    pairs = [(old, new) for old, new in zip(source, target, strict=True) if old != new]
    if all(new.is_whole for _, new in pairs):
        alone = all(sum(low < high for low, high in old.intervals) <= 1 for old, _ in pairs)
        return CollectiveKind.BROADCAST if alone else CollectiveKind.ALL_GATHER
    if all(old.axes == new.axes for old, new in pairs):
        if all(_within(old, new) for old, new in pairs):
            return CollectiveKind.HALO
        if all(sorted(old.intervals) == sorted(new.intervals) for old, new in pairs):
            return CollectiveKind.PERMUTE
    return CollectiveKind.ALL_TO_ALL


def _within(inner: Split, outer: Split) -> bool:
    return all(
        low == high or (first <= low and high <= last)
        for (low, high), (first, last) in zip(inner.intervals, outer.intervals, strict=True)
    )


@lru_cache(maxsize=4096)  # programs repeat themselves
def covers(have: Split, need: Split, mesh: Mesh) -> bool:
    """Return whether every rank has the positions of an axis that it needs."""
    for place in mesh.places(tuple(dict.fromkeys((*have.axes, *need.axes)))):
        low, high = need.intervals[mesh.position(place, need.axes)]
        first, last = have.intervals[mesh.position(place, have.axes)]
        if low < high and not (first <= low and high <= last):
            return False
    return True


def covered(have: Layout, need: Layout, mesh: Mesh) -> bool:
    """Return whether every rank has all elements of a value that it needs."""
    return all(covers(old, new, mesh) for old, new in zip(have, need, strict=True))


def split_of(intervals: Mapping[tuple[int, ...], Interval], axes: Sequence[str], mesh: Mesh) -> Split:
    """Return the split with an interval for each position along some axes, without axes that make no difference."""
    kept = []
    for number, name in enumerate(axes):
        if any(intervals[place] != intervals[(*place[:number], 0, *place[number + 1 :])] for place in intervals):
            kept.append(name)
    found = tuple(intervals[tuple(place[name] for name in axes)] for place in mesh.places(kept))
    return Split(tuple(kept), found)
