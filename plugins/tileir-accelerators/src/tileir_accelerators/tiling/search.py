"""Search for the cheapest tiles of a block: exhaustive if there are few, else in a coarse grid and its neighbours.

Costs of tiles are computed for many tiles at a time, as arrays.

The cost of a tile, after PlaidML's autotile, is that of a point: ``1`` for the point itself, and its share of the cache
lines that the tile touches, times the waste, plus a term for the number of tiles::

    (waste · (1 + input_cost · lines_in + output_cost · lines_out) / points + split_factor · log2(tiles)) / factors

``waste`` is the ratio of points with those beyond the ends of ranges, times the factor by which the tile misses each
``min_`` option; ``factors`` counts the small prime factors of the sizes, if an option requests that.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from tileir.core.nodes import attrs
from tileir.stripe.ir import Block, Direction, Index, Refinement

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tileir_accelerators.tiling.autotile import Autotile

    Numbers: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
    Positions: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


_MOST: Final = 20_000
"""Maximum number of tiles for an exhaustive search."""

_BEAM: Final = 32
"""Number of best tiles of a coarse grid that are improved step by step."""


@attrs.frozen
class TileChoice:
    """Tile: its size along each index, its cost, and its footprint in bytes, and in cache lines in and out."""

    sizes: tuple[int, ...]
    cost: float
    footprint: int
    lines: tuple[float, float] = (0.0, 0.0)


def best_tiles(block: Block, options: Autotile, count: int = 1) -> tuple[TileChoice, ...]:
    """Return up to ``count`` tiles within all limits, cheapest first; smaller sizes first among equals."""
    costs = TileCosts.of(block, options)
    if options.candidates:
        rows = [sizes for sizes in options.candidates if len(sizes) == len(block.indices)]
        return _choices(costs, _clipped(rows, costs.ranges), count)
    lists = [_sizes(index, options, output=out) for index, out in zip(block.indices, costs.outputs, strict=True)]
    if options.fast:
        powers = [[sizes[position] for position in _spread(sizes, 2)] for sizes in lists]
        near = _climbed(costs, powers, np.zeros((1, len(lists)), np.int64))
        found = _values(powers, near)
    elif _points(lists) <= _MOST:
        found = _values(lists, _grid([np.arange(len(sizes)) for sizes in lists]))
    else:
        coarse = _grid(_coarse(lists))
        best = _ranked(costs, lists, coarse)[: max(_BEAM, count)]
        found = _values(lists, _climbed(costs, lists, coarse[best]))
    return _choices(costs, found, count)


def _clipped(rows: Sequence[Sequence[int]], ranges: Sequence[int]) -> Numbers:
    """Return tiles clipped to the block."""
    return np.minimum(np.asarray(rows, np.float64).reshape(-1, len(ranges)), np.asarray(ranges, np.float64))


def table(block: Block, choices: Iterable[TileChoice], digits: int = 6, order: Sequence[str] = ()) -> str:
    """Return tiles as text: a column for each index, then the cost with this many digits.

    ``order`` names the indices in column order, by default that of the block.
    """
    names = [index.name for index in block.indices]
    columns = [names.index(name) for name in order or names]
    heads = [*(names[column] for column in columns), "cost"]
    rows = [[*(str(choice.sizes[c]) for c in columns), f"{choice.cost:.{digits}g}"] for choice in choices]
    widths = [max(len(row[column]) for row in (heads, *rows)) for column in range(len(heads))]
    lines = ("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in (heads, *rows))
    return "\n".join(lines)


def _sizes(index: Index, options: Autotile, *, output: bool) -> list[int]:
    """Return the valid sizes of an index, ascending; the smallest of those with equal numbers of tiles."""
    extent = index.range
    if index.affine is not None:
        return [1]
    if not output and not options.acc_idxs:
        return [extent]
    powers = [1 << bit for bit in range(extent.bit_length())]
    sizes = sorted({*powers, extent, *(-(-extent // count) for count in _counts(extent))})
    if options.only_po2:
        sizes = powers
    if options.only_even:
        sizes = [size for size in sizes if extent % size == 0]
    if options.only_multiples > 1:
        step = options.only_multiples
        multiples = sorted({*range(step, extent + 1, step), extent} if extent // step <= _LONG else {*sizes})
        sizes = [s for s in multiples if (s % step == 0 and _allowed(s, extent, options)) or s == extent]
    return sizes


_LONG: Final = 256
"""Maximum number of multiples that are enumerated."""


def _allowed(size: int, extent: int, options: Autotile) -> bool:
    even = not options.only_even or extent % size == 0
    return even and (not options.only_po2 or size & (size - 1) == 0)


def _counts(extent: int) -> list[int]:
    """Return the distinct numbers of tiles over all sizes, about twice the square root of the extent."""
    counts: list[int] = []
    size = extent
    while size > 0:
        count = -(-extent // size)
        counts.append(count)
        size = -(-extent // count) - 1
    return counts


def _points(lists: Sequence[Sequence[object]]) -> int:
    return prod(map(len, lists))


def _coarse(lists: Sequence[Sequence[int]]) -> list[Positions]:
    """Return positions in each list, at increasing powers of two until there are few enough combinations."""
    step = 2.0
    while True:
        result = [_spread(sizes, step) for sizes in lists]
        if _points(result) <= _MOST or step > 1 << 20:
            return [np.asarray(positions) for positions in result]
        step *= 2


def _spread(sizes: Sequence[int], step: float) -> list[int]:
    """Return the positions of sizes that grow by ``step`` at least, and of the last one."""
    result = [0]
    for position, size in enumerate(sizes):
        if size >= step * sizes[result[-1]]:
            result.append(position)
    return sorted({*result, len(sizes) - 1})


def _grid(axes: Sequence[Positions]) -> Positions:
    """Return all combinations of positions, one per row."""
    if not axes:
        return np.zeros((1, 0), np.int64)
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))


def _values(lists: Sequence[Sequence[int]], positions: Positions) -> Numbers:
    columns = [np.asarray(sizes, np.float64)[positions[:, column]] for column, sizes in enumerate(lists)]
    return np.stack(columns, axis=1) if columns else np.ones((len(positions), 0))


def _ranked(costs: TileCosts, lists: Sequence[Sequence[int]], positions: Positions) -> Positions:
    """Return the row numbers within all limits, cheapest first."""
    found = costs.costs(_values(lists, positions))
    order = np.argsort(found, kind="stable")
    return order[: int(np.isfinite(found).sum())]


def _climbed(costs: TileCosts, lists: Sequence[Sequence[int]], start: Positions) -> Positions:
    """Return all rows visited from ``start`` to tiles that no step along one or two indices makes cheaper."""
    seen = front = start
    lengths = np.asarray([len(sizes) for sizes in lists], np.int64)
    best = np.inf
    for _ in range(4 * int(lengths.sum()) + 1):
        near = np.unique((front[:, None, :] + _moves(len(lists))[None, :, :]).reshape(-1, len(lists)), axis=0)
        near = near[((near >= 0) & (near < lengths)).all(axis=1)]
        ranked = _ranked(costs, lists, near)
        if not len(ranked):
            return seen
        cheapest = float(costs.costs(_values(lists, near[ranked[:1]]))[0])
        front = near[ranked[: len(start)]]
        seen = np.unique(np.concatenate((seen, near[ranked])), axis=0)
        if cheapest >= best:
            return seen
        best = cheapest
    return seen


def _moves(count: int) -> Positions:
    """Return no step, a step either way along each index, and one index up with another one down."""
    unit = np.eye(count, dtype=np.int64)
    pairs = [unit[a] - unit[b] for a in range(count) for b in range(count) if a != b]
    return np.concatenate((np.zeros((1, count), np.int64), unit, -unit, np.asarray(pairs, np.int64).reshape(-1, count)))


def _choices(costs: TileCosts, sizes: Numbers, count: int) -> tuple[TileChoice, ...]:
    """Return up to ``count`` tiles within all limits, cheapest first."""
    found = costs.costs(sizes)
    order = np.lexsort((*sizes.T[::-1], found))[: min(count, int(np.isfinite(found).sum()))]
    rows = [tuple(map(int, sizes[row])) for row in order]
    bytes_of = costs.footprints(sizes[order])
    lines_in, lines_out = costs.lines(sizes[order])
    return tuple(
        TileChoice(tile, float(found[row]), int(bytes_of[place]), (float(lines_in[place]), float(lines_out[place])))
        for place, (tile, row) in enumerate(zip(rows, order, strict=True))
    )


@attrs.frozen(eq=False)
class TileCosts:
    """Costs of one block's tiles.

    ``ranges`` has the range of each index; ``outputs`` the indices that move through a result.
    """

    options: Autotile
    ranges: tuple[int, ...]
    outputs: tuple[bool, ...]
    reads: tuple[_View, ...]
    writes: tuple[_View, ...]

    @classmethod
    def of(cls, block: Block, options: Autotile) -> TileCosts:
        """Return the costs for the views of a block."""
        names = [index.name for index in block.indices]
        views = [r for r in block.refinements if r.direction is not Direction.NONE]
        written = [r for r in views if r.direction.writes]
        return cls(
            options,
            tuple(index.range for index in block.indices),
            tuple(any(name in access.indices for r in written for access in r.access) for name in names),
            tuple(_View.of(r, names) for r in views if not r.direction.writes),
            tuple(_View.of(r, names) for r in written),
        )

    def footprints(self, sizes: Numbers) -> Numbers:
        """Return the bytes that each tile touches."""
        return _sum((view.bytes(sizes) for view in (*self.reads, *self.writes)), sizes)

    def lines(self, sizes: Numbers) -> tuple[Numbers, Numbers]:
        """Return the cache lines of inputs and of results that each tile touches, averaged over alignments."""
        width = self.options.cache_width
        reads, writes = (
            _sum((view.lines(sizes, width) for view in views), sizes) for views in (self.reads, self.writes)
        )
        return reads, writes

    def costs(self, sizes: Numbers) -> Numbers:
        """Return the cost of each tile, a row of ``sizes`` with a column for each index; infinity beyond a limit."""
        options = self.options
        counts = np.ceil(np.asarray(self.ranges, np.float64) / sizes)
        points, tiles = sizes.prod(axis=1), counts.prod(axis=1)
        out = np.asarray(self.outputs, np.bool_)
        waste = points * tiles / float(np.prod(np.asarray(self.ranges, np.float64)))
        for value, least in (
            (points, options.min_size),
            (np.where(out, sizes, 1.0).prod(axis=1), options.min_out_size),
            (tiles, options.min_count),
            (np.where(out, counts, 1.0).prod(axis=1), options.min_out_count),
        ):
            if least > 0:
                waste = waste * least / np.minimum(value, least)
        lines_in, lines_out = self.lines(sizes)
        traffic = 1 + options.input_cost * lines_in + options.output_cost * lines_out
        cost: Numbers = waste * traffic / points + options.split_factor * np.log2(tiles)
        if options.factor_bound > 1:
            cost = cost / _small_factors(sizes, options.factor_bound)
        return np.where(self._within(sizes, points, tiles), cost, np.inf)

    def _within(
        self, sizes: Numbers, points: Numbers, tiles: Numbers
    ) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Return which tiles are within all limits."""
        options = self.options
        reads = _sum((view.bytes(sizes) for view in self.reads), sizes)
        writes = _sum((view.bytes(sizes) for view in self.writes), sizes)
        result = np.ones(len(sizes), np.bool_)
        for value, most in (
            ((reads + writes) * options.pipeline_depth, options.room),
            (reads + writes, options.max_total_size),
            (reads, options.max_input_size),
            (writes, options.max_output_size),
            (points, options.max_sizes_product),
            (tiles, options.max_count),
        ):
            if most > 0:
                result &= value <= most
        return result


@attrs.frozen(eq=False, repr=False)
class _View:
    """Growth of a view with a tile: for each axis its own size, the contribution of each index, and its stride."""

    itemsize: int
    axes: tuple[tuple[int, tuple[tuple[int, int], ...], int], ...]  # by stride, smallest first

    @classmethod
    def of(cls, view: Refinement, names: list[str]) -> _View:
        axes = []
        for access, dim in zip(view.access, view.shape.dims, strict=True):
            terms = tuple((names.index(name), abs(int(c))) for name, c in access.terms)
            if terms or dim.size > 1:
                axes.append((dim.size, terms, abs(dim.stride)))
        return cls(view.shape.dtype.itemsize, tuple(sorted(axes, key=lambda axis: axis[2])))

    def extents(self, sizes: Numbers) -> list[Numbers]:
        """Return the extent of the tile's part of each axis."""
        return [_sum((step * (sizes[:, i] - 1) for i, step in terms), sizes) + size for size, terms, _ in self.axes]

    def bytes(self, sizes: Numbers) -> Numbers:
        """Return the packed size of the part."""
        result = np.full(len(sizes), float(self.itemsize))
        for extent in self.extents(sizes):
            result = result * extent
        return result

    def lines(self, sizes: Numbers, width: int) -> Numbers:
        """Return the number of cache lines of ``width`` bytes that the part touches, averaged over alignments."""
        run = np.ones(len(sizes))  # elements from the first to the last of a piece that shares lines
        pieces = np.ones(len(sizes))
        for extent, (_, _, stride) in zip(self.extents(sizes), self.axes, strict=True):
            joined = (stride <= run) | (stride * self.itemsize < width)
            pieces = np.where(joined, pieces, pieces * extent)
            run = np.where(joined, np.maximum(run, run + stride * (extent - 1)), run)
        return pieces * (1 + (run - 1) * self.itemsize / width)


def _sum(values: Iterable[Numbers], like: Numbers) -> Numbers:
    result = np.zeros(len(like))
    for value in values:
        result = result + value
    return result


def _small_factors(sizes: Numbers, bound: int) -> Numbers:
    """Return 1 and the number of prime factors up to ``bound`` of all sizes of each tile."""
    result = np.ones(len(sizes))
    left = sizes.astype(np.int64)
    for divisor in range(2, bound + 1):
        divides = (left % divisor == 0) & (left > 1)
        while divides.any():
            result = result + divides.sum(axis=1)
            left = np.where(divides, left // divisor, left)
            divides = (left % divisor == 0) & (left > 1)
    return result
