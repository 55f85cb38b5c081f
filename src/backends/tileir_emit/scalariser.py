"""Scalarisation of kernels: loops over lanes, for back ends whose language has no vectors.

A variable with lanes becomes an array, or a scalar if one loop has all its uses.

Statements with several lanes share a loop over the lanes where possible.

A statement reads all its lanes before it writes one. In a loop over lanes each lane runs all statements before the next
lane starts. The results are equal unless a lane accesses an element that another lane, or a later statement in another
lane, writes: if that cannot be excluded, a new loop begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tileir.core import NameScope, Op, attrs, schema
from tileir.semtree.analysis.effects import reads, writes
from tileir.semtree.ir import (
    Apply,
    Assign,
    Bitcast,
    Broadcast,
    Cast,
    Const,
    Declare,
    DeclareArray,
    Expr,
    For,
    KernelFunction,
    Ramp,
    Reduce,
    Shuffle,
    Stmt,
    Subscript,
    Type,
    Var,
)
from tileir.semtree.legalise.offsets import OFFSET, Sum, offset_of
from tileir.semtree.rewrite import (
    children,
    expressions,
    kernel_names,
    mentions,
    statements,
    walk,
    with_body,
    with_children,
)


def scalarised(kernel: KernelFunction) -> KernelFunction:
    """Return an equivalent kernel in which every value has one lane; offsets are sums in their shortest form.

    Groups have one thread (:func:`tileir.semtree.transform.threads.one_thread`), and dot products are expanded.
    """
    scope = NameScope.of(kernel_names(kernel))
    overlapping = frozenset(param.name for param in kernel.params if not param.no_alias)
    lane = Var(scope.fresh("lane"), OFFSET)
    return with_body(kernel, _Scalariser(scope, lane, overlapping).statements(kernel.body))


@attrs.define(eq=False, repr=False)
class _Scalariser:
    """Scalariser of one kernel.

    Attributes:
        scope: Names in use.
        lane: Counter of all loops over lanes, which are never nested.
        overlapping: Parameters that may alias.
        in_lane: Variables with lanes that become scalars, as one loop over lanes has all their uses.
        computed: Replacements of merged and moved lanes, which are computed before the statement.
    """

    scope: NameScope
    lane: Var
    overlapping: frozenset[str]
    in_lane: set[str] = attrs.field(factory=set)
    computed: dict[Expr, Expr] = attrs.field(factory=dict)
    _out: list[Stmt] = attrs.field(factory=list, init=False)

    def statements(self, stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """Return a list of statements; neighbours with equal numbers of lanes share a loop."""
        outside, self._out = self._out, []
        last = last_mentions(stmts)
        group = LaneGroup(self.overlapping)
        for number, stmt in enumerate(stmts):
            if isinstance(stmt, Declare | Assign) and lanes_of(stmt) > 1:
                if not group.takes(stmt):
                    group = self._finish(group, last, number)
                if isinstance(stmt, Assign) and isinstance(stmt.target, Subscript) and group.is_entangled(stmt):
                    group = self._finish(group, last, number)
                    self._entangled(stmt.target, stmt)
                else:
                    group.add(stmt)
            elif group.stmts and group.may_follow(stmt):
                group.before.append(stmt)
            else:
                group = self._finish(group, last, number)
                self._single(stmt)
        self._finish(group, last, len(stmts))
        made, self._out = tuple(self._out), outside
        return made

    def _finish(self, group: LaneGroup, last: dict[str, int], following: int) -> LaneGroup:
        """Write a group, which ends before the statement with number ``following``, and return an empty one."""
        if not group.stmts:
            return group
        for stmt in group.before:
            self._single(stmt)
        for stmt in group.stmts:
            self._merge(stmt)
        declared = [stmt.variable for stmt in group.stmts if isinstance(stmt, Declare)]
        inner = {variable.name for variable in declared if last.get(variable.name, 0) < following}
        self._out.extend(_array(variable.name, variable.type) for variable in declared if variable.name not in inner)
        self.in_lane |= inner
        self._loop(group.lanes, *map(self._in_lane, group.stmts))
        self.in_lane -= inner
        self.computed.clear()
        return LaneGroup(self.overlapping)

    def _loop(self, lanes: int, *body: Stmt) -> None:
        self._out.append(For(self.lane, Const(0, OFFSET), Const(lanes, OFFSET), 1, body))

    def _in_lane(self, stmt: Declare | Assign) -> Stmt:
        target = stmt.variable if isinstance(stmt, Declare) else stmt.target
        place = self._scalar(target)
        if isinstance(stmt, Declare) and isinstance(place, Var):
            return Declare(place, self._scalar(stmt.value))
        assert isinstance(place, Var | Subscript)
        return Assign(place, self._scalar(stmt.value))

    def _single(self, stmt: Stmt) -> None:
        """Write a statement without lanes."""
        self._merge(stmt)
        own = schema.map_operands(self._scalar, stmt)
        self.computed.clear()
        self._out.append(schema.map_bodies(self.statements, own))

    def _entangled(self, target: Subscript, stmt: Assign) -> None:
        """Write a statement that must read all its lanes before it writes one."""
        lanes = target.type.lanes
        self._merge(stmt)
        values = self._declared("values", target.type)
        stores = [Assign(self._element(values), self._scalar(stmt.value))]
        place = self._scalar(target)
        assert isinstance(place, Subscript)
        if target.offset.type.lanes > 1:
            places = self._declared("places", Type(OFFSET.dtype, lanes))
            stores.append(Assign(self._element(places), _wide(place.offset)))
            place = attrs.evolve(place, offset=self._element(places))
        else:
            base = Var(self.scope.fresh("place"), OFFSET)
            first = self._scalar(attrs.evolve(target, type=Type(target.type.dtype)))
            assert isinstance(first, Subscript)
            self._out.append(Declare(base, _wide(first.offset)))
            place = attrs.evolve(place, offset=Apply(Op.ADD, (base, self.lane)))
        self._loop(lanes, *stores)
        self._loop(lanes, Assign(place, self._element(values)))
        self.computed.clear()

    def _declared(self, stem: str, kind: Type) -> DeclareArray:
        array = _array(self.scope.fresh(stem), kind)
        self._out.append(array)
        return array

    def _element(self, array: DeclareArray, place: Expr | None = None) -> Subscript:
        return Subscript(array.name, place or self.lane, Type(array.dtype))

    def _merge(self, stmt: Stmt) -> None:
        """Write merges and moves of lanes in a statement, innermost first, before the statement itself."""
        nodes = [node for root in expressions(stmt) for node in walk(root) if isinstance(node, Reduce | Shuffle)]
        for node in reversed(nodes):
            if node not in self.computed:
                self.computed[node] = self._shuffled(node) if isinstance(node, Shuffle) else self._merged(node)

    def _merged(self, node: Reduce) -> Expr:
        """Merge the lower with the upper lanes, repeatedly; a middle one stays."""
        lanes = node.operand.type.lanes
        if lanes == 1:
            return self._scalar(node.operand)
        array = self._declared("merged", node.operand.type)
        self._loop(lanes, Assign(self._element(array), self._scalar(node.operand)))
        while lanes > 1:
            half = (lanes + 1) // 2
            other = self._element(array, Apply(Op.ADD, (self.lane, Const(half, OFFSET))))
            both = Apply(node.op, (self._element(array), other))
            self._loop(lanes // 2, Assign(self._element(array), both))
            lanes = half
        return self._element(array, Const(0, OFFSET))

    def _shuffled(self, node: Shuffle) -> Expr:
        """Store the lanes of the operands to memory, and load those of the result."""
        kind, result = node.operands[0].type, node.type
        joined = self._declared("joined", Type(kind.dtype, kind.lanes * len(node.operands)))
        for number, operand in enumerate(node.operands):
            value, start = self._scalar(operand), Const(number * kind.lanes, OFFSET)
            if kind.lanes == 1:
                self._out.append(Assign(self._element(joined, start), value))
            else:
                self._loop(kind.lanes, Assign(self._element(joined, Apply(Op.ADD, (start, self.lane))), value))
        if result.lanes == 1:
            return self._element(joined, Const(node.lanes[0], OFFSET))
        picked = self._declared("picked", result)
        for place, lane in enumerate(node.lanes):
            element = self._element(joined, Const(lane, OFFSET))
            self._out.append(Assign(self._element(picked, Const(place, OFFSET)), element))
        return self._element(picked)

    def _scalar(self, expr: Expr) -> Expr:
        """Return one lane of an expression, in a loop over the lanes if there are several."""
        if expr in self.computed:
            return self.computed[expr]
        match expr:
            case Const(value=value, type=kind):
                return expr if kind.lanes == 1 else Const(value, Type(kind.dtype))
            case Var(name=name, type=kind) if kind.lanes > 1:
                scalar = Type(kind.dtype)
                return Var(name, scalar) if name in self.in_lane else Subscript(name, self.lane, scalar)
            case Broadcast(operand=operand):
                return self._scalar(operand)
            case Ramp(base=base, stride=stride, lanes=lanes):
                first, kind = self._scalar(base), Type(base.type.dtype)
                if lanes == 1:
                    return first
                number: Expr = self.lane if kind == OFFSET else Cast(self.lane, kind)
                return Apply(Op.ADD, (first, Apply(Op.MUL, (number, Const.of(stride, kind)))))
            case Subscript(array=array, type=kind):
                offset = offset_of(expr).expression(self._scalar, self.lane)
                return Subscript(array, offset, Type(kind.dtype))
            case Cast(operand=operand, type=kind) | Bitcast(operand=operand, type=kind):
                return type(expr)(self._scalar(operand), Type(kind.dtype))
            case _:
                return with_children(expr, tuple(map(self._scalar, children(expr))))


def _array(name: str, kind: Type) -> DeclareArray:
    return DeclareArray(name, kind.dtype, kind.lanes)


def _wide(offset: Expr) -> Expr:
    return offset if offset.type == OFFSET else Cast(offset, OFFSET)


_MOST_STATEMENTS: Final = 256
"""Maximum number of statements in one loop: compilers take superlinear time."""


@attrs.frozen(eq=False, repr=False)
class _Access:
    """Elements of one array that the lanes of a statement access.

    Attributes:
        array: The array.
        start: Offset of lane 0.
        step: Distance between the elements of neighbouring lanes; None if it varies.
        lanes: Number of lanes.
    """

    array: str
    start: Sum
    step: int | None
    lanes: int

    @classmethod
    def of(cls, place: Subscript) -> _Access:
        total = offset_of(place)
        even = all(isinstance(term, str) or term.type.lanes == 1 for term in total.terms)
        return cls(place.array, total.without_lane(), total.step if even else None, place.type.lanes)

    def clashes(self, other: _Access) -> bool:
        """Return whether an element that one lane writes here may be accessed by another lane there."""
        if self.array != other.array:
            return True  # they may overlap
        distance = other.start.minus(self.start)
        if distance is None or self.step != 1 or other.step not in (0, 1):
            return True
        return 0 <= distance < self.lanes if other.step == 0 else 0 < abs(distance) < self.lanes


@attrs.define(eq=False, repr=False)
class LaneGroup:
    """Statements that run as one loop over ``lanes``, and scalar declarations hoisted before it.

    Attributes:
        overlapping: Parameters that may alias.
        lanes: Number of lanes, 0 while there is no statement.
        before: The declarations.
        stmts: The statements of the loop.
    """

    overlapping: frozenset[str]
    lanes: int = 0
    before: list[Stmt] = attrs.field(factory=list)
    stmts: list[Declare | Assign] = attrs.field(factory=list)
    _reads: dict[str, list[_Access]] = attrs.field(factory=dict)
    _writes: dict[str, list[_Access]] = attrs.field(factory=dict)

    def takes(self, stmt: Declare | Assign) -> bool:
        """Return whether a statement with several lanes can run in this loop."""
        if not self.stmts:
            return True
        if lanes_of(stmt) != self.lanes or has_reduction(stmt) or len(self.stmts) >= _MOST_STATEMENTS:
            return False
        for place in writes(stmt):
            write, memory = _Access.of(place), self._memory(place)
            if any(map(write.clashes, (*self._reads.get(memory, ()), *self._writes.get(memory, ())))):
                return False
        for place in reads(stmt):
            if any(write.clashes(_Access.of(place)) for write in self._writes.get(self._memory(place), ())):
                return False
        return not self.is_entangled(stmt)

    def may_follow(self, stmt: Stmt) -> bool:
        """Return whether a scalar declaration after the statements may be hoisted before them."""
        if not isinstance(stmt, Declare | DeclareArray) or has_reduction(stmt):
            return False
        return not any(self._memory(read) in self._writes for read in reads(stmt))

    def is_entangled(self, stmt: Declare | Assign) -> bool:
        """Return whether a statement may write elements that another of its lanes reads."""
        return any(
            self._memory(target) == self._memory(place) and _Access.of(target).clashes(_Access.of(place))
            for target in writes(stmt)
            for place in reads(stmt)
        )

    def add(self, stmt: Declare | Assign) -> None:
        """Append a statement with several lanes."""
        self.lanes = lanes_of(stmt)
        self.stmts.append(stmt)
        for places, found in ((reads(stmt), self._reads), (writes(stmt), self._writes)):
            for place in places:
                found.setdefault(self._memory(place), []).append(_Access.of(place))

    def _memory(self, place: Subscript) -> str:
        """Return the array's name, or a common name for all parameters that may alias."""
        return "" if place.array in self.overlapping else place.array


def lanes_of(stmt: Stmt) -> int:
    """Return the number of lanes that a statement sets; 1 except for declarations and assignments."""
    match stmt:
        case Declare(variable=variable):
            return variable.type.lanes
        case Assign(target=target):
            return target.type.lanes
        case _:
            return 1


def has_reduction(stmt: Stmt) -> bool:
    """Return whether a statement itself merges lanes, or moves them."""
    return any(isinstance(node, Reduce | Shuffle) for root in expressions(stmt) for node in walk(root))


def last_mentions(stmts: Sequence[Stmt]) -> dict[str, int]:
    """Return, for each variable, the number of the last statement that mentions it, including nested statements."""
    inner = ((each, number) for number, stmt in enumerate(stmts) for each in statements((stmt,)))
    nodes = ((node, number) for each, number in inner for root in mentions(each) for node in walk(root))
    return {node.name: number for node, number in nodes if isinstance(node, Var)}
