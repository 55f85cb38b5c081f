"""One kernel block of Stripe to loops: views become offsets, indices become loops, lanes or grid axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

import attrs

from tileir.core.dtype import DType
from tileir.core.errors import fail
from tileir.core.ops import Aggregation, Op
from tileir.poly.affine import Affine
from tileir.semtree import ir as sem
from tileir.semtree.lower_loops import Guard, LoopPlan, plan_loops
from tileir.semtree.lower_offsets import LANE, OffsetBuilder
from tileir.stripe import ir as stripe

if TYPE_CHECKING:
    from tileir.core.names import NameScope
    from tileir.core.target import Target

_REGISTER_BYTES = 16 * 1024
"""Allocations without a location go to private arrays up to this size, else to scratch memory."""


@attrs.frozen
class View:
    """A refinement in scope: the array behind it, and the offset of its first element.

    ``offset`` is affine over kernel variables and, in a vector block, :data:`LANE`.
    ``variable`` is set where the view is one element kept in a variable.
    """

    array: str
    offset: Affine
    shape: stripe.TensorShape
    aggregation: Aggregation | None = None
    variable: sem.Var | None = None


@attrs.frozen
class _Scope:
    """What the statements of one block see."""

    views: dict[str, View]
    indices: dict[str, Affine]
    scalars: dict[str, sem.Expr]
    lanes: int = 1


@attrs.define
class BlockLowering:
    """Lowers the blocks of one kernel."""

    target: Target
    names: NameScope
    offsets: OffsetBuilder = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.offsets = OffsetBuilder(self.target.index_dtype)

    def kernel(self, block: stripe.Block, buffers: dict[str, View]) -> tuple[tuple[int, ...], tuple[sem.Stmt, ...]]:
        """Return the grid and the body of a kernel block, whose parent holds the views ``buffers``."""
        grid_indices = tuple(reversed([i for i in block.indices if "grid" in i.tags]))
        if len(grid_indices) > 3:
            raise fail("TIL502", f"kernel {block.name} has {len(grid_indices)} grid indices; at most 3 are possible")
        body: list[sem.Stmt] = []
        values: dict[str, Affine] = {}
        for axis, index in enumerate(grid_indices):
            variable = self._counter(index.name)
            source = sem.GridIndex(sem.GridLevel.GROUP, axis, variable.type)
            body.append(sem.Declare(variable, source))
            values[index.name] = Affine.index(variable.name)
        body.extend(self._block(block, buffers, {}, values))
        return tuple(i.range for i in grid_indices) or (1,), tuple(body)

    def _counter(self, name: str) -> sem.Var:
        variable = sem.Var(self.names.fresh(name), sem.Type(self.target.index_dtype))
        self.offsets.declare(variable)
        return variable

    def _block(
        self,
        block: stripe.Block,
        parent_views: dict[str, View],
        parent_indices: dict[str, Affine],
        bound: dict[str, Affine],
    ) -> list[sem.Stmt]:
        """Lower one block; ``bound`` holds the indices that are grid axes already."""
        values = dict(bound)
        plan = plan_loops(block, parent_indices, values, self._counter)
        views = dict(self._views(block, parent_views, values))
        scope = _Scope(views, values, {}, plan.lanes)
        inner = [*self._allocations(block, views), *self._statements(block, scope)]
        return self._wrap(plan, inner)

    def _views(
        self, block: stripe.Block, parents: dict[str, View], values: dict[str, Affine]
    ) -> list[tuple[str, View]]:
        result = []
        for refinement in block.refinements:
            if refinement.direction is stripe.Direction.NONE:
                continue
            if refinement.direction is stripe.Direction.OUT and refinement.aggregation not in (
                None,
                Aggregation.ASSIGN,
            ):
                raise fail(
                    "TIL502",
                    f"refinement {refinement.name} of block {block.name or '(unnamed)'} still opens an aggregation "
                    "scope; run the pass accumulate before lowering",
                )
            parent = parents[refinement.source]
            offset = parent.offset
            for access, dim in zip(refinement.access, refinement.shape.dims, strict=True):
                offset = offset + access.substitute(values) * dim.stride
            view = View(parent.array, offset, refinement.shape, refinement.aggregation, parent.variable)
            result.append((refinement.name, view))
        return result

    def _allocations(self, block: stripe.Block, views: dict[str, View]) -> list[sem.Stmt]:
        statements: list[sem.Stmt] = []
        for refinement in block.refinements:
            if refinement.direction is not stripe.Direction.NONE:
                continue
            name, dtype, size = self.names.fresh(refinement.name), refinement.shape.dtype, refinement.shape.span
            variable = None
            region = self._region(refinement)
            if size == 1 and region is sem.Region.PRIVATE:
                variable = sem.Var(name, sem.Type(dtype))
                statements.append(sem.Declare(variable, sem.Const(_zero(dtype), variable.type)))
            else:
                statements.append(sem.DeclareArray(name, dtype, size, region))
            views[refinement.name] = View(name, Affine(), refinement.shape, refinement.aggregation, variable)
        return statements

    def _region(self, refinement: stripe.Refinement) -> sem.Region:
        names = [device.name for device in refinement.location]
        if "SCRATCH" in names:
            return sem.Region.SCRATCH
        if "LOCAL" in names:
            return sem.Region.LOCAL
        small = refinement.shape.span * refinement.shape.dtype.itemsize <= _REGISTER_BYTES
        return sem.Region.PRIVATE if "REGISTER" in names or small or not self.target.scratch else sem.Region.SCRATCH

    def _wrap(self, plan: LoopPlan, inner: list[sem.Stmt]) -> list[sem.Stmt]:
        body = self._guarded(plan.inner_guards, inner)
        for loop in reversed(plan.loops):
            begin = self.offsets.bound([Affine.constant(0), *loop.lower], Op.MAX)
            end = self.offsets.bound([Affine.constant(loop.range), *loop.upper], Op.MIN)
            body = [sem.For(loop.counter, begin, end, 1, tuple(body), loop.kind)]
            body = self._guarded(loop.guards, body)
        return body

    def _guarded(self, guards: tuple[Guard, ...], body: list[sem.Stmt]) -> list[sem.Stmt]:
        if not guards:
            return body
        zero = self.offsets.constant(0)
        conditions = [sem.Apply(Op.CMP_GE, (self.offsets.scalar(guard), zero)) for guard in guards]
        condition: sem.Expr = conditions[0]
        for other in conditions[1:]:
            condition = sem.Apply(Op.BIT_AND, (condition, other))
        return [sem.If(condition, tuple(body))]

    def _statements(self, block: stripe.Block, scope: _Scope) -> list[sem.Stmt]:
        fused = _fused_products(block)
        result: list[sem.Stmt] = []
        for statement in block.statements:
            match statement:
                case stripe.Block():
                    result.extend(self._block(statement, scope.views, scope.indices, {}))
                case stripe.Load():
                    element = self._element(scope, statement.source, statement.index)
                    self._define(scope, statement.into, element, result)
                case stripe.Store():
                    result.extend(self._store(scope, statement, fused))
                case stripe.LoadIndex(affine=affine, into=into, dtype=dtype):
                    value = self.offsets.lanes(affine.substitute(scope.indices), scope.lanes)
                    self._define(scope, into, _cast(value, dtype), result)
                case stripe.Constant(into=into, dtype=dtype, value=constant):
                    scope.scalars[into] = sem.Const(constant, sem.Type(dtype))
                case stripe.Intrinsic(op=op, inputs=inputs, into=into):
                    if into not in fused:
                        args = _uniform(tuple(scope.scalars[i] for i in inputs))
                        self._define(scope, into, args[0] if op is Op.IDENT else sem.Apply(op, args), result)
                case stripe.Convert(input=value_name, into=into, dtype=dtype):
                    self._define(scope, into, _cast(scope.scalars[value_name], dtype), result)
                case stripe.Special():
                    result.extend(self._special(scope, statement))
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

    def _element(self, scope: _Scope, name: str, index: str | None) -> sem.Var | sem.Subscript:
        """Return the element of a view at the current point: as many lanes as the access really has."""
        view = scope.views[name]
        if view.variable is not None:
            self.offsets.mark_mutable(view.variable)
            return view.variable
        dtype = view.shape.dtype
        stride = view.offset.coefficient(LANE)
        if index is not None:
            return self._indirect(scope, view, scope.scalars[index])
        if stride == 0 or scope.lanes == 1:
            return sem.Subscript(view.array, self.offsets.scalar(view.offset), sem.Type(dtype))
        base = view.offset.substitute({LANE: 0})
        wide = sem.Type(dtype, scope.lanes)
        if stride == 1:
            return sem.Subscript(view.array, self.offsets.scalar(base), wide)
        return sem.Subscript(view.array, self.offsets.lanes(view.offset, scope.lanes), wide)

    def _indirect(self, scope: _Scope, view: View, index: sem.Expr) -> sem.Subscript:
        dim = view.shape.dims[0]
        place = _cast(index, self.target.index_dtype)
        base = self.offsets.lanes(view.offset, scope.lanes)
        low, high = self.offsets.constant(0), self.offsets.constant(dim.size - 1)
        place = sem.Apply(Op.MIN, _uniform((sem.Apply(Op.MAX, _uniform((place, low))), high)))
        scaled = sem.Apply(Op.MUL, _uniform((place, self.offsets.constant(dim.stride))))
        offset = sem.Apply(Op.ADD, _uniform((base, scaled)))
        return sem.Subscript(view.array, offset, sem.Type(view.shape.dtype, offset.type.lanes))

    def _store(self, scope: _Scope, statement: stripe.Store, fused: dict[str, tuple[str, str]]) -> list[sem.Stmt]:
        view = scope.views[statement.into]
        target = self._element(scope, statement.into, statement.index)
        aggregation = view.aggregation
        op = None if aggregation is None else aggregation.op
        if op is None:
            value = scope.scalars[statement.source]
            if value.type.lanes > target.type.lanes:
                raise fail("TIL502", f"the lanes of ${statement.source} all write one element of {statement.into}")
            return [sem.Assign(target, _widened(value, target.type.lanes))]
        if isinstance(target, sem.Subscript) and target.offset.type.lanes > 1:
            raise fail("TIL502", f"lanes that scatter into {statement.into} may meet; do not vectorise this block")
        if statement.source in fused:
            a, b = (scope.scalars[name] for name in fused[statement.source])
            lanes = max(a.type.lanes, b.type.lanes, target.type.lanes, scope.lanes)
            if target.type.lanes == lanes:
                return [sem.Assign(target, sem.Apply(Op.FMA, (_widened(a, lanes), _widened(b, lanes), target)))]
            value = sem.Apply(Op.MUL, _uniform((a, b)))
        else:
            value = scope.scalars[statement.source]
        if scope.lanes > target.type.lanes:
            value = sem.Reduce(op, _widened(value, scope.lanes))
        return [sem.Assign(target, sem.Apply(op, (target, _widened(value, target.type.lanes))))]

    def _special(self, scope: _Scope, statement: stripe.Special) -> list[sem.Stmt]:
        """Lower ``copy``, ``fill`` and ``zero`` to loops over the output's extent."""
        if statement.name not in ("copy", "fill", "zero"):
            raise fail("TIL502", f"special {statement.name!r} has no lowering; a pass must replace it")
        result: list[sem.Stmt] = []
        for position, name in enumerate(statement.outputs):
            view = scope.views[name]
            counters = [self._counter("d") for _ in view.shape.dims]
            target = self._at(view, counters)
            if statement.name == "copy":
                value: sem.Expr = self._at(scope.views[statement.inputs[position]], counters)
            else:
                constant = dict(statement.parameters).get("value", 0)
                number = constant if isinstance(constant, int | float) else 0
                value = sem.Const.of(number, sem.Type(view.shape.dtype))
            body: tuple[sem.Stmt, ...] = (sem.Assign(target, value),)
            for counter, dim in reversed(list(zip(counters, view.shape.dims, strict=True))):
                body = (sem.For(counter, self.offsets.constant(0), self.offsets.constant(dim.size), 1, body),)
            result.extend(body)
        return result

    def _at(self, view: View, counters: list[sem.Var]) -> sem.Subscript | sem.Var:
        if view.variable is not None:
            return view.variable
        offset = view.offset
        for counter, dim in zip(counters, view.shape.dims, strict=True):
            offset = offset + Affine.of({counter.name: dim.stride})
        return sem.Subscript(view.array, self.offsets.scalar(offset), sem.Type(view.shape.dtype))


def _fused_products(block: stripe.Block) -> dict[str, tuple[str, str]]:
    """Return float products whose only use is to be added up, with their factors: these become fused multiply-adds."""
    uses: dict[str, int] = {}
    for statement in block.statements:
        for scalar in stripe.scalar_inputs(statement):
            uses[scalar] = uses.get(scalar, 0) + 1
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


def _zero(dtype: DType) -> bool | int | float:
    return False if dtype.is_bool else 0.0 if dtype.is_float else 0


def _widened(value: sem.Expr, lanes: int) -> sem.Expr:
    if value.type.lanes == lanes:
        return value
    if isinstance(value, sem.Const):
        return sem.Const(value.value, sem.Type(value.type.dtype, lanes))
    return sem.Broadcast(value, lanes)


def _uniform(values: tuple[sem.Expr, ...]) -> tuple[sem.Expr, ...]:
    """Bring operands to the same number of lanes."""
    lanes = max(value.type.lanes for value in values)
    return tuple(_widened(value, lanes) for value in values)


def _cast(value: sem.Expr, dtype: DType) -> sem.Expr:
    return value if value.type.dtype is dtype else sem.Cast(value, value.type.with_dtype(dtype))
