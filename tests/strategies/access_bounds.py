"""Proofs that every access of a kernel lies inside its array: by intervals, and where these are too wide, by z3."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from strategies.access_terms import Place, Terms
from tileir.core.fragments import FRAGMENTS
from tileir.core.ops import Op
from tileir.semtree.ir import (
    Apply,
    Assign,
    AssignLanes,
    Const,
    Declare,
    DeclareArray,
    Expr,
    For,
    Hint,
    If,
    KernelFunction,
    MatrixMultiply,
    MatrixOperand,
    Stmt,
    Subscript,
    Var,
)
from tileir.semtree.matrices import held, without_instructions
from tileir.semtree.rewrite import expressions, statements, walk
from tileir.semtree.text.printer import expr_text

if TYPE_CHECKING:
    from collections.abc import Iterator


def faults(kernel: KernelFunction) -> list[str]:
    """Return in words which accesses may leave their arrays, and for what coordinates and counters.

    Lanes that are set in part are looked at one by one.
    """
    if any(isinstance(stmt, AssignLanes) for stmt in statements(kernel.body)):
        kernel = without_instructions(kernel, FRAGMENTS, copies=False, folds=True, exchanges=False, channels=False)
    return list(_Checker.of(kernel).body(kernel.body, Place({}, {})))


@attrs.define
class _Checker:
    kernel: KernelFunction
    sizes: dict[str, int]
    assigned: frozenset[str]

    @classmethod
    def of(cls, kernel: KernelFunction) -> _Checker:
        sizes = {param.name: param.size for param in kernel.params}
        targets = (stmt.target for stmt in statements(kernel.body) if isinstance(stmt, Assign))
        return cls(kernel, sizes, frozenset(target.name for target in targets if isinstance(target, Var)))

    def body(self, stmts: tuple[Stmt, ...], place: Place) -> Iterator[str]:
        for stmt in stmts:
            yield from self.accesses(stmt, place)
            match stmt:
                case Declare(variable=Var(name=name), value=value) if name not in self.assigned:
                    place = attrs.evolve(place, values={**place.values, name: value})
                case DeclareArray(name=name, size=size):
                    self.sizes[name] = size
                case If(condition=condition):
                    yield from self.body(stmt.then, self.under(place, condition))
                    yield from self.body(stmt.otherwise, self.under(place, Apply(Op.BIT_NOT, (condition,))))
                case For():
                    yield from self.loop(stmt, place)
                case _:
                    pass

    def under(self, place: Place, condition: Expr) -> Place:
        return attrs.evolve(place, conditions=(*place.conditions, condition))

    def loop(self, loop: For, place: Place) -> Iterator[str]:
        terms = Terms(self.kernel, place)
        begin, end = terms.interval(loop.begin), terms.interval(loop.end)
        if end[1] <= begin[0]:
            return
        last = end[1] - 1 - ((end[1] - 1 - begin[0]) % loop.step if begin[0] == begin[1] else 0)
        inner = attrs.evolve(place, ranges={**place.ranges, loop.counter.name: (begin[0], max(begin[0], last))})
        for op, bound in ((Op.CMP_GE, loop.begin), (Op.CMP_LT, loop.end)):
            inner = self.under(inner, Apply(op, (loop.counter, bound)))
        if loop.step > 1:
            distance = Apply(Op.SUB, (loop.counter, loop.begin))
            rest = Apply(Op.MOD, (distance, Const(loop.step, loop.counter.type)))
            inner = self.under(inner, Apply(Op.CMP_EQ, (rest, Const(0, loop.counter.type))))
        yield from self.body(loop.body, inner)

    def accesses(self, stmt: Stmt, place: Place) -> Iterator[str]:
        if isinstance(stmt, Hint):
            return  # a hint, which may lie anywhere
        if isinstance(stmt, MatrixMultiply):
            yield from self.multiplied(stmt, place)
            return
        targets = (stmt.target,) if isinstance(stmt, Assign) else ()
        roots = dict.fromkeys((*expressions(stmt), *targets))
        for node in dict.fromkeys(node for root in roots for node in walk(root)):
            if isinstance(node, Subscript):
                neighbours = node.type.lanes if node.offset.type.lanes == 1 else 1
                yield from self.inside(node.array, node.offset, neighbours - 1, place)

    def multiplied(self, stmt: MatrixMultiply, place: Place) -> Iterator[str]:
        rows, columns, depth = stmt.tile
        yield from self.inside(stmt.accumulators.array, stmt.accumulators.offset, held(stmt) - 1, place)
        for operand, extents in ((stmt.left, (rows, depth)), (stmt.right, (depth, columns))):
            yield from self.operand(operand, extents, place)

    def operand(self, operand: MatrixOperand, extents: tuple[int, int], place: Place) -> Iterator[str]:
        if operand.held:
            yield from self.inside(operand.start.array, operand.start.offset, operand.held - 1, place)
            return
        reach = sum((extent - 1) * stride for extent, stride in zip(extents, operand.strides, strict=True))
        array, offset = operand.start.array, operand.start.offset
        if not operand.mask:
            yield from self.inside(array, offset, reach, place)
            return
        # What is swapped are the low bits, as many as the mask has: each run of so many elements stays itself.
        low, high = Terms(self.kernel, place).interval(offset)
        run = 1 << operand.mask.bit_length()
        if low < 0 or (high + reach) // run * run + run > self.sizes[array]:
            yield f"{array}[{expr_text(offset, self.kernel.index)}] with {reach} behind it, swizzled"

    def inside(self, array: str, offset: Expr, reach: int, place: Place) -> Iterator[str]:
        """Yield the access where not all of ``offset`` to ``offset + reach`` is inside, with a counterexample."""
        size, terms = self.sizes[array], Terms(self.kernel, place)
        low, high = terms.interval(offset)
        if low >= 0 and high + reach < size:
            return
        found = terms.outside(offset, size - reach)
        if found is not None:
            name = f"{array}[{expr_text(offset, self.kernel.index)}{f' : {reach + 1}' if reach else ''}]"
            yield f"{self.kernel.name}: {name} of {size} elements, {found}"
