"""Choice of a register tile for a contraction: the vector index, the rows, and the size of both, by the cost of a step.

Remainders of tiles that do not divide the output cost extra, as do initialising and storing the sums of each tile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from math import prod
from typing import Final

from tileir.core.nodes import attrs
from tileir.passes.kernels import may_overlap, schedule as sch
from tileir.passes.layouts.lay_panels import PANELS
from tileir.passes.schedules.registers.cache_blocking import Visit, along_lanes, visit
from tileir.passes.schedules.registers.packing import WAY_BYTES, dearness, is_dense, whole_uses
from tileir.passes.schedules.registers.panels import Plane
from tileir.passes.schedules.registers.steps import LATENCY, Rates, Step
from tileir.passes.schedules.registers.strided_epilogue import apart
from tileir.schedule import Nest, Refused, Segment, Use, product, refused, refusing, rule_out
from tileir.stripe import ir as stripe

_PIECE: Final = 0.04
"""Cost of a further kernel for remaining columns beside its work, as a share of all work."""

_SETTING: Final = 3.0
"""Cost of initialising and storing a sum."""

_TURNED: Final = 1.5
"""Cost of packing an element if the lanes are strided in memory."""

_WIDEST_PANEL: Final = 4
"""Maximum vectors of a packed panel; a wider operand is a matrix."""

_MOST_ROWS: Final = 14
_MOST_MEETING_ROWS: Final = 8  # associativity of most first-level caches
_MOST_COLUMNS: Final = 8
_MOST_COLUMNS_OF_ONE_ROW: Final = 16
_LEAST_POINTS: Final = 8
"""Minimum points that use a transposed panel; with fewer, lanes along the reduction are better."""

_LEAST_BOUNDED: Final = 2
"""Minimum points if indices bound the reduction, as at corners of a convolution: lanes cannot run along it."""


@attrs.frozen
class Limits:
    """Facts about a processor; the fields are options of the pass ``register_tile``."""

    vector_bytes: int
    max_lanes: int
    registers: int
    cache_bytes: int
    panel_bytes: int
    reads: int
    rows: int
    columns: int


@attrs.frozen
class Rows:
    """An outer index with ``height`` values in a tile."""

    index: stripe.Index
    height: int


@attrs.frozen
class Tiling:
    """Tiling of one kernel.

    Attributes:
        vector: The vectorised index.
        lanes: Lanes of a vector, a power of two.
        columns: Vectors of a tile.
        rows: Row indices of a tile and their sizes; none for a single row.
        packed: Operands that are copied to contiguous memory.
        registers: Number of vector registers.
        cost: Cost of all tiles together, in multiply-adds of vectors.
        packing: The share of packing in this cost, with each panel packed once.
        overlaps: Whether the last tile of columns may overlap the previous one, and store equal results twice.
        term: The index of terms if steps are dot products.
        visit: Cache blocking of the reduction with packing; None for none.
        plane: The operand of ``packed`` that is copied as a whole before all tiles of a panel, if any.
        far: Roots that exceed nearby caches: steps prefetch for later tiles.
    """

    vector: stripe.Index
    lanes: int
    columns: int
    rows: tuple[Rows, ...]
    packed: tuple[Use, ...]
    registers: int
    cost: float
    packing: float = 0.0
    overlaps: bool = False
    term: stripe.Index | None = None
    visit: Visit | None = None
    plane: Plane | None = None
    far: frozenset[str] = frozenset()


def choose(
    nest: Nest, limits: Limits, shapes: Mapping[str, stripe.TensorShape], *, overlaps: bool = True
) -> Tiling | Refused:
    """Return the cheapest plan; if no index can have vector lanes, the reason why the longest one cannot.

    ``shapes`` holds those of the tensor behind each root, as far as they are known. ``overlaps`` allows the last
    columns to overlap others.
    """
    constrained = sch.constrained_indices(nest)
    lanes = sch.vector_lanes(limits.vector_bytes, sch.widest_itemsize(nest), limits.max_lanes)
    candidates: list[_Candidate] = []
    said: list[tuple[int, Refused]] = []
    for index in nest.indices:
        used = min(lanes, sch.power_of_two_below(index.range))
        if used < min(lanes, 4) or index.range < 2:
            said.append((index.range, refused("TR301", index=index.name, range=index.range, lanes=lanes)))
            continue
        found = _Candidate.of(nest, limits, index, used, constrained, shapes, overlaps=overlaps)
        if isinstance(found, Refused):
            said.append((index.range, found))
        else:
            candidates.append(found)
    best: Tiling | None = None
    ready = ready_indices(nest, lanes)
    for candidate in sorted(candidates, key=lambda each: (each.vector not in ready, each.least)):
        plan = candidate.best() if best is None or candidate.least <= best.cost else best
        if isinstance(plan, Refused):
            said.append((candidate.vector.range, plan))
        elif best is None or (plan.cost < best.cost and not (ready and plan.visit)):
            best = plan
    if best is not None:
        return best
    return max(said, key=lambda each: each[0])[1] if said else refused("TR503")


def ready_indices(nest: Nest, lanes: int) -> tuple[stripe.Index, ...]:
    """Return the indices along which the pass ``lay_panels`` packed panels: lanes along these need no copies."""
    if PANELS not in nest.kernel.tags:
        return ()
    found = []
    for segment in nest.reductions:
        reads = sch.reads_of(nest, segment)
        for index in (index for index in nest.indices if index.range <= _WIDEST_PANEL * lanes):
            along = [use for use in reads if use.stride(index.name)]
            if along and all(_lies_ready(use, index, segment) for use in along):
                found.append(index)
    return tuple(found)


def _lies_ready(use: Use, index: stripe.Index, segment: Segment) -> bool:
    """Return whether the steps of a reduction are consecutive in memory, each with all values of an index."""
    loops = [loop for loop in segment.loops if use.stride(loop.name) and loop.range > 1]
    return use.stride(index.name) == 1 and is_dense(use, loops, index.range)


def panel_uses(nest: Nest, vector: str) -> tuple[Use, ...]:
    """Return the uses of reductions along the vector index."""
    reads = sch.read_uses(nest)
    uses = (u for s in nest.segments if s.loops for u in s.uses if u in reads)
    return tuple(dict.fromkeys(u for u in uses if u.stride(vector)))


def against_vector(nest: Nest, index: str) -> Refused | None:
    """Return why an index cannot have lanes; None if it moves the output, and all else can follow.

    In reductions, accesses are contiguous or packed; before and after them, lanes may be strided.
    """
    if still := [use.root for use in sch.written_uses(nest) if use.stride(index) == 0]:
        return refused("TR307", index=index, output=still[0])
    panels = panel_uses(nest, index)
    for segment in nest.segments:
        indirect = sch.indirect_names(segment)
        if scattered := [i.name for i in nest.indices if sch.scatters(segment, i.name)]:
            return refused("TR208", index=scattered[0])
        for use in segment.uses:
            movable = (not segment.loops and not use.merges) or (segment.loops and use in panels)
            if use.stride(index) not in (0, 1) and (use.name in indirect or not movable):
                return refused("TR308", index=index, view=use.name, stride=use.stride(index))
    return None


def overlapping(left: int, lanes: int, *, only_whole: bool = False) -> int:
    """Return the number of overlapping whole vectors for ``left`` columns; 0 for none.

    A tile of whole vectors and one of fewer lanes are as fast; but with ``only_whole``, partial vectors are slow.
    """
    whole, rest = divmod(left, lanes)
    return whole + 1 if rest.bit_count() > 1 or (only_whole and rest) else 0


def _reach(nest: Nest, index: stripe.Index) -> int:
    """Return the distance in memory of rows along an index: of equally fast tiles, the closest rows are best."""
    return max((abs(use.stride(index.name)) for s in nest.segments if s.loops for use in s.uses), default=0)


@attrs.frozen(repr=False)
class _Candidate:
    """A candidate vector index, with all that depends on it."""

    nest: Nest
    limits: Limits
    vector: stripe.Index
    lanes: int
    rows: tuple[stripe.Index, ...]
    panels: tuple[Use, ...]
    strided: tuple[Use, ...]
    steps: tuple[Step, ...]
    constrained: frozenset[str]
    whole: frozenset[Use]
    overlaps: bool

    @classmethod
    @refusing
    def of(
        cls,
        nest: Nest,
        limits: Limits,
        vector: stripe.Index,
        lanes: int,
        constrained: frozenset[str],
        shapes: Mapping[str, stripe.TensorShape],
        *,
        overlaps: bool,
    ) -> _Candidate | Refused:
        """Return the candidate; refused if it cannot have lanes, or if its inputs are not worth packing."""
        if vector.name in constrained:
            return refused("TR306", index=vector.name)
        rule_out(against_vector(nest, vector.name))
        panels = panel_uses(nest, vector.name)
        strided = tuple(use for use in panels if use.stride(vector.name) != 1)
        still = [i for i in nest.indices if i.name != vector.name and not any(use.stride(i.name) for use in strided)]
        points, least = product(i.range for i in still), _LEAST_BOUNDED if constrained else _LEAST_POINTS
        if strided and points < least:
            return refused("TR504", index=vector.name, input=strided[0].root, points=points, least=least)
        whole = whole_uses(nest, shapes) if constrained else frozenset(strided)
        if apart := [use.root for use in strided if use not in whole]:
            return refused("TR505", index=vector.name, input=apart[0])
        rows = tuple(sorted((i for i in still if i.range > 1), key=lambda i: _reach(nest, i)))
        steps = tuple(
            Step.of(nest, segment, vector, lanes, limits.cache_bytes, limits.panel_bytes)
            for segment in nest.segments
            if segment.loops
        )
        overlaps = overlaps and may_overlap(nest)
        return cls(nest, limits, vector, lanes, rows, panels, strided, steps, constrained, whole, overlaps)

    @cached_property
    def _outside(self) -> tuple[Use, ...]:
        return tuple(use for segment in self.nest.segments if not segment.loops for use in segment.uses)

    @cached_property
    def _points(self) -> int:
        return product(i.range for i in self.nest.indices)

    @cached_property
    def _strided_outside(self) -> int:
        return sum(use.stride(self.vector.name) not in (0, 1) for use in self._outside)

    def _apart(self, rows: Mapping[str, int]) -> float:
        """Return the cost of strided accesses of a point before and after the reductions."""
        if not self._strided_outside:
            return 0.0
        return apart(self._outside, self._strided_outside, self.lanes, rows, overlaps=self.overlaps)

    @property
    def least(self) -> float:
        """Cost of every tiling: all multiply-adds, and initialising and storing the sums."""
        adds = sum(step.depth * step.sums for step in self.steps)
        after = self._apart({index.name: self.lanes for index in self.rows})
        return (after + (adds + _SETTING) / self.lanes) * self._points

    def best(self) -> Tiling | Refused:
        """Return the cheapest tile; refused if none fits the registers."""
        found: tuple[float, int, tuple[Rows, ...]] | None = None
        visits, rates = self._visits(), Rates(self.steps)
        pieces = {columns: tuple(self._column_pieces(columns)) for columns in visits}
        for rows in self._row_choices():
            for columns, cost in self._costs(rows, visits, pieces, rates):
                if found is None or cost < found[0]:
                    found = cost, columns, rows
        if found is None:
            sums = len(self.nest.allocations)
            return refused("TR506", index=self.vector.name, sums=sums, registers=self.limits.registers)
        cost, columns, rows = found
        visit = visits[columns]
        packed = tuple(use for use in self.panels if visit is not None or self._packs(use, rows, columns))
        packing, registers = self._packing(packed), self.limits.registers
        cost += packing
        return Tiling(
            self.vector, self.lanes, columns, rows, packed, registers, cost, packing, self.overlaps, visit=visit
        )

    def _visits(self) -> dict[int, Visit | None]:
        """Return the cache blocking of the reduction for each number of columns; None for none."""
        asked = min(self.limits.columns, self.vector.range // self.lanes)
        widths = (asked,) if asked else range(1, _MOST_COLUMNS_OF_ONE_ROW + 1)
        found = along_lanes(self.nest, self.vector.name)
        if found is None or self.vector in ready_indices(self.nest, self.lanes):
            return dict.fromkeys(widths)
        limits, lanes, vector = self.limits, self.lanes, self.vector
        return {
            columns: None
            if columns * lanes > vector.range
            else visit(self.nest, *found, vector, columns * lanes, limits.cache_bytes, limits.panel_bytes)
            for columns in widths
        }

    def _row_choices(self) -> Iterator[tuple[Rows, ...]]:
        """Yield one row, some rows of one index, and all rows of a short index with some of another."""
        if not self.limits.rows:
            yield ()
        for index in self.rows:
            most = min(_MOST_MEETING_ROWS if self._meet(index) else _MOST_ROWS, self.limits.registers)
            heights = [min(self.limits.rows, index.range)] if self.limits.rows else range(2, min(most, index.range) + 1)
            for height in heights:
                yield (Rows(index, height),)
            if self.limits.rows or index.range > most // 2:
                continue
            for other in self.rows:
                if other is not index:
                    for height in range(2, min(most // index.range, other.range) + 1):
                        yield Rows(other, height), Rows(index, index.range)
        if self.limits.rows and not self.rows:
            yield ()

    def _meet(self, rows: stripe.Index) -> bool:
        """Return whether rows of an input map to one set of the first-level cache."""
        read = (use for s in self.nest.segments if s.loops for use in s.uses)
        strides = (use.stride(rows.name) * use.dtype.itemsize for use in read)
        return any(stride and stride % WAY_BYTES == 0 for stride in strides)

    def _most_columns(self, rows: Sequence[Rows]) -> int:
        """Return the maximum columns whose sums and loads of a step fit the registers; 0 for none."""
        registers, height = self.limits.registers, product(r.height for r in rows)
        sums = max(1, len(self.nest.allocations)) * height
        names = {r.index.name for r in rows}
        again = any(names.isdisjoint(moved) for step in self.steps for moved in step.vectors)
        if self.limits.rows or self.limits.columns:
            most = registers // sums if again else self.limits.columns or _MOST_COLUMNS_OF_ONE_ROW
        elif rows and any(not names.isdisjoint(moved) for step in self.steps for moved in step.vectors):
            own = max(prod(r.height for r in rows if r.index.name in m) for step in self.steps for m in step.vectors)
            others = int(own < height)  # beside sums, and loads of the rows
            most = (registers - others) // (sums + max(1, len(self.nest.allocations)) * own)
        else:
            others = 1 if rows and all(step.is_fused for step in self.steps) else 2  # registers beside sums
            most = (registers - others) // (sums + (1 if again and rows else 0))
        return max(most, 0 if rows else 1)

    def _costs(
        self,
        rows: Sequence[Rows],
        visits: Mapping[int, Visit | None],
        pieces: Mapping[int, tuple[tuple[int, int], ...]],
        rates: Rates,
    ) -> Iterator[tuple[int, float]]:
        """Yield possible columns of a tile, each with the cost of all tiles.

        The cost is that of all points of the other indices and all steps of the reduction.
        """
        widths = self._widths(rows)
        if not widths:
            return
        share = self._points // self.vector.range / product(r.index.range for r in rows)
        after = self._apart({r.index.name: r.height for r in rows}) * self._points
        tiles = [(count, product(heights.values()), tuple(heights.items())) for count, heights in row_pieces(rows)]
        own = any(use.stride(row.index.name) for use in self.panels for row in rows)
        for columns in widths:
            visit, parts = visits[columns], pieces[columns]
            if visit is not None and own:
                continue  # a visit packs inputs that all rows of a tile share
            beside, blocks = (0, 1) if visit is None else (min(visit.panels, parts[0][0]), visit.blocks)
            cost = 0.0
            for count, height, heights in tiles:
                setting = blocks * _SETTING * height
                for repeats, width in parts:
                    step = rates[heights, beside, width]
                    cost += count * repeats * (step + setting * width + blocks * LATENCY)
            yield columns, after + cost * share * (1 + _PIECE * (len(parts) - 1))

    def _widths(self, rows: Sequence[Rows]) -> range:
        widest = _MOST_COLUMNS if product(r.height for r in rows) > 1 else _MOST_COLUMNS_OF_ONE_ROW
        most = min(self._most_columns(rows), self.vector.range // self.lanes)
        if self.limits.columns:
            least = min(self.limits.columns, self.vector.range // self.lanes)
            return range(least, min(least, most) + 1)
        return range(1, min(widest, most) + 1)

    def _column_pieces(self, columns: int) -> Iterator[tuple[int, int]]:
        """Yield the number of tiles of each width in vectors; partial vectors count as whole."""
        panels, left = divmod(self.vector.range, columns * self.lanes)
        if panels:
            yield panels, columns
        # Two partial vectors count twice: lanes along another index, without repeated work, are preferred.
        pieces = (left >= self.lanes) + (left % self.lanes).bit_count()
        if self.overlaps and pieces > 2 and (last := overlapping(left, self.lanes)):
            yield 1, last
            return
        if left >= self.lanes:
            yield 1, left // self.lanes
        if left % self.lanes:
            yield (left % self.lanes).bit_count(), 1

    def _packs(self, use: Use, rows: Sequence[Rows], columns: int) -> bool:
        """Return whether to copy a panel: it is strided, or read repeatedly from beyond the first-level cache."""
        if use in self.strided:
            return True
        if use not in self.whole and any(i in self.constrained for a in use.access for i in a.indices):
            return False
        if any(use.stride(r.index.name) for r in rows):
            return False
        loops = {i.name: i for s in self.nest.segments for i in s.loops if use.stride(i.name)}
        depth = product(i.range for i in loops.values())
        reads = product(i.range for i in self.nest.indices if not use.stride(i.name))
        if is_dense(use, tuple(loops.values()), columns * self.lanes):
            return False
        nbytes = depth * self.vector.range * use.dtype.itemsize
        if depth == 1 or nbytes <= self.limits.cache_bytes:
            return False
        dear = dearness(
            use, tuple(loops.values()), columns * self.lanes, self.limits.cache_bytes, self.limits.panel_bytes
        )
        return reads * dear >= self.limits.reads

    def _packing(self, packed: Sequence[Use]) -> float:
        """Return the cost of copying, element by element if the lanes are strided."""
        cost = 0.0
        for use in packed:
            loops = {i.name: i.range for s in self.nest.segments for i in s.loops if use.stride(i.name)}
            moving = product(i.range for i in self.nest.indices if use.stride(i.name))
            cost += product(loops.values()) * moving * (_TURNED if use in self.strided else 2.0 / self.lanes)
        return cost


def row_pieces(rows: Sequence[Rows]) -> Iterator[tuple[int, dict[str, int]]]:
    """Yield the number of tiles of each combination of heights: whole tiles, and remainders along each index."""
    pieces: list[tuple[int, dict[str, int]]] = [(1, {})]
    for row in rows:
        count, left = divmod(row.index.range, row.height)
        parts = [(n, height) for n, height in ((count, row.height), (1, left)) if n and height]
        pieces = [(c * n, {**heights, row.index.name: h}) for c, heights in pieces for n, h in parts]
    yield from pieces
