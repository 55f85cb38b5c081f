"""Lowering of kernels whose groups have several threads: the points and private memory of each thread, and barriers.

The blocks of a kernel form a tree. All threads run its inner nodes; below them are *phases*, blocks whose indices bound
to ``thread`` are distributed: the first listed slowest, and threads with numbers beyond their product are idle. A block
without thread indices, in itself and below, is a phase of the first thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tileir.core import Op, Target, attrs, fail
from tileir.poly.affine import Affine
from tileir.semtree import ir as sem
from tileir.semtree.lower.barriers import THREAD, Phase, SharedAccess, Step, StepSequence, with_barriers
from tileir.semtree.lower.block import BlockLowering
from tileir.semtree.lower.boxes import box_store
from tileir.semtree.lower.loops import grid_indices, plan_loops, point_count, thread_indices
from tileir.semtree.lower.pipeline import Pipeline, stages_of
from tileir.semtree.lower.product import fragment_of, product
from tileir.semtree.lower.turns import Turns, cluster_of
from tileir.semtree.lower.views import View
from tileir.stripe import ir as stripe

THREADS: Final = 4 * sem.WARP
"""Additional threads if one warp copies: those whose number of registers changes with it."""


def is_apart(pipeline: stripe.Block, target: Target) -> bool:
    """Return whether a separate warp makes the copies of a pipeline."""
    copies = (each.instruction for each in pipeline.blocks if isinstance(each.instruction, stripe.Copy))
    asked = isinstance(pipeline.instruction, stripe.Pipeline) and pipeline.instruction.registers
    return bool(asked) and target.bulk_copies and all(copy.box for copy in copies)


def teams_of(kernel: stripe.Block, target: Target) -> int:
    """Return the number of teams that multiply while a separate warp copies; 1 if there is none."""
    found = [each for each in kernel.nested() if is_apart(each, target)]
    return max((asked.teams for each in found for asked in _pipelines(each)), default=1)


def in_roles(kernel: stripe.Block, body: list[sem.Stmt], copies: list[sem.Stmt], threads: int) -> list[sem.Stmt]:
    """Return the body of a kernel of ``threads`` threads, or roles if a separate warp copies.

    Raises:
        TileError: TIL502, the pipeline of these copies does not run once for each point of the grid.
    """
    if not copies:
        return body
    (asked, *others) = _pipelines(kernel)
    inside = any(each.instruction is asked for each in kernel.blocks)
    grid = grid_indices(kernel)
    moving = any(index.range > 1 and index not in grid for index in kernel.indices)
    if others or not inside or moving or kernel.constraints or threads % (THREADS * asked.teams):
        message = f"copies of the kernel {kernel.name or '(unnamed)'} are made by a warp of its own: it must have one"
        raise fail("TIL502", f"{message} pipeline, in no loop, and a multiple of {THREADS} threads in each team")
    few, many = asked.registers
    warps = threads // sem.WARP
    multiplying = sem.WarpRole(0, warps // asked.teams, tuple(body), many, asked.teams)
    return [multiplying, sem.WarpRole(warps, 1, tuple(copies), few)]


def _pipelines(block: stripe.Block) -> Iterator[stripe.Pipeline]:
    """Yield the pipeline instructions with a separate copying warp."""
    for each in block.nested():
        if isinstance(each.instruction, stripe.Pipeline) and each.instruction.registers:
            yield each.instruction


@attrs.frozen(eq=False)
class Team:
    """The threads that run a phase.

    ``variables`` are its thread indices, with the stride of each in the number of a thread; ``fixed`` variables are
    uniform in a group, and never change.
    """

    threads: int
    variables: tuple[tuple[str, int], ...]
    fixed: frozenset[str]

    @property
    def number(self) -> Affine:
        """The number of a thread, over the variables."""
        return Affine.of(dict(self.variables))

    def own(self, offset: Affine, lane: str, lanes: int) -> Affine | None:
        """Return :attr:`tileir.semtree.lower.barriers.SharedAccess.own` of an access to ``lanes`` elements."""
        steps = {divmod(int(offset.coefficient(name)), stride) for name, stride in self.variables} or {(0, 0)}
        step, left = steps.pop()
        reach = abs(int(offset.coefficient(lane))) * (lanes - 1)
        rest = offset.substitute({**{name: Affine() for name, _ in self.variables}, lane: Affine()})
        if steps or left or abs(step) <= reach:
            return None
        return rest + Affine.of({THREAD: step})


@attrs.define(eq=False)
class GroupLowering:
    """Lowering of one kernel whose groups have ``threads`` threads."""

    blocks: BlockLowering
    threads: int
    thread: sem.Var = attrs.field(init=False)
    _fixed: frozenset[str] = attrs.field(default=frozenset(), init=False)
    _declarations: list[sem.Stmt] = attrs.field(factory=list, init=False)
    _turns: Turns | None = attrs.field(default=None, init=False)
    _copies: list[sem.Stmt] = attrs.field(factory=list, init=False)
    _cluster: int = attrs.field(default=1, init=False)
    _teams: int = attrs.field(default=1, init=False)
    _ranks: frozenset[str] = attrs.field(default=frozenset(), init=False)

    def __attrs_post_init__(self) -> None:
        self.thread = self.blocks.counter("tid")

    def kernel(self, block: stripe.Block, buffers: dict[str, View]) -> tuple[tuple[int, ...], tuple[sem.Stmt, ...]]:
        """Return the grid and the body of a kernel block, whose parent holds the views ``buffers``."""
        number = sem.GridIndex(sem.GridLevel.LOCAL, 0, self.thread.type)
        turns = self._turns = Turns.of(self.blocks, block)
        self._cluster = cluster_of(block, self.blocks.target)
        self._teams = teams_of(block, self.blocks.target)
        if turns is not None:
            self._tell_apart(block, turns.values)
            inner = self._step(block, buffers, {}, turns.values)
            step: Step = StepSequence((inner,), turns.around, repeats=True, skips=False)
            head = (turns.first, sem.Declare(self.thread, number), *self._declarations)
            copies = turns.around(self._copies) if self._copies else []
            return (turns.groups,), (*head, *in_roles(block, with_barriers(step), copies, self.threads))
        grid, start, values = self.blocks.grid(block)
        self._tell_apart(block, values)
        self._fixed = frozenset(name for value in values.values() for name in value.indices)
        step = self._step(block, buffers, {}, values)
        head = (*start, sem.Declare(self.thread, number), *self._declarations)
        return grid, (*head, *in_roles(block, with_barriers(step), self._copies, self.threads))

    def _tell_apart(self, block: stripe.Block, values: Mapping[str, Affine]) -> None:
        """Record the variables that differ between groups of a cluster."""
        last = grid_indices(block)[-1:]
        self._ranks = frozenset(name for index in last for name in values[index.name].indices)

    def _step(
        self, block: stripe.Block, parents: dict[str, View], outer: dict[str, Affine], bound: Mapping[str, Affine]
    ) -> Step:
        if thread_indices(block) or not any(map(thread_indices, block.nested())):
            return self._phase(block, parents, outer, bound)
        stages = stages_of(block) if self.blocks.target.async_copies else 0
        if stages:
            return Pipeline(
                self.blocks,
                block,
                parents,
                outer,
                dict(bound),
                self._inner_phase,
                self._declarations.append,
                self._turns,
                self._copies.append if is_apart(block, self.blocks.target) else None,
                self._cluster,
                self._ranks,
            ).lowered(stages)
        if not all(isinstance(statement, stripe.Block) for statement in block.statements):
            message = f"block {block.name} has statements beside blocks with thread indices: put them into a block"
            raise fail("TIL502", message)
        values = dict(bound)
        plan = plan_loops(block, outer, values, self.blocks.counter)
        views = self.blocks.views(block, parents, values)
        declarations, allocated = self.blocks.allocations(block, shared=True)
        self._declarations.extend(declarations)
        views.update(allocated)
        steps = tuple(self._step(inner, views, values, {}) for inner in block.blocks)
        bounded = any(loop.lower or loop.upper or loop.guards for loop in plan.loops)
        return StepSequence(
            steps,
            lambda body: self.blocks.wrapped(plan, self._with_joined_tests(body)),
            repeats=bool(plan.loops),
            skips=bounded or bool(plan.inner_guards),
        )

    def _with_joined_tests(self, statements: list[sem.Stmt]) -> list[sem.Stmt]:
        """Merge adjacent phases of the same threads, without a barrier in between, under one test."""
        result: list[sem.Stmt] = []
        for statement in statements:
            match (result[-1] if result else None), statement:
                case sem.If(condition=test, then=first), sem.If(condition=other, then=second) if (
                    test == other and self._is_test(test)
                ):
                    result[-1] = sem.If(test, (*first, *second))
                case _:
                    result.append(statement)
        return result

    def _is_test(self, condition: sem.Expr) -> bool:
        """Return whether a condition is that of a phase for only some threads."""
        match condition:
            case sem.Apply(op=Op.CMP_LT, args=(left, sem.Const())):
                return left == self.thread
            case _:
                return False

    def _inner_phase(self, block: stripe.Block, parents: dict[str, View], outer: dict[str, Affine]) -> Phase:
        return self._phase(block, parents, outer, {})

    def _phase(
        self, block: stripe.Block, parents: dict[str, View], outer: dict[str, Affine], bound: Mapping[str, Affine]
    ) -> Phase:
        values = dict(bound)
        team, start = self._team(block, values)
        touches: list[SharedAccess] = []
        if isinstance(block.instruction, stripe.CopyBack) and self.blocks.target.bulk_copies:
            return self._stored(block, parents, {**outer, **bound})
        found = self._product(block, parents, outer, values, team)
        if found is not None:
            return attrs.evolve(found, statements=(*start, *found.statements))
        with self.blocks.noting(team, touches):
            body = [*start, *self.blocks.block(block, parents, outer, values, team.number)]
        if isinstance(block.instruction, stripe.CopyBack):  # the only access to each element
            touches = [touch for touch in touches if touch.local]
        if team.threads < self.threads:
            condition = sem.Apply(Op.CMP_LT, (self.thread, self.blocks.offsets.constant(team.threads)))
            body = [sem.If(condition, tuple(body))]
        return Phase(tuple(body), tuple(dict.fromkeys(touches)))

    def _stored(self, block: stripe.Block, parents: dict[str, View], outer: dict[str, Affine]) -> Phase:
        """Return the store of a box, which all threads run together."""
        team = thread_indices(block)[0]
        start: list[sem.Stmt] = []
        if self._teams > 1:  # each stores its own part
            variable = self.blocks.counter(team.name)
            start.append(sem.Declare(variable, self._digit(self.threads // self._teams, None)))
            own = attrs.evolve(team, range=1, affine=Affine.index(variable.name), binding=None)
            outer = {**outer, variable.name: Affine.index(variable.name)}
            block = attrs.evolve(block, indices=tuple(own if each is team else each for each in block.indices))
        store = box_store(self.blocks, block, parents, outer)
        touch = SharedAccess(store.source.array, False, False, self.threads, None, False, True, waits=True)
        return Phase((*start, store), (touch,))

    def _product(
        self,
        block: stripe.Block,
        parents: dict[str, View],
        outer: dict[str, Affine],
        values: Mapping[str, Affine],
        team: Team,
    ) -> Phase | None:
        """Return the instruction for a block, run by all threads; None if the device has none."""
        if fragment_of(block, self.blocks.target) is None:
            return None
        if team.threads != self.threads:
            message = f"block {block.name or '(unnamed)'} multiplies matrices with {team.threads} threads"
            raise fail("TIL502", f"{message} of the {self.threads} of a group: all of them have to take part")
        bound = dict(values)
        for index in block.indices:
            if index.name not in bound:
                base = Affine() if index.affine is None else index.affine.substitute(outer)
                bound[index.name] = base if index.range == 1 else base + Affine.index(f"%{index.name}")
        names = {index.name: next(iter(bound[index.name].indices), "") for index in block.indices if index.range > 1}
        views = self.blocks.views(block, parents, bound, team.number)
        found = product(block, views, names, self.blocks.target, self.blocks.offsets)
        if found is None:
            return None
        read = {found.left.start.array, found.right.start.array}
        touches = [
            SharedAccess(v.array, False, False, team.threads, None, False, v.region is sem.Region.LOCAL)
            for v in views.values()
            if v.array in read
        ]
        return Phase((found,), tuple(dict.fromkeys(touches)))

    def _team(self, block: stripe.Block, values: dict[str, Affine]) -> tuple[Team, list[sem.Stmt]]:
        """Bind the thread indices of a block in ``values``; return its team, and the variables to declare for it."""
        moving = [index for index in thread_indices(block) if index.range > 1]
        stride = threads = point_count(tuple(moving))
        start: list[sem.Stmt] = []
        variables: list[tuple[str, int]] = []
        for index in thread_indices(block):
            if index.range == 1:
                values[index.name] = Affine()
                continue
            stride //= index.range
            variable = self.thread
            if len(moving) > 1:
                variable = self.blocks.counter(index.name)
                slowest = stride * index.range == threads
                start.append(sem.Declare(variable, self._digit(stride, None if slowest else index.range)))
            values[index.name] = Affine.index(variable.name)
            variables.append((variable.name, stride))
        return Team(threads, tuple(variables), self._fixed), start

    def _digit(self, stride: int, extent: int | None) -> sem.Expr:
        """Return ``thread / stride % extent``, by shifts and masks for powers of two."""
        result: sem.Expr = self.thread
        constant = self.blocks.offsets.constant
        if stride & (stride - 1):
            result = sem.Apply(Op.DIV, (result, constant(stride)))
        elif stride > 1:
            result = sem.Apply(Op.BIT_RIGHT, (result, constant(stride.bit_length() - 1)))
        if extent is None:
            return result
        if extent & (extent - 1):
            return sem.Apply(Op.MOD, (result, constant(extent)))
        return sem.Apply(Op.BIT_AND, (result, constant(extent - 1)))
