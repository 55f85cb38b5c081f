"""What tiles of a block cost: many tiles at a time, as arrays.

The cost of a tile, after PlaidML's autotile, is what a point of it takes: ``1`` for the point itself, and its share of
the cache lines that the tile touches, times what is wasted, plus a term for the number of tiles::

    (waste · (1 + input_cost · lines_in + output_cost · lines_out) / points + split_factor · log2(tiles)) / factors

``waste`` is the share of points behind the ends of ranges, times how far the tile misses each ``min_`` option;
``factors`` counts the small prime factors of the sizes, where an option asks for that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import attrs
import numpy as np

from tileir.stripe.ir import Block, Direction, Refinement

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tileir.passes.tiling.autotile import Autotile

    Numbers: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


@attrs.frozen(eq=False)
class TileCosts:
    """The costs of one block's tiles.

    ``ranges`` holds the range of each index; ``outputs`` which of them move through a result.
    """

    options: Autotile
    ranges: tuple[int, ...]
    outputs: tuple[bool, ...]
    reads: tuple[_View, ...]
    writes: tuple[_View, ...]

    @classmethod
    def of(cls, block: Block, options: Autotile) -> TileCosts:
        """Look at the views of a block."""
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
        """Return the cache lines of inputs and of results that each tile touches, on average over where it starts."""
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
        """Return which tiles keep to all limits."""
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
    """How a view grows with a tile: for each axis its own size, what each index adds to it, and its stride."""

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
        """Return how far the tile's part of each axis reaches."""
        return [_sum((step * (sizes[:, i] - 1) for i, step in terms), sizes) + size for size, terms, _ in self.axes]

    def bytes(self, sizes: Numbers) -> Numbers:
        """Return how large the part is, packed."""
        result = np.full(len(sizes), float(self.itemsize))
        for extent in self.extents(sizes):
            result = result * extent
        return result

    def lines(self, sizes: Numbers, width: int) -> Numbers:
        """Return how many cache lines of ``width`` bytes the part touches, on average over where it starts."""
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
