"""Integer expressions of kernels as bit-vectors of z3, each operation as :mod:`tileir.core.numbers.arithmetic` has it.

The terms are written down here once more, so that a rule and its proof do not share an error.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import z3

from tileir.core.ops import Op
from tileir.semtree.ir import Apply, Bitcast, Broadcast, Cast, Const, Dot, Expr, Ramp, Reduce, Shuffle, Var
from tileir.semtree.rewrite import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tileir.core.dtype import DType

Term: TypeAlias = Any
"""A Boolean or a bit-vector of z3."""

TIMEOUT_MS: Final = 60_000


def is_integral(expr: Expr) -> bool:
    """Return whether all that an expression computes with are bools and integers."""
    return not any(node.type.dtype.is_float for node in walk(expr))


def counterexample(left: Expr, right: Expr) -> str | None:
    """Return values of variables for which two expressions of integers differ; None where there are none.

    Raises:
        TimeoutError: z3 does not know in :data:`TIMEOUT_MS`.
    """
    for lane in range(left.type.lanes):
        solver = z3.Solver()
        solver.set("timeout", TIMEOUT_MS)
        solver.add(term(left, lane) != term(right, lane))
        found = solver.check()
        if found == z3.unknown:
            raise TimeoutError(f"z3 does not know whether {left} is {right}")
        if found == z3.sat:
            model = solver.model()
            return ", ".join(f"{name} = {model[name]}" for name in sorted(model.decls(), key=str))
    return None


def term(expr: Expr, lane: int = 0) -> Term:
    """Return one lane of an expression."""
    match expr:
        case Const(value=value, type=kind):
            return number(value, kind.dtype)
        case Var(name=name, type=kind):
            return _symbol(f"{name}{lane}" if kind.lanes > 1 else name, kind.dtype)
        case Apply(op=op, args=args):
            return operation(op, args[-1].type.dtype, *(term(arg, lane) for arg in args))
        case Cast(operand=operand, type=kind):
            return cast(term(operand, lane), operand.type.dtype, kind.dtype)
        case Bitcast(operand=operand):
            return term(operand, lane)
        case Broadcast(operand=operand):
            return term(operand)
        case Ramp(base=base, stride=stride):
            return term(base) + z3.BitVecVal(stride * lane, base.type.dtype.bits)
        case Reduce(op=op, operand=operand):
            lanes = [term(operand, number) for number in range(operand.type.lanes)]
            return reduce(lambda a, b: operation(op, operand.type.dtype, a, b), lanes)
        case Shuffle(operands=operands, lanes=chosen):
            part, place = divmod(chosen[lane], operands[0].type.lanes)
            return term(operands[part], place)
        case Dot():
            return _dot(expr, lane)
        case _:
            raise TypeError(expr)


def _dot(dot: Dot, lane: int) -> Term:
    total = term(dot.total, lane)
    for place in range(dot.terms * lane, dot.terms * (lane + 1)):
        factors = (cast(term(side, place), side.type.dtype, dot.type.dtype) for side in (dot.left, dot.right))
        total = total + next(factors) * next(factors)
    return total


def number(value: float, dtype: DType) -> Term:
    return z3.BoolVal(bool(value)) if dtype.is_bool else z3.BitVecVal(int(value), dtype.bits)


def _symbol(name: str, dtype: DType) -> Term:
    return z3.Bool(name) if dtype.is_bool else z3.BitVec(name, dtype.bits)


def cast(value: Term, source: DType, target: DType) -> Term:
    """Return a bool or integer as one of another type: wrapped, or asked whether it is 0."""
    if source is target:
        return value
    if target.is_bool:
        return value != 0
    if source.is_bool:
        return z3.If(value, number(1, target), number(0, target))
    extra = target.bits - source.bits
    if extra > 0:
        return z3.SignExt(extra, value) if source.is_signed else z3.ZeroExt(extra, value)
    return z3.Extract(target.bits - 1, 0, value)


def operation(op: Op, dtype: DType, *args: Term) -> Term:
    """Return an operation on bools or integers; ``dtype`` is that of the operands, but for the first of ``COND``."""
    if op is Op.COND:
        return z3.If(*args)
    if dtype.is_bool:
        return _ON_BOOLS[op](*args)
    return (_SIGNED if dtype.is_signed and op in _SIGNED else _UNSIGNED)[op](*args)


def _same(value: Term) -> Term:
    return value


def _zero(value: Term) -> Term:
    return z3.BitVecVal(0, value.size())


def _divided(divide: Callable[[Term, Term], Term], left: Term, right: Term) -> Term:
    return z3.If(right == 0, _zero(left), divide(left, right))


def _shifted(shift: Callable[[Term, Term], Term], value: Term, count: Term, outside: Term) -> Term:
    return z3.If(z3.ULT(count, z3.BitVecVal(value.size(), value.size())), shift(value, count), outside)


_UNSIGNED: Final[Mapping[Op, Callable[..., Term]]] = {
    **dict.fromkeys((Op.IDENT, Op.FLOOR, Op.CEIL, Op.ROUND, Op.TRUNC, Op.ABS), _same),
    Op.NEG: lambda a: -a,
    Op.BIT_NOT: lambda a: ~a,
    Op.ADD: lambda a, b: a + b,
    Op.SUB: lambda a, b: a - b,
    Op.MUL: lambda a, b: a * b,
    Op.DIV: lambda a, b: _divided(z3.UDiv, a, b),
    Op.MOD: lambda a, b: _divided(z3.URem, a, b),
    Op.MAX: lambda a, b: z3.If(z3.UGE(a, b), a, b),
    Op.MIN: lambda a, b: z3.If(z3.ULE(a, b), a, b),
    Op.BIT_AND: lambda a, b: a & b,
    Op.BIT_OR: lambda a, b: a | b,
    Op.BIT_XOR: lambda a, b: a ^ b,
    Op.BIT_LEFT: lambda a, b: _shifted(lambda x, n: x << n, a, b, _zero(a)),
    Op.BIT_RIGHT: lambda a, b: _shifted(z3.LShR, a, b, _zero(a)),
    Op.CMP_EQ: lambda a, b: a == b,
    Op.CMP_NE: lambda a, b: a != b,
    Op.CMP_LT: z3.ULT,
    Op.CMP_LE: z3.ULE,
    Op.CMP_GT: z3.UGT,
    Op.CMP_GE: z3.UGE,
}
_SIGNED: Final[Mapping[Op, Callable[..., Term]]] = {
    Op.ABS: lambda a: z3.If(a < 0, -a, a),
    Op.DIV: lambda a, b: _divided(lambda x, y: x / y, a, b),
    Op.MOD: lambda a, b: _divided(z3.SRem, a, b),
    Op.MAX: lambda a, b: z3.If(a >= b, a, b),
    Op.MIN: lambda a, b: z3.If(a <= b, a, b),
    Op.BIT_RIGHT: lambda a, b: _shifted(lambda x, n: x >> n, a, b, z3.If(a < 0, ~_zero(a), _zero(a))),
    Op.CMP_LT: lambda a, b: a < b,
    Op.CMP_LE: lambda a, b: a <= b,
    Op.CMP_GT: lambda a, b: a > b,
    Op.CMP_GE: lambda a, b: a >= b,
}
_ON_BOOLS: Final[Mapping[Op, Callable[..., Term]]] = {
    Op.IDENT: _same,
    Op.BIT_NOT: z3.Not,
    Op.BIT_AND: z3.And,
    Op.BIT_OR: z3.Or,
    Op.BIT_XOR: z3.Xor,
    Op.MAX: z3.Or,
    Op.MIN: z3.And,
    Op.CMP_EQ: lambda a, b: a == b,
    Op.CMP_NE: z3.Xor,
    Op.CMP_LT: lambda a, b: z3.And(z3.Not(a), b),
    Op.CMP_LE: lambda a, b: z3.Or(z3.Not(a), b),
    Op.CMP_GT: lambda a, b: z3.And(a, z3.Not(b)),
    Op.CMP_GE: lambda a, b: z3.Or(a, z3.Not(b)),
}
