"""Operations in which ranks meet: sorts along an axis that is cut, and gathers and scatters whose both sides are cut.

Data choose the places there, so that no rank knows what it needs before it runs. Ranks come to them in rounds instead,
in each of which a rank has at most the part of one other: neighbours merge what they have sorted (Baudet and Stevenson,
1978), tables go round among those who look their rows up, and updates go to all that have rows, those of one rank after
the other. Parts are always as large as the program says, and nobody has more than a few of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tileir.core import DType, attrs
from tileir.typed.boxes import elements, sizes_of
from tileir.typed.ir import Argsort, Gather, Operation, Scatter, Shape
from tileir.typed.sharding.mesh import Mesh
from tileir.typed.sharding.partitioned import Placement
from tileir.typed.sharding.splits import CollectiveKind, Layout, Split, balanced, filled, whole

KINDS: Final[Mapping[type[Operation], CollectiveKind]] = {
    Argsort: CollectiveKind.PERMUTE,
    Gather: CollectiveKind.PERMUTE,
    Scatter: CollectiveKind.BROADCAST,
}
"""The pattern of a round of each."""


@attrs.frozen(cache_hash=True)
class Met:
    """A way to spread an operation: along an axis of the result, while ranks meet in it.

    Attributes:
        axis: The axis of the result.
        split: Its places on each rank.

    """

    axis: int
    split: Split


@attrs.frozen
class Comparison:
    """Two neighbours of which the first keeps the elements that come first, where somebody needs them, and so on.

    Attributes:
        first: The position of the first of them.
        keeps: For each of both whether anybody needs what it has afterwards.

    """

    first: int
    keeps: tuple[bool, bool]


def met_operand(operation: Operation) -> tuple[str, int] | None:
    """Return the operand, and the axis of it, by whose cut ranks meet in an operation; None where they never do."""
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
    """Return the axes of the mesh along which ranks meet in an operation that is placed somewhere; none as a rule."""
    found = met_operand(operation)
    if found is None or placements[operation.name].shares or not placements[found[0]].layout:
        return ()
    split = placements[found[0]].layout[found[1]]
    return split.axes if len(set(split.intervals)) > 1 else ()


def met_way(operation: Operation, axis: int, axes: tuple[str, ...], parts: int, shapes: Mapping[str, Shape]) -> Met:
    """Return the way to cut a result along an axis while ranks along some axes of a mesh meet."""
    size = operation.shape[axis]
    if isinstance(operation, Argsort):
        return Met(axis, Split(axes, filled(size, parts, _length(size, shapes[operation.input][axis], parts))))
    return Met(axis, Split(axes, balanced(size, parts)))


def _length(count: int, size: int, parts: int) -> int:
    """Return how many elements of a sorted axis a rank has at most, of which the first ones are asked for."""
    return min(count, -(-size // parts))


def met_axes(operation: Operation, shapes: Mapping[str, Shape]) -> Sequence[int]:
    """Return the axes of the result that may be cut while ranks meet."""
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
    """Return how the operands of an operation are laid out in which ranks along some axes of a mesh meet."""
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
    """Yield sentences without their subject that tell why ranks cannot meet in an operation with such parts."""
    match operation:
        case Argsort(axis=axis):
            rest = (*layout[:axis], *layout[axis + 1 :])
            expected = met_way(operation, axis, axes, len(layout[axis].intervals), shapes).split
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
    """Return which neighbours merge their elements in each round, so that those of all ranks are sorted in the end.

    Args:
        sizes: How many elements the rank at each position has: equally many, until there are no more.
        wanted: How many of them anybody needs in the end.

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
    """Return how many sorted elements ranks at each position have: of others nobody needs any."""
    most = max(high - low for low, high in target.intervals)
    return tuple(min(most, high - low) for low, high in source.intervals)


def met_traffic(
    operation: Operation,
    axes: tuple[str, ...],
    layouts: Mapping[str, Layout],
    mesh: Mesh,
    dtypes: Mapping[str, DType],
) -> list[int]:
    """Return how many bytes all ranks together get from others in each round of an operation in which they meet."""
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
