"""Expressions of kernels as LLVM instructions."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, assert_never

import attrs

from tileir.core.dtype import DType
from tileir.core.errors import BackendError, Diagnostic
from tileir.core.ops import Op
from tileir.semtree.dots import kind_of, plain_dot
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
from tileir_llvm.conversions import cast, convert, integer, wrapped
from tileir_llvm.dots import apply_dot, fits_instruction
from tileir_llvm.floats import NATIVE, apply_float
from tileir_llvm.integers import apply_integer, select
from tileir_llvm.memory import Place, broadcast, joined, lane_of, load
from tileir_llvm.spelling import REGISTER, constant, register, suffix
from tileir_llvm.text import FunctionText, Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir.semtree.ir import Expr, GridLevel

_EXACT: Final = frozenset({Op.ADD, Op.SUB, Op.MUL, Op.NEG})
"""Operations that pass on the promise that an offset does not overflow."""

_SUMS: Final = frozenset({Op.ADD, Op.SUB, Op.MUL})
_OFFSET: Final = Type(DType.I64)
"""Offsets whose sums cannot overflow, in whatever order they are computed."""


@attrs.frozen
class Cell:
    """A variable that is assigned to: it lives in memory until LLVM's ``mem2reg``."""

    pointer: str
    type: Type


@attrs.define
class Environment:
    """What names mean at one point of a kernel."""

    out: FunctionText
    variables: dict[str, Value | Cell] = attrs.field(factory=dict)
    arrays: dict[str, Place] = attrs.field(factory=dict)
    coordinates: dict[tuple[GridLevel, int], Value] = attrs.field(factory=dict)


def evaluate(env: Environment, expr: Expr, *, index: bool = False) -> Value:
    """Write the instructions that compute ``expr``; ``index`` says that it is part of an offset."""
    match expr:
        case Const(value=value, type=kind):
            return _constant(value, kind)
        case Var():
            return _variable(env, expr)
        case GridIndex(level=level, axis=axis, type=kind):
            return cast(env.out, env.coordinates[level, axis], kind.dtype)
        case Apply():
            return _apply(env, expr, index=index)
        case Cast(operand=operand, type=kind):
            return cast(env.out, evaluate(env, operand), kind.dtype)
        case Bitcast(operand=operand, type=kind):
            return _bitcast(env.out, evaluate(env, operand), kind)
        case Broadcast(operand=operand, lanes=lanes):
            return broadcast(env.out, evaluate(env, operand, index=index), lanes)
        case Ramp(base=base, stride=stride, lanes=lanes):
            return _ramp(env.out, evaluate(env, base, index=index), stride, lanes, index=index)
        case Reduce(op=op, operand=operand):
            return _reduce(env.out, op, evaluate(env, operand))
        case Shuffle(operands=operands, lanes=chosen):
            return _shuffle(env.out, tuple(evaluate(env, operand) for operand in operands), chosen)
        case Dot():
            return _dot(env, expr)
        case Subscript(array=array, offset=offset, type=kind):
            return load(env.out, env.arrays[array], evaluate(env, offset, index=True), kind)
        case _:
            assert_never(expr)


def _dot(env: Environment, dot: Dot) -> Value:
    """Write a dot product whose dtypes the processor has an instruction for; with other lanes, what it means."""
    if not fits_instruction(dot):
        return evaluate(env, plain_dot(dot))
    left, right, total = (evaluate(env, part) for part in (dot.left, dot.right, dot.total))
    return apply_dot(env.out, kind_of(dot), left, right, total)


def _constant(value: bool | int | float, kind: Type) -> Value:
    if kind.dtype.is_float:
        return Value(constant(value, kind), kind)
    return integer(int(value), kind)


def _variable(env: Environment, variable: Var) -> Value:
    meaning = env.variables[variable.name]
    if isinstance(meaning, Value):
        return meaning
    return Value(env.out.result(f"load {register(meaning.type)}, ptr {meaning.pointer}"), meaning.type)


def _apply(env: Environment, expr: Apply, *, index: bool) -> Value:
    op = expr.op
    if index and op in _SUMS and expr.type == _OFFSET:
        return _total(env, *_sum(env, expr))
    index = index and op in _EXACT
    if op is Op.COND:
        return _choice(env, expr.args, index=index)
    args = tuple([evaluate(env, arg, index=index) for arg in expr.args])
    if not args[0].type.dtype.is_float:
        return apply_integer(env.out, op, args, index=index)
    if op not in NATIVE:
        message = f"the LLVM back end has no {op.value}; expand it before"
        raise BackendError((Diagnostic("TIL804", message),))
    return apply_float(env.out, op, args)


def _choice(env: Environment, args: tuple[Expr, ...], *, index: bool) -> Value:
    """Write a choice between values.

    Where a scalar decides for a few lanes, LLVM makes a branch of it, which costs less than a mask of them.
    """
    condition, *values = args
    if isinstance(condition, Broadcast) and condition.lanes <= _FEW_LANES:
        condition = condition.operand
    decision = evaluate(env, condition, index=index)
    return select(env.out, decision, *(evaluate(env, value, index=index) for value in values))


_FEW_LANES: Final = 4


def _sum(env: Environment, expr: Expr) -> tuple[Value | None, int]:
    """Return what an offset adds up to: the part that is computed, None for none, and the part that is known.

    Known parts go last, so that accesses a constant distance apart, as unrolled loops have them, share the rest.
    """
    if isinstance(expr, Const):
        return None, int(expr.value)
    if not isinstance(expr, Apply) or expr.op not in _SUMS:
        computed = evaluate(env, expr, index=True)
        return (computed, 0) if computed.known is None else (None, computed.known)
    op = expr.op
    (left, before), (right, after) = _sum(env, expr.args[0]), _sum(env, expr.args[1])
    if op is Op.MUL:
        if left is None and right is None:
            return None, before * after
        return _merged(env, op, _total(env, left, before), _total(env, right, after)), 0
    distance = before + after if op is Op.ADD else before - after
    if right is None:
        return left, distance
    if left is None and op is Op.ADD:
        return right, distance
    return _merged(env, op, left, right), distance


def _total(env: Environment, value: Value | None, distance: int) -> Value:
    if value is not None and not distance:
        return value
    known = integer(distance, _OFFSET)
    return known if value is None else _merged(env, Op.ADD, value, known)


def _merged(env: Environment, op: Op, left: Value | None, right: Value) -> Value:
    return apply_integer(env.out, op, (left or integer(0, _OFFSET), right), index=True)


def _bitcast(out: FunctionText, value: Value, kind: Type) -> Value:
    if register(value.type) == register(kind):
        return Value(value.text, kind)
    return convert(out, "bitcast", value, kind)


def _ramp(out: FunctionText, base: Value, stride: int, lanes: int, *, index: bool) -> Value:
    kind = Type(base.type.dtype, lanes)
    if lanes == 1:
        return base
    element = REGISTER[kind.dtype]
    first = 0 if base.known is None else base.known
    steps = ", ".join(f"{element} {wrapped(first + stride * lane, kind.dtype)}" for lane in range(lanes))
    text = f"<{steps}>"
    if base.known is None:
        text = out.pure(f"add {register(kind)} {broadcast(out, base, lanes).text}, {text}")
    return Value(text, kind, ramp=(base, stride) if index else None)


def _shuffle(out: FunctionText, operands: tuple[Value, ...], lanes: tuple[int, ...]) -> Value:
    kind = operands[0].type
    used = list(dict.fromkeys(lane // kind.lanes for lane in lanes))
    if len(lanes) == 1:
        value = operands[used[0]]
        return value if kind.lanes == 1 else lane_of(out, value, lanes[0] % kind.lanes)
    if kind.lanes == 1:
        return joined(out, [operands[lane] for lane in lanes])
    text, vector = "poison", register(kind)
    result = Type(kind.dtype, len(lanes))
    # Two operands at a time: what earlier steps have placed stays where it is.
    for step in range(0, len(used), 2):
        pair = [operands[number].text for number in used[step : step + 2]]
        places = {
            number * kind.lanes + lane: place * kind.lanes + lane
            for place, number in enumerate(used[step : step + 2])
            for lane in range(kind.lanes)
        }
        mask = ", ".join(f"i32 {places[lane]}" if lane in places else "i32 poison" for lane in lanes)
        second = pair[1] if len(pair) == 2 else "poison"
        made = out.pure(f"shufflevector {vector} {pair[0]}, {vector} {second}, <{len(lanes)} x i32> <{mask}>")
        if step:
            blend = ", ".join(f"i32 {j + len(lanes) * (lane in places)}" for j, lane in enumerate(lanes))
            wide = register(result)
            made = out.pure(f"shufflevector {wide} {text}, {wide} {made}, <{len(lanes)} x i32> <{blend}>")
        text = made
    return Value(text, result)


def _reduce(out: FunctionText, op: Op, value: Value) -> Value:
    kind, result = value.type, Type(value.type.dtype)
    if kind.lanes == 1:
        return value
    vector = (register(kind), value.text)
    if not kind.dtype.is_float:
        name = f"llvm.vector.reduce.{_integer_reduction(op, kind.dtype)}.{suffix(kind)}"
        return Value(out.call(register(result), name, vector), result)
    name = f"llvm.vector.reduce.{_FLOAT_REDUCTIONS[op]}.{suffix(kind)}"
    if op in _NEUTRAL:
        first = (register(result), constant(_NEUTRAL[op], result))
        return Value(out.call(register(result), name, first, vector, flags="reassoc "), result)
    return Value(out.call(register(result), name, vector), result)


def _integer_reduction(op: Op, dtype: DType) -> str:
    name: str = op.value
    if op in (Op.ADD, Op.MUL):
        return name
    if dtype.is_bool:
        return "or" if op is Op.MAX else "and"
    return ("s" if dtype.is_signed else "u") + name


_FLOAT_REDUCTIONS: Final[Mapping[Op, str]] = MappingProxyType(
    {Op.ADD: "fadd", Op.MUL: "fmul", Op.MAX: "fmaximum", Op.MIN: "fminimum"}
)
_NEUTRAL: Final[Mapping[Op, float]] = MappingProxyType({Op.ADD: -0.0, Op.MUL: 1.0})
