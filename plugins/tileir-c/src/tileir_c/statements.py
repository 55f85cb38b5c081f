"""Statements of kernels as statements of C."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, assert_never

import attrs

from tileir.core.dtype import DType
from tileir.semtree.ir import (
    Assign,
    AsyncCommit,
    AsyncCopy,
    AsyncWait,
    Barrier,
    Const,
    Declare,
    DeclareArray,
    For,
    Hint,
    If,
    LoopKind,
    MatrixMultiply,
    Prefetch,
    Reduce,
    Shuffle,
    Subscript,
    Type,
    Var,
)
from tileir.semtree.layout import ALIGNMENT
from tileir.semtree.rewrite import expressions, statements, trip_values, walk
from tileir_c.expressions import bare, combine, element, shared, value
from tileir_c.lanes import LaneGroup, lanes_of, last_mentions
from tileir_c.offsets import LANE
from tileir_c.spelling import MEMORY, VALUE, constant, unsigned

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tileir.core.text import Writer
    from tileir.semtree.ir import Expr, Stmt
    from tileir.semtree.layout import Layout
    from tileir_c.expressions import Environment


@attrs.define
class Statements:
    """Writes the statements of one kernel.

    Attributes:
        out: Where to.
        env: What names mean.
        layout: Where arrays live.
        assigned: Names of the variables that are assigned to somewhere in the kernel.
        overlapping: Parameters that may overlap each other.

    """

    out: Writer
    env: Environment
    layout: Layout
    assigned: frozenset[str]
    overlapping: frozenset[str]

    def write(self, stmts: tuple[Stmt, ...]) -> None:
        """Write a list of statements; neighbours with as many lanes share a loop."""
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

    @contextmanager
    def _block(self, header: str) -> Iterator[None]:
        self.out.line(f"{header} {{" if header else "{")
        with self.out.indented():
            yield
        self.out.line("}")

    def _finish(self, group: LaneGroup, last: dict[str, int], following: int) -> LaneGroup:
        """Write a group, which ends before the statement with number ``following``, and return an empty one."""
        if not group.stmts:
            return group
        for stmt in group.before:
            self._single(stmt)
        for stmt in group.stmts:
            self._reduce(stmt)
        declared = [stmt.variable for stmt in group.stmts if isinstance(stmt, Declare)]
        inner = {variable.name for variable in declared if last.get(variable.name, 0) < following}
        for variable in declared:
            if variable.name not in inner:
                self._lane_array(self.env.names[variable.name], variable.type)
        self.env.in_lane.update(inner)
        with self._block(_lanes(group.lanes)):
            for stmt in group.stmts:
                self._in_lane(stmt)
        self.env.in_lane.difference_update(inner)
        self.env.computed.clear()
        return LaneGroup(self.overlapping)

    def _in_lane(self, stmt: Declare | Assign) -> None:
        if isinstance(stmt, Declare) and stmt.variable.name in self.env.in_lane:
            self._declare(stmt)
        else:
            target = stmt.variable if isinstance(stmt, Declare) else stmt.target
            self._set(target, self._text(stmt.value))

    def _set(self, target: Var | Subscript, text: str) -> None:
        place = value(self.env, target) if isinstance(target, Var) else element(self.env, target)
        self.out.line(f"{place} = {text};")

    def _entangled(self, target: Subscript, stmt: Assign) -> None:
        """Write a statement that must have read all its lanes before it writes one."""
        copy, place = self._copy("values", target.type), self._copy("places", target.offset.type)
        with self._block(""):
            self._reduce(stmt)
            self._lane_array(self.env.names[copy.name], copy.type)
            self._lane_array(self.env.names[place.name], place.type)
            with self._block(_lanes(target.type.lanes)):
                self._set(copy, self._text(stmt.value))
                if place.type.lanes > 1:
                    self._set(place, self._text(target.offset))
            if place.type.lanes == 1:
                self._set(place, self._text(target.offset))
            with self._block(_lanes(target.type.lanes)):
                self._set(Subscript(target.array, place, target.type), value(self.env, copy))
        self.env.computed.clear()

    def _copy(self, stem: str, kind: Type) -> Var:
        """Return a variable of the emitted text alone; what is no identifier of C is no name of the kernel."""
        name = self.env.scope.fresh(stem)
        self.env.names[f"`{name}`"] = name
        return Var(f"`{name}`", kind)

    def _text(self, expr: Expr) -> str:
        """Return the value of an expression, after declarations of what it needs several times."""
        found = shared(expr)
        for node in found:
            text, name = bare(value(self.env, node)), self.env.scope.fresh("part")
            self.out.line(f"const {VALUE[node.type.dtype]} {name} = {text};")
            self.env.computed[node] = name
        text = bare(value(self.env, expr))
        for node in found:
            del self.env.computed[node]
        return text

    def _lane_array(self, name: str, kind: Type) -> None:
        size = "" if kind.lanes == 1 else f"[{kind.lanes}]"
        self.out.line(f"_Alignas({ALIGNMENT}) {VALUE[kind.dtype]} {name}{size};")

    def _reduce(self, stmt: Stmt) -> None:
        """Write what merges or moves lanes in a statement, inner ones first, before the statement itself."""
        nodes = [node for root in expressions(stmt) for node in walk(root) if isinstance(node, Reduce | Shuffle)]
        for node in reversed(nodes):
            if node in self.env.computed:
                continue
            if isinstance(node, Shuffle):
                self._shuffle(node)
                continue
            kind = node.operand.type
            if kind.lanes == 1:
                continue
            name = self.env.scope.fresh("merged")
            self._lane_array(name, kind)
            with self._block(_lanes(kind.lanes)):
                self.out.line(f"{name}[{LANE}] = {self._text(node.operand)};")
            pair = (f"{name}[{LANE}]", f"{name}[{LANE} + (width + 1) / 2]")
            with (
                self._block(f"for (int width = {kind.lanes}; width > 1; width = (width + 1) / 2)"),
                self._block(_lanes("width / 2")),
            ):
                self.out.line(f"{pair[0]} = {bare(combine(self.env.prelude, node.op, kind.dtype, pair))};")
            self.env.computed[node] = f"{name}[0]"

    def _shuffle(self, shuffle: Shuffle) -> None:
        """Write the lanes of the operands to memory, and pick those of the result there."""
        kind, result = shuffle.operands[0].type, shuffle.type
        joined = self.env.scope.fresh("joined")
        self._lane_array(joined, Type(kind.dtype, max(2, kind.lanes * len(shuffle.operands))))
        for number, operand in enumerate(shuffle.operands):
            if kind.lanes == 1:
                self.out.line(f"{joined}[{number}] = {self._text(operand)};")
                continue
            with self._block(_lanes(kind.lanes)):
                self.out.line(f"{joined}[{number * kind.lanes} + {LANE}] = {self._text(operand)};")
        if result.lanes == 1:
            self.env.computed[shuffle] = f"{joined}[{shuffle.lanes[0]}]"
            return
        picked = self.env.scope.fresh("picked")
        self._lane_array(picked, result)
        for place, lane in enumerate(shuffle.lanes):
            self.out.line(f"{picked}[{place}] = {joined}[{lane}];")
        self.env.computed[shuffle] = f"{picked}[{LANE}]"

    def _single(self, stmt: Stmt) -> None:
        """Write a statement without lanes."""
        self._reduce(stmt)
        match stmt:
            case Declare():
                self._declare(stmt)
            case DeclareArray():
                self._declare_array(stmt)
            case Assign(target=target, value=expr):
                self._set(target, self._text(expr))
            case For():
                self._loop(stmt)
            case If():
                self._branch(stmt)
            case Barrier() | AsyncCopy() | AsyncCommit() | AsyncWait() | MatrixMultiply():
                pass  # groups have one thread, and what it does is spelt out
            case Hint():
                self._hint(stmt)
            case _:
                assert_never(stmt)
        self.env.computed.clear()

    def _hint(self, hint: Hint) -> None:
        """Write a hint that compilers of C have a word for."""
        if isinstance(hint, Prefetch):
            self.out.line(f"__builtin_prefetch(&{element(self.env, hint.target)});")

    def _declare(self, stmt: Declare) -> None:
        variable = stmt.variable
        const = "" if variable.name in self.assigned else "const "
        text = self._text(stmt.value)
        self.out.line(f"{const}{VALUE[variable.type.dtype]} {self.env.names[variable.name]} = {text};")

    def _declare_array(self, array: DeclareArray) -> None:
        name, kind = self.env.names[array.name], MEMORY[array.dtype]
        if array not in self.layout.offsets:
            alignment = max(array.dtype.itemsize, min(array.alignment, ALIGNMENT))
            self.out.line(f"_Alignas({alignment}) {kind} {name}[{array.size}];")
            return
        place = f"scratch + {self.layout.offsets[array]}"
        self.out.line(f"{kind} *restrict {name} = ({kind} *)TILE_ALIGNED({place}, {ALIGNMENT});")

    def _loop(self, loop: For) -> None:
        kind, name = VALUE[loop.counter.type.dtype], self.env.names[loop.counter.name]
        begin, end = (self._bound(bound) for bound in (loop.begin, loop.end))
        if loop.kind is LoopKind.VECTOR and not any(isinstance(s, DeclareArray) for s in statements(loop.body)):
            self.out.line("TILE_INDEPENDENT")  # an array in scratch memory would be shared by the iterations
        with self._block(f"for ({kind} {name} = {begin}; {name} < {end}; {_advance(loop, name, end)})"):
            self.write(loop.body)

    def _bound(self, bound: Expr) -> str:
        """Return a text for the value of a bound that the loop cannot change."""
        if isinstance(bound, Const) and abs(bound.value) <= DType.I32.maximum:
            return str(bound.value)
        text = self._text(bound)
        if isinstance(bound, Const) or (isinstance(bound, Var) and bound.name not in self.assigned):
            return text
        name = self.env.scope.fresh("bound")
        self.out.line(f"const {VALUE[bound.type.dtype]} {name} = {text};")
        return name

    def _branch(self, stmt: If) -> None:
        with self._block(f"if ({self._text(stmt.condition)})"):
            self.write(stmt.then)
        if stmt.otherwise:
            with self._block("else"):
                self.write(stmt.otherwise)


def _lanes(count: int | str) -> str:
    return f"for (int64_t {LANE} = 0; {LANE} < {count}; ++{LANE})"


def _advance(loop: For, name: str, end: str) -> str:
    """Return the step of a loop; it must not overflow behind the last iteration."""
    values, dtype = trip_values(loop), loop.counter.type.dtype
    if loop.step == 1:
        return f"++{name}"
    if values is not None and (not values or values[-1] + loop.step <= dtype.maximum):
        return f"{name} += {loop.step}"
    step, wide = constant(loop.step, dtype), unsigned(dtype)
    left = f"({wide})({end}) - ({wide}){name}"
    return f"{name} = {left} > {step} ? ({VALUE[dtype]})({name} + {step}) : {end}"
