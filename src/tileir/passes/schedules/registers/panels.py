"""Packed panels: inputs of a tile along its lanes, copied to contiguous memory for repeated reads.

If neighbouring lanes are strided, and elements are contiguous along steps of the reduction, square tiles are transposed
in vector registers; the remainder is copied element by element, in memory order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tileir.core import NameScope, attrs
from tileir.passes.kernels import joined, schedule as sch
from tileir.poly.affine import Affine
from tileir.schedule.emission import nodes_of
from tileir.schedule.nest import Node, Segment, Use, product
from tileir.schedule.steps.tensors import turned_tile
from tileir.stripe import ir as stripe

UNROLLED: Final = 48
"""Maximum vector multiply-adds in one iteration of an unrolled reduction."""

_SLIDING: Final = 128
"""Maximum for windows that slide along rows: a step then loads one row, and has the others from earlier steps."""

_LEAST_TILE: Final = 4
_MOST_TILE: Final = 8
"""Rows of transposed tiles, which take this many registers. Tiles of 16 rows are no faster, and selecting shuffles for
them takes LLVM a fifth of the compile time of a convolution.
"""


@attrs.frozen
class Columns:
    """The columns of a tile: unrolled vectors, lanes, the column as an affine of both, and the number of columns."""

    vectors: tuple[stripe.Index, ...]
    lanes: tuple[stripe.Index, ...]
    inner: Affine
    width: int


@attrs.frozen
class Panel:
    """A packed panel: its use by reductions, its memory, and the nodes that fill it."""

    use: Use
    allocation: stripe.Refinement
    nodes: tuple[Node, ...]


@attrs.frozen
class Plane:
    """A plane that windows slide over: a panel holds all its elements, for each column.

    Attributes:
        use: The reduction's use of it, with the axes of the tensor.
        axes: The axes along which windows slide, the last one contiguous.
        first: The first place on each axis, which may depend on indices outside the tiles.
        sizes: Number of places on each axis.
        tests: Conditions on each axis, >= 0 at places that exist, minus and plus the place; none if all places exist.
    """

    use: Use
    axes: tuple[int, ...]
    first: tuple[Affine, ...]
    sizes: tuple[int, ...]
    tests: tuple[tuple[Affine, Affine] | None, ...]

    @property
    def slid(self) -> frozenset[str]:
        """The indices and loops that move along its axes, inside of the tiles."""
        names = {name for axis in self.axes for name in self.use.access[axis].indices}
        return frozenset(names.difference(*(place.indices for place in self.first)))

    def panel(self, vector: str, mapping: Mapping[str, Affine], columns: Columns, names: NameScope) -> Panel:
        """Return the panel along the index ``vector``; ``mapping`` holds the values of the indices around it.

        Rows are consecutive, as in memory, if all exist.
        """
        loops = tuple(
            sch.index(names.fresh(f"place_{axis}"), size) for axis, size in zip(self.axes, self.sizes, strict=True)
        )
        places = tuple(map(sch.part, loops))
        apart = len(loops) - 1 if any(self.tests) else 0
        shape = (*self.sizes[:apart], product(self.sizes[apart:]), columns.width)
        memory = stripe.allocation(names.fresh(f"{self.use.root}_planes"), self.use.dtype, shape, sch.SCRATCH)
        inside = [self.use.access[axis] - first for axis, first in zip(self.axes, self.first, strict=True)]
        flat = Affine()
        for place, size in zip(inside[apart:], self.sizes[apart:], strict=True):
            flat = flat * size + place
        packed = Use(
            self.use.name,
            memory.name,
            (*inside[:apart], flat, columns.inner),
            memory.shape.strides,
            self.use.dtype,
            stripe.Direction.IN,
        )
        column = sch.index(names.fresh(f"{vector}_column"), columns.width)
        start = mapping[vector] - columns.inner + sch.part(column)
        read = dict(zip(self.axes, map(Affine.__add__, self.first, places), strict=True))
        access = tuple(read.get(axis, place) for axis, place in enumerate(self.use.access))
        source = attrs.evolve(self.use, access=access).substitute({**mapping, vector: start})
        into = (*places[:apart], Affine(), Affine())
        target = attrs.evolve(packed, name=names.fresh("panel"), access=into, direction=stripe.Direction.OUT)
        tests = tuple(
            side
            for place, pair in zip(places, self.tests, strict=True)
            if pair is not None
            for side in (pair[0] + place, pair[1] - place)
        )
        nodes = _across(source, target, loops[apart:], column, product(i.range for i in columns.lanes), names)
        named = (attrs.evolve(node, name=f"pack_{self.use.root}", constraints=tests) for node in nodes)
        return Panel(packed, memory, tuple(attrs.evolve(n, indices=(*loops[:apart], *n.indices)) for n in named))


def ordered_loops(loops: tuple[stripe.Index, ...], uses: tuple[Use, ...]) -> tuple[stripe.Index, ...]:
    """Order reduction loops by their strides in the accesses, largest outermost."""
    return tuple(sorted(loops, key=lambda i: -max((abs(u.stride(i.name)) for u in uses), default=0)))


def unrolled(
    loops: tuple[stripe.Index, ...], size: int, spare: int, sliding: frozenset[str]
) -> tuple[stripe.Index, ...]:
    """Mark the innermost loops with few iterations in all for unrolling, so that they share loads.

    Args:
        loops: The loops of a reduction.
        size: Multiply-adds of vectors in one iteration.
        spare: Registers for elements that further iterations share with the first, one each.
        sliding: The loops along which windows slide as along rows.
    """
    result = list(loops)
    iterations = 1
    for place in reversed(range(len(loops))):
        iterations *= loops[place].range
        most = _SLIDING if loops[place].name in sliding else UNROLLED
        if size * iterations > most or iterations - 1 > spare:
            break
        result[place] = loops[place].bound(stripe.Binding.UNROLL)
    return tuple(result)


def sliding(segment: Segment, tiled: frozenset[str]) -> frozenset[str]:
    """Return the loops of a reduction that move along an axis with several rows in a tile."""
    axes = [frozenset(place.indices) for use in segment.uses for place in use.access]
    return frozenset(i.name for i in segment.loops if any(i.name in axis and axis & tiled for axis in axes))


def panel(
    use: Use,
    loops: tuple[stripe.Index, ...],
    vector: str,
    mapping: Mapping[str, Affine],
    columns: Columns,
    terms: tuple[stripe.Index, ...],
    names: NameScope,
    beside: tuple[stripe.Index, ...] = (),
) -> Panel:
    """Return the panel of a use along the index ``vector``: a row of columns for each point of ``loops``.

    ``mapping`` holds the values of the indices around it, with the columns that a tile's indices number; ``terms`` are
    adjacent terms of dot products; ``beside`` numbers panels that are packed together, one after another.
    """
    rows = (product(i.range for i in loops), columns.width, *(i.range for i in terms))
    sizes = (*(i.range for i in beside), *rows)
    allocation = stripe.allocation(names.fresh(f"{use.root}_panel"), use.dtype, sizes, sch.SCRATCH)
    before = tuple(Affine.index(i.name) for i in beside)
    access = (*before, sch.number_of(loops), columns.inner, *(Affine.index(i.name) for i in terms))
    packed = Use(use.name, allocation.name, access, allocation.shape.strides, use.dtype, stripe.Direction.IN)
    target = attrs.evolve(packed, name=names.fresh("panel"), direction=stripe.Direction.OUT)
    lanes = (*columns.vectors, *columns.lanes)
    plain = tuple(i.bound(stripe.Binding.UNROLL) for i in terms)
    nodes: tuple[Node, ...]
    if use.stride(vector) == 1:
        nodes = (_copy((*loops, *beside, *lanes), use.substitute(mapping), target, *terms),)
    elif terms:
        across = tuple(i.bound(None) for i in lanes)
        nodes = (_copy((*beside, *across, *loops, *plain), use.substitute(mapping), target),)
    else:
        column = sch.index(names.fresh(f"{vector}_column"), columns.width)
        start = mapping[vector] - columns.inner + sch.part(column)
        source = use.substitute({**mapping, vector: start})
        target = attrs.evolve(target, access=(*before, sch.number_of(loops), sch.part(column)))
        turned = _across(source, target, loops, column, product(i.range for i in columns.lanes), names)
        nodes = tuple(attrs.evolve(node, indices=(*beside, *node.indices)) for node in turned)
    return Panel(packed, allocation, tuple(attrs.evolve(node, name=f"pack_{use.root}") for node in nodes))


def _copy(indices: tuple[stripe.Index, ...], source: Use, target: Use, *terms: stripe.Index) -> Node:
    """Return a copy with all values of ``terms`` adjacent: interleaved vectors are stored whole."""
    statements: list[stripe.Statement] = []
    uses: list[Use] = []
    for number in range(product(i.range for i in terms)):
        place, name = {i.name: Affine.constant(number) for i in terms}, f"x_{number}" if number else "x"
        read, written = (attrs.evolve(u.substitute(place), name=f"{u.name}{name[1:]}") for u in (source, target))
        statements += [stripe.Load(read.name, name), stripe.Store(name, written.name)]
        uses += [read, written]
    return Node(indices, statements=tuple(statements), uses=tuple(uses))


def _across(
    source: Use, target: Use, loops: tuple[stripe.Index, ...], column: stripe.Index, lanes: int, names: NameScope
) -> Iterator[Node]:
    """Yield nodes that copy ``source``, whose neighbouring columns are strided, to ``target``."""
    both, (source,) = joined(loops, (source,))
    fresh = {i.name: attrs.evolve(i, name=names.fresh(i.name)) for i in both}  # an index has one range in a kernel
    loops = tuple(fresh.values())
    source = source.substitute({name: Affine.index(i.name) for name, i in fresh.items()})
    target = attrs.evolve(target, access=(*target.access[:-2], sch.number_of(loops), sch.part(column)))
    row = next((i for i in loops if source.stride(i.name) == 1 and not source.dtype.is_bool), None)
    start = 0
    if row is not None:
        for tiles, size in _tiles(row.range, min(lanes, _MOST_TILE)):
            yield _turned(source, target, loops, _Rows(row, start, tiles, size), column, names)
            start += tiles * size
    if row is not None and start < row.range:
        left = attrs.evolve(row, name=names.fresh(row.name), range=row.range - start)
        moved = {row.name: sch.part(left) + start}
        loops = tuple(left if i is row else i for i in loops)
        source, target = source.substitute(moved), target.substitute(moved)
    if row is None or start < row.range:
        yield _copy(ordered_loops((column, *loops), (source,)), source, target)


def _tiles(count: int, most: int) -> Iterator[tuple[int, int]]:
    """Yield numbers and sizes of tiles of ``count`` rows, until the rest is not worth transposing."""
    size = min(most, sch.power_of_two_below(count))
    while size >= _LEAST_TILE:
        yield count // size, size
        count %= size
        size = min(size, sch.power_of_two_below(max(1, count)))


@attrs.frozen(repr=False)
class _Rows:
    """Some tiles of ``size`` values each of an index, from ``start`` on."""

    index: stripe.Index
    start: int
    tiles: int
    size: int


def _turned(
    source: Use, target: Use, loops: tuple[stripe.Index, ...], rows: _Rows, column: stripe.Index, names: NameScope
) -> Node:
    """Return the copy of whole tiles, with contiguous rows in memory, and contiguous columns in the panel."""
    across, down = (
        (
            sch.index(names.fresh(f"{index.name}_tile"), count),
            sch.index(names.fresh(f"{index.name}_in"), rows.size),
        )
        for index, count in ((column, column.range // rows.size), (rows.index, rows.tiles))
    )
    values = {
        column.name: sch.part(across[0], rows.size) + sch.part(across[1]),
        rows.index.name: sch.part(down[0], rows.size) + sch.part(down[1]) + rows.start,
    }
    allocations, items, tile = turned_tile(source.substitute(values), down[1].name, across[1].name, rows.size, names)
    points = (down[1].bound(stripe.Binding.UNROLL), across[1].bound(stripe.Binding.LANE))
    store = _copy(points, tile, target.substitute(values))
    around = (*(i for i in loops if i is not rows.index), *sch.present((down[0], across[0])))
    return Node(around, allocations, (*nodes_of(items), store))
