"""Lowering of one kernel block of Stripe: views become offsets, indices become loops, lanes or grid axes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from itertools import product
from math import prod
from operator import add
from typing import TYPE_CHECKING, TypeAlias, assert_never

from tileir.core import LOCAL, REGISTER, SCRATCH, Aggregation, DType, NameScope, Op, Target, attrs, fail, merges
from tileir.poly.affine import Affine
from tileir.semtree import ir as sem
from tileir.semtree.lower.barriers import THREAD, SharedAccess
from tileir.semtree.lower.loops import Guard, LoopPlan, grid_indices, plan_loops, with_zeros
from tileir.semtree.lower.product import dot_index, dot_product, fragment_of
from tileir.semtree.lower.specials import RunningLanes, lower_special
from tileir.semtree.lower.views import (
    LANE,
    UNMOVED,
    OffsetBuilder,
    View,
    backward_run,
    cast,
    check_owner,
    clamped,
    reversed_lanes,
    swizzle_of,
    uniform,
    widened,
    zero,
)
from tileir.semtree.swizzles import swizzled
from tileir.stripe import ir as stripe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tileir.semtree.lower.threads import Team

SomeLanes: TypeAlias = tuple[sem.Var, sem.Var]
"""The first lane that runs, and the end of the running lanes."""


def some_lanes(
    guards: tuple[Guard, ...], lanes: int, offsets: OffsetBuilder, names: NameScope
) -> tuple[SomeLanes, tuple[sem.Stmt, ...]]:
    """Return the lanes that pass guards, with declarations of their bounds."""
    first, last = (sem.Var(names.fresh(name), sem.Type(offsets.dtype)) for name in ("first_lane", "last_lane"))
    begin: sem.Expr = offsets.constant(0)
    end: sem.Expr = offsets.constant(lanes)
    for guard in guards:
        step, rest = int(guard.coefficient(LANE)), guard.substitute({LANE: 0})
        # Division rounds towards zero. Negative results are before the first lane, whichever way they are rounded.
        place = offsets.scalar(rest * -1 + (step - 1) if step > 0 else rest - step)
        place = place if abs(step) == 1 else sem.Apply(Op.DIV, (place, offsets.constant(abs(step))))
        if step > 0:
            begin = sem.Apply(Op.MAX, (begin, place))
        else:
            end = sem.Apply(Op.MIN, (end, place))
    return (first, last), (sem.Declare(first, begin), sem.Declare(last, end))


def of_some_lanes(some: SomeLanes, value: sem.Expr, other: float, names: NameScope, result: list[sem.Stmt]) -> sem.Var:
    """Return a variable with a value in some lanes, and another value in the others."""
    variable = sem.Var(names.fresh("some"), value.type)
    result += [sem.Declare(variable, sem.Const.of(other, value.type)), sem.AssignLanes(*some, variable, value)]
    return variable


def merged_in_turn(
    target: sem.Subscript, op: Op, values: Sequence[sem.Expr], some: SomeLanes | None, names: NameScope
) -> list[sem.Stmt]:
    """Return the sequential merge of the lanes of a value, or of the product of two, since lanes may collide."""
    place = sem.Var(names.fresh("places"), target.offset.type)
    result: list[sem.Stmt] = [sem.Declare(place, target.offset)]
    for lane in range(place.type.lanes):
        one, *factors = (v if v.type.lanes == 1 else sem.Shuffle((v,), (lane,)) for v in (place, *values))
        element = sem.Subscript(target.array, one, sem.Type(target.type.dtype))
        fused = len(factors) == 2
        merged = sem.Apply(Op.FMA, (*factors, element)) if fused else sem.Apply(op, (element, *factors))
        result.append(_where_run(some, lane, sem.Assign(element, merged)))
    return result


def updated(
    target: sem.Subscript, op: Op, value: sem.Expr, lanes: int, some: SomeLanes | None, names: NameScope
) -> list[sem.Stmt]:
    """Return an atomic update for each lane of a block, since lanes may collide."""
    place, own = target.offset, value
    result: list[sem.Stmt] = []
    if lanes > 1:
        place, own = (sem.Var(names.fresh(stem), each.type) for stem, each in (("place", place), ("update", own)))
        result += [sem.Declare(place, target.offset), sem.Declare(own, value)]
    for lane in range(lanes):
        there: sem.Expr = place
        if place.type.lanes > 1:
            there = sem.Shuffle((place,), (lane,))
        elif target.type.lanes > 1:
            there = sem.Apply(Op.ADD, (place, sem.Const(lane, place.type)))
        part = own if own.type.lanes == 1 else sem.Shuffle((own,), (lane,))
        element = sem.Subscript(target.array, there, sem.Type(target.type.dtype))
        result.append(_where_run(some, lane, sem.Update(op, element, part)))
    return result


def _where_run(some: SomeLanes | None, lane: int, stmt: sem.Stmt) -> sem.Stmt:
    """Return a statement for a lane that may not run."""
    if some is None:
        return stmt
    number = sem.Const(lane, some[0].type)
    runs = sem.Apply(Op.CMP_LE, (some[0], number)), sem.Apply(Op.CMP_LT, (number, some[1]))
    return sem.If(sem.Apply(Op.BIT_AND, runs), (stmt,))


def fused_products(block: stripe.Block) -> dict[str, tuple[str, str]]:
    """Return float products that are only added up, with their factors: these become fused multiply-adds."""
    uses = Counter(scalar for statement in block.statements for scalar in stripe.scalar_inputs(statement))
    sums = {r.name for r in block.refinements if r.aggregation is Aggregation.SUM}
    summed = {s.source for s in block.statements if isinstance(s, stripe.Store) and s.into in sums}
    wide = (DType.F32, DType.F64)
    return {
        s.into: (s.inputs[0], s.inputs[1])
        for s in block.statements
        if isinstance(s, stripe.Intrinsic)
        and s.op is Op.MUL
        and s.dtype in wide
        and s.into in summed
        and uses[s.into] == 1
    }


def under_test(
    block: stripe.Block,
    views: Mapping[str, View],
    body: list[sem.Stmt],
    offsets: OffsetBuilder,
    names: NameScope,
) -> list[sem.Stmt]:
    """Return the statements of a block; a repairing block runs only if its targets add up to NaN.

    That happens if an element is NaN, and also if there are infinities of both signs: the repair is then redundant.
    """
    if not isinstance(block.instruction, stripe.Repair):
        return body
    (view,) = (views[r.name] for r in block.refinements if r.direction.writes)
    terms = [_element(view, place, offsets) for place in product(*(range(dim.size) for dim in view.shape.dims))]
    while len(terms) > 1:  # in parallel rather than one after the other
        pairs = [sem.Apply(Op.ADD, (one, other)) for one, other in zip(terms[::2], terms[1::2], strict=False)]
        terms = [*pairs, *terms[2 * len(pairs) :]]
    total = sem.Var(names.fresh("all"), sem.Type(view.shape.dtype))
    return [sem.Declare(total, terms[0]), sem.If(sem.Apply(Op.CMP_NE, (total, total)), tuple(body))]


def _element(view: View, place: tuple[int, ...], offsets: OffsetBuilder) -> sem.Expr:
    step = sum(n * dim.stride for n, dim in zip(place, view.shape.dims, strict=True))
    return sem.Subscript(view.array, offsets.scalar(view.offset + Affine.constant(step)), sem.Type(view.shape.dtype))


_REGISTER_BYTES = 16 * 1024
"""Maximum size of private arrays for allocations without a location; larger ones go to scratch memory."""


@attrs.frozen(repr=False)
class _Scope:
    """Names visible to the statements of one block."""

    views: dict[str, View]
    indices: dict[str, Affine]
    scalars: dict[str, sem.Expr]
    lanes: int = 1
    running: RunningLanes | None = None
    some: SomeLanes | None = None


@attrs.define(eq=False, repr=False)
class BlockLowering:
    """Lowering of the blocks of one kernel."""

    target: Target
    names: NameScope
    offsets: OffsetBuilder = attrs.field(init=False)
    _team: Team | None = attrs.field(default=None, init=False)
    _touches: list[SharedAccess] = attrs.field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        self.offsets = OffsetBuilder(self.target.index_dtype)

    def kernel(self, block: stripe.Block, buffers: dict[str, View]) -> tuple[tuple[int, ...], tuple[sem.Stmt, ...]]:
        """Return the grid and the body of a kernel block, whose parent holds the views ``buffers``."""
        grid, body, values = self.grid(block)
        body.extend(self.block(block, buffers, {}, values))
        return grid, tuple(body)

    def grid(self, block: stripe.Block) -> tuple[tuple[int, ...], list[sem.Stmt], dict[str, Affine]]:
        """Return the grid of a kernel block, variables for its coordinates, and the values of its grid indices.

        Of more than three grid indices, the outermost ones share the last axis.
        """
        indices = grid_indices(block)
        packed, alone = indices[:-2] if len(indices) > 3 else [], indices[-2:] if len(indices) > 3 else indices
        body: list[sem.Stmt] = []
        values: dict[str, Affine] = {}
        grid = []
        for axis, index in enumerate(reversed(alone)):
            variable = self.counter(index.name)
            body.append(sem.Declare(variable, sem.GridIndex(sem.GridLevel.GROUP, axis, variable.type)))
            values[index.name] = Affine.index(variable.name)
            grid.append(index.range)
        if packed:
            place = sem.GridIndex(sem.GridLevel.GROUP, 2, sem.Type(self.target.index_dtype))
            declared, digits = self.digits(place, packed)
            body, values = [*body, *declared], {**values, **digits}
            grid.append(prod(index.range for index in packed))
        return tuple(grid) or (1,), body, values

    def digits(self, number: sem.Expr, indices: Sequence[stripe.Index]) -> tuple[list[sem.Stmt], dict[str, Affine]]:
        """Return variables for the digits of a number, the last index lowest, and the values of the indices."""
        declared: list[sem.Stmt] = []
        values: dict[str, Affine] = {}
        stride = 1
        for index in reversed(indices):
            variable = self.counter(index.name)
            digit = sem.Apply(Op.DIV, (number, self.offsets.constant(stride))) if stride > 1 else number
            if index is not indices[0]:
                digit = sem.Apply(Op.MOD, (digit, self.offsets.constant(index.range)))
            declared.append(sem.Declare(variable, digit))
            values[index.name] = Affine.index(variable.name)
            stride *= index.range
        return declared, values

    def counter(self, name: str) -> sem.Var:
        """Return a fresh variable for an index."""
        variable = sem.Var(self.names.fresh(name), sem.Type(self.target.index_dtype))
        self.offsets.declare(variable)
        return variable

    @contextmanager
    def noting(self, team: Team, touches: list[SharedAccess]) -> Iterator[None]:
        """Lower blocks inside the context for the threads of ``team``, and add their shared accesses to ``touches``."""
        self._team, self._touches = team, touches
        yield
        self._team = None

    def block(
        self,
        block: stripe.Block,
        parent_views: dict[str, View],
        parent_indices: dict[str, Affine],
        bound: dict[str, Affine],
        thread: Affine | None = None,
    ) -> list[sem.Stmt]:
        """Lower one block.

        ``bound`` holds the indices that are grid axes or threads already, ``thread`` the number of the thread if
        private arrays become visible here.
        """
        values = dict(bound)
        terms = dot_index(block)
        if fragment_of(block, self.target) is not None:
            message = f"block {block.name or '(unnamed)'} multiplies matrices, but no threads share its points"
            raise fail("TIL502", f"{message}: the fragment is for groups")
        plan = plan_loops(block, parent_indices, values, self.counter, terms)
        views = self.views(block, parent_views, values, thread)
        scope = _Scope(views, values, {}, plan.lanes, RunningLanes.of(block, plan.lanes, self.names))
        declarations, allocated = self.allocations(block, shared=False)
        views.update(allocated)
        if terms is None:
            wrapped = self._in_lanes(block, scope, plan, declarations)
        else:
            product = dot_product(block, views, (plan.lanes, terms.range), self.target, self.offsets)
            wrapped = self.wrapped(plan, [product])
        body = under_test(block, views, wrapped, self.offsets, self.names)
        return with_zeros(body) if stripe.PADDED in block.tags else body

    def views(
        self, block: stripe.Block, parents: dict[str, View], values: dict[str, Affine], thread: Affine | None = None
    ) -> dict[str, View]:
        """Return the views of a block by name, without its allocations; ``thread`` as for :meth:`block`."""
        result = {}
        for refinement in block.refinements:
            if refinement.direction is stripe.Direction.NONE:
                continue
            if refinement.opens_scope:
                raise fail(
                    "TIL502",
                    f"refinement {refinement.name} of block {block.name or '(unnamed)'} still opens an aggregation "
                    "scope; run the pass accumulate before lowering",
                )
            parent = parents[refinement.source]
            own = [access.substitute(values) for access in refinement.access]
            steps = [place * dim.stride for place, dim in zip(own, refinement.shape.dims, strict=True)]
            if parent.owned:
                check_owner(refinement, values, thread)
                del steps[:1]
            offset = sum(steps, parent.offset)
            shape, aggregation, owned = refinement.shape, refinement.aggregation, parent.owned and thread is None
            same = bool(parent.places) and shape.strides == parent.shape.strides
            places = tuple(map(add, parent.places, own)) if same else ()
            result[refinement.name] = attrs.evolve(
                parent, offset=offset, shape=shape, aggregation=aggregation, owned=owned, places=places
            )
        return result

    def allocations(self, block: stripe.Block, *, shared: bool) -> tuple[list[sem.Stmt], dict[str, View]]:
        """Return declarations and views of a block's allocations; ``shared`` if all threads of a group run it."""
        statements: list[sem.Stmt] = []
        views = {}
        for refinement in block.refinements:
            if refinement.direction is not stripe.Direction.NONE:
                continue
            shape = refinement.shape
            region = self._region(refinement, shared=shared)
            owned = shared and region is sem.Region.PRIVATE
            if owned and shape.dims:
                shape = attrs.evolve(shape, dims=shape.dims[1:])
            name, dtype, size = self.names.fresh(refinement.name), shape.dtype, shape.span
            variable = None
            if size == 1 and region is sem.Region.PRIVATE:
                variable = sem.Var(name, sem.Type(dtype))
                statements.append(sem.Declare(variable, sem.Const(zero(dtype), variable.type)))
            else:
                statements.append(sem.DeclareArray(name, dtype, size, region))
            views[refinement.name] = View(
                name,
                Affine(),
                refinement.shape,
                refinement.aggregation,
                variable,
                owned,
                region,
                swizzle_of(refinement),
            )
        return statements, views

    def _region(self, refinement: stripe.Refinement, *, shared: bool) -> sem.Region:
        names = [device.name for device in refinement.location]
        if self._team is not None:
            if LOCAL in names:
                message = f"{refinement.name} is at LOCAL, but allocated by each thread: allocate it in a block around"
                raise fail("TIL502", message)
            return sem.Region.PRIVATE
        if SCRATCH in names:
            return sem.Region.SCRATCH
        if LOCAL in names:
            return sem.Region.LOCAL
        small = refinement.shape.span * refinement.shape.dtype.itemsize <= _REGISTER_BYTES
        private = shared or REGISTER in names or small or not self.target.scratch
        return sem.Region.PRIVATE if private else sem.Region.SCRATCH

    def wrapped(self, plan: LoopPlan, inner: list[sem.Stmt]) -> list[sem.Stmt]:
        """Return statements inside the loops and tests of a plan."""
        body = self._guarded(plan.inner_guards, inner)
        for loop in reversed(plan.loops):
            begin = self.offsets.bound([Affine.constant(0), *loop.lower], Op.MAX)
            end = self.offsets.bound([Affine.constant(loop.range), *loop.upper], Op.MIN)
            body = [sem.For(loop.counter, begin, end, 1, tuple(body), loop.kind)]
            body = self._guarded(loop.guards, body)
        return body

    def _guarded(
        self, guards: tuple[Guard, ...], body: list[sem.Stmt], otherwise: Sequence[sem.Stmt] = ()
    ) -> list[sem.Stmt]:
        if not guards:
            return body
        if any(g.is_constant and g.offset < 0 for g in guards):
            return [*otherwise]
        tests = (sem.Apply(Op.CMP_GE, (self.offsets.scalar(guard), self.offsets.constant(0))) for guard in guards)
        return [
            sem.If(reduce(lambda one, other: sem.Apply(Op.BIT_AND, (one, other)), tests), tuple(body), tuple(otherwise))
        ]

    def _in_lanes(self, block: stripe.Block, scope: _Scope, plan: LoopPlan, made: list[sem.Stmt]) -> list[sem.Stmt]:
        """Return the statements of a block after those in ``made``, in its loops: whole, or for running lanes.

        One test serves all iterations of unrolled loops, so that their loads are not separated.
        """
        whole = [*made, *self._statements(block, scope)]
        if not plan.of_lanes:
            return self.wrapped(plan, whole)
        outer, unrolled, guards = plan.parted()
        some, bounds = some_lanes(plan.of_lanes, scope.lanes, self.offsets, self.names)
        part = self._statements(block, attrs.evolve(scope, scalars={}, some=some))
        masked = [*made, *bounds, sem.If(sem.Apply(Op.CMP_LT, some), tuple(part))]
        inner = (self.wrapped(unrolled, each) for each in (whole, masked))
        return self.wrapped(outer, self._guarded(guards, *inner))

    def _statements(self, block: stripe.Block, scope: _Scope) -> list[sem.Stmt]:
        fused = fused_products(block)
        result: list[sem.Stmt] = []
        for statement in block.statements:
            match statement:
                case stripe.Block():
                    result.extend(self.block(statement, scope.views, scope.indices, {}))
                case stripe.Load():
                    self._define(scope, statement.into, self._loaded(scope, statement, result), result)
                case stripe.Store():
                    result.extend(self._store(scope, statement, fused))
                case stripe.LoadIndex(affine=affine, into=into, dtype=dtype):
                    value = self.offsets.lanes(affine.substitute(scope.indices), scope.lanes)
                    self._define(scope, into, cast(value, dtype), result)
                case stripe.Constant(into=into, dtype=dtype, value=constant):
                    scope.scalars[into] = sem.Const(constant, sem.Type(dtype))
                case stripe.Intrinsic(op=Op.BITS, inputs=(value_name,), into=into, dtype=dtype):
                    number = scope.scalars[value_name]
                    self._define(scope, into, sem.Bitcast(number, number.type.with_dtype(dtype)), result)
                case stripe.Intrinsic(op=op, inputs=inputs, into=into):
                    if into not in fused:
                        args = uniform(tuple(scope.scalars[i] for i in inputs))
                        self._define(scope, into, args[0] if op is Op.IDENT else sem.Apply(op, args), result)
                case stripe.Convert(input=value_name, into=into, dtype=dtype):
                    self._define(scope, into, cast(scope.scalars[value_name], dtype), result)
                case stripe.Special():
                    result.extend(lower_special(self, scope.views, statement))
                case _:
                    assert_never(statement)
        return result

    def _define(self, scope: _Scope, into: str, value: sem.Expr, result: list[sem.Stmt]) -> None:
        if isinstance(value, sem.Const | sem.Var) and not self.offsets.is_mutable(value):
            scope.scalars[into] = value
            return
        variable = sem.Var(self.names.fresh(into), value.type)
        result.append(sem.Declare(variable, value))
        scope.scalars[into] = variable

    def _loaded(self, scope: _Scope, statement: stripe.Load, result: list[sem.Stmt]) -> sem.Expr:
        inside = stripe.INSIDE in statement.tags
        element = self._element(scope, statement.source, statement.index, writes=False, inside=inside)
        if scope.some is not None and element.type.lanes > 1:
            return of_some_lanes(scope.some, element, 0, self.names, result)
        if scope.running is not None:
            element = scope.running.found_in(element)
        return reversed_lanes(run) if (run := backward_run(element)) is not None else element

    def _element(
        self, scope: _Scope, name: str, index: str | None, *, writes: bool, inside: bool = False, atomic: bool = False
    ) -> sem.Var | sem.Subscript:
        """Return the lanes of a view at the current point; a data-dependent place is clamped unless ``inside``."""
        view = scope.views[name]
        if view.variable is not None:
            self.offsets.mark_mutable(view.variable)
            return view.variable
        dtype = view.shape.dtype
        stride = view.offset.coefficient(LANE)
        self.touch(view, writes=writes, lanes=None if index is not None else scope.lanes, atomic=atomic)
        if index is not None:
            place = scope.scalars[index]
            size = view.shape.dims[0].size
            place = cast(place, self.target.index_dtype) if inside else clamped(place, size, self.target.index_dtype)
            return self._indirect(scope, view, place)
        if stride == 0 or scope.lanes == 1:
            return sem.Subscript(view.array, self.offsets.swizzled(view.offset, *view.swizzle), sem.Type(dtype))
        base = view.offset.substitute({LANE: 0})
        wide = sem.Type(dtype, scope.lanes)
        if stride == 1 and view.keeps_neighbours(scope.lanes):
            return sem.Subscript(view.array, self.offsets.swizzled(base, *view.swizzle), wide)
        return sem.Subscript(view.array, swizzled(self.offsets.lanes(view.offset, scope.lanes), *view.swizzle), wide)

    def touch(self, view: View, *, writes: bool, lanes: int | None, atomic: bool = False) -> None:
        """Record an access visible to other threads; ``lanes`` is None if the elements are unknown."""
        team = self._team
        if team is None or view.region is sem.Region.PRIVATE:
            return
        own = None if lanes is None else team.own(view.offset, LANE, lanes)
        fixed = own is not None and team.fixed.issuperset(name for name in own.indices if name != THREAD)
        merging, local = writes and merges(view.aggregation), view.region is sem.Region.LOCAL
        self._touches.append(SharedAccess(view.array, writes, merging, team.threads, own, fixed, local, atomic=atomic))

    def _indirect(self, scope: _Scope, view: View, place: sem.Expr) -> sem.Subscript:
        base = self.offsets.lanes(view.offset, scope.lanes)
        scaled = sem.Apply(Op.MUL, uniform((place, self.offsets.constant(view.shape.dims[0].stride))))
        if place.type.lanes == 1 < scope.lanes and view.offset.coefficient(LANE) == 1 and view.swizzle == UNMOVED:
            first = self.offsets.scalar(view.offset.substitute({LANE: 0}))
            return sem.Subscript(
                view.array, sem.Apply(Op.ADD, (first, scaled)), sem.Type(view.shape.dtype, scope.lanes)
            )
        offset = swizzled(sem.Apply(Op.ADD, uniform((base, scaled))), *view.swizzle)
        return sem.Subscript(view.array, offset, sem.Type(view.shape.dtype, offset.type.lanes))

    def _store(self, scope: _Scope, statement: stripe.Store, fused: dict[str, tuple[str, str]]) -> list[sem.Stmt]:
        view, result = scope.views[statement.into], list[sem.Stmt]()
        atomic = stripe.ATOMIC in statement.tags
        target = self._element(scope, statement.into, statement.index, writes=True, atomic=atomic)
        aggregation, run = view.aggregation, backward_run(target)
        op = None if aggregation is None else aggregation.op
        if atomic and op is not None and isinstance(target, sem.Subscript):
            return updated(target, op, scope.scalars[statement.source], scope.lanes, scope.some, self.names)
        scattered = statement.index is not None and run is None
        if op is not None and scattered and isinstance(target, sem.Subscript) and target.offset.type.lanes > 1:
            values = [scope.scalars[each] for each in fused.get(statement.source, (statement.source,))]
            return merged_in_turn(target, op, values, scope.some, self.names)
        some, run = scope.some if target.type.lanes > 1 else None, run if scope.some is None else None
        target = target if run is None else run

        def put(value: sem.Expr) -> list[sem.Stmt]:
            return [*result, sem.Assign(target, value) if some is None else sem.AssignLanes(*some, target, value)]

        if aggregation is None or op is None:
            value = scope.scalars[statement.source]
            if value.type.lanes > target.type.lanes:
                raise fail("TIL502", f"the lanes of ${statement.source} all write one element of {statement.into}")
            value = widened(value, target.type.lanes)
            return put(value if run is None else reversed_lanes(value))
        old = target if some is None else of_some_lanes(some, target, 0, self.names, result)
        if statement.source in fused:
            a, b = (scope.scalars[name] for name in fused[statement.source])
            lanes = max(a.type.lanes, b.type.lanes, target.type.lanes, scope.lanes)
            if target.type.lanes == lanes and run is None:
                return put(sem.Apply(Op.FMA, (widened(a, lanes), widened(b, lanes), old)))
            value = sem.Apply(Op.MUL, uniform((a, b)))
        else:
            value = scope.scalars[statement.source]
        if scope.running is not None and target.type.lanes == 1:
            return scope.running.merge(target, aggregation, op, widened(value, scope.lanes))
        if scope.lanes > target.type.lanes:
            value = widened(value, scope.lanes)
            if scope.some is not None:
                value = of_some_lanes(scope.some, value, aggregation.identity(view.shape.dtype), self.names, result)
            value = sem.Reduce(op, value)
        value = widened(value, target.type.lanes)
        return put(sem.Apply(op, (old, value if run is None else reversed_lanes(value))))
