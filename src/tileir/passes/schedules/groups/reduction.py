"""Reductions shared by the threads of a group: partial results, a merge tree in local memory, and the epilogue."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Final

from tileir.core import NameScope, attrs
from tileir.passes.kernels import schedule as sch
from tileir.passes.schedules.groups.staging import TileShape
from tileir.passes.schedules.strategy import shared_out
from tileir.poly.affine import Affine
from tileir.schedule import Nest, Node, Segment, Tail, Use, identity_of
from tileir.schedule.application import Candidate, Rearrangement
from tileir.schedule.steps.iterations import Distribute, Fuse, Sink
from tileir.schedule.steps.legality import word
from tileir.schedule.steps.loops import Bind, Cut, Jam, Reorder, Split
from tileir.schedule.steps.memory import Accumulate, Level, Outside, RFactor, Stage
from tileir.schedule.steps.tensors import Interleave
from tileir.stripe import ir as stripe

_ALONE: Final = 16
"""Maximum partial results that one thread merges; more are first reduced by several threads."""

_AT_ONCE: Final = 8
"""Partial results that each of several threads merges, with its reads in flight together and few barriers."""


@attrs.frozen(eq=False)
class Plan:
    """Division of a reduction among the threads of a group.

    Attributes:
        loop: Reduction index that threads share.
        column: Output index along which a group computes several values.
        threads: Threads along ``loop``, a power of two.
        beside: Values of ``column`` in a group, in vectors of ``lanes`` if lanes run along it.
        lanes: Lanes of a vector.
        unroll: Vectors that a thread loads together, into separate accumulators.
        along_outputs: Lanes and neighbouring threads run along ``column`` instead of ``loop``.
        row: Second output index, distributed over ``down`` threads.
        down: Threads along ``row``.
        staged: Inputs that a group copies to local memory.
        deep: Second reduction index, distributed over ``depth`` threads.
        depth: Threads along ``deep``.

    """

    loop: stripe.Index
    column: stripe.Index
    threads: int
    beside: int
    lanes: int
    unroll: int
    along_outputs: bool
    row: stripe.Index | None = None
    down: int = 1
    staged: tuple[Use, ...] = ()
    deep: stripe.Index | None = None
    depth: int = 1

    @property
    def width(self) -> int:
        """Values of ``column`` in a group."""
        return self.beside * (self.lanes if self.along_outputs else 1)

    def shape(self, segment: Segment) -> TileShape:
        """Return the extents of staged inputs: the whole reduction, and the columns of a group."""
        extents = {i.name: i.range for i in segment.loops}
        extents[self.column.name] = min(self.width, self.column.range)
        return TileShape(extents, self.column.name, self.lanes)


@attrs.frozen(eq=False, repr=False)
class SharedReduction:
    """Script that distributes a reduction over the threads of a group, and the names of its loops.

    Partial results are merged in local memory by ever fewer threads. The first threads run the prologue and epilogue.

    Attributes:
        nest: The kernel.
        plan: Division of the reduction.
        names: Names in use.
        team: Loops over threads with separate outputs, outermost first.
        parts: Loops over the threads that share an output.
        vector: Loop over the vectors that a thread loads together.
        lane: Loop over the elements of a vector.
        inner: ``lane``, if it runs along the reduction.
        bound: Final bindings of loops.
    """

    nest: Nest
    plan: Plan
    names: NameScope
    team: tuple[str, ...]
    parts: tuple[str, ...]
    vector: str
    lane: str
    inner: tuple[str, ...]
    bound: dict[stripe.Binding, list[str]]

    @classmethod
    def of(cls, nest: Nest, plan: Plan) -> SharedReduction:
        """Choose names."""
        names = nest.taken_names()
        team = tuple(names.fresh(f"{i.name}_thread") for i in (plan.row, plan.column) if i is not None)
        parts = tuple(names.fresh(f"{i.name}_thread") for i in (plan.deep, plan.loop) if i is not None)
        vector, lane = names.fresh(f"{plan.loop.name}_vector"), names.fresh("lane")
        bound = {
            stripe.Binding.GRID: [index.name for index in nest.indices],
            stripe.Binding.THREAD: [*team, *parts] if plan.threads * plan.depth > 1 else [*team],
            stripe.Binding.UNROLL: [vector],
            stripe.Binding.LANE: [lane] if plan.lanes > 1 else [],
        }
        inner = (lane,) if plan.lanes > 1 and not plan.along_outputs else ()
        return cls(nest, plan, names, team, parts, vector, lane, inner, bound)

    def candidate(self) -> Candidate:
        """Return the script with facts for remarks."""
        plan = self.plan
        return Candidate.of(
            self.nest, self._steps(), threads=plan.threads, lanes=plan.lanes, along_outputs=plan.along_outputs
        )

    def _steps(self) -> Iterator[Rearrangement]:
        plan, (segment,) = self.plan, self.nest.reductions
        yield from self._outputs()
        yield from self._parts()
        roots, arrays = tuple(use.root for use in segment.uses if use.direction.writes), list[str]()
        for root in roots:
            wide, part, shared = (self.names.fresh(f"{word(root)}_{what}") for what in ("lanes", "part", "shared"))
            vector, lane = (self.names.fresh(f"{wide}_{what}") for what in ("vector", "lane"))
            yield Accumulate(root, self.parts[-1], wide, over=(self.vector, *self.inner))
            yield Accumulate(root, self.parts[-1], part)
            ends = (f"{wide}_start", f"{wide}_merge")
            yield from (Split(end, plan.lanes, (vector, lane), Tail.EVEN) for end in ends if self.inner)
            self.bound[stripe.Binding.UNROLL] += (vector,) if self.inner else ends
            if plan.lanes > 1:
                self.bound[stripe.Binding.LANE] += (f"{wide}_0", f"{part}_0") if plan.along_outputs else (lane,)
            arrays.append(shared)
        if plan.threads * plan.depth > 1:
            yield from self._tree(roots, tuple(arrays))
        yield from (Bind(tuple(loops), binding) for binding, loops in self.bound.items() if loops)

    def _outputs(self) -> Iterator[Rearrangement]:
        """Yield steps that divide outputs among groups and their threads."""
        plan, column, (*above, place) = self.plan, self.plan.column.name, self.team
        inside = self.names.fresh(f"{column}_in") if plan.along_outputs else place
        short = plan.column.range < plan.width and not plan.staged  # threads fill warps, though some are idle
        yield Split(column, plan.width, (column, inside), Tail.MASK if short else Tail.GUARD)
        if plan.row is not None:
            yield Split(plan.row.name, plan.down, (plan.row.name, above[0]))
        grid = self.bound[stripe.Binding.GRID]
        if above or grid[-1] != column:
            yield Reorder((*grid, *above, inside))
        for use in plan.staged:
            yield from self._copied(use, grid[-1], inside)
        if plan.along_outputs:
            yield Split(inside, plan.lanes, (place, self.lane), Tail.EVEN)
            yield Jam((self.lane,))

    def _copied(self, use: Use, at: str, inside: str) -> Iterator[Rearrangement]:
        """Yield steps that copy a group's part of an input to local memory."""
        plan, (segment,) = self.plan, self.nest.reductions
        stage, shape = self.names.fresh(f"{word(use.root)}_stage"), plan.shape(segment)
        axes = [*(index for index in segment.loops if use.stride(index.name)), plan.column]
        sizes, over = [shape.extents[index.name] for index in axes], [index.name for index in axes[:-1]]
        pad = shape.layout(use)[-1] - sizes[-1]
        yield Stage(use.root, at, stage, Level.LOCAL, over=(*over, inside), pad=pad, outside=Outside.CLAMP)
        loops = sorted(range(len(axes)), key=lambda axis: -abs(use.stride(axes[axis].name)))
        yield from shared_out([(f"{stage}_{axis}", sizes[axis]) for axis in loops], plan.beside * plan.down)

    def _parts(self) -> Iterator[Rearrangement]:
        """Yield steps that divide terms among threads, in a few vectors at a time."""
        plan, loop, (segment,) = self.plan, self.plan.loop.name, self.nest.reductions
        others = tuple(index.name for index in segment.loops if index is not plan.loop)
        vectors, left = divmod(plan.loop.range, 1 if plan.along_outputs else plan.lanes)
        rest, step, tail, more = (self.names.fresh(f"{loop}_{what}") for what in ("rest", "step", "tail", "more"))
        if others:
            yield Reorder((loop, *others))
        if left:
            yield Cut(loop, plan.loop.range - left, (loop, tail))
            yield Split(tail, plan.threads, (more, self.parts[-1]), Tail.MASK)
        yield from (Split(loop, plan.lanes, (loop, lane), Tail.EVEN) for lane in self.inner)
        yield Split(loop, plan.threads, (loop, self.parts[-1]), Tail.MASK)
        if plan.deep is not None:
            share = self.names.fresh(f"{plan.deep.name}_share")
            yield Split(plan.deep.name, plan.depth, (share, self.parts[0]), Tail.EVEN)
            others = tuple(share if name == plan.deep.name else name for name in others)
        yield Reorder((*self.parts, loop, *others, *self.inner))
        if left:
            yield Reorder((*self.parts, more, *others))
            yield from (Fuse((part, part), part) for part in self.parts)
        whole = vectors // (plan.threads * plan.unroll) * plan.unroll
        if 0 < whole < -(-vectors // plan.threads):
            yield Cut(loop, whole, (loop, rest))
            yield Split(rest, 1, (rest, self.vector), Tail.EVEN)
            yield from (Reorder((*others, rest, self.vector, *self.inner)) for _ in others[:1])
        yield Split(loop, plan.unroll, (step, self.vector), Tail.EVEN)
        yield from (Reorder((*others, step, self.vector, *self.inner)) for _ in others[:1])

    def _tree(self, roots: tuple[str, ...], arrays: tuple[str, ...]) -> Iterator[Rearrangement]:
        """Yield steps that merge the parts of all threads in local memory, with coalesced reads of rows."""
        plan, count, through = self.plan, self.plan.threads * self.plan.depth, list[int]()
        while count > _ALONE:
            count //= _AT_ONCE
            through.append(count)
        yield RFactor(roots, self.parts, arrays, Level.LOCAL, tuple(through), stores=True)
        yield Sink(self.team[-1])
        yield Distribute(self.team, tuple(range(1, len(through) + 2)))
        for level in range(len(through)):
            left, more = (f"{arrays[0]}_{what}_{level}" for what in ("left", "more"))
            yield Reorder((left, *self.team, more) if plan.along_outputs else (*self.team, left, more))
            self.bound[stripe.Binding.THREAD].append(left)
            self.bound[stripe.Binding.UNROLL].append(more)
        self.bound[stripe.Binding.UNROLL] += [f"{array}_merge" for array in arrays]
        if plan.along_outputs:
            self.bound[stripe.Binding.LANE] += [f"{array}_0" for array in arrays if plan.lanes > 1]
            yield Reorder((*self.parts, *self.team))
            for array, (axis, size) in product(arrays, enumerate((plan.down, plan.beside)[-len(self.team) :])):
                yield Interleave(array, axis, size)  # neighbours read neighbours
            yield from (Interleave(array, len(self.team) + 1, plan.lanes) for array in arrays)


def in_registers(nest: Nest, use: Use, place: Affine) -> Use:
    """Return a use of a nest's allocation as one of the element at a place in registers, and other uses unchanged."""
    if all(use.root != r.name for r in nest.allocations):
        return use
    return attrs.evolve(use, access=(place,), strides=(1,), sizes=())


def identity_block(use: Use, indices: Iterable[stripe.Index]) -> Node:
    """Return a block that sets accumulators to the identity of their aggregation."""
    statements = (identity_of(use, "identity"), stripe.Store("identity", use.name))
    plain = attrs.evolve(use, aggregation=None, direction=stripe.Direction.OUT)
    return Node(sch.present(indices), statements=statements, uses=(plain,))


def merge_block(source: Use, target: Use, indices: Iterable[stripe.Index]) -> Node:
    """Return a block that stores one element through the view of another."""
    read = attrs.evolve(source, name=f"{source.name}_from", direction=stripe.Direction.IN, aggregation=None)
    statements = (stripe.Load(read.name, "value"), stripe.Store("value", target.name))
    return Node(sch.present(indices), statements=statements, uses=(read, target))
