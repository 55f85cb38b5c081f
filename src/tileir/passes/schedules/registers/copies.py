"""Copies of pieces: a group copies the inputs of its rows to contiguous memory, before all panels pass over it.

Rows of a tile that read distant channels in turn wait for memory at each step, and planes that are a power of two apart
collide in few cache sets, so that the next tile waits again. A piece of the rows, such as a few rows of an image, is
copied in runs, which hardware prefetches; the copy stays in a cache while all panels pass over it, and its runs are an
odd number of cache lines apart.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property, partial
from math import gcd
from typing import Final

from tileir.core import NameScope, attrs
from tileir.passes.kernels import schedule as sch
from tileir.passes.schedules.registers.cost import Limits, Tiling
from tileir.passes.schedules.registers.packing import whole_uses
from tileir.passes.schedules.registers.steps import LINE
from tileir.poly.affine import Affine, total
from tileir.schedule.nest import Nest, Node, Use, product
from tileir.stripe import ir as stripe
from tileir.stripe.check.views import is_compact

_WAYS: Final = 16
"""Associativity of the cache that holds a piece."""

_GROUPS: Final = 2
"""Minimum groups per thread."""

_PACKING: Final = 1 / 16
"""Maximum cost of packing panels for each piece, as a share of all work."""

_LEAST_USES: Final = 12
"""Minimum vector multiply-adds per copied element."""


@attrs.frozen
class Run:
    """Equidistant places of an operand, which are contiguous in the copy.

    Attributes:
        terms: The indices that move along it, with the number of places that each moves.
        step: Stride from one place to the next, in elements.
        count: Number of places.
        low: Offset of the first place from the access at indices of 0, in elements.
    """

    terms: tuple[tuple[str, int], ...]
    step: int
    count: int
    low: int


@attrs.frozen
class CopiedElements:
    """Copy of the elements that the rows of a group read through one use.

    Attributes:
        use: The use.
        sizes: Number of values of each index in a group, for indices of the nest and of the loops.
        least: The first existing element of the operand, relative to the access at indices of 0.
        greatest: The last existing element.
        runs: The axes of the copy, the last one contiguous.
    """

    use: Use
    sizes: Mapping[str, int]
    least: int
    greatest: int
    runs: tuple[Run, ...]

    @classmethod
    def of(
        cls, use: Use, nest: Nest, sizes: Mapping[str, int], shapes: Mapping[str, stripe.TensorShape]
    ) -> CopiedElements | None:
        """Return the copy; None if the existing elements are unknown.

        ``shapes`` holds those of the tensor behind each root, as far as they are known.
        """
        place, shape = use.address, shapes.get(use.root)
        loops = {i.name: i.range for segment in nest.segments if use in segment.uses for i in segment.loops}
        ranges = loops | {i.name: i.range for i in nest.indices}
        low, high = place.bounds(ranges)
        if shape is not None and is_compact(shape) and _is_seen(use, shape):
            low, high = max(low, 0), min(high, shape.elements - 1)
        elif use not in whole_uses(nest, shapes):
            return None
        return cls(use, {**loops, **sizes}, int(low), int(high), tuple(_runs_of(place, {**loops, **sizes})))

    @cached_property
    def extents(self) -> tuple[int, ...]:
        """Sizes of the copy: the runs along its last axis begin an odd number of cache lines apart."""
        *outer, last = (run.count for run in self.runs)
        lane = LINE // self.use.dtype.itemsize
        return (*outer, (-(-last // lane) | 1) * lane) if outer else (last,)

    @property
    def elements(self) -> int:
        """Number of elements that a group copies."""
        return product(run.count for run in self.runs)

    @property
    def nbytes(self) -> int:
        """Size of the copy in bytes."""
        return product(self.extents) * self.use.dtype.itemsize

    def is_crowded(self, cache_bytes: int) -> bool:
        """Return whether the lines of the original operand exceed the cache sets that they map to."""
        *outer, last = self.runs
        lines, way = -(-last.count * self.use.dtype.itemsize // LINE), cache_bytes // _WAYS
        steps = ((run.count, run.step * self.use.dtype.itemsize) for run in outer)
        places = product(min(count, way // gcd(step, way)) for count, step in steps)
        return lines * product(run.count for run in outer) > min(way // LINE, lines * places) * _WAYS

    def memory(self, names: NameScope) -> stripe.Refinement:
        """Return the memory of a group."""
        return stripe.allocation(names.fresh(f"{self.use.root}_piece"), self.use.dtype, self.extents, sch.SCRATCH)

    def read(self, memory: stripe.Refinement, starts: Mapping[str, Affine]) -> Use:
        """Return the use of the copy, in terms of the indices of the nest; a group begins at ``starts``."""
        access = []
        for run in self.runs:
            moved = (places * (Affine.index(name) - starts.get(name, 0)) for name, places in run.terms)
            access.append(total(moved) - run.low // run.step)
        held = (memory.shape.strides, self.use.dtype, self.use.direction)
        return Use(self.use.name, memory.name, tuple(access), *held)

    def nodes(
        self, memory: stripe.Refinement, starts: Mapping[str, Affine], ranges: Mapping[str, int], names: NameScope
    ) -> Iterator[Node]:
        """Yield nodes that fill the copy of a group that begins at ``starts``, in terms of indices with ``ranges``.

        Runs whose elements all exist are copied in vectors; of others, only existing elements.
        """
        lanes = max(1, LINE // self.use.dtype.itemsize)
        *outer, last = self.runs
        around = [sch.index(names.fresh("run"), run.count) for run in outer]
        place = self.use.address.substitute({name: starts.get(name, Affine()) for name in self.sizes})
        offsets = (sch.part(index, run.step) + run.low for index, run in zip(around, outer, strict=True))
        first = place + total(offsets) + last.low
        end = first + (last.count - 1) * last.step
        known = {**ranges, **{index.name: index.range for index in around}}
        inside = tuple(test for test in (first - self.least, self.greatest - end) if test.bounds(known)[0] < 0)
        begin = 0
        for number, width in vectors(last.count, lanes):
            vector = sch.index(names.fresh("element_vector"), number)
            lane = sch.index(names.fresh("element_lane"), width, stripe.Binding.LANE)
            element = sch.part(vector, width) + sch.part(lane) + begin
            yield self._copy((*around, *sch.present((vector, lane))), first, element, memory, around, inside)
            begin += number * width
        for number, test in enumerate(inside):
            index = sch.index(names.fresh("element"), last.count)
            element = sch.part(index)
            each = first + element * last.step
            exists = (each - self.least, self.greatest - each)
            outside = (*inside[:number], -test - 1)
            yield self._copy((*around, index), first, element, memory, around, (*outside, *exists))

    def _copy(
        self,
        indices: Sequence[stripe.Index],
        first: Affine,
        element: Affine,
        memory: stripe.Refinement,
        around: Sequence[stripe.Index],
        tests: tuple[Affine, ...],
    ) -> Node:
        place = first + element * self.runs[-1].step
        source = attrs.evolve(self.use, name="from", access=(place,), strides=(1,), sizes=())
        access = (*map(sch.part, around), element)
        target = Use("to", memory.name, access, memory.shape.strides, self.use.dtype, stripe.Direction.OUT)
        statements = (stripe.Load("from", "x"), stripe.Store("x", "to"))
        name = f"copy_{self.use.root}"
        return Node(
            tuple(sch.present(indices)), statements=statements, uses=(source, target), constraints=tests, name=name
        )


def _is_seen(use: Use, shape: stripe.TensorShape) -> bool:
    return use.strides in (shape.strides, (1,))


def _runs_of(place: Affine, sizes: Mapping[str, int]) -> Iterator[Run]:
    """Yield the runs of places of an affine, those with the largest steps first."""
    found: list[list[tuple[str, int]]] = []
    reach = 0
    moving = sorted(((abs(int(step)), int(step), name) for name, step in place.terms if sizes[name] > 1))
    for distance, step, name in moving:
        if not found or distance > reach:
            found.append([])
        found[-1].append((name, step))
        reach += distance * (sizes[name] - 1)
    if not found:
        found.append([])
    for number in reversed(range(len(found))):
        terms = found[number]
        step = gcd(*(steps for _, steps in terms)) if number and terms else 1
        low = sum(min(0, steps * (sizes[name] - 1)) for name, steps in terms)
        reach = sum(abs(steps) * (sizes[name] - 1) for name, steps in terms)
        yield Run(tuple((name, steps // step) for name, steps in terms), step, reach // step + 1, low)


def vectors(count: int, lanes: int) -> Iterator[tuple[int, int]]:
    """Yield numbers of vectors, and their lanes (powers of two), that make up ``count`` elements."""
    while count and lanes:
        if count >= lanes:
            yield count // lanes, lanes
        count, lanes = count % lanes, lanes // 2


@attrs.frozen
class CopiedPieces:
    """Division of rows into pieces whose inputs each group copies.

    Attributes:
        blocks: Number of tiles, or values, of an index in a group; indices that are not split have no entry.
        panels: The outer indices that number panels, all of which traverse a piece.
        copies: The copies.
    """

    blocks: Mapping[str, int]
    panels: frozenset[str]
    copies: tuple[CopiedElements, ...]


def copied_pieces(
    nest: Nest, plan: Tiling, limits: Limits, threads: int, shapes: Mapping[str, stripe.TensorShape]
) -> CopiedPieces | None:
    """Return the pieces whose copies pay; None if inputs stay in caches anyway, or are read too seldom.

    ``shapes`` holds those of the tensor behind each root, as far as they are known.
    """
    if plan.term is not None or any(map(sch.indirect_names, nest.reductions)):
        return None
    reads = [use for segment in nest.reductions for use in sch.reads_of(nest, segment) if not use.direction.writes]
    along = [use for use in reads if use.stride(plan.vector.name)]
    still = tuple(dict.fromkeys(use for use in reads if not use.stride(plan.vector.name)))
    others = [i for i in nest.indices if i is not plan.vector]
    rows = {i.name for i in others if not any(use.stride(i.name) for use in along)}
    panels = {i.name for i in others if i.name not in rows and not any(use.stride(i.name) for use in still)}
    apart = {i.name for i in others if i.name not in rows and i.name not in panels}
    pieces = _Pieces(nest, {row.index.name: row.height for row in plan.rows}, rows, apart, shapes)
    far = tuple(use for use in still if pieces.whole_bytes(use) > 2 * limits.panel_bytes)
    blocks = pieces.cut(far, limits.panel_bytes)
    found = None if blocks is None else pieces.copies(far, blocks)
    if blocks is None or found is None or not all(copied.is_crowded(2 * limits.panel_bytes) for copied in found):
        return None
    groups = pieces.groups(blocks)
    steps = sum(product(i.range for i in segment.loops) for segment in nest.reductions)
    work = steps * product(i.range for i in nest.indices) / plan.lanes
    copying = groups * sum(copied.elements for copied in found)
    if groups < _GROUPS * threads or work < _LEAST_USES * copying:
        return None
    if groups * plan.packing > _PACKING * plan.cost:  # each group packs all panels
        return None
    return CopiedPieces(blocks, frozenset(panels), found)


@attrs.frozen(repr=False)
class _Pieces:
    """Search for pieces: tiles have ``heights`` rows, ``rows`` may be split, each value of ``apart`` has its own."""

    nest: Nest
    heights: Mapping[str, int]
    rows: Collection[str]
    apart: Collection[str]
    shapes: Mapping[str, stripe.TensorShape]

    def whole_bytes(self, use: Use) -> int:
        """Return the bytes that all points read."""
        loops = (i for segment in self.nest.segments if use in segment.uses for i in segment.loops)
        return product(i.range for i in (*self.nest.indices, *loops) if use.stride(i.name)) * use.dtype.itemsize

    def tiles(self, index: stripe.Index) -> int:
        """Return the number of whole tiles, or single values, of an index."""
        return index.range // self.heights.get(index.name, 1)

    def groups(self, blocks: Mapping[str, int]) -> int:
        """Return the number of pieces."""
        cut = (-(-self.tiles(i) // blocks[i.name]) for i in self.nest.indices if i.name in blocks)
        apart = (i.range for i in self.nest.indices if i.name in self.apart)
        return product(cut) * product(apart)

    def copies(self, uses: Sequence[Use], blocks: Mapping[str, int]) -> tuple[CopiedElements, ...] | None:
        """Return the copies for pieces of ``blocks`` tiles; None if the existing elements are unknown."""
        sizes = {i.name: 1 if i.name in self.apart else i.range for i in self.nest.indices}
        for index in (i for i in self.nest.indices if i.name in blocks):
            height = self.heights.get(index.name, 1)
            left = index.range % height  # the last group also takes the remainder
            sizes[index.name] = min(index.range, blocks[index.name] * height + left)
        found = tuple(CopiedElements.of(use, self.nest, sizes, self.shapes) for use in uses)
        kept = tuple(copied for copied in found if copied is not None)
        return kept if kept and len(kept) == len(found) else None

    def cut(self, uses: Sequence[Use], most_bytes: int) -> dict[str, int] | None:
        """Return the tiles of each index in a piece whose copies are small enough; None if one row is too large.

        The outermost indices are split to single values first.
        """
        rows = (i for i in self.nest.indices if i.name in self.rows and any(use.stride(i.name) for use in uses))
        blocks: dict[str, int] = {}

        def exceeds(index: stripe.Index, size: int) -> bool:
            found = self.copies(uses, {**blocks, index.name: size})
            return found is None or sum(copied.nbytes for copied in found) > most_bytes

        for index in sorted(rows, key=lambda i: -max(abs(use.stride(i.name)) for use in uses)):
            count = self.tiles(index)
            if not exceeds(index, count):
                return blocks
            if most := bisect(range(1, count), False, key=partial(exceeds, index)):
                return {**blocks, index.name: -(-count // -(-count // most))}
            blocks[index.name] = 1
        return None
