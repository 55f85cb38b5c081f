"""Sums that begin as zeros just before a product is added to them: its first instruction can do without."""

from __future__ import annotations

from collections.abc import Mapping

from tileir.core.fragments import FRAGMENTS
from tileir.core.ops import Op
from tileir.semtree.ir import Apply, Assign, Broadcast, Const, Expr, For, MatrixMultiply, Stmt, Subscript, Var
from tileir.semtree.matrices import held
from tileir_cuda.emit.warpgroups import OF_WARPGROUPS


def makes_zeros(stmt: Stmt, after: Stmt | None) -> bool:
    """Return whether loops make all sums zeros, and nothing else, that an instruction of four warps adds to next."""
    if not isinstance(stmt, For) or not isinstance(after, MatrixMultiply) or after.fragment not in OF_WARPGROUPS:
        return False
    sums = after.accumulators
    if after.tile[:2] != FRAGMENTS[after.fragment].mnk[:2] or sums.offset != Const(0, sums.offset.type):
        return False
    places = _zeros(stmt, sums.array, {})
    return places is not None and places == set(range(held(after)))


def _zeros(stmt: Stmt, array: str, values: Mapping[str, int]) -> set[int] | None:
    """Return which elements of an array a statement makes zeros; None where it does anything else."""
    match stmt:
        case For(counter=counter, begin=Const(value=begin), end=Const(value=end), step=step, body=body):
            turns = range(int(begin), int(end), step)
            parts = [_zeros(each, array, {**values, counter.name: turn}) for turn in turns for each in body]
            known = [part for part in parts if part is not None]
            return set().union(*known) if len(known) == len(parts) else None
        case Assign(target=Subscript(array=name, offset=offset, type=kind), value=value) if name == array:
            while isinstance(value, Broadcast):
                value = value.operand
            first = _value(offset, values) if isinstance(value, Const) and value.value == 0 else None
            return None if first is None else set(range(first, first + kind.lanes))
        case _:
            return None


def _value(expr: Expr, values: Mapping[str, int]) -> int | None:
    """Return the value of a sum of products of known variables."""
    match expr:
        case Const(value=value):
            return int(value)
        case Var(name=name):
            return values.get(name)
        case Apply(op=Op.ADD | Op.MUL as op, args=args):
            left, right = (_value(arg, values) for arg in args)
            if left is None or right is None:
                return None
            return left + right if op is Op.ADD else left * right
        case _:
            return None
