"""Expressions of kernels as OpenCL C."""

from __future__ import annotations

from functools import partial, reduce
from typing import TYPE_CHECKING, Final, assert_never

import attrs

from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.semtree.dots import plain_dot
from tileir.semtree.ir import (
    Apply,
    Bitcast,
    Broadcast,
    Cast,
    Const,
    Dot,
    GridIndex,
    Ramp,
    Reduce,
    Shuffle,
    Subscript,
    Type,
    Var,
)
from tileir.semtree.ranges import Range, either
from tileir.semtree.rewrite import children, expressions
from tileir_opencl.conversions import cast, from_half_bits, half_bits, rounded
from tileir_opencl.floats import apply_float
from tileir_opencl.integers import apply_integer, reinterpreted, steps
from tileir_opencl.logic import choice, compared
from tileir_opencl.memory import Place, load
from tileir_opencl.peephole import INEXACT, builtin_for, guard
from tileir_opencl.spelling import MASKS, UNARY, register, vector
from tileir_opencl.text import KernelText, Value, call, canonical, integer, lane_of, real

if TYPE_CHECKING:
    from tileir.semtree.ir import Expr, GridLevel, Stmt
    from tileir_opencl.peephole import Call, Guard

_EXACT: Final = frozenset({Op.ADD, Op.SUB, Op.MUL, Op.NEG})
"""Operations that pass on the promise that an offset does not overflow."""

_OPERATIONS: Final = (Apply, Cast, Bitcast, Reduce, Shuffle)


@attrs.define
class Environment:
    """What names mean at one point of a kernel."""

    out: KernelText
    variables: dict[str, Value] = attrs.field(factory=dict)
    arrays: dict[str, Place] = attrs.field(factory=dict)
    coordinates: dict[tuple[GridLevel, int], Value] = attrs.field(factory=dict)
    repeated: frozenset[Expr] = frozenset()
    computed: dict[Expr, Value] = attrs.field(factory=dict)

    def begin(self, stmt: Stmt) -> None:
        """Forget the values of the last statement; what ``stmt`` computes several times gets a variable."""
        self.repeated = repeated_parts(stmt)
        self.computed = {}


def repeated_parts(stmt: Stmt) -> frozenset[Expr]:
    """Return the operations on other operations' results that a statement itself evaluates more than once."""
    seen: set[Expr] = set()
    found: set[Expr] = set()
    stack = list(expressions(stmt))
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            stack.extend(children(node))
        elif isinstance(node, Apply) and any(isinstance(child, _OPERATIONS) for child in node.args):
            found.add(node)
    return frozenset(found)


def evaluate(env: Environment, expr: Expr, *, index: bool = False) -> Value:
    """Return the text of ``expr``, after the statements that it needs; ``index`` says that it is part of an offset."""
    if index or expr not in env.repeated:
        return _evaluated(env, expr, index=index)
    if expr not in env.computed:
        env.computed[expr] = env.out.temporary("part", _evaluated(env, expr, index=False))
    return env.computed[expr]


def _evaluated(env: Environment, expr: Expr, *, index: bool) -> Value:
    match expr:
        case Const(value=value, type=kind):
            return real(float(value), kind) if kind.dtype.is_float else integer(int(value), kind)
        case Var(name=name):
            return env.variables[name]
        case GridIndex(level=level, axis=axis):
            return env.coordinates[level, axis]
        case Apply():
            return _apply(env, expr, index=index)
        case Cast(operand=operand, type=kind):
            return cast(env.out, evaluate(env, operand), kind.dtype)
        case Bitcast(operand=operand, type=kind):
            return _bitcast(env.out, evaluate(env, operand), kind)
        case Broadcast(operand=operand, lanes=lanes):
            return broadcast(evaluate(env, operand, index=index), lanes)
        case Ramp(base=base, stride=stride):
            return _ramp(env.out, evaluate(env, base, index=index), stride, expr.type, index=index)
        case Reduce(op=op, operand=operand):
            return _reduce(env.out, op, evaluate(env, operand))
        case Shuffle(operands=operands, lanes=chosen):
            return _shuffle(env.out, tuple(evaluate(env, operand) for operand in operands), chosen)
        case Dot():
            return evaluate(env, plain_dot(expr))
        case Subscript(array=array, offset=offset, type=kind):
            return load(env.out, env.arrays[array], evaluate(env, offset, index=True), kind)
        case _:
            assert_never(expr)


def call_builtin(env: Environment, found: Call) -> Value:
    """Return the call of a function that the peephole rows have found."""
    args = [evaluate(env, arg) for arg in found.args]
    result = call(found.builtin.value, args[-1].type, *args)
    return rounded(env.out, result, result.type.dtype) if found.builtin in INEXACT else result


def _apply(env: Environment, expr: Apply, *, index: bool) -> Value:
    op = expr.op
    found = builtin_for(expr, fast_math=env.out.fast_math)
    if found is not None:
        return call_builtin(env, found)
    bound = guard(expr)
    if bound is not None:
        guarded = _guarded(env, bound)
        if guarded is not None:
            return guarded
    index = index and op in _EXACT
    args = tuple([evaluate(env, arg, index=index) for arg in expr.args])
    if op is Op.COND:
        condition, then, otherwise = args
        fact = either(then.range, otherwise.range) if then.type.dtype.is_integer else None
        return attrs.evolve(choice(condition, then, otherwise), fact=fact)
    if args[0].type.dtype.is_float:
        return apply_float(env.out, op, args)
    return apply_integer(env.out, op, args, index=index)


def _guarded(env: Environment, found: Guard) -> Value | None:
    """Return the test of a sum against its bound, if nothing can overflow in it or in what it is written for."""
    dtype, bound = found.bound.type.dtype, int(found.bound.value)
    terms = [evaluate(env, term) for term in found.terms]
    total = Range.constant(0)
    for term in terms:
        total = Range(total.low + term.range.low, total.high + term.range.high)
        rest = (
            Range(bound - total.high, bound - total.low)
            if found.below
            else Range(total.low - bound, total.high - bound)
        )
        if not (total.fits(dtype) and rest.fits(dtype)):
            return None
    text = reduce(partial(_merged, env.out, Op.ADD), terms)
    if found.below:
        return compared("<", text, integer(bound + 1, found.bound.type))
    return compared(">=", text, integer(bound, found.bound.type))


def _bitcast(out: KernelText, value: Value, kind: Type) -> Value:
    source, dtype = value.type.dtype, kind.dtype
    if source is dtype or dtype.is_bool:
        return value
    if source.is_narrow:
        bits = half_bits(out, value, kind.with_dtype(DType.U16) if dtype.is_narrow else kind)
        return from_half_bits(out, bits, kind) if dtype.is_narrow else bits
    if dtype.is_narrow:
        return from_half_bits(out, value, kind)
    if source.is_integer and dtype.is_integer and kind.lanes == 1:
        return reinterpreted(value, kind)
    return call(f"as_{register(kind)}", kind, value)


def broadcast(value: Value, lanes: int) -> Value:
    """Return a scalar in every lane."""
    if lanes == 1:
        return value
    kind = Type(value.type.dtype, lanes)
    if value.known is not None:
        return integer(value.known, kind)
    text = f"{value.at(UNARY)} ? -1 : 0" if kind.dtype.is_bool else value.text
    ramp = (value, 0) if kind.dtype.is_integer else None
    splat = None if kind.dtype.is_bool else value
    return Value(f"({register(kind)})({text})", kind, fact=value.fact, ramp=ramp, splat=splat)


def _ramp(out: KernelText, base: Value, stride: int, kind: Type, *, index: bool) -> Value:
    if kind.lanes == 1:
        return base
    whole = Value(f"({register(kind)})({base.text})", kind, fact=base.fact, splat=base)
    if base.known == 0:
        total = steps(kind, stride)
    else:
        total = apply_integer(out, Op.ADD, (whole, steps(kind, stride)), index=index)
    ramp = (base, stride) if index else None
    return attrs.evolve(total, ramp=ramp)


def _shuffle(out: KernelText, operands: tuple[Value, ...], lanes: tuple[int, ...]) -> Value:
    kind = operands[0].type
    used = dict.fromkeys(lane // kind.lanes for lane in lanes)
    named = {number: out.temporary("lanes", canonical(operands[number])) for number in used}
    found = []
    for lane in lanes:
        operand = named[lane // kind.lanes]
        found.append(operand if kind.lanes == 1 else lane_of(operand, lane % kind.lanes))
    if len(found) == 1:
        return found[0]
    result = Type(kind.dtype, len(lanes))
    parts = [f"-{value.at(UNARY)}" if kind.dtype.is_bool else value.text for value in found]
    text = f"({vector(MASKS[8], len(lanes)) if kind.dtype.is_bool else register(result)})({', '.join(parts)})"
    return Value(text, result, mask=8) if kind.dtype.is_bool else Value(text, result)


def _reduce(out: KernelText, op: Op, value: Value) -> Value:
    """Merge all lanes, one half with the other, so that few operations wait for each other."""
    if value.type.lanes == 1:
        return value
    value = canonical(value)
    while value.type.lanes % 2 == 0 and value.type.lanes > 2:
        value = out.temporary("lanes", value)
        half = Type(value.type.dtype, value.type.lanes // 2)
        value = canonical(_merged(out, op, Value(f"{value.text}.lo", half), Value(f"{value.text}.hi", half)))
    value = out.temporary("lanes", value)
    lanes = [lane_of(value, number) for number in range(value.type.lanes)]
    return reduce(partial(_merged, out, op), lanes)


def _merged(out: KernelText, op: Op, left: Value, right: Value) -> Value:
    function = apply_float if left.type.dtype.is_float else apply_integer
    return function(out, op, (left, right))
