"""The cheapest tiles of a block: of all of them where they are few, else of a coarse grid and its neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from tileir.passes.tiling.cost import TileCosts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import TypeAlias

    from tileir.passes.tiling.autotile import Autotile
    from tileir.passes.tiling.cost import Numbers
    from tileir.stripe.ir import Block, Index

    Positions: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.int64]]

_MOST: Final = 20_000
"""So many tiles are looked at together."""

_BEAM: Final = 32
"""So many of the best tiles of a coarse grid are improved step by step."""


@attrs.frozen
class TileChoice:
    """A tile: its size along each index, what it costs, and what it touches: bytes, and cache lines in and out."""

    sizes: tuple[int, ...]
    cost: float
    footprint: int
    lines: tuple[float, float] = (0.0, 0.0)


def best_tiles(block: Block, options: Autotile, count: int = 1) -> tuple[TileChoice, ...]:
    """Return up to ``count`` tiles that keep to all limits, the cheapest first; of equals the smaller sizes first."""
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
    """Return tiles that are no larger than the block."""
    return np.minimum(np.asarray(rows, np.float64).reshape(-1, len(ranges)), np.asarray(ranges, np.float64))


def table(block: Block, choices: Iterable[TileChoice], digits: int = 6, order: Sequence[str] = ()) -> str:
    """Return tiles as text: a column for each index, then the cost with so many digits.

    ``order`` names the indices in the order of columns; by default it is that of the block.
    """
    names = [index.name for index in block.indices]
    columns = [names.index(name) for name in order or names]
    heads = [*(names[column] for column in columns), "cost"]
    rows = [[*(str(choice.sizes[c]) for c in columns), f"{choice.cost:.{digits}g}"] for choice in choices]
    widths = [max(len(row[column]) for row in (heads, *rows)) for column in range(len(heads))]
    lines = ("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in (heads, *rows))
    return "\n".join(lines)


def _sizes(index: Index, options: Autotile, *, output: bool) -> list[int]:
    """Return the sizes that an index may have, ascending; of sizes that make equally many tiles, the smallest."""
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
"""So many multiples of a number are looked at one by one."""


def _allowed(size: int, extent: int, options: Autotile) -> bool:
    even = not options.only_even or extent % size == 0
    return even and (not options.only_po2 or size & (size - 1) == 0)


def _counts(extent: int) -> list[int]:
    """Return the numbers of tiles of different sizes, about twice the square root of them."""
    counts: list[int] = []
    size = extent
    while size > 0:
        count = -(-extent // size)
        counts.append(count)
        size = -(-extent // count) - 1
    return counts


def _points(lists: Sequence[Sequence[object]]) -> int:
    points = 1
    for sizes in lists:
        points *= len(sizes)
    return points


def _coarse(lists: Sequence[Sequence[int]]) -> list[Positions]:
    """Return positions in each list, about as far apart as powers of two and further, of which there are few enough."""
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
    """Return all combinations of positions, a row for each."""
    if not axes:
        return np.zeros((1, 0), np.int64)
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))


def _values(lists: Sequence[Sequence[int]], positions: Positions) -> Numbers:
    columns = [np.asarray(sizes, np.float64)[positions[:, column]] for column, sizes in enumerate(lists)]
    return np.stack(columns, axis=1) if columns else np.ones((len(positions), 0))


def _ranked(costs: TileCosts, lists: Sequence[Sequence[int]], positions: Positions) -> Positions:
    """Return the numbers of the rows that keep to all limits, the cheapest first."""
    found = costs.costs(_values(lists, positions))
    order = np.argsort(found, kind="stable")
    return order[: int(np.isfinite(found).sum())]


def _climbed(costs: TileCosts, lists: Sequence[Sequence[int]], start: Positions) -> Positions:
    """Return all rows seen on the way from ``start`` to tiles that no step along one or two indices makes cheaper."""
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
    """Return up to ``count`` tiles that keep to all limits, the cheapest first."""
    found = costs.costs(sizes)
    order = np.lexsort((*sizes.T[::-1], found))[: min(count, int(np.isfinite(found).sum()))]
    rows = [tuple(map(int, sizes[row])) for row in order]
    bytes_of = costs.footprints(sizes[order])
    lines_in, lines_out = costs.lines(sizes[order])
    return tuple(
        TileChoice(tile, float(found[row]), int(bytes_of[place]), (float(lines_in[place]), float(lines_out[place])))
        for place, (tile, row) in enumerate(zip(rows, order, strict=True))
    )
