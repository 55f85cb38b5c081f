"""Software pipelines: loops whose local arrays are filled some iterations before they are read.

If all copies are of boxes, and the device can copy boxes, they are the messages of a channel: an iteration receives
its own, begins its product, sends the copies for the iteration as far ahead as there are places, and releases its
message.

The arrays are allocated by the block itself, so that iterations do not share them, and as many iterations as the
pipeline has stages can have their own. Copying blocks fill them ``stages - 1`` iterations ahead. Their copies become
asynchronous, in a group per iteration. They precede the iteration's own work or, if that is an instruction that only
begins a product, follow it, so that both overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import prod

from tileir.core import LOCAL, DType, Op, attrs, fail, rewritten
from tileir.core.fragments import FRAGMENTS
from tileir.poly.affine import Affine
from tileir.semtree import ir as sem
from tileir.semtree.clusters import axis_of_parts
from tileir.semtree.ir import COPIED_BYTES
from tileir.semtree.lower.barriers import Phase, SharedAccess
from tileir.semtree.lower.block import BlockLowering
from tileir.semtree.lower.boxes import box_copy
from tileir.semtree.lower.turns import Turns
from tileir.semtree.lower.views import View, swizzle_of
from tileir.semtree.rewrite import map_bodies
from tileir.stripe import ir as stripe


def stages_of(block: stripe.Block) -> int:
    """Return the number of iterations of a block with separate arrays; 0 if the block is no pipeline.

    Raises:
        TileError: TIL502, it is a pipeline, but its iterations depend on more than their numbers, it allocates other
            memory than a group's, or its copies do not come first.
    """
    moving = [index for index in block.indices if index.range > 1]
    if not isinstance(block.instruction, stripe.Pipeline) or not moving:
        return 0
    what = f"the pipeline {block.name or '(unnamed)'}"
    if block.constraints or any(index.affine is not None for index in moving):
        raise fail("TIL502", f"{what} must have no constraints, and no indices that depend on others")
    if not all(r.location and r.location[0].name == LOCAL for r in _allocations(block)):
        raise fail("TIL502", f"{what} must allocate nothing but memory of the group")
    copies = [isinstance(inner.instruction, stripe.Copy) for inner in block.blocks]
    if not any(copies) or copies != sorted(copies, reverse=True):
        raise fail("TIL502", f"{what} must have blocks that copy ahead, and these first")
    return block.instruction.stages


def _allocations(block: stripe.Block) -> list[stripe.Refinement]:
    return [r for r in block.refinements if r.direction is stripe.Direction.NONE]


@attrs.frozen(eq=False)
class _Steps:
    """Sender of the messages of a channel."""

    acquire: sem.Channel
    send: sem.Channel
    channel: sem.Subscript

    def message(self, copies: Iterable[sem.BulkCopy]) -> list[sem.Stmt]:
        """Return the message of some copies."""
        return [self.acquire, *copies, self.send]


@attrs.define(eq=False)
class Pipeline:
    """Lowering of one block; all its iterations, over any indices, become one loop.

    ``phase`` lowers a nested block with its visible views and indices; ``declare`` takes declarations for the top of
    the kernel. With ``turns``, the loop runs once for each point of the grid that a group takes, and prefetches at its
    end are for the next point. ``apart`` takes a loop with all copies, if a separate warp copies. Variables among
    ``ranks`` differ between the groups of a ``cluster``.
    """

    blocks: BlockLowering
    block: stripe.Block
    parents: dict[str, View]
    outer: dict[str, Affine]
    bound: dict[str, Affine]
    phase: Callable[[stripe.Block, dict[str, View], dict[str, Affine]], Phase]
    declare: Callable[[sem.Stmt], None]
    turns: Turns | None = None
    apart: Callable[[sem.Stmt], None] | None = None
    cluster: int = 1
    ranks: frozenset[str] = frozenset()
    _touches: list[SharedAccess] = attrs.field(factory=list, init=False)
    _arrays: dict[str, str] = attrs.field(factory=dict, init=False)

    def lowered(self, stages: int) -> Phase:
        """Return the loop, with its prologue, as one phase that has its own barriers."""
        iterations = prod(index.range for index in self._moving)
        for refinement in _allocations(self.block):
            name = self._arrays[refinement.name] = self.blocks.names.fresh(refinement.name)
            size = refinement.shape.span * stages
            self.declare(sem.DeclareArray(name, refinement.shape.dtype, size, sem.Region.LOCAL))
        boxes = self.blocks.target.bulk_copies and all(each.box for each in self._copying)
        if self.turns is not None and (not boxes or iterations < stages):
            what = f"the pipeline {self.block.name or '(unnamed)'} of groups that take turns"
            raise fail("TIL502", f"{what} must copy boxes, and have an iteration for each stage")
        body = self._with_channel(stages, iterations) if boxes else self._with_groups(stages, iterations)
        arrays = frozenset(self._arrays.values())
        return Phase(tuple(body), tuple(dict.fromkeys(t for t in self._touches if t.array not in arrays)))

    def _with_channel(self, stages: int, iterations: int) -> list[sem.Stmt]:
        """Return the loop with copies of boxes as messages of a channel."""
        constant = self.blocks.offsets.constant
        name = self.blocks.names.fresh("ready")
        self.declare(sem.DeclareArray(name, DType.U64, 2 * stages, sem.Region.LOCAL))
        channel = sem.Subscript(name, constant(0), sem.Type(DType.U64))
        acquire, send, receive, release = (
            sem.Channel(each, channel)
            for each in (
                sem.ChannelStep.ACQUIRE,
                sem.ChannelStep.SEND,
                sem.ChannelStep.RECEIVE,
                sem.ChannelStep.RELEASE,
            )
        )
        steps = _Steps(acquire, send, channel)
        body = [] if self.apart else self._before(steps, min(stages - 1, iterations))
        counter, ahead = self.blocks.counter(self._moving[-1].name), self.blocks.counter("ahead")
        begin: list[sem.Stmt] = []
        number: sem.Expr = counter
        if self.turns is not None:
            before = sem.Apply(Op.MUL, (self.turns.turn, constant(iterations)))
            message = self.blocks.counter("message")
            begin.append(sem.Declare(message, sem.Apply(Op.ADD, (before, counter))))
            number = message
        slot = self._slot(number, stages)
        digits, values = self._digits(counter)
        fill: tuple[sem.Stmt, ...] = ()
        if self.apart is not None:
            copies = self._boxes(steps.channel, values, Affine.index(slot.variable.name), {})
            inside = (*begin, slot, *digits, *steps.message(copies))
            self.apart(sem.For(counter, constant(0), constant(iterations), 1, inside))
        else:
            first = sem.Declare(ahead, sem.Apply(Op.ADD, (number, constant(stages - 1))))
            fill = (first, *self._ahead(steps, ahead, stages, iterations))
        product, rest = self._parted()
        own, after = (self._run(each, values, Affine.index(slot.variable.name)) for each in (product, rest))
        inside = (receive, *begin, slot, *digits, *own, *fill, release, *after)
        body.append(sem.For(counter, constant(0), constant(iterations), 1, inside))
        return body

    def _before(self, steps: _Steps, count: int) -> list[sem.Stmt]:
        """Return the first messages, sent before all turns if groups take turns."""
        body: list[sem.Stmt] = []
        moved: dict[str, Affine] = {}
        if self.turns is not None:
            declarations, values = self.turns.point(self.turns.group)
            body, moved = declarations, self.turns.moved(values)
        for number in range(count):
            body.extend(steps.message(self._boxes(steps.channel, self._point(number), Affine.constant(number), moved)))
        if self.turns is None:
            return body
        for stmt in body:
            self.declare(stmt)
        return []

    def _ahead(self, steps: _Steps, ahead: sem.Var, stages: int, iterations: int) -> list[sem.Stmt]:
        """Return the message number ``ahead``, if there is one."""
        constant = self.blocks.offsets.constant
        slot = self._slot(ahead, stages)
        place = Affine.index(slot.variable.name)
        if self.turns is None:
            digits, values = self._digits(ahead)
            message = steps.message(self._boxes(steps.channel, values, place, {}))
            return [sem.If(sem.Apply(Op.CMP_LT, (ahead, constant(iterations))), (slot, *digits, *message))]
        number = self.turns.number(sem.Apply(Op.DIV, (ahead, constant(iterations))))
        (point, *declarations), there = self.turns.point(number)
        assert isinstance(point, sem.Declare)
        step = self.blocks.counter(self._moving[-1].name)
        start = sem.Declare(step, sem.Apply(Op.MOD, (ahead, constant(iterations))))
        digits, values = self._digits(step)
        message = steps.message(self._boxes(steps.channel, values, place, self.turns.moved(there)))
        inside = (slot, *declarations, start, *digits, *message)
        return [point, sem.If(sem.Apply(Op.CMP_LT, (point.variable, constant(self.turns.points))), inside)]

    def _boxes(
        self, channel: sem.Subscript, point: Mapping[str, Affine], slot: Affine, moved: Mapping[str, Affine]
    ) -> list[sem.BulkCopy]:
        """Return the copies of an iteration; ``moved`` holds replacements for variables of the grid."""
        views, values = self._seen(point, slot)
        if moved:
            views = {name: view.substitute(moved) for name, view in views.items()}
            values = {name: value.substitute(moved) for name, value in values.items()}
        fills = [inner for inner in self.block.blocks if isinstance(inner.instruction, stripe.Copy)]
        if self.cluster == 1:
            return [box_copy(self.blocks, inner, views, values, channel) for inner in fills]
        own = frozenset(name for each in self.ranks for name in moved.get(each, Affine.index(each)).indices)
        copies = [box_copy(self.blocks, inner, views, values, channel, own) for inner in fills]
        whole = (each if axis_of_parts(each, self.cluster) is not None else _alone(each) for each in copies)
        return list(whole)

    @property
    def _copying(self) -> list[stripe.Copy]:
        return [each.instruction for each in self.block.blocks if isinstance(each.instruction, stripe.Copy)]

    def _with_groups(self, stages: int, iterations: int) -> list[sem.Stmt]:
        """Return the loop with copies by threads, which wait for groups of them."""
        body: list[sem.Stmt] = [sem.Barrier()]
        for number in range(stages - 1):
            if number < iterations:
                body.extend(self._copies(self._point(number), Affine.constant(number)))
            body.append(sem.AsyncCommit())
        counter, ahead = self.blocks.counter(self._moving[-1].name), self.blocks.counter("ahead")
        constant = self.blocks.offsets.constant
        slot = self._slot(ahead, stages)
        digits, values = self._digits(ahead)
        copies = self._copies(values, Affine.index(slot.variable.name))
        fill: tuple[sem.Stmt, ...] = (
            sem.Declare(ahead, sem.Apply(Op.ADD, (counter, constant(stages - 1)))),
            sem.If(sem.Apply(Op.CMP_LT, (ahead, constant(iterations))), (slot, *digits, *copies)),
            sem.AsyncCommit(),
        )
        slot = self._slot(counter, stages)
        digits, values = self._digits(counter)
        own = (slot, *digits, *self._others(values, Affine.index(slot.variable.name)))
        parts = (own, fill) if self._only_begins() else (fill, own)
        inside = (sem.AsyncWait(stages - 2), sem.Barrier(), *parts[0], *parts[1])
        body.append(sem.For(counter, constant(0), constant(iterations), 1, inside))
        return body

    def _only_begins(self) -> bool:
        """Return whether an iteration ends with an instruction that only begins a product."""
        last = self.block.blocks[-1].instruction
        return isinstance(last, stripe.Product) and last.fragment in FRAGMENTS and FRAGMENTS[last.fragment].is_async

    @property
    def _moving(self) -> tuple[stripe.Index, ...]:
        return tuple(index for index in self.block.indices if index.range > 1)

    def _point(self, number: int) -> dict[str, Affine]:
        """Return the values of the indices in an iteration."""
        values: dict[str, Affine] = {}
        for index in reversed(self._moving):
            number, digit = divmod(number, index.range)
            values[index.name] = Affine.constant(digit)
        return values

    def _digits(self, number: sem.Var) -> tuple[list[sem.Stmt], dict[str, Affine]]:
        """Return the values of the indices in iteration ``number``, and declarations of their variables."""
        moving = self._moving
        if len(moving) == 1:
            return [], {moving[0].name: Affine.index(number.name)}
        return self.blocks.digits(number, moving)

    def _slot(self, number: sem.Expr, stages: int) -> sem.Declare:
        """Return the declaration of a variable for the number of an iteration's arrays."""
        variable = self.blocks.counter("slot")
        return sem.Declare(variable, sem.Apply(Op.MOD, (number, self.blocks.offsets.constant(stages))))

    def _copies(self, point: Mapping[str, Affine], slot: Affine) -> list[sem.Stmt]:
        fills = [inner for inner in self.block.blocks if isinstance(inner.instruction, stripe.Copy)]
        return list(asynchronous(tuple(self._run(fills, point, slot))))

    def _others(self, point: Mapping[str, Affine], slot: Affine) -> list[sem.Stmt]:
        return self._run(
            [inner for inner in self.block.blocks if not isinstance(inner.instruction, stripe.Copy)], point, slot
        )

    def _parted(self) -> tuple[list[stripe.Block], list[stripe.Block]]:
        """Return the blocks other than copies: those up to the last reader of a stage, and the rest.

        Other threads need not wait for the rest, in which threads work independently.
        """
        blocks = [inner for inner in self.block.blocks if not isinstance(inner.instruction, stripe.Copy)]
        own = {refinement.name for refinement in _allocations(self.block)}
        last = max((n for n, each in enumerate(blocks, 1) if any(r.source in own for r in each.refinements)), default=0)
        return blocks[:last], blocks[last:]

    def _run(self, children: list[stripe.Block], point: Mapping[str, Affine], slot: Affine) -> list[sem.Stmt]:
        views, values = self._seen(point, slot)
        result: list[sem.Stmt] = []
        for child in children:
            phase = self.phase(child, views, values)
            result.extend(phase.statements)
            self._touches.extend(phase.touches)
        return result

    def _seen(self, point: Mapping[str, Affine], slot: Affine) -> tuple[dict[str, View], dict[str, Affine]]:
        """Return the views and the indices visible in an iteration whose arrays are at ``slot``."""
        values = dict(self.bound)
        for index in self.block.indices:
            values[index.name] = Affine() if index.affine is None else index.affine.substitute(self.outer)
        values.update(point)
        views = self.blocks.views(self.block, self.parents, values)
        for refinement in _allocations(self.block):
            offset = slot * refinement.shape.span
            views[refinement.name] = View(
                self._arrays[refinement.name],
                offset,
                refinement.shape,
                refinement.aggregation,
                region=sem.Region.LOCAL,
                swizzle=swizzle_of(refinement),
            )
        return views, values


def _alone(copy: sem.BulkCopy) -> sem.BulkCopy:
    return attrs.evolve(copy, scope=sem.Scope.GROUP)


def asynchronous(stmts: tuple[sem.Stmt, ...]) -> tuple[sem.Stmt, ...]:
    """Return statements with pairs of a load and a store as asynchronous copies, if sizes allow."""
    stmts = rewritten(stmts, lambda stmt: (map_bodies(asynchronous, stmt),))
    result: list[sem.Stmt] = []
    for stmt in stmts:
        match (result[-1] if result else None), stmt:
            case (
                sem.Declare(variable=variable, value=sem.Subscript() as source),
                sem.Assign(target=sem.Subscript() as target, value=value),
            ) if value == variable and _is_run(source) and _is_run(target):
                result[-1] = sem.AsyncCopy(target, source)
            case _:
                result.append(stmt)
    return tuple(result)


def _is_run(place: sem.Subscript) -> bool:
    return place.offset.type.lanes == 1 and place.type.lanes * place.type.dtype.itemsize in COPIED_BYTES
