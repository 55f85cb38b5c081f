"""Cost of a step of a reduction over a register tile.

The model counts multiply-adds and loads: a load from the first-level cache costs as much as a multiply-add, a vector
from farther away twice that; dependent multiply-adds have a latency of four. The larger of the two decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil, floor, prod
from typing import Final

from tileir.core.nodes import attrs
from tileir.passes.analysis.accesses import PAGE_BYTES
from tileir.passes.schedules.registers.spans import bounding
from tileir.poly.affine import Affine
from tileir.schedule import Nest, Segment, Use, dtype_of_product, product
from tileir.stripe import ir as stripe

LATENCY: Final = 4.0
FAR: Final = 2.0
_LOADS_BESIDE: Final = 1 / 8
"""Cost of loads that multiply-adds hide: of equally fast tiles, the one with fewer loads is better."""

_RUN: Final = 1.5
"""Cost of beginning a run of contiguous vectors elsewhere in memory, for each row with its own run."""

_ELSEWHERE: Final = 16.0
"""Cost in a step of a new page of an operand that exceeds the caches near the processor."""

LINE: Final = 64
"""Bytes of a cache line."""

_FURTHER: Final = 8.0
"""Cost in a step of a new cache line of a large operand for a further row: only reads of one row are prefetched."""

_TEST: Final = 1.5
"""Cost in a step of a test that may exclude a row at one side of a tile: a branch."""

_ALL: Final = 1 << 30
"""Number of columns, beyond any tile, for which all panels fit."""

_STREAMS: Final = 32
"""Maximum pages read in turn for which processors prefetch more than the next line."""

_SHARED_COLUMNS: Final = 4
"""Columns whose cache lines a narrower panel loads as well."""


@attrs.frozen
class Window:
    """Elements of an operand that points of a tile read along the vector index, most of them shared by neighbours.

    Attributes:
        column: Bytes of a vector.
        axes: For each axis, the stride and range of each index along it; 0 for an offset that rows choose.
    """

    column: int
    axes: tuple[tuple[tuple[str, int, int], ...], ...]

    @classmethod
    def of(cls, use: Use, nest: Nest, segment: Segment, vector: stripe.Index, lanes: int) -> Window | None:
        """Return the window of a use; None if no loop moves along an axis of an outer index."""
        counts = {i.name: 0 for i in nest.indices if i is not vector} | {i.name: i.range for i in segment.loops}
        axes = tuple(
            tuple((name, abs(int(step)), counts[name]) for name, step in place.terms if name in counts)
            for place in use.access
        )
        slides = any({bool(count) for _, _, count in axis} == {True, False} for axis in axes)
        return cls(lanes * use.dtype.itemsize, axes) if slides else None

    def nbytes(self, heights: Mapping[str, int]) -> int:
        """Return the bytes that a column of a tile reads in all steps."""
        found = self.column
        for axis in self.axes:
            counts = [(step, count or heights.get(name, 1)) for name, step, count in axis]
            found *= min(1 + sum([step * (count - 1) for step, count in counts]), prod([count for _, count in counts]))
        return found


@attrs.frozen
class Step:
    """Cost facts about one step of a reduction, with each use represented by the indices of the nest that move it.

    Attributes:
        depth: Number of steps.
        sums: Sums to which a step adds.
        vectors: Loads along the vector index.
        scalars: Other loads.
        tests: For each constraint that bounds no loop, number of rows along each index that it may exclude, negative at
            the end of the index.
        near: Number of columns whose panel fits the nearest cache.
        windows: Operands that slide along the rows of a tile.
        cache_bytes: Size of the nearest cache.
        elsewhere: For each of ``scalars`` that is far and touches another page at some steps, the share of these steps
            and the indices that move it by a line.
        lines: For each of ``scalars``, the share of steps that touch another cache line.
        moving: For each of ``elsewhere`` that alternates between many pages, their share, and strides of indices below
            a cache line, in bytes.
        is_fused: Whether it belongs to a matrix product of floats with fused multiply-adds: no product occupies a
            register before it is added, nor, as in windows, does a value that further steps load again.
    """

    depth: int
    sums: int
    vectors: tuple[frozenset[str], ...]
    scalars: tuple[frozenset[str], ...]
    tests: tuple[tuple[tuple[str, int], ...], ...]
    near: int
    windows: tuple[Window, ...]
    cache_bytes: int
    elsewhere: tuple[tuple[float, frozenset[str]], ...]
    lines: tuple[tuple[float, frozenset[str]], ...]
    moving: tuple[tuple[float, tuple[tuple[str, int], ...]], ...]
    is_fused: bool

    @classmethod
    def of(
        cls, nest: Nest, segment: Segment, vector: stripe.Index, lanes: int, cache_bytes: int, panel_bytes: int
    ) -> Step:
        """Return a step of a segment; the nearest cache has ``cache_bytes``, the next one twice ``panel_bytes``."""
        reads = [use for use in dict.fromkeys(segment.uses) if use.root not in nest.local and not use.direction.writes]
        names = [i.name for i in nest.indices]
        moved = {use: frozenset(name for name in names if use.stride(name)) for use in reads}
        along = [use for use in reads if vector.name in moved[use]]
        depth = product(i.range for i in segment.loops)
        windows = {use: Window.of(use, nest, segment, vector, lanes) for use in along}
        stores = sum(isinstance(s, stripe.Store) for s in segment.statements)
        _, bounds = bounding(segment)
        multiplied = dtype_of_product(segment.statements, segment.uses)
        converts = any(isinstance(s, stripe.Convert) for s in segment.statements)

        apart_by_lines = {
            use: frozenset(i.name for i in nest.indices if abs(use.stride(i.name)) * use.dtype.itemsize >= LINE)
            for use in reads
            if vector.name not in moved[use]
        }

        def far(apart: int) -> tuple[tuple[float, frozenset[str]], ...]:
            shares = ((_elsewhere(use, nest, segment, panel_bytes, apart), use) for use in apart_by_lines)
            return tuple((share, apart_by_lines[use]) for share, use in shares if share)

        def within(use: Use) -> tuple[tuple[str, int], ...]:
            strides = ((name, abs(use.stride(name)) * use.dtype.itemsize) for name in names)
            return tuple((name, stride) for name, stride in strides if 0 < stride < LINE)

        pages = ((_elsewhere(use, nest, segment, panel_bytes, PAGE_BYTES), within(use)) for use in apart_by_lines)
        return cls(
            depth,
            max(1, stores),
            tuple(moved[use] for use in along),
            tuple(moved[use] for use in reads if vector.name not in moved[use]),
            tuple(
                left_out(constraint, nest, segment) for constraint in segment.constraints if constraint not in bounds
            ),
            _near(windows, nest, segment, vector, lanes, cache_bytes),
            tuple(filter(None, windows.values())),
            cache_bytes,
            far(PAGE_BYTES),
            far(LINE),
            tuple((share, rows) for share, rows in pages if share * depth > _STREAMS),
            multiplied is not None and multiplied.is_float and not converts and len(segment.loops) == 1,
        )

    def over(self, heights: Mapping[str, int], beside: int = 0) -> Rate:
        """Return the cost of a step over tiles with some rows.

        As one of ``beside`` panels packed into the nearest caches, it shares distant reads with the others.
        """
        runs = [_moving(heights, moved) for moved in self.vectors]
        scalars = sum([_moving(heights, moved) for moved in self.scalars])
        elsewhere = self.lines if beside else self.elsewhere
        pages = sum([share * _moving(heights, moved) for share, moved in elsewhere])
        further = sum([share * (_moving(heights, moved) - 1) for share, moved in self.lines])
        # The next line is prefetched; a tile that moves further waits for the lines after it.
        moved = (share * max(0.0, heights.get(n, 1) * b / LINE - 1) for share, rows in self.moving for n, b in rows)
        return Rate(
            depth=self.depth,
            tile=self.sums * product(heights.values()),
            vectors=sum(runs),
            near=_ALL if beside else min([self.near, *(self.cache_bytes // w.nbytes(heights) for w in self.windows)]),
            others=scalars + sum([_RUN * count for count in runs if count > 1]),
            elsewhere=_ELSEWHERE * pages,
            beside=max(1, beside),
            least=LATENCY * self.sums,
            tests=_TEST * sum([min(heights.get(name, 0), abs(rows)) for test in self.tests for name, rows in test]),
            ahead=_ELSEWHERE * sum(moved) + _FURTHER * further,
        )


def _moving(heights: Mapping[str, int], moved: frozenset[str]) -> int:
    return prod([height for name, height in heights.items() if name in moved])


def _near(
    windows: Mapping[Use, Window | None],
    nest: Nest,
    segment: Segment,
    vector: stripe.Index,
    lanes: int,
    cache_bytes: int,
) -> int:
    """Return the number of columns whose panel fits the nearest cache; all or none if each element is read once.

    A cache that holds all elements may then have them already, and no tile width changes that.
    """
    others = [i for i in nest.indices if i is not vector and i.range > 1]
    again = [u for u, window in windows.items() if window is not None or not all(u.stride(i.name) for i in others)]
    if not again:
        indices = (*nest.indices, *segment.loops)
        sizes = (product(i.range for i in indices if u.stride(i.name)) * u.dtype.itemsize for u in windows)
        return _ALL if sum(sizes) <= cache_bytes else 0
    panels = (product(i.range for i in segment.loops if u.stride(i.name)) * u.dtype.itemsize for u in windows)
    column = lanes * max(panels)
    shared = min(vector.range / lanes, _SHARED_COLUMNS)
    return 0 if shared * column > cache_bytes else cache_bytes // max(1, column)


def _elsewhere(use: Use, nest: Nest, segment: Segment, near_bytes: int, apart: int) -> float:
    """Return the share of steps that read another piece of ``apart`` bytes of a large operand.

    0 if it fits ``near_bytes``, counting elements as often as windows read them, or their lines. Loops that move within
    a cache line do not count: their reads are prefetched.
    """
    size = use.dtype.itemsize
    moving = [(i.range, abs(use.stride(i.name)) * size) for i in segment.loops if use.stride(i.name)]
    indices = [i for i in (*nest.indices, *segment.loops) if use.stride(i.name)]
    nbytes = max(product(i.range for i in indices) * size, touched(use, indices))
    pieces = [max(1.0, count * min(1.0, stride / apart)) for count, stride in moving if stride >= LINE]
    return prod(pieces) / product(count for count, _ in moving) if pieces and nbytes > near_bytes else 0.0


def touched(use: Use, indices: Iterable[stripe.Index]) -> int:
    """Estimate the bytes of the cache lines that are read."""
    size = use.dtype.itemsize
    found = reach = size
    for stride, count in sorted((abs(use.stride(i.name)) * size, i.range) for i in indices if use.stride(i.name)):
        further = (count - 1) * stride
        found = found + further if stride <= max(reach, LINE) else max(found, LINE) * count
        reach += further
    return found


def left_out(constraint: Affine, nest: Nest, segment: Segment) -> tuple[tuple[str, int], ...]:
    """Return the rows along each index of a nest that a constraint may exclude, those at its end negative."""
    least, _ = constraint.bounds({i.name: i.range for i in (*nest.indices, *segment.loops)})
    names = {i.name for i in nest.indices}
    steps = ((name, step) for name, step in constraint.terms if name in names and least < 0)
    return tuple((name, ceil(-least / step) if step > 0 else floor(-least / step)) for name, step in steps)


@attrs.frozen
class Rate:
    """Cost of the steps of a reduction, by the columns of a tile.

    Attributes:
        depth: Number of steps.
        tile: Multiply-adds of a column.
        vectors: Vectors that a column loads.
        near: Number of columns whose panel fits the nearest cache.
        others: Cost of other loads.
        elsewhere: Cost of loads in the first of ``beside`` panels.
        beside: Number of consecutive panels with equal loads.
        least: Minimum cost of a step.
        tests: Cost of tests.
        ahead: Cost of loads that are not prefetched.
    """

    depth: int
    tile: float
    vectors: int
    near: int
    others: float
    elsewhere: float
    beside: int
    least: float
    tests: float
    ahead: float

    def cost(self, columns: int) -> float:
        """Return the cost of all steps over a tile."""
        loads = self.vectors * columns * (1.0 if columns <= self.near else FAR) + self.others
        first = max(self.tile * columns, loads + self.elsewhere, self.least)
        again = max(self.tile * columns, loads, self.least)
        beside = loads + self.elsewhere / self.beside
        step = (first + again * (self.beside - 1)) / self.beside
        return self.depth * (step + beside * _LOADS_BESIDE + self.tests + self.ahead)


class Rates(dict[tuple[tuple[tuple[str, int], ...], int, int], float]):
    """Cost of all steps over a tile, by its rows along each index, adjacent panels, and columns.

    Tiles of few rows occur in many plans, as remainders of larger tiles.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        super().__init__()
        self.steps = steps
        self.tiles: dict[tuple[tuple[tuple[str, int], ...], int], list[Rate]] = {}

    def __missing__(self, key: tuple[tuple[tuple[str, int], ...], int, int]) -> float:
        heights, beside, columns = key
        rates = self.tiles.get((heights, beside))
        if rates is None:
            rates = self.tiles[heights, beside] = [step.over(dict(heights), beside) for step in self.steps]
        cost = self[key] = sum([rate.cost(columns) for rate in rates])
        return cost
