"""Construction of a kernel over rows shared by the threads of a group: loops over a row, and exchanges between them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Final, TypeVar

from tileir.core import DType, NameScope, attrs
from tileir.passes.kernels import schedule as sch
from tileir.passes.schedules.groups.reduction import identity_block, merge_block
from tileir.poly.affine import Affine
from tileir.schedule.nest import Nest, Node, Segment, Use, leaf
from tileir.stripe import ir as stripe
from tileir.stripe.blocks import Binding

ELEMENT: Final = "%element"
"""Name of the element number of a row in :attr:`Row.access`; no index can have it."""

VECTOR: Final = "%vector"
"""Name of the vector number of a thread."""


@attrs.frozen
class Row:
    """A row that threads may keep: the elements of ``root`` at ``access``, one for each of ``range`` values."""

    root: str
    access: tuple[Affine, ...]
    range: int
    dtype: DType


@attrs.frozen
class Kept:
    """A row of which each thread keeps its first vectors: ``registers`` of them there, then some in ``local`` memory.

    The others are read again. A computed row is kept as a whole, in the place of ``before``, if there is one: a row
    whose last read precedes the stores of the computed elements.
    """

    row: Row
    registers: int
    local: int = 0
    before: Row | None = None


@attrs.frozen(eq=False)
class Piece:
    """Vectors of a thread in an array, from number ``first`` on."""

    first: int
    count: int
    array: stripe.Refinement


@attrs.frozen(eq=False)
class Plan:
    """Division of rows among the threads of a group.

    Attributes:
        column: The output index of which a group takes several values; None for none.
        threads: Threads along a row, a power of two.
        beside: Number of rows that a group takes at a time.
        lanes: Lanes of a vector.
        loops: The loop that threads share, by number of the segment.
        rows: Parts of rows that threads keep.
        across: Whether rows lie side by side in memory, like the columns of a matrix: neighbouring threads then take
            neighbouring rows, and elements of one row are strided.
    """

    column: stripe.Index | None
    threads: int
    beside: int
    lanes: int
    loops: Mapping[int, stripe.Index]
    rows: tuple[Kept, ...]
    across: bool = False


def row_of(use: Use, loop: stripe.Index) -> Row:
    """Return the row of a use in a loop."""
    element = {loop.name: Affine.index(ELEMENT)}
    return Row(use.root, tuple(a.substitute(element) for a in use.access), loop.range, use.dtype)


def pieces(kept: Kept, plan: Plan, names: NameScope) -> Iterator[Piece]:
    """Yield the arrays that hold a row."""
    team, row = plan.beside * plan.threads, kept.row
    if kept.registers:
        extents = (team, kept.registers, plan.lanes)
        yield Piece(
            0, kept.registers, stripe.allocation(names.fresh(f"{row.root}_row"), row.dtype, extents, sch.REGISTER)
        )
    if kept.local:
        extents = (kept.local, team, plan.lanes)
        memory = stripe.allocation(names.fresh(f"{row.root}_near"), row.dtype, extents, sch.LOCAL)
        yield Piece(kept.registers, kept.local, memory)


_T = TypeVar("_T")

_REGISTER: Final = 4
"""Bytes of a register, which a single element occupies."""

_MOST_UNROLLED: Final = 256
"""Maximum bytes of a row that a thread handles without a loop; registers always need unrolled code."""

_AT_A_TIME: Final = 64
"""Bytes per iteration of this loop: enough loads in flight, within the registers."""

_ALONE: Final = 16
"""Maximum partial results that every thread merges itself; more are first merged by fewer threads."""

_AT_ONCE: Final = 8
"""Partial results that a thread merges first, with its reads in flight together, and no long chain."""


def build(nest: Nest, plan: Plan) -> Node:
    """Return the tree of a kernel."""
    return _Builder.of(nest, plan).kernel()


@attrs.define(eq=False, repr=False)
class _Builder:
    """Builder of one kernel, phase by phase."""

    nest: Nest
    plan: Plan
    names: NameScope
    part: stripe.Index  # the thread along a row
    place: stripe.Index  # the row in its group
    lane: stripe.Index
    grid: tuple[stripe.Index, ...]
    values: dict[str, Affine]
    ends: tuple[Affine, ...]
    owned: dict[str, stripe.Refinement]  # the allocations of the kernel that threads have in registers, by name there
    kept: dict[Row, tuple[Piece, ...]]
    local: frozenset[str]
    filled: set[Row] = attrs.field(factory=set)
    phases: list[Node] = attrs.field(factory=list)
    shared: list[stripe.Refinement] = attrs.field(factory=list)
    pending: list[Node] = attrs.field(factory=list)
    private: list[stripe.Refinement] = attrs.field(factory=list)

    @classmethod
    def of(cls, nest: Nest, plan: Plan) -> _Builder:
        """Choose names, the grid and the memory of a kernel."""
        names = nest.taken_names()
        stem = "row" if plan.column is None else plan.column.name
        part = sch.index(names.fresh("part_thread"), plan.threads, Binding.THREAD)
        place = sch.index(names.fresh(f"{stem}_thread"), plan.beside, Binding.THREAD)
        lane = sch.index(names.fresh("lane"), plan.lanes, Binding.LANE)
        grid = [i.bound(Binding.GRID) for i in nest.indices]
        values: dict[str, Affine] = {}
        ends: tuple[Affine, ...] = ()
        if plan.column is not None:
            groups = -(-plan.column.range // plan.beside)
            group = sch.index(names.fresh(f"{stem}_group"), groups, Binding.GRID)
            grid = [group if i.name == plan.column.name else i for i in grid]
            values[plan.column.name] = sch.part(group, plan.beside) + sch.part(place)
            if groups * plan.beside > plan.column.range:
                ends = (plan.column.range - 1 - values[plan.column.name],)
        team = plan.beside * plan.threads
        kept = {each.row: tuple(pieces(each, plan, names)) for each in plan.rows}
        kept |= {each.before: kept[each.row] for each in plan.rows if each.before is not None}
        held = {each.row.root for each in plan.rows}
        owned, shared = {}, []
        for r in nest.allocations:
            if r.shape.elements == 1:
                owned[r.name] = stripe.allocation(r.name, r.shape.dtype, (team,), sch.REGISTER)
            elif r.name not in held:
                extents = (*r.shape.sizes, plan.beside) if plan.across else (plan.beside, *r.shape.sizes)
                shared.append(stripe.allocation(r.name, r.shape.dtype, extents, sch.LOCAL))
        builder = cls(nest, plan, names, part, place, lane, sch.present(grid), values, ends, owned, kept, nest.local)
        builder.shared.extend(shared)
        return builder

    def kernel(self) -> Node:
        """Return the tree."""
        for number, segment in enumerate(self.nest.segments):
            handed_on = any(use.root == r.name for use in segment.uses for r in self.shared)
            if handed_on:
                self._flush()
            if segment.loops:
                self._loop(segment, self.plan.loops[number])
            else:
                self._once(segment)
            if handed_on:
                self._flush()
        self._flush()
        kept = {p.array.name: p.array for row in self.kept.values() for p in row}  # two rows may have the same pieces
        memories = (*self.owned.values(), *kept.values(), *self.shared)
        return Node(self.grid, memories, tuple(self.phases))

    def _flush(self, part: stripe.Index | None = None) -> None:
        """Make a phase of the pending nodes, for all threads or for those of ``part``."""
        if self.pending:
            indices = self._in_order(self.place, part or self.part)
            team = Node(sch.present(indices), tuple(self.private), tuple(self.pending), constraints=self.ends)
            self.phases.append(team)
        self.pending, self.private = [], []

    def _in_order(self, place: _T, part: _T) -> tuple[_T, _T]:
        """Return the values for a row and for a part of it, the contiguous one last."""
        return (part, place) if self.plan.across else (place, part)

    @property
    def _number(self) -> Affine:
        return sch.number_of(self._in_order(self.place, self.part))

    def _in_memory(self, use: Use) -> Use:
        """Return a use of the kernel's allocation with this builder's memory."""
        if use.root in self.owned:
            return attrs.evolve(use, access=(self._number,), strides=(1,), sizes=())
        shared = next((r for r in self.shared if r.name == use.root), None)
        if shared is None:
            return use
        place = sch.part(self.place)
        access = (*use.access, place) if self.plan.across else (place, *use.access)
        return attrs.evolve(use, access=access, strides=shared.shape.strides, sizes=())

    def _once(self, segment: Segment) -> None:
        """Add statements that each thread runs itself, without stores to memory of the caller."""
        mine = {*self.owned, *(r.name for r in self.shared)}
        moved = attrs.evolve(segment, uses=tuple(self._in_memory(use) for use in segment.uses))
        for outside in (False, True):
            chosen = _storing(moved, mine, outside=outside)
            if chosen is not None:
                inside = leaf(chosen, self.values, ())
                first = (-sch.part(self.part),) if outside and self.plan.threads > 1 else ()
                tests = (*inside.constraints, *first)
                self.pending.append(Node(children=(attrs.evolve(inside, constraints=()),), constraints=tests))

    def _loop(self, segment: Segment, loop: stripe.Index) -> None:
        """Add a loop over a row, and the exchange of its partial results."""
        results = [use for use in segment.uses if use.merges]
        wide = {}
        for use in results:
            array = stripe.allocation(
                self.names.fresh(f"{use.root}_lanes"), use.dtype, (self.plan.lanes,), sch.REGISTER
            )
            self.private.append(array)
            wide[use] = attrs.evolve(use, root=array.name, access=(sch.part(self.lane),), strides=(1,), sizes=())
        self.pending += [identity_block(use, (self.lane,)) for use in wide.values()]
        filling = self._filling(segment, loop)
        self.pending += self._passes(segment, loop, filling, wide)
        self.filled |= filling
        if results:
            self._exchange(results, wide)

    def _filling(self, segment: Segment, loop: stripe.Index) -> frozenset[Row]:
        """Return the rows of the caller that a loop is the first to read."""
        if segment.constraints or len(segment.loops) > 1:
            return frozenset()
        read = {row_of(use, loop) for use in segment.uses if use.root not in self.local}
        return frozenset(row for row in read if row in self.kept and row not in self.filled)

    def _with_rows(self, segment: Segment, loop: stripe.Index, filling: Collection[Row], vector: int) -> Segment:
        """Return a segment that accesses a vector where it is kept, and keeps it at its first read."""
        uses: list[Use] = []
        loaded: dict[str, Use] = {}
        for use in segment.uses:
            row = row_of(use, loop)
            piece = self._piece(row, vector)
            if piece is None or not (use.root in self.local or row in self.filled or row in filling):
                uses.append(use)
                continue
            array, place = piece.array, self._place_in(piece)
            inside = attrs.evolve(use, root=array.name, access=place, strides=array.shape.strides, sizes=())
            uses.append(use if row in filling else inside)
            if row in filling:
                name = self.names.fresh(f"{use.name}_row")
                loaded[use.name] = attrs.evolve(inside, name=name, direction=stripe.Direction.OUT)
        statements: list[stripe.Statement] = []
        for statement in segment.statements:
            statements.append(statement)
            if isinstance(statement, stripe.Load) and statement.source in loaded:
                statements.append(stripe.Store(statement.into, loaded[statement.source].name))
        return attrs.evolve(segment, uses=(*uses, *loaded.values()), statements=tuple(statements))

    def _piece(self, row: Row, vector: int) -> Piece | None:
        """Return the piece with a vector of a row; None if it is read again."""
        pieces = self.kept.get(row, ())
        return next((p for p in pieces if p.first <= vector < p.first + p.count), None)

    def _place_in(self, piece: Piece) -> tuple[Affine, Affine, Affine]:
        """Return the place of a vector in an array: private, or in local memory beside those of other threads."""
        vector = Affine.index(VECTOR) - piece.first
        own = piece.array.location == sch.REGISTER
        return (self._number, vector, sch.part(self.lane)) if own else (vector, self._number, sch.part(self.lane))

    def _passes(
        self, segment: Segment, loop: stripe.Index, filling: Collection[Row], wide: Mapping[Use, Use]
    ) -> list[Node]:
        """Return a thread's work on a row: its vectors one by one, the last perhaps past the end."""
        plan = self.plan
        segment = self._with_several(segment, loop)
        others = tuple(i for i in segment.loops if i.name != loop.name)
        vectors = loop.range // plan.lanes
        steps, rest = divmod(vectors, plan.threads)
        nodes: list[Node] = []
        pieces = [p for use in segment.uses for p in self.kept.get(row_of(use, loop), ())]
        ends = {0, steps, *(end for p in pieces for end in (p.first, p.first + p.count) if end < steps)}
        for first, end in pairwise(sorted(ends)):
            found = self._in_place(segment, loop, filling, wide, first)
            named = any(p.first <= first < p.first + p.count and p.array.location == sch.REGISTER for p in pieces)
            nodes += self._run(found, loop, others, range(first, end), looped=not named)
        if rest:
            last = (rest - 1 - sch.part(self.part),)
            found = self._in_place(segment, loop, filling, wide, steps)
            nodes.append(self._vectors(found, loop, Affine.constant(steps), others, last))
        return nodes

    def _with_several(self, segment: Segment, loop: stripe.Index) -> Segment:
        """Return a segment that takes several stretches of a row at a time, with their loads in flight together."""
        rest = [i for i in segment.loops if i.name != loop.name]
        several = next((n for n in (8, 4, 2) if rest and rest[-1].range % n == 0 and rest[-1].range > n), 1)
        if several == 1 or loop.range * sch.widest_access(self.nest) > _AT_A_TIME * self.plan.threads:
            return segment
        last = attrs.evolve(rest[-1], range=rest[-1].range // several)
        some = sch.index(self.names.fresh(f"{last.name}_some"), several, Binding.UNROLL)
        value = {last.name: sch.part(last, several) + sch.part(some)}
        inside = leaf(segment, value, ())
        return attrs.evolve(
            segment,
            loops=(*rest[:-1], last, some, loop),
            constraints=inside.constraints,
            uses=inside.uses,
            statements=inside.statements,
        )

    def _in_place(
        self, segment: Segment, loop: stripe.Index, filling: Collection[Row], wide: Mapping[Use, Use], vector: int
    ) -> Segment:
        """Return a segment with all accesses to the memory of this kernel, for a vector of a row."""
        moved = self._with_rows(segment, loop, filling, vector)
        return attrs.evolve(moved, uses=tuple(wide.get(use) or self._in_memory(use) for use in moved.uses))

    def _run(
        self, segment: Segment, loop: stripe.Index, others: tuple[stripe.Index, ...], numbers: range, *, looped: bool
    ) -> list[Node]:
        """Return a thread's work on some of its vectors, in a loop if they are many."""
        size = max(_REGISTER, self.plan.lanes * sch.widest_access(self.nest))
        each = max(1, _AT_A_TIME // size)
        looped = looped and len(numbers) * max(size, self.plan.lanes * _REGISTER) > _MOST_UNROLLED
        turns, left = divmod(len(numbers), each) if looped else (0, len(numbers))
        nodes = []
        for first, counted, count in ((numbers.start, turns, each), (numbers.stop - left, 1, left)):
            turn = sch.index(self.names.fresh(f"{loop.name}_turn"), counted)
            vector = sch.index(self.names.fresh(f"{loop.name}_vector"), count, Binding.UNROLL)
            if counted and count:
                number = sch.part(turn, each) + sch.part(vector) + first
                nodes.append(self._vectors(segment, loop, number, (*others, *sch.present((turn, vector))), ()))
        return nodes

    def _vectors(
        self,
        segment: Segment,
        loop: stripe.Index,
        vector: Affine,
        indices: tuple[stripe.Index, ...],
        tests: tuple[Affine, ...],
    ) -> Node:
        number = vector * self.plan.threads + sch.part(self.part)
        values = {**self.values, loop.name: number * self.plan.lanes + sch.part(self.lane), VECTOR: vector}
        inside = leaf(segment, values, sch.present((self.lane,)))
        body = attrs.evolve(inside, constraints=())
        return Node(indices, children=(body,), constraints=(*inside.constraints, *tests), tags=segment.tags)

    def _exchange(self, results: Iterable[Use], wide: Mapping[Use, Use]) -> None:
        """Merge the partial results of the threads of a row, so that each of them has the total."""
        if self.plan.threads == 1:
            self.pending += [merge_block(wide[use], self._in_memory(use), (self.lane,)) for use in results]
            return
        found = {use: self._alone(use, wide[use], sch.part(self.part), self.plan.threads) for use in results}
        self._flush()
        count = self.plan.threads
        while count > _ALONE:
            fewer = max(sch.power_of_two_below(_ALONE), count // _AT_ONCE)
            some = sch.index(self.names.fresh(self.part.name), fewer, Binding.THREAD)
            more = sch.index(self.names.fresh("share"), count // fewer, Binding.UNROLL)
            for use, array in found.items():
                source = self._shared(use, array, sch.part(more, fewer) + sch.part(some))
                found[use] = self._alone(use, source, sch.part(some), fewer, more)
            self._flush(some)
            count = fewer
        share = sch.index(self.names.fresh("share"), count, Binding.UNROLL)
        for use, array in found.items():
            self.pending.append(merge_block(self._shared(use, array, sch.part(share)), self._in_memory(use), (share,)))

    def _alone(
        self, use: Use, source: Use, part: Affine, count: int, more: stripe.Index | None = None
    ) -> stripe.Refinement:
        """Merge elements in a register, store that in local memory at ``part`` of ``count``, and return the memory."""
        register = stripe.allocation(self.names.fresh(f"{use.root}_part"), use.dtype, (), sch.REGISTER)
        extents = self._in_order(self.plan.beside, count)
        array = stripe.allocation(self.names.fresh(f"{use.root}_shared"), use.dtype, extents, sch.LOCAL)
        self.private.append(register)
        self.shared.append(array)
        own = attrs.evolve(use, name=register.name, root=register.name, access=(), strides=(), sizes=())
        target = attrs.evolve(self._shared(use, array, part), aggregation=None, direction=stripe.Direction.OUT)
        self.pending += [
            identity_block(own, ()),
            merge_block(source, own, (more or self.lane,)),
            merge_block(own, target, ()),
        ]
        return array

    def _shared(self, use: Use, array: stripe.Refinement, part: Affine) -> Use:
        access = self._in_order(sch.part(self.place), part)
        return attrs.evolve(use, name=array.name, root=array.name, access=access, strides=array.shape.strides, sizes=())


def _storing(segment: Segment, local: Collection[str], *, outside: bool) -> Segment | None:
    """Return the part of a segment that stores to memory of the caller, or the rest; None if empty."""
    roots = {use.name: use.root for use in segment.uses}
    needed: set[str] = set()
    kept: list[stripe.Statement] = []
    for statement in reversed(segment.statements):
        if isinstance(statement, stripe.Store):
            wanted = (roots[statement.into] not in local) == outside
        else:
            wanted = stripe.scalar_output(statement) in needed
        if wanted:
            needed.update(stripe.scalar_inputs(statement))
            kept.append(statement)
    touched = {name for s in kept for name in (*stripe.views_read(s), *stripe.views_written(s))}
    uses = tuple(use for use in segment.uses if use.name in touched)
    return attrs.evolve(segment, uses=uses, statements=tuple(reversed(kept))) if kept else None
