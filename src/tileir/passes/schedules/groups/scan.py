"""Scans by the threads of a group, which take tiles of contiguous terms together.

Loads and stores are coalesced, and each thread scans a few adjacent terms in local memory in between. Their totals are
scanned by steps of powers of two (Hillis and Steele, "Data parallel algorithms", 1986), all threads in each step; the
last total begins the next tile. This is the scheme of Sengupta et al., "Scan primitives for GPU computing" (2007),
with more than one term per thread.
"""

from __future__ import annotations

from tileir.core import Aggregation, attrs
from tileir.passes.algorithms.scans import Part, ScanKernels
from tileir.passes.kernels import schedule as sch
from tileir.passes.schedules.groups.reduction import identity_block, merge_block
from tileir.poly.affine import Affine
from tileir.schedule.nest import Node, Use
from tileir.stripe import ir as stripe


@attrs.frozen
class GroupPlan:
    """Number of threads, and of terms that each takes."""

    threads: int
    each: int

    @property
    def terms(self) -> int:
        """Terms of a tile."""
        return self.threads * self.each

    def local_bytes(self, itemsize: int) -> int:
        """Return the local memory of a group in bytes; rows are padded against bank conflicts."""
        return (self.threads * (self.each + 1) + 2 * (self.threads + 1)) * itemsize


@attrs.define(eq=False, repr=False)
class GroupScanKernels(ScanKernels):
    """Builder of kernels whose groups have several threads."""

    plan: GroupPlan
    _tile: stripe.Refinement = attrs.field(init=False)
    _sums: tuple[stripe.Refinement, stripe.Refinement] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        dtype, output = self.found.output.shape.dtype, self.found.output.name
        extents = (self.plan.threads, self.plan.each + 1)
        self._tile = stripe.allocation(self._names.fresh(f"{output}_tile"), dtype, extents, sch.LOCAL)
        names = (self._names.fresh(f"{output}_sums"), self._names.fresh(f"{output}_sums"))
        first, second = (stripe.allocation(name, dtype, (self.plan.threads + 1,), sch.LOCAL) for name in names)
        self._sums = first, second

    def together(self, part: Part) -> stripe.Block:
        """Return a kernel in which each group takes the steps of a part."""
        number = sch.index(self._names.fresh(f"{self.found.along.name}_part"), part.repeats, stripe.Binding.GRID)
        tiles = -(-part.steps // self.plan.terms)
        tile = stripe.Index(self._names.fresh(f"{self.found.along.name}_tile"), tiles, serial=True)
        begin = [identity_block(self._sum(buffer, Affine()), ()) for buffer in (0, 1)]
        begin.extend(self._terms_before(self._sum(0, Affine()), {}, ()))
        if part.totals is not None:
            begin.extend(self._earlier(part, part.totals, number))
        start = sch.part(tile, self.plan.terms)
        first = sch.part(number, part.steps) + part.start
        body = (
            self._load(start, first, part.steps),
            self._own_terms(),
            *self._steps_of_powers(),
            self._store(start, first, part.steps),
            self._copy(Affine.constant(self.plan.threads), Affine(), merges=False),
        )
        outer = tuple(i.bound(stripe.Binding.GRID) for i in (*self.found.others, *sch.present((number,))))
        root = Node(outer, (self._tile, *self._sums), (*begin, Node((tile,), children=body)))
        return self._emitted(root, part.totals)

    def _thread(self) -> stripe.Index:
        return sch.index(self._names.fresh("thread"), self.plan.threads, stripe.Binding.THREAD)

    def _sum(self, buffer: int, place: Affine) -> Use:
        """Return an element of one of the two arrays of sums, to merge into.

        Element 0 holds the total before a tile, element t + 1 that of thread t. Steps of powers of two alternate
        between the arrays, and end in the first.
        """
        return self._local(self._sums[buffer], (place,), self.found.output.aggregation)

    def _local(self, array: stripe.Refinement, access: tuple[Affine, ...], aggregation: Aggregation | None) -> Use:
        direction = stripe.Direction.INOUT if aggregation is not None else stripe.Direction.OUT
        name = array.name
        return Use(name, name, access, array.shape.strides, array.shape.dtype, direction, aggregation)

    def _copy(self, source: Affine, target: Affine, *, merges: bool) -> Node:
        return merge_block(self._sum(0, source), _as(self._sum(0, target), merges=merges), ())

    def _element(self, start: Affine) -> tuple[tuple[stripe.Index, ...], stripe.Index, Affine, tuple[Affine, Affine]]:
        """Return indices for coalesced access to terms.

        These are two thread indices, a loop, the number of the term in the part, and its place in the tile: the thread
        that scans it, and its number there.
        """
        each, rows = self.plan.each, self.plan.threads // self.plan.each
        high = sch.index(self._names.fresh("thread_row"), rows, stripe.Binding.THREAD)
        low = sch.index(self._names.fresh("thread_column"), each, stripe.Binding.THREAD)
        more = sch.index(self._names.fresh("more"), each, stripe.Binding.UNROLL)
        term = start + sch.part(more, self.plan.threads) + sch.part(high, each) + sch.part(low)
        return (high, low), more, term, (sch.part(more, rows) + sch.part(high), sch.part(low))

    def _load(self, start: Affine, first: Affine, count: int) -> Node:
        threads, more, term, place = self._element(start)
        inside = self._terms(self.found.at_step(first + term), (more,), self._local(self._tile, place, None))
        children = [attrs.evolve(inside, constraints=(count - 1 - term,))]
        if count % self.plan.terms:  # threads also scan the last tile's elements past the terms
            beyond = identity_block(self._local(self._tile, place, self.found.output.aggregation), (more,))
            children.append(attrs.evolve(beyond, constraints=(term - count,)))
        return Node(sch.present(threads), children=tuple(children))

    def _own_terms(self) -> Node:
        thread, number = self._thread(), stripe.Index(self._names.fresh("own"), self.plan.each, serial=True)
        total = self._allocation(())
        merging = self._merging((), ())
        place = (sch.part(thread), sch.part(number))
        read = attrs.evolve(_as(self._local(self._tile, place, None), merges=False), direction=stripe.Direction.IN)
        read = attrs.evolve(read, name=f"{self._tile.name}_term")
        now = attrs.evolve(merging, name=self._now, direction=stripe.Direction.IN, aggregation=None)
        statements = (
            stripe.Load(read.name, "term"),
            stripe.Store("term", merging.name),
            stripe.Load(now.name, "running"),
            stripe.Store("running", self._tile.name),
        )
        scan = Node((number,), statements=statements, uses=(read, merging, now, self._local(self._tile, place, None)))
        mine = self._sum(self._first_buffer, sch.part(thread) + 1)
        ends = merge_block(merging, _as(mine, merges=False), ())
        carry = attrs.evolve(merge_block(self._sum(0, Affine()), mine, ()), constraints=(-sch.part(thread),))
        return Node((thread,), (total,), (identity_block(merging, ()), scan, ends, carry))

    @property
    def _first_buffer(self) -> int:
        """The array from which an even or odd number of steps leads to the first one."""
        return (self.plan.threads.bit_length() - 1) % 2

    def _steps_of_powers(self) -> list[Node]:
        """Return the scan of the totals of all threads."""
        nodes = []
        buffer, distance = self._first_buffer, 1
        while distance < self.plan.threads:
            for near in (True, False):
                thread = self._thread()
                place = sch.part(thread) + 1
                source = self._sum(buffer, place if near else place - distance)
                moved = merge_block(source, _as(self._sum(1 - buffer, place), merges=not near), ())
                tests = () if near else (sch.part(thread) - distance,)
                nodes.append(Node((thread,), children=(moved,), constraints=tests))
            buffer, distance = 1 - buffer, 2 * distance
        return nodes

    def _store(self, start: Affine, first: Affine, count: int) -> Node:
        threads, more, term, place = self._element(start)
        values = self.found.at_step(first + term)
        own = attrs.evolve(self._local(self._tile, place, None), direction=stripe.Direction.IN)
        before = attrs.evolve(self._sum(0, place[0]), direction=stripe.Direction.IN, aggregation=None)
        output = attrs.evolve(self._output_use(values), aggregation=None)
        aggregation = self.found.output.aggregation
        assert aggregation is not None
        assert aggregation.op is not None
        statements = (
            stripe.Load(before.name, "before"),
            stripe.Load(own.name, "own"),
            stripe.Intrinsic(aggregation.op, ("before", "own"), "running", output.dtype),
            stripe.Store("running", output.name),
        )
        inside = Node((more,), (), (), statements, (before, own, output), (count - 1 - term,))
        return Node(sch.present(threads), children=(inside,))

    def _earlier(self, part: Part, totals: stripe.Refinement, number: stripe.Index) -> list[Node]:
        """Return the blocks that merge the totals of earlier parts, by all threads together."""
        thread = self._thread()
        count = max(part.known, part.repeats)
        more = sch.index(self._names.fresh("more"), -(-count // self.plan.threads))
        other = sch.part(more, self.plan.threads) + sch.part(thread)
        last = Affine.constant(part.known) if part.known else sch.part(number)
        merging = self._merging((), ())
        source = self._total(totals, other, merging)
        statements = (stripe.Load(source.name, "total"), stripe.Store("total", merging.name))
        found = Node(sch.present((more,)), (), (), statements, (source, merging), (last - other - 1,))
        mine = _as(self._sum(self._first_buffer, sch.part(thread) + 1), merges=False)
        ends = merge_block(merging, mine, ())
        children = (identity_block(merging, ()), found, ends)
        return [
            Node((thread,), (self._allocation(()),), children),
            *self._steps_of_powers(),
            self._copy(Affine.constant(self.plan.threads), Affine(), merges=True),
        ]


def _as(use: Use, *, merges: bool) -> Use:
    return use if merges else attrs.evolve(use, aggregation=None, direction=stripe.Direction.OUT)
