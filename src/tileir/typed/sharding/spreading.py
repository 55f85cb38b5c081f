"""Ways to spread an operation over a mesh, each with the required layouts of operands, and its price.

Programs repeat themselves: operations that differ only in names are analysed once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Final, TypeAlias

from tileir.core import DType, attrs, schema
from tileir.typed.ir import Argsort, Operation, Reduce, Reshape, Shape, operands
from tileir.typed.sharding.carrying import Way, free_ways, may_cut, ways
from tileir.typed.sharding.collective_operations import CollectiveSharding, collective_axes, met_needs, met_traffic
from tileir.typed.sharding.exchanges import covered, largest, merged, moved, split_of, width_merged
from tileir.typed.sharding.mesh import Layout, Mesh, Split, balanced, whole
from tileir.typed.sharding.needs import REPEATED, is_exact, needed, points, reads
from tileir.typed.sharding.partitioned import Share
from tileir.typed.sharding.prices import Prices

_MOST: Final = 96
"""Greatest number of ways to spread one operation."""

_ROOM: Final = 2
"""Price of memory for elements beyond a rank's part, relative to the price of their transfer."""

Cut: TypeAlias = tuple[str, int, Split]
"""A split of an axis of an operand."""


@attrs.frozen(eq=False)
class OperationSharding:
    """A way to spread an operation.

    Attributes:
        layout: The elements that each rank computes.
        shares: The terms that each rank aggregates; empty if it aggregates all of them.
        target: The layout of the result after parts are merged, or after a required change of layout.
        needs: The elements of each operand that ranks need, by its name.
        seconds: The price, without exchanges of operands.
        beside: The seconds of its work, if ranks may do some of it while halos are on their way; else 0.
        meets: Whether ranks meet in it, and take exactly the needed elements of the operands.
    """

    layout: Layout
    shares: tuple[Share, ...]
    target: Layout
    needs: Mapping[str, Layout]
    seconds: float
    beside: float = 0.0
    meets: bool = False

    @property
    def axes(self) -> set[str]:
        """The axes of the mesh along which ranks do different work."""
        return _axes(self.layout, self.shares)

    def needs_by(self, operation: Operation) -> dict[str, Layout]:
        """Return the layouts needed of operands, by their names in an operation that is spread in this way."""
        return dict(zip(dict.fromkeys(reads(operation)), self.needs.values(), strict=False))


def _axes(layout: Layout, shares: Sequence[Share]) -> set[str]:
    return {axis for split in (*layout, *(share.split for share in shares)) for axis in split.axes}


def _laid(shape: Shape, chosen: Sequence[Way]) -> Layout:
    """Return the layout of a result that is spread in some ways."""
    splits = dict(cut for each in chosen if (cut := _cut(each)) is not None)
    return tuple(splits.get(axis, split) for axis, split in enumerate(whole(shape)))


def _cut(way: Way) -> tuple[int, Split] | None:
    return (way.axis, way.split) if isinstance(way, CollectiveSharding) else way if isinstance(way, tuple) else None


def needs_of_part(
    operation: Operation, layout: Layout, shares: Sequence[Share], shapes: Mapping[str, Shape], mesh: Mesh
) -> dict[str, Layout]:
    """Return the layouts that ranks need of the operands, by coordinates along the mesh axes of an operation."""
    splits = (*layout, *(share.split for share in shares))
    axes = tuple(dict.fromkeys(axis for split in splits for axis in split.axes))
    boxes = {}
    for place in mesh.places(axes):
        terms = [(share.polynomial, share.split.intervals[mesh.position(place, share.split.axes)]) for share in shares]
        key = tuple(place[axis] for axis in axes)
        boxes[key] = needed(operation, mesh.box(layout, place), terms, shapes)
    found = {}
    for name in dict.fromkeys(reads(operation)):
        found[name] = tuple(
            split_of(
                {key: (0, 0) if (box := each[name]) is None else box[axis] for key, each in boxes.items()}, axes, mesh
            )
            for axis in range(len(shapes[name]))
        )
    return found


def work_of(
    operation: Operation,
    layout: Layout,
    shares: Sequence[Share],
    needs: Mapping[str, Layout],
    shapes: Mapping[str, Shape],
    dtypes: Mapping[str, DType],
    prices: Prices,
) -> float:
    """Return the price of an operation on the rank with the largest part, given the needed layouts of operands."""
    part = 1.0
    for split in (*layout, *(share.split for share in shares)):
        part *= max(high - low for low, high in split.intervals) / max(1, *(high for _, high in split.intervals))
    size = largest(layout) * operation.dtype.itemsize
    if isinstance(operation, Argsort):
        (need,) = needs.values()
        width = dtypes[operation.input].itemsize + operation.dtype.itemsize
        return sorting(largest(need), shapes[operation.input][operation.axis], width, prices)
    size += sum(largest(need) * dtypes[name].itemsize for name, need in needs.items())
    return prices.work(points(operation, shapes) * part, operation.dtype, size)


def may_border(operation: Operation, shares: Sequence[Share]) -> bool:
    """Return whether ranks may compute interiors while halos are on their way, and borders afterwards."""
    return isinstance(operation, REPEATED) and not shares


def met_seconds(
    operation: Operation,
    layout: Layout,
    axes: tuple[str, ...],
    needs: Mapping[str, Layout],
    shapes: Mapping[str, Shape],
    dtypes: Mapping[str, DType],
    prices: Prices,
) -> float:
    """Return the price of an operation in which ranks along some axes of a mesh meet: of work and exchanges."""
    dtypes = {**dtypes, operation.name: operation.dtype}
    rounds = met_traffic(operation, axes, {**needs, operation.name: layout}, prices.mesh, dtypes)
    work = met_work(operation, layout, axes, needs, shapes, dtypes, prices)
    return work + sum(map(prices.exchange, rounds))


def met_work(
    operation: Operation,
    layout: Layout,
    axes: tuple[str, ...],
    needs: Mapping[str, Layout],
    shapes: Mapping[str, Shape],
    dtypes: Mapping[str, DType],
    prices: Prices,
) -> float:
    """Return the price of a rank's work for an operation in which it meets others."""
    parts = prices.mesh.extent(axes)
    if not isinstance(operation, Argsort):
        return parts * work_of(operation, layout, (), needs, shapes, dtypes, prices)
    own, width = largest(needs[operation.input]), dtypes[operation.input].itemsize + operation.dtype.itemsize
    rest = largest((*layout[: operation.axis], *layout[operation.axis + 1 :]))
    pairs = sum(high - low for low, high in layout[operation.axis].intervals[:1]) * rest
    merging = prices.work(2 * pairs, DType.I32, 4 * pairs * width)
    return sorting(own, own // max(1, rest), width, prices) + parts * merging


def sorting(count: int, length: int, width: int, prices: Prices) -> float:
    """Return the price of a merge sort of ``count`` elements, with their positions, in rows of a length."""
    passes = math.ceil(math.log2(max(2, length)))
    return prices.work(passes * count, DType.I32, 2 * passes * count * width)


def nameless(operation: Operation) -> Operation:
    """Return an operation without its name, with numbers as names of its operands."""
    names = {name: str(number) for number, name in enumerate(dict.fromkeys(operands(operation)))}
    return attrs.evolve(schema.with_used(operation, names), name="", span=None)


def layouts_of(shape: Shape, mesh: Mesh) -> list[Layout]:
    """Return the layouts in which each axis of a mesh splits at most one axis of a tensor."""
    found: list[tuple[tuple[str, ...], ...]] = [((),) * len(shape)]
    for name in mesh.cutting:
        found = [
            entries
            for old in found
            for entries in (
                *((*old[:axis], (*old[axis], name), *old[axis + 1 :]) for axis, size in enumerate(shape) if size > 1),
                old,
            )
        ]
    return [
        tuple(Split(names, balanced(size, mesh.extent(names))) for names, size in zip(entries, shape, strict=True))
        for entries in found
    ]


@attrs.define(eq=False)
class OperationShardings:
    """The ways to spread one operation, made on demand.

    Attributes:
        operation: The operation, without names.
        shapes: The shapes of its operands.
        dtypes: The dtypes of its operands.
        final: The required layout of its result, if any.
        prices: Prices of work and exchanges.
    """

    operation: Operation
    shapes: Mapping[str, Shape]
    dtypes: Mapping[str, DType]
    final: Layout | None
    prices: Prices
    _of_cuts: dict[tuple[Cut, ...], tuple[OperationSharding, ...]] = attrs.field(factory=dict)
    _needs: dict[Way | None, dict[str, Layout]] = attrs.field(factory=dict)
    _made: dict[tuple[Way, ...], tuple[OperationSharding, ...]] = attrs.field(factory=dict)

    def beside(self, cuts: tuple[Cut, ...]) -> tuple[OperationSharding, ...]:
        """Return the ways to spread it if operands may be split in some ways."""
        if cuts not in self._of_cuts:
            chosen = self._combined(self._ways(cuts))
            self._of_cuts[cuts] = tuple(spread for each in chosen for spread in self._spreads(each))
        return self._of_cuts[cuts]

    def _ways(self, cuts: Iterable[Cut]) -> dict[tuple[str, ...], dict[Way, None]]:
        """Return all ways by their mesh axes: the required one, ways near the operands' splits, any others."""
        groups: dict[tuple[str, ...], dict[Way, None]] = {}
        names = self.prices.mesh.cutting
        for axis, split in enumerate(self.final or ()):
            if split.axes:
                groups.setdefault(split.axes, {})[axis, split] = None
        for name, axis, split in cuts:
            near = ways(self.operation, name, axis, split, self.shapes)
            groups.setdefault(split.axes, {}).update(dict.fromkeys(near))
        for count in range(1, len(names) + 1):
            for axes in combinations(names, count):
                free = free_ways(self.operation, axes, self.prices.mesh, self.shapes)
                groups.setdefault(axes, {}).update(dict.fromkeys(free))
        return groups

    def _combined(self, groups: Mapping[tuple[str, ...], Mapping[Way, None]]) -> list[tuple[Way, ...]]:
        """Return compatible combinations of ways, those that use most axes of the mesh first."""
        found: list[tuple[tuple[Way, ...], frozenset[str]]] = [((), frozenset())]
        for axes, group in groups.items():
            more = [
                ((*chosen, way), taken.union(axes))
                for chosen, taken in found
                if taken.isdisjoint(axes)
                for way in group
                if self._goes_with(chosen, way)
            ]
            found += more
        found = [each for each in found if self._is_exact(each[0])]
        found.sort(key=lambda each: -self.prices.mesh.extent(each[1]))
        return [chosen for chosen, _ in [*found[: _MOST - 1], *found[-1:]]]

    def _goes_with(self, chosen: Sequence[Way], way: Way) -> bool:
        if isinstance(way, Share):  # of an index that no other axis of the mesh divides
            polynomials = [each.polynomial for each in chosen if isinstance(each, Share)]
            return way.polynomial not in polynomials and not any(
                isinstance(each, CollectiveSharding) for each in chosen
            )
        axis, _ = _cut(way) or (-1, None)
        is_free = all((cut := _cut(each)) is None or cut[0] != axis for each in chosen)
        if isinstance(way, CollectiveSharding):
            return is_free and self.prices.reshard and all(isinstance(each, tuple) for each in chosen)
        return is_free and may_cut(self.operation, axis)

    def _is_exact(self, chosen: Sequence[Way]) -> bool:
        """Return whether parts are boxes of the operand; only those of a reshape may not be."""
        if not isinstance(self.operation, Reshape):
            return True
        mesh, layout = self.prices.mesh, _laid(self.operation.shape, chosen)
        boxes = [mesh.box(layout, mesh.coordinates(rank)) for rank in range(mesh.size)]
        return is_exact(self.operation, boxes, self.shapes)

    def _spreads(self, chosen: tuple[Way, ...]) -> tuple[OperationSharding, ...]:
        """Return the operation spread in some ways, with each layout in which parts of an aggregate can be merged."""
        if chosen not in self._made:
            layout = _laid(self.operation.shape, chosen)
            shares = [way for way in chosen if isinstance(way, Share)]
            met = [way.split.axes for way in chosen if isinstance(way, CollectiveSharding)]
            if met:
                needs, work = self._met(layout, met[0])
                beside = 0.0
            else:
                needs = self._needed(chosen, layout, shares)
                work = work_of(self.operation, layout, shares, needs, self.shapes, self.dtypes, self.prices)
                beside = work if may_border(self.operation, shares) else 0.0
                work += self._room(layout, needs)
            self._made[chosen] = tuple(
                OperationSharding(layout, tuple(shares), target, needs, work + seconds, beside, bool(met))
                for target, seconds in self._targets(layout, shares)
            )
        return self._made[chosen]

    def _met(self, layout: Layout, axes: tuple[str, ...]) -> tuple[dict[str, Layout], float]:
        """Return the layouts for ranks that meet along some axes of the mesh, and the price of all rounds."""
        needs = met_needs(self.operation, layout, axes, self.shapes, self.prices.mesh)
        needs = {name: needs[name] for name in dict.fromkeys(reads(self.operation))}
        return needs, met_seconds(self.operation, layout, axes, needs, self.shapes, self.dtypes, self.prices)

    def _room(self, layout: Layout, needs: Mapping[str, Layout]) -> float:
        """Return the price of memory for elements beyond ranks' parts, if they could meet instead."""
        if not collective_axes(self.operation, self.shapes):
            return 0.0
        parts = self.prices.mesh.size
        size = max(0.0, largest(layout) - math.prod(self.operation.shape) / parts) * self.operation.dtype.itemsize
        for name, need in needs.items():
            size += max(0.0, largest(need) - math.prod(self.shapes[name]) / parts) * self.dtypes[name].itemsize
        return _ROOM * size / (self.prices.model.link_gbps * 1e9)

    def _targets(self, layout: Layout, shares: Sequence[Share]) -> Iterable[tuple[Layout, float]]:
        """Yield each possible layout of the result, and its price."""
        mesh, operation = self.prices.mesh, self.operation
        axes = [axis for share in shares for axis in share.split.axes]
        targets = []
        if shares and not isinstance(operation, Reduce):
            for axis, split in enumerate(layout):
                if not split.axes and operation.shape[axis] > 1:
                    part = Split(tuple(axes), balanced(operation.shape[axis], mesh.extent(axes)))
                    targets.append((*layout[:axis], part, *layout[axis + 1 :]))
        targets.append(layout)
        if self.final is not None:
            can_merge = not isinstance(operation, Reduce) and covered(layout, self.final, mesh)
            targets = [self.final if shares and can_merge else layout]
        for target in targets:
            seconds = 0.0
            if shares:
                (source,) = {self.dtypes[name] for name in reads(operation)[:1]}
                width = width_merged(operation, source, self.shapes[reads(operation)[0]], mesh.extent(axes))
                seconds = self.prices.exchange(merged(layout, target, axes, mesh, operation) * width)
            final = target if self.final is None else self.final
            if final != target:
                seconds += self.prices.exchange(moved(target, final, mesh) * operation.dtype.itemsize)
            yield final, seconds

    def _needed(self, chosen: tuple[Way, ...], layout: Layout, shares: Sequence[Share]) -> dict[str, Layout]:
        """Return the needed layouts of operands, for each way alone if no axis of an operand depends on two."""
        if isinstance(self.operation, Reshape):  # each axis of the operand depends on several
            return needs_of_part(self.operation, layout, shares, self.shapes, self.prices.mesh)
        alone = [self._needed_alone(way) for way in chosen]
        base = self._needed_alone(None)
        found = {}
        for name, splits in base.items():
            kept = list(splits)
            for axis, split in enumerate(splits):
                different = [each[name][axis] for each in alone if each[name][axis] != split]
                if len(different) > 1:
                    return needs_of_part(self.operation, layout, shares, self.shapes, self.prices.mesh)
                kept[axis] = different[0] if different else split
            found[name] = tuple(kept)
        return found

    def _needed_alone(self, way: Way | None) -> dict[str, Layout]:
        if way not in self._needs:
            layout = _laid(self.operation.shape, () if way is None else (way,))
            shares = [way] if isinstance(way, Share) else []
            found = needs_of_part(self.operation, layout, shares, self.shapes, self.prices.mesh)
            self._needs[way] = found
        return self._needs[way]
