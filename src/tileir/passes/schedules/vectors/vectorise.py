"""Elementwise kernels over vector lanes and a grid of chunks.

Kernels that test for the edge of a row, such as copies of rows into longer ones, are split into interior and ends. In
the interior no test fails, so that lanes may run along the row; the few elements at both ends keep their tests.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import ClassVar

from tileir.core import NameScope, attrs
from tileir.passes.base import at_least
from tileir.passes.kernels import elementwise_nest, schedule as sch
from tileir.passes.kernels.unroll_and_jam import is_merge, unroll_and_jam
from tileir.passes.regions.interior import span_inside
from tileir.passes.regions.strips import STRIP
from tileir.passes.schedules.strategy import Strategy
from tileir.passes.schedules.vectors.shared_loads import Vectors, computed_apart, vectors_abreast, vectors_beside
from tileir.poly.affine import Affine
from tileir.schedule import Nest, Refused, Tail, Use, accepted, product, refused
from tileir.schedule.application import Candidate, Rearrangement
from tileir.schedule.steps.loops import Bind, Cut, Reorder, Split
from tileir.stripe import ir as stripe


@attrs.frozen
class Vectorise(Strategy):
    """Vectorise elementwise kernels along an index with stride 1 in every output.

    Attributes:
        vector_bytes: Width of a vector register in bytes.
        max_lanes: Maximum number of lanes of a vector; 0 for as many as fit.
        chunk: Approximate number of points of a group of the grid.
        rows: Maximum unroll-and-jam factor: rows that share loads, as in stencils, or vectors of a row that share most
            of their loads, that are computed together.
        terms: Minimum number of terms of an element, most of them shared by rows, that doubles this factor.
        statements: Maximum number of statements of the unrolled rows, which instruction caches hold.
        registers: Number of vector registers. Vectors of function calls fill several registers, whose independent
            operations overlap; 0 for one.
    """

    name: ClassVar[str] = "vectorise"
    vector_bytes: int = attrs.field(default=32, validator=at_least(1))
    max_lanes: int = attrs.field(default=0, validator=at_least(0))
    chunk: int = attrs.field(default=16 * 1024, validator=at_least(1))
    rows: int = attrs.field(default=4, validator=at_least(1))
    terms: int = attrs.field(default=20, validator=at_least(2))
    statements: int = attrs.field(default=1024, validator=at_least(1))
    registers: int = attrs.field(default=0, validator=at_least(0))

    def candidates(self, kernel: stripe.Block) -> Iterator[Candidate | Refused]:
        """Yield vectors along the index with the most contiguous accesses, over all of it or its untested interior."""
        nest = accepted(elementwise_nest(kernel))
        ends: Sequence[Nest] = ()
        vector = self._vector_index(nest)
        if isinstance(vector, Refused) and (tested := _tested_index(vector)):
            nest, *ends = untested(nest, tested, _LEAST) or (nest,)
            vector = self._vector_index(nest)
        index = accepted(vector)
        parts = self._parts(nest, index)
        steps = [(part, self._steps(part, index, count)) for part, count in parts]
        facts = (("index", index.name), ("lanes", self._lanes(nest, index)), ("rows", parts[0][1]))
        yield Candidate((*steps, *((end, self._few(end)) for end in ends)), facts)

    def _few(self, nest: Nest) -> Iterator[Rearrangement]:
        """Yield steps that give a group of the grid the few remaining elements of many rows."""
        names, many = nest.taken_names(), max(nest.indices, key=lambda index: index.range)
        others = [index for index in nest.indices if index is not many]
        most = self.chunk // (_APART * product(index.range for index in others))
        block, within = (names.fresh(f"{many.name}_{what}") for what in ("block", "row"))
        yield Split(many.name, _divisor_up_to(many.range, max(1, most)), (block, within), Tail.EVEN)
        yield Reorder((block, *(index.name for index in others), within))
        yield Bind(block, stripe.Binding.GRID)

    def _parts(self, nest: Nest, vector: stripe.Index) -> list[tuple[Nest, int]]:
        """Return the nest with the number of rows to compute together; in two parts if some rows remain."""
        row = _shared_index(nest, vector, self.rows)
        points = product(i.range for i in nest.indices)
        if row is None or points < 2 * self.chunk:
            return [(nest, 1)]
        merged = sum(map(is_merge, nest.segments[0].statements))
        rows = 2 * self.rows if merged + 1 >= self.terms and row.range >= 2 * self.rows else self.rows
        rows = min(rows, self.statements // len(nest.segments[0].statements))
        if rows < 2:
            return [(nest, 1)]
        whole, left = divmod(row.range, rows)
        parts = [(sch.part_of(nest, row.name, 0, whole * rows), rows)]
        return [*parts, (sch.part_of(nest, row.name, whole * rows, left), 1)] if left else parts

    def _most_beside(self, nest: Nest) -> int:
        (segment,) = nest.segments
        return 1 if "border" in nest.kernel.tags else min(self.rows, self.statements // len(segment.statements))

    def _vector_index(self, nest: Nest) -> stripe.Index | Refused:
        constrained = sch.constrained_indices(nest)
        if scattered := [i.name for i in nest.indices if sch.scatters(nest.segments[0], i.name)]:
            return refused("TR208", index=scattered[0])
        if not sch.written_uses(nest):
            return refused("TR207")
        candidates = [
            (i, steps)
            for i in nest.indices
            if i.range >= _LEAST and i.name not in constrained and STRIP not in i.tags
            if (steps := _whole_steps(nest, i.name)) is not None
        ]
        if not candidates:
            return _against_lanes(nest, constrained)
        # Among candidates prefer the one along which most outputs, then most inputs are contiguous or constant, then
        # the longest.
        reads = sch.read_uses(nest)
        return max(
            candidates,
            key=lambda c: (-max(c[1]), sum(u.stride(c[0].name) in (0, 1) for u in reads), c[0].range),
        )[0]

    def _lanes(self, nest: Nest, vector: stripe.Index) -> int:
        lanes = sch.vector_lanes(self.vector_bytes, sch.widest_itemsize(nest), self.max_lanes)
        return min(lanes, sch.power_of_two_below(vector.range))

    def _steps(self, nest: Nest, vector: stripe.Index, rows: int) -> Iterator[Rearrangement]:
        """Yield steps that split rows into parts for the grid and vectors, with scalar remainders."""
        single, names, name = self._lanes(nest, vector), nest.taken_names(), vector.name
        row = _shared_index(nest, vector, rows) if rows > 1 else None
        cut = _crossed_index(nest, vector) if row is None else (row, rows)
        others = [index for index in nest.indices if index is not vector]
        beside = vectors_beside(nest, name, single, self._most_beside(nest)) if row is None else 1
        abreast = vectors_abreast(nest, self.registers) if cut is None and beside == 1 else 1
        lanes = sch.power_of_two_below(min(single * abreast, vector.range, self.max_lanes or vector.range))
        vectors, left = divmod(vector.range, lanes)
        per_group, inner, shape = vectors, tuple[str, ...](), Vectors(name, lanes, names, nest.sources, vectors=beside)
        if cut is not None:
            index, size = cut
            block, within = (names.fresh(f"{index.name}_{what}") for what in ("block", "in"))
            yield Split(index.name, size, (block, within), Tail.EVEN)
            others = [sch.index(block, index.range // size) if each is index else each for each in others]
            per_group, inner = vectors if row is not None else max(1, size // lanes), (within,)
            values = [Affine.of({block: rows}) + number for number in range(rows)]
            together = None if row is None else unroll_and_jam(nest.segments[0], row.name, values, nest.sources)
            shape = Vectors(name, lanes, names, nest.sources, within, row is not None, together)
        elif not others or (vector.range > self.chunk and STRIP not in nest.kernel.tags):
            # One group takes several short rows, or a part of a long one.
            per_group = max(1, self.chunk // lanes)
        several = sch.present(others) and "border" not in nest.kernel.tags
        blocks, grid, loops = self._grid(nest, others, vector.range, names)
        yield from blocks
        groups, rest = divmod(vectors, per_group)
        chunked = groups > 1 or not (rest or left)
        ends = [(rest if chunked else vectors, lanes)]
        if lanes > single:
            ends.append((left // single, single))
        ends += _ends(left % single, vectors if several else 0)
        runs = [run for run in ends if run[0]]
        parts = [(per_group * lanes, [(per_group, lanes)])] * chunked + [(vector.range, runs)] * bool(runs)
        cuts = [names.fresh(f"{name}_cut") for _ in parts] if len(parts) > 1 else [name]
        chunks = [names.fresh(f"{name}_chunk") for _ in parts]
        inside = [names.fresh(f"{name}_part") for _ in parts]
        yield Reorder((name, *grid, *loops, *inner))
        if len(parts) > 1:
            yield Cut(name, groups * per_group * lanes, tuple(cuts))
        for loop, (size, _), chunk, part in zip(cuts, parts, chunks, inside, strict=True):
            yield Split(loop, size, (chunk, part), Tail.EVEN)
            yield Reorder((*grid, chunk, *loops, part, *inner))
        # If one group takes a kernel, its outer loops may still become a grid, but not the vectors of a row.
        groups_of = chunks if groups > 1 or not loops else []
        yield from (Bind(loop, stripe.Binding.GRID) for loop in (*grid, *groups_of))
        sides = [loop for loop in loops if loop in _sides(nest)]
        if sides and computed_apart(nest, name, 2 ** len(sides) * vector.range):
            yield from (Bind(loop, stripe.Binding.UNROLL) for loop in (*sides, *inside))
            return
        for (_, own), part in zip(parts, inside, strict=True):
            yield from shape.steps(part, own)

    def _grid(
        self, nest: Nest, others: Sequence[stripe.Index], row: int, names: NameScope
    ) -> tuple[list[Rearrangement], list[str], list[str]]:
        """Return the outer loops that are axes of the grid, the other loops, and a step that binds the axes.

        A group that would have one short row gets several, unless other kernels write more between the rows: these are
        joined with it, a row for each group.
        """
        grid = [index.name for index in self._grid_of_rows(sch.present(others), row)]
        loops = [index.name for index in others if index.name not in grid]
        points = product(index.range for index in others if index.name in loops) * row
        many = next((index for index in others if grid[-1:] == [index.name]), None)
        size = (
            1 if many is None or STRIP in nest.kernel.tags else _divisor_up_to(many.range, max(1, self.chunk // points))
        )
        if many is None or size == 1 or points >= _SHORT_GROUP:
            return [], grid, loops
        if all(use.stride(many.name) >= max(_SHORT_GROUP, points + 1) for use in sch.written_uses(nest)):
            return [], grid, loops
        block, within = (names.fresh(f"{many.name}_{what}") for what in ("block", "row"))
        split = Split(many.name, size, (block, within), Tail.EVEN)
        return [split], [*grid[:-1], block], [within, *loops]

    def _grid_of_rows(self, others: Sequence[stripe.Index], row: int) -> list[stripe.Index]:
        """Return outer indices for grid axes until a group has about ``chunk`` points; at most two of them."""
        strips = [index for index in others if STRIP in index.tags]
        points = [product(index.range for index in others[at:]) * row for at in range(2)]
        return strips or [index for index, each in zip(others, points, strict=False) if each > self.chunk]


def _ends(left: int, vectors: int) -> Iterator[tuple[int, int]]:
    """Yield runs (vectors, lanes) over the last elements of a row: short vectors if these are few."""
    while left:
        lanes = sch.power_of_two_below(left) if 0 < vectors < _SHORT_ROW else 1
        yield left // lanes, lanes
        left %= lanes


def _divisor_up_to(value: int, most: int) -> int:
    return next(each for each in range(min(value, most), 0, -1) if value % each == 0)


_APART = 16
"""Relative cost of elements that are each in another cache line."""

_SHORT_GROUP = 256
"""Minimum points of a group, whose start takes that long."""

_SHORT_ROW = 256
"""Number of vectors from which on the time of remaining elements does not matter."""


def _crossed_index(nest: Nest, vector: stripe.Index) -> tuple[stripe.Index, int] | None:
    """Return the index to block for a transposed input, and the size of blocks; None without a transposed input."""
    constrained = sch.constrained_indices(nest)
    for use in sch.read_uses(nest):
        if use.stride(vector.name) in (0, 1):
            continue
        for index in nest.indices:
            if use.stride(index.name) == 1 and index.name not in constrained:
                sizes = [d for d in range(8, 65) if index.range % d == 0]
                return (index, min(sizes, key=lambda d: abs(d - _CROSSED_BLOCK))) if sizes else None
    return None


def _whole_steps(nest: Nest, index: str) -> set[int] | None:
    """Return the stride of an index along which outputs are written without gaps; None if there are gaps.

    There are none if it moves one element, or as many as there are channels, all of which are written.
    """
    channels: dict[tuple[str, int, tuple[int, ...]], set[int]] = {}
    for use in sch.written_uses(nest):
        step = use.stride(index)
        if not 1 <= step <= _MOST_CHANNELS:
            return None
        strides = tuple(use.stride(other.name) for other in nest.indices)
        channels.setdefault((nest.sources[use.root], step, strides), set()).add(_offset(use) % step)
    return {step for _, step, _ in channels} if all(len(c) == step for (_, step, _), c in channels.items()) else None


def _against_lanes(nest: Nest, constrained: Collection[str]) -> Refused:
    """Return why no index of a nest can have lanes: the reason for the longest one without gaps."""
    whole = [index for index in nest.indices if _whole_steps(nest, index.name) is not None]
    if not whole:
        return refused("TR302", outputs=len(sch.written_uses(nest)))
    index = max(whole, key=lambda i: i.range)
    if index.range < _LEAST:
        return refused("TR301", index=index.name, range=index.range, lanes=_LEAST)
    return refused("TR306", index=index.name) if index.name in constrained else refused("TR310", index=index.name)


def _tested_index(why: Refused) -> str:
    """Return the index that lacks lanes only because of constraints on it; an empty name for another reason."""
    return str(dict(why.facts)["index"]) if why.code == "TR306" else ""


_LEAST = 4
"""Minimum values of an index for which lanes pay."""

_MOST_CHANNELS = 4
"""Maximum interleaved channels that whole vectors write."""


def _shared_index(nest: Nest, vector: stripe.Index, rows: int) -> stripe.Index | None:
    """Return an index along which less than ``rows`` steps lead from one read to another; None if there is none."""
    constrained = sch.constrained_indices(nest)
    names = [i.name for i in nest.indices]
    reads = [
        (nest.sources[use.root], tuple(use.stride(name) for name in names), _offset(use)) for use in sch.read_uses(nest)
    ]
    for index, name in zip(nest.indices, names, strict=True):
        least = rows if STRIP in nest.kernel.tags else 2 * rows
        if index is vector or index.is_marked or name in constrained or index.range < least:
            continue
        for number, (source, strides, offset) in enumerate(reads):
            step = strides[names.index(name)]
            if step and any(
                other[:2] == (source, strides)
                and (other[2] - offset) % step == 0
                and 0 < abs(other[2] - offset) < rows * abs(step)
                for other in reads[:number]
            ):
                return index
    return None


def _sides(nest: Nest) -> set[str]:
    """Return the indices that count the two sides of a border, whose places are computed differently."""
    return {index.name for index in nest.indices if index.range == 2 and "border" in nest.kernel.tags}


def _offset(use: Use) -> int:
    return sum(int(affine.offset) * stride for affine, stride in zip(use.access, use.strides, strict=True))


_CROSSED_BLOCK = 32
"""Rows and columns of a transposed block: two cache lines of f32 each way, well within the first-level cache."""


def untested(nest: Nest, index: str, least: int) -> tuple[Nest, ...]:
    """Return a nest of one segment in parts along an index: the untested interior, and then the ends.

    Empty if less than ``least`` values of the index, or less than half of them, are inside.
    """
    (segment,) = nest.segments
    loop = next(each for each in nest.indices if each.name == index)
    low, high = span_inside(nest, segment, loop)
    if high - low < max(least, loop.range // 2):
        return ()
    inside = sch.part_of(nest, index, low, high - low)
    (part,) = inside.segments
    tests = tuple(test for test in part.constraints if not test.coefficient(index))
    inside = attrs.evolve(inside, segments=(attrs.evolve(part, constraints=tests),))
    ends = ((0, low), (high, loop.range - high))
    return (inside, *(sch.part_of(nest, index, start, count) for start, count in ends if count))
