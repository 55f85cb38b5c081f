"""Copies of boxes of tensors as loops of threads, where a device does not copy so."""

from __future__ import annotations

from functools import reduce
from math import prod

from tileir.core import NameScope, Op
from tileir.semtree.ir import (
    Apply,
    Assign,
    BulkCopy,
    BulkStore,
    Cast,
    Const,
    Expr,
    For,
    GridIndex,
    GridLevel,
    If,
    KernelFunction,
    Stmt,
    Subscript,
    Type,
    Var,
)
from tileir.semtree.swizzles import swizzled


def copied_in_turn(stmt: BulkCopy | BulkStore, kernel: KernelFunction, names: NameScope) -> Stmt:
    """Return a loop in which threads copy the elements of a box in turn; of those outside they make local ones zero."""
    index = Type(kernel.index)
    element, stride = Var(names.fresh("element"), index), prod(stmt.box)
    there: Expr = stmt.tensor.offset
    inside: list[Expr] = []

    def apply(op: Op, left: Expr, right: Expr | int) -> Expr:
        return Apply(op, (left, Const(right, left.type) if isinstance(right, int) else right))

    axes = zip(stmt.at, stmt.box, stmt.every, stmt.extents, stmt.strides, strict=True)
    for at, size, every, extent, step in axes:
        stride //= size
        digit = apply(Op.MOD, apply(Op.DIV, element, stride), size)
        digit = digit if every == 1 else apply(Op.MUL, digit, every)
        place = apply(Op.ADD, at, digit if at.type == index else Cast(digit, at.type))
        inside += [apply(Op.CMP_GE, place, 0), apply(Op.CMP_LT, place, extent)]
        moved = apply(Op.MUL, place, step)
        there = apply(Op.ADD, there, moved if moved.type == there.type else Cast(moved, there.type))
    start, kind = stmt.local.offset, stmt.local.type
    own = apply(Op.ADD, start, element if start.type == index else Cast(element, start.type))
    local = Subscript(stmt.local.array, swizzled(own, stmt.shift, stmt.mask, stmt.fold), kind)
    tensor = Subscript(stmt.tensor.array, there, kind)
    condition = reduce(lambda left, right: Apply(Op.BIT_AND, (left, right)), inside)
    if isinstance(stmt, BulkStore):
        body = If(condition, (Assign(tensor, local),))
    else:
        body = If(condition, (Assign(local, tensor),), (Assign(local, Const.of(0, kind)),))
    return For(element, thread_number(kernel), Const(prod(stmt.box), index), prod(kernel.group), (body,))


def thread_number(kernel: KernelFunction) -> Expr:
    """Return the number of a thread in its group, axis 0 fastest."""
    index = Type(kernel.index)
    number: Expr = GridIndex(GridLevel.LOCAL, len(kernel.group) - 1, index)
    for axis in reversed(range(len(kernel.group) - 1)):
        scaled = Apply(Op.MUL, (number, Const(kernel.group[axis], index)))
        number = Apply(Op.ADD, (GridIndex(GridLevel.LOCAL, axis, index), scaled))
    return number
