"""Operations in which ranks meet: sorts along a split axis, and gathers and scatters with both sides split.

Data determine their positions, so that a rank does not know its needs in advance. Ranks meet in rounds instead, in each
of which a rank has at most the part of one other: neighbours merge their sorted parts (Baudet and Stevenson, 1978),
parts of tables are passed around among the ranks that look up rows, and updates go to all ranks with rows, those of one
rank after the other. Parts are never larger than in the program, and no rank has more than a few of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tileir.core import DType, attrs
from tileir.typed.boxes import elements, sizes_of
from tileir.typed.ir import Argsort, Gather, Operation, Scatter, Shape
from tileir.typed.sharding.mesh import CollectiveKind, Layout, Mesh, Split, balanced, filled, whole
from tileir.typed.sharding.partitioned import Placement

KINDS: Final[Mapping[type[Operation], CollectiveKind]] = {
    Argsort: CollectiveKind.PERMUTE,
    Gather: CollectiveKind.PERMUTE,
    Scatter: CollectiveKind.BROADCAST,
}
"""The pattern of a round of each."""


@attrs.frozen(cache_hash=True)
class CollectiveSharding:
    """A way to spread an operation: along an axis of the result, while ranks meet in it.

    Attributes:
        axis: The axis of the result.
        split: Its positions on each rank.
    """

    axis: int
    split: Split


@attrs.frozen
class Comparison:
    """Two neighbours that merge their elements; the first one keeps those that come first.

    Attributes:
        first: The position of the first neighbour.
        keeps: For both neighbours, whether any rank needs the elements that they have afterwards.
    """

    first: int
    keeps: tuple[bool, bool]


def met_operand(operation: Operation) -> tuple[str, int] | None:
    """Return the operand and its axis whose split makes ranks meet in an operation; None if they never do."""
    match operation:
        case Argsort(input=name, axis=axis):
            return name, axis
        case Gather(data=name, indices=indices):
            return None if name == indices else (name, 0)
        case Scatter(indices=name, updates=updates, into=into):
            return None if len({name, updates, into}) < 3 else (name, 0)
        case _:
            return None


def meets(operation: Operation, placements: Mapping[str, Placement]) -> tuple[str, ...]:
    """Return the mesh axes along which ranks meet in a placed operation; usually none."""
    found = met_operand(operation)
    if found is None or placements[operation.name].shares or not placements[found[0]].layout:
        return ()
    split = placements[found[0]].layout[found[1]]
    return split.axes if len(set(split.intervals)) > 1 else ()


def collective_sharding(
    operation: Operation, axis: int, axes: tuple[str, ...], parts: int, shapes: Mapping[str, Shape]
) -> CollectiveSharding:
    """Return the way to split a result along an axis while ranks along some axes of a mesh meet."""
    size = operation.shape[axis]
    if isinstance(operation, Argsort):
        return CollectiveSharding(
            axis, Split(axes, filled(size, parts, _length(size, shapes[operation.input][axis], parts)))
        )
    return CollectiveSharding(axis, Split(axes, balanced(size, parts)))


def _length(count: int, size: int, parts: int) -> int:
    """Return the greatest number of a rank's elements of a sorted axis, of which the first ``count`` are used."""
    return min(count, -(-size // parts))


def collective_axes(operation: Operation, shapes: Mapping[str, Shape]) -> Sequence[int]:
    """Return the axes of the result that may be split while ranks meet."""
    found = met_operand(operation)
    if found is None or not any(shapes[found[0]][found[1] : found[1] + 1]):
        return ()
    match operation:
        case Argsort(axis=axis):
            return (axis,)
        case Gather(indices=indices):
            return range(len(shapes[indices]))
        case _:
            return (0,)


def met_needs(
    operation: Operation, layout: Layout, axes: tuple[str, ...], shapes: Mapping[str, Shape], mesh: Mesh
) -> dict[str, Layout]:
    """Return the layouts of operands of an operation in which ranks along some axes of a mesh meet."""
    found = met_operand(operation)
    assert found is not None
    size, parts = shapes[found[0]][found[1]], mesh.extent(axes)
    own = Split(axes, balanced(size, parts))
    match operation:
        case Argsort(input=name, axis=axis):
            return {name: (*layout[:axis], Split(axes, filled(size, parts, -(-size // parts))), *layout[axis + 1 :])}
        case Gather(data=data, indices=indices):
            rank = len(shapes[indices])
            return {data: (own, *layout[rank:]), indices: layout[:rank]}
        case Scatter(updates=updates, indices=indices, into=into):
            places = (own, *whole(shapes[indices][1:]))
            needs = {updates: (*places, *layout[1:]), indices: places}
            return needs if into is None else {**needs, into: layout}
        case _:
            raise AssertionError(operation)


def met_faults(
    operation: Operation, layout: Layout, axes: tuple[str, ...], shapes: Mapping[str, Shape]
) -> Iterator[str]:
    """Yield reasons, sentences without their subject, why ranks cannot meet in an operation with these parts."""
    match operation:
        case Argsort(axis=axis):
            rest = (*layout[:axis], *layout[axis + 1 :])
            expected = collective_sharding(operation, axis, axes, len(layout[axis].intervals), shapes).split
            if layout[axis] != expected:
                yield f"is sorted by ranks that meet, and has places {layout[axis]} for {expected}"
        case Gather(indices=indices):
            rest = layout[len(shapes[indices]) :]
        case _:
            rest = layout[1:]
    for name in axes:
        if any(name in split.axes for split in rest):
            yield f"is cut along {name!r}, and ranks along it meet"


def comparisons(sizes: Sequence[int], wanted: Sequence[int]) -> tuple[tuple[Comparison, ...], ...]:
    """Return the neighbours that merge their elements in each round, so that those of all ranks become sorted.

    Args:
        sizes: The number of elements of the rank at each position: equal, until there are no more.
        wanted: The number of them that is needed in the end.
    """
    needed = {position for position, count in enumerate(wanted) if count}
    found = []
    for number in reversed(range(len(sizes))):
        pairs = tuple(
            Comparison(first, (first in needed, first + 1 in needed))
            for first in range(number % 2, len(sizes) - 1, 2)
            if sizes[first + 1] and not needed.isdisjoint((first, first + 1))
        )
        needed.update(place for pair in pairs for place in (pair.first, pair.first + 1))
        found += [pairs] * bool(pairs)
    return tuple(reversed(found))


def kept(source: Split, target: Split) -> tuple[int, ...]:
    """Return the number of sorted elements of the rank at each position that may be needed."""
    most = max(high - low for low, high in target.intervals)
    return tuple(min(most, high - low) for low, high in source.intervals)


def met_traffic(
    operation: Operation,
    axes: tuple[str, ...],
    layouts: Mapping[str, Layout],
    mesh: Mesh,
    dtypes: Mapping[str, DType],
) -> list[int]:
    """Return the number of bytes that all ranks together get from others in each round of such an operation."""
    parts, ranks = mesh.extent(axes), [mesh.coordinates(rank) for rank in range(mesh.size)]
    match operation:
        case Argsort(name=name, input=read, axis=axis, dtype=dtype):
            sizes = kept(layouts[read][axis], layouts[name][axis])
            wanted = [high - low for low, high in layouts[name][axis].intervals]
            boxes = (mesh.box((*layouts[read][:axis], *layouts[read][axis + 1 :]), here) for here in ranks)
            rows = sum(elements(box) for box in boxes) // parts * (dtypes[read].itemsize + dtype.itemsize)
            return [
                rows * sum(sizes[pair.first + 1] * pair.keeps[0] + sizes[pair.first] * pair.keeps[1] for pair in pairs)
                for pairs in comparisons(sizes, wanted)
            ]
        case Gather(data=data):
            return [sum(_bytes(data, here, layouts, mesh, dtypes) for here in ranks)] * (parts - 1)
        case Scatter(updates=updates, indices=indices):
            found = [0] * parts
            for here in ranks:
                size = sum(_bytes(name, here, layouts, mesh, dtypes) for name in (updates, indices))
                found[mesh.position(here, axes)] += (parts - 1) * size
            return found
        case _:
            raise AssertionError(operation)


def _bytes(
    name: str, here: Mapping[str, int], layouts: Mapping[str, Layout], mesh: Mesh, dtypes: Mapping[str, DType]
) -> int:
    return math.prod(sizes_of(mesh.box(layouts[name], here))) * dtypes[name].itemsize
