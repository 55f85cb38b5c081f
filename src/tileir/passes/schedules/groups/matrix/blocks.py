"""Construction of a contraction by matrix instructions: copies, products, and epilogue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tileir.core import NameScope, attrs
from tileir.core.fragments import Run
from tileir.passes.kernels import schedule as sch
from tileir.passes.schedules.groups.matrix.boxes import ends
from tileir.passes.schedules.groups.matrix.plan import (
    MatrixTiling,
    Panel,
    are_neighbours,
    is_above,
    piece_of,
    runs_of,
    swizzle_of,
    whole_clusters,
)
from tileir.passes.schedules.groups.matrix.results import Results
from tileir.passes.schedules.groups.reduction import identity_block, merge_block
from tileir.poly.affine import Affine, total
from tileir.schedule.nest import Nest, Node, Use, leaf
from tileir.stripe import FOLD, PADDED, SWIZZLE_MASK, SWIZZLE_SHIFT, Binding, Role, RoleKind, ir as stripe

_OUT: Final = stripe.Direction.OUT
SWATH: Final = 8
"""Rows of groups that run side by side, column by column: their inputs stay in the shared cache."""


def build(nest: Nest, plan: MatrixTiling) -> Node:
    """Return the tree of a kernel."""
    return _MatrixKernel.of(nest, plan).kernel()


@attrs.frozen(eq=False, repr=False)
class _MatrixKernel:
    """Builder of one kernel.

    ``team`` numbers threads by rows above, rows and columns of tiles, and then by ``lanes``, one index for each run of
    the fragment's layout; ``own`` numbers the elements of a thread by tiles above, tiles of rows and of columns, and
    then by ``elements``, also one per run. If adjacent elements are adjacent in a row, ``pair`` is their index.
    """

    nest: Nest
    plan: MatrixTiling
    names: NameScope
    grid: tuple[stripe.Index, ...]
    starts: dict[str, Affine]
    team: tuple[stripe.Index, ...]
    own: tuple[stripe.Index, ...]
    parts: tuple[tuple[Run, stripe.Index], ...]
    pair: stripe.Index | None
    step: stripe.Index

    @classmethod
    def of(cls, nest: Nest, plan: MatrixTiling) -> _MatrixKernel:
        """Choose names and the grid of a kernel."""
        names = nest.taken_names()
        row, column = plan.left.index.name, plan.right.index.name
        top = row if plan.above is None else plan.above.name
        extents = {top: plan.high, row: plan.across, column: plan.columns}
        grid, starts = sch.tile_grid(nest.indices, extents)
        down = next(g for g in grid if g.name == top)
        count = whole_clusters(down.range, plan)
        high = next(n for n in range(min(SWATH, count), 0, -1) if count % n == n % plan.cluster == 0)
        inner = sch.index(names.fresh(f"{top}_swath"), high, Binding.GRID)
        outer = attrs.evolve(down, range=count // high)
        starts[top] = sch.part(outer, high * extents[top]) + sch.part(inner, extents[top])
        grid = [*(outer if g is down else g for g in grid), inner]
        thread, along, fragment = Binding.THREAD, min(plan.tall, plan.across), plan.fragment
        named = {"m": row, "n": column}
        lanes = [
            (
                run,
                sch.index(names.fresh(f"{top if is_above(run, plan) else named[run.axis]}_thread"), run.extent, thread),
            )
            for run in runs_of(fragment.sums.thread_runs(), plan)
        ]
        team = (
            sch.index(names.fresh(f"{top}_team"), plan.rows // plan.tall // (plan.across // along), thread),
            sch.index(names.fresh(f"{row}_team"), plan.across // along, thread),
            sch.index(names.fresh(f"{column}_team"), plan.columns // plan.wide, thread),
            *(index for _, index in lanes),
        )
        paired = Binding.LANE if _pairs(nest, plan) else Binding.UNROLL
        elements = [
            (run, sch.index(names.fresh(f"{named[run.axis]}_{_word(run)}"), run.extent,
                            paired if are_neighbours(run) else Binding.UNROLL))
            for run in runs_of(fragment.sums.element_runs(), plan)
        ]  # fmt: skip
        own = (
            sch.index(names.fresh(f"{top}_tile"), plan.tall // max(along, fragment.mnk[0]), Binding.UNROLL),
            sch.index(names.fresh(f"{row}_tile"), max(1, along // fragment.mnk[0]), Binding.UNROLL),
            sch.index(names.fresh(f"{column}_tile"), plan.wide // fragment.mnk[1], Binding.UNROLL),
            *(index for _, index in elements),
        )
        pair = next((index for run, index in elements if are_neighbours(run)), None)
        step = sch.index(names.fresh(f"{plan.loop.name}_tile"), -(-plan.loop.range // plan.depth))
        return cls(nest, plan, names, sch.present(grid), starts, team, own, (*lanes, *elements), pair, step)

    def kernel(self) -> Node:
        """Return the tree."""
        (use,) = (use for use in self.nest.reductions[0].uses if use.direction.writes)
        extents = (self.plan.threads, *(i.range for i in self.own))
        words = ("tile", "part") if self.plan.has_parts else ("tile",)
        held = [
            stripe.allocation(self.names.fresh(f"{use.root}_{word}"), use.dtype, extents, sch.REGISTER)
            for word in words
        ]
        sums, *parts = (self._sum(use, each) for each in held)
        first = (sums,) if self.plan.promotes else (sums, *parts)
        start = Node(sch.present(self.team), children=tuple(identity_block(each, self.own) for each in first))
        steps = self._steps(use, sums, parts[0] if parts else None)
        again = (self._again(use, sums),) if self.plan.repairs else ()
        return Node(self.grid, tuple(held), (start, steps, *again, self._finish(use, sums)))

    @property
    def _above(self) -> Affine:
        across = self.plan.across
        rows = max(1, self.plan.fragment.mnk[0] // across)  # of a fragment with several along it
        inner = self._inner("m", lambda bit: (1 << bit) // across)
        return sch.part(self.team[0], self.own[0].range * rows) + sch.part(self.own[0], rows) + inner

    @property
    def _row(self) -> Affine:
        rows = self.plan.fragment.mnk[0]
        inner = self._inner("m", lambda bit: (1 << bit) % self.plan.across)
        return sch.part(self.team[1], self.own[1].range * rows) + sch.part(self.own[1], rows) + inner

    @property
    def _column(self) -> Affine:
        columns = self.plan.fragment.mnk[1]
        inner = self._inner("n", lambda bit: 1 << bit)
        return sch.part(self.team[2], self.plan.wide) + sch.part(self.own[2], columns) + inner

    def _inner(self, axis: str, step: Callable[[int], int]) -> Affine:
        return total(sch.part(index, step(run.bit)) for run, index in self.parts if run.axis == axis)

    @property
    def _outputs(self) -> dict[str, Affine]:
        places = {self.plan.left.index.name: self._row, self.plan.right.index.name: self._column}
        if self.plan.above is not None:
            places[self.plan.above.name] = self._above
        return {**self.starts, **{name: self.starts[name] + place for name, place in places.items()}}

    @property
    def _firsts(self) -> dict[str, Affine]:
        return {**self.starts, self.plan.loop.name: sch.part(self.step, self.plan.depth)}

    def _inside(self, index: stripe.Index, extent: int, place: Affine) -> tuple[Affine, ...]:
        """Return the test that a place in a tile is not past the end, if there are partial tiles.

        ``extent`` is that of adjacent tiles, 0 if they overlap.
        """
        whole = extent * (self.plan.cluster if index.name == self.plan.top.name else 1)
        behind = not extent or index.range % whole
        return (index.range - 1 - self._firsts[index.name] - place,) if behind else ()

    @property
    def _ends(self) -> tuple[Affine, ...]:
        """Tests for rows and columns past the end; vector pairs are whole."""
        plan = self.plan
        pair = {index.name: Affine() for index in self._vector}
        rows = self._inside(plan.left.index, plan.across, self._row)
        above = () if plan.above is None else self._inside(plan.above, plan.high, self._above)
        return (*above, *rows, *self._inside(plan.right.index, plan.columns, self._column.substitute(pair)))

    @property
    def _vector(self) -> tuple[stripe.Index, ...]:
        return (self.pair,) if self.pair is not None and self.pair.binding is Binding.LANE else ()

    def _sum(self, use: Use, held: stripe.Refinement) -> Use:
        access = (sch.number_of(self.team), *(sch.part(index) for index in self.own))
        return attrs.evolve(use, root=held.name, access=access, strides=held.shape.strides, sizes=())

    def _steps(self, use: Use, sums: Use, part: Use | None) -> Node:
        """Return the loop over the reduction, in which copies may precede the products by several steps.

        If constraints select among the outputs of a tile, or the instruction accumulates with low precision, products
        are first added to ``part``.
        """
        plan, segment = self.plan, self.nest.reductions[0]
        others = tuple(i for i in segment.loops if i is not plan.loop)
        depth = sch.index(self.names.fresh(f"{plan.loop.name}_step"), plan.depth)
        row = self._above * plan.across + self._row
        panels = ((plan.left, row), (plan.right, self._column))
        stages, copies, uses = [], [], {use: sums if part is None else part}
        for panel, place in panels:
            stage = self._stage(panel, plan.extent(panel))
            stages.append(stage)
            copies.append(self._copy(panel, stage))
            axes = (place, sch.part(depth)) if panel.along_loop else (sch.part(depth), place)
            uses[panel.use] = _staged(panel.use, stage, axes, stripe.Direction.IN)
        own = (i if i is self.pair else i.bound(None) for i in self.own)
        multiply = Node(
            self._with_roles(sch.present((*self.team, depth, *own)), depth),
            statements=segment.statements,
            uses=tuple(uses[use] for use in segment.uses),
            constraints=(*self._ends, *self._inside(plan.loop, plan.depth, sch.part(depth)), *self._wanted(depth)),
            tags=segment.tags,
            instruction=stripe.Product(plan.fragment.name),
        )
        asked = (plan.stages, plan.groups, plan.registers, plan.teams, plan.cluster)
        ahead = stripe.Pipeline(*asked) if plan.stages > 1 else None
        blocks = (multiply,) if part is None else (multiply, self._commit(part, sums))
        if part is not None and plan.promotes:
            blocks = (Node(sch.present(self.team), children=(identity_block(part, self.own),)), *blocks)
        return Node(sch.present((*others, self.step)), tuple(stages), (*copies, *blocks), instruction=ahead)

    def _wanted(self, depth: stripe.Index) -> tuple[Affine, ...]:
        """Return the constraints of the reduction on the products of a step."""
        loop = self.plan.loop.name
        values = {**self._outputs, loop: self._firsts[loop] + sch.part(depth)}
        return tuple(each.substitute(values) for each in self.plan.constraints)

    def _commit(self, part: Use, sums: Use) -> Node:
        """Return the block that adds the last partial sums where constraints hold, and clears them.

        With low-precision accumulators, every step does so. A factor excluded by constraints is zero, but zero times
        infinity is NaN: no sum may include this product.
        """
        masks = self.plan.masks
        column = any(self.plan.right.index.name in each.indices for each in masks)
        pairs = () if column else self._vector
        unrolled = tuple(i.bound(Binding.UNROLL) for i in self.own if i not in pairs)
        tests = tuple(each.substitute(self._outputs) for each in masks)
        add = Node(sch.present(unrolled), children=(merge_block(part, sums, pairs),), constraints=tests)
        if self.plan.promotes:
            return Node(sch.present(self.team), children=(add,))
        last = (sch.part(self.step) - (self.step.range - 1),) if self.step.range > 1 else ()
        return Node(sch.present(self.team), children=(add, identity_block(part, self.own)), constraints=last)

    def _again(self, use: Use, sums: Use) -> Node:
        """Return the block that recomputes sums with excluded terms in private memory of a thread."""
        segment = self.nest.reductions[0]
        extents = tuple(i.range for i in self.own)
        room = stripe.allocation(self.names.fresh(f"{use.root}_again"), use.dtype, extents, sch.REGISTER)
        access = tuple(sch.part(index) for index in self.own)
        exact = attrs.evolve(use, root=room.name, access=access, strides=room.shape.strides, sizes=())
        own = sch.present(i.bound(None) for i in self.own)
        uses = tuple(exact if each is use else each.substitute(self._outputs) for each in segment.uses)
        tests = (*self._ends, *(each.substitute(self._outputs) for each in segment.constraints))
        add = Node(sch.present(segment.loops), (), (), segment.statements, uses, tests, tags=segment.tags)
        begin, taking = identity_block(exact, ()), self.plan.taking(segment.loops)
        again = [Node(own, children=(begin, add), constraints=(each.substitute(self._outputs),)) for each in taking]
        plain, kept = (attrs.evolve(each, aggregation=None, direction=_OUT) for each in (sums, exact))
        parts = (merge_block(sums, kept, self.own), *again, merge_block(exact, plain, self.own))
        repair = Node((), (room,), parts, instruction=stripe.Repair())
        return Node(sch.present(self.team), children=(repair,))

    def _with_roles(self, indices: tuple[stripe.Index, ...], depth: stripe.Index) -> tuple[stripe.Index, ...]:
        """Return the indices of the product with their roles."""
        roles = {depth.name: Role(RoleKind.DEPTH)}
        for index, kind in zip(self.own, (RoleKind.TILE_HIGH, RoleKind.TILE_ROW, RoleKind.TILE_COLUMN), strict=False):
            roles[index.name] = Role(kind)
        for run, index in self.parts:
            roles[index.name] = Role(RoleKind.LANE if index in self.team else RoleKind.ELEMENT, run.start)
        return tuple(attrs.evolve(index, role=roles.get(index.name)) for index in indices)

    def _stage(self, panel: Panel, extent: int) -> stripe.Refinement:
        """Return the allocation of an input's tile, swizzled so that concurrent reads use distinct banks."""
        extents = (extent, self.plan.depth) if panel.along_loop else (self.plan.depth, extent)
        dtype = panel.use.dtype
        stage = stripe.allocation(self.names.fresh(f"{panel.use.root}_stage"), dtype, extents, sch.LOCAL)
        piece = piece_of(panel, self.plan.fragment, extents[1])
        shift, mask = swizzle_of(panel, self.plan.fragment, piece)
        tags: dict[str, int] = {SWIZZLE_SHIFT: shift, SWIZZLE_MASK: mask} if mask else {}
        if piece < extents[1]:
            tags[FOLD] = piece
        return attrs.evolve(stage, tags=stripe.Tags.of(**tags))

    def _copy(self, panel: Panel, stage: stripe.Refinement) -> Node:
        """Return the block that copies a tile of an input, coalesced."""
        plan, index = self.plan, panel.index
        own = [(index, plan.extent(panel) if panel is plan.right else plan.across)]
        if panel is plan.left and plan.above is not None:
            own.append((plan.above, plan.high))
        reduction = [(plan.loop, plan.depth)]
        axes = [*reduction, *own] if panel.along_loop else [*own, *reduction]
        lane = sch.index(self.names.fresh("lane"), panel.lanes, Binding.LANE)
        left = sch.power_of_two_below(plan.threads)
        team: list[stripe.Index] = []
        loops: list[stripe.Index] = []
        places: dict[str, Affine] = {}
        tests: list[Affine] = []
        for axis, extent in axes:
            lanes = panel.lanes if axis is axes[0][0] else 1
            size = min(left, extent // lanes & -(extent // lanes))  # threads are a power of two
            left //= size
            thread = sch.index(self.names.fresh(f"{axis.name}_copy"), size, Binding.THREAD)
            more = sch.index(self.names.fresh(f"{axis.name}_more"), extent // lanes // size, Binding.UNROLL)
            places[axis.name] = sch.part(more, size * lanes) + sch.part(thread, lanes)
            if plan.boxes is None:
                overlaps = axis is plan.right.index and extent > plan.columns
                tests.extend(self._inside(axis, 0 if overlaps else extent, places[axis.name]))
            team.insert(0, thread)
            loops.insert(0, more)
        first = self._firsts
        values = {**first, **{name: first[name] + place for name, place in places.items()}}
        box = stripe.Copy() if plan.boxes is None else plan.boxes[panel is plan.right]
        seen = panel.use.substitute(values)
        asked = [each.substitute(values) for each in plan.tests(panel)] if plan.boxes is None else ends(box, seen)
        ranges = {i.name: i.range for i in (*self.grid, *self.nest.reductions[0].loops, self.step, *team, *loops)}
        tests.extend(test for test in asked if test.bounds(ranges)[0] < 0)
        places[axes[0][0].name] = places[axes[0][0].name] + sch.part(lane)
        source = panel.use.substitute({**first, **{name: first[name] + place for name, place in places.items()}})
        row = places[index.name]
        if panel is plan.left and plan.above is not None:
            row = row + places[plan.above.name] * plan.across
        access = (row, places[plan.loop.name]) if panel.along_loop else (places[plan.loop.name], row)
        target = _staged(panel.use, stage, access, stripe.Direction.OUT)
        statements = (stripe.Load(source.name, "value"), stripe.Store("value", target.name))
        load = Node(sch.present((lane,)), statements=statements, uses=(source, target))
        if tests:
            load = Node(children=(load,), constraints=tuple(tests), tags=stripe.Tags.of(PADDED))
        around = Node(sch.present(loops), children=(load,))
        return Node(sch.present(team), children=(around,), instruction=box if plan.stages > 1 else None)

    def _finish(self, use: Use, sums: Use) -> Node:
        """Return the epilogue, once for each output, with the prologue, for which nothing waits."""
        if not self.plan.staged and not self.plan.slots:
            return Node(sch.present(self.team), children=(self._point(use, sums, None),))
        turns, found = Results.in_turn(self.nest, self.plan, self.names)
        steps, stages = list[Node](), tuple(dict.fromkeys(results.stage for results in found))
        together = len(found) if len(stages) == len(found) else 1  # one barrier if there is room for all
        for number in range(0, len(found), together):
            part = found[number : number + together]
            points = tuple(self._point(use, sums, results) for results in part)
            copies = (results.copied(self.names, self.starts, self._inside) for results in part)
            steps += [Node(sch.present(self.team), children=points), *copies]
        return Node(turns, stages, tuple(steps))

    def _point(self, use: Use, sums: Use, results: Results | None) -> Node:
        """Return a thread's work on its outputs; with ``results`` on those of some columns, in local memory."""
        pairs = self._vector
        unrolled = [i for i in self.own if i not in pairs]
        moved: dict[str, Affine] = {}
        column = self._column
        if results is not None:
            part = next(i for run, i in self.parts if i in unrolled and run.axis == "n" and not are_neighbours(run))
            unrolled[unrolled.index(part)] = results.inner
            moved = {part.name: results.part}
            column = column.substitute({part.name: sch.part(results.inner)})
        row = self._above * self.plan.across + self._row
        outputs = {name: place.substitute(moved) for name, place in self._outputs.items()}
        room = 1 if self.pair is None else self.pair.range
        own = {r.name: stripe.allocation(r.name, r.shape.dtype, (room,), sch.REGISTER) for r in self.nest.allocations}
        children: list[Node] = []
        for segment in self.nest.segments:
            if segment.loops:
                merge = merge_block(sums.substitute(moved), self._in_registers(use), pairs)
                children.append(sch.where_set(self.nest, use, outputs, merge))
                continue
            uses = tuple(self._in_registers(u) if u.root in own else u for u in segment.uses)
            done = leaf(attrs.evolve(segment, uses=uses), outputs, pairs)
            if results is not None:
                done = attrs.evolve(done, uses=tuple(results.written(u, row, column) for u in done.uses))
            children.append(done)
        ends = tuple(end.substitute(moved) for end in self._ends)
        return Node(sch.present(unrolled), tuple(own.values()), tuple(children), constraints=ends)

    def _in_registers(self, use: Use) -> Use:
        place = Affine() if self.pair is None else sch.part(self.pair)
        return attrs.evolve(use, access=(place,), strides=(1,), sizes=())


def _staged(use: Use, stage: stripe.Refinement, access: tuple[Affine, Affine], direction: stripe.Direction) -> Use:
    """Return a use of a tile in local memory; an output has another name than the input."""
    name = use.name if direction is stripe.Direction.IN else stage.name
    return Use(name, stage.name, access, stage.shape.strides, use.dtype, direction)


def _word(run: Run) -> str:
    return "pair" if are_neighbours(run) else "half" if run.count == 1 else "part"


def _pairs(nest: Nest, plan: MatrixTiling) -> bool:
    """Return whether the epilogue can process the adjacent elements that a thread holds together."""
    pair = next((run.extent for run in plan.fragment.sums.element_runs() if are_neighbours(run)), 1)
    column = plan.right.index
    uses = (*sch.written_uses(nest), *(u for s in nest.segments if not s.loops for u in sch.reads_of(nest, s)))
    return column.range % pair == 0 and sch.aligned_lanes(uses, column.name, pair) == pair
