"""Expressions of kernels as OpenCL C, once :mod:`tileir.semtree.legalise` has left in them what the language has."""

from __future__ import annotations

from typing import Final, assert_never

import attrs

from tileir.core.ops import Op
from tileir.semtree.analysis.ranges import Ranges
from tileir.semtree.ir import (
    Apply,
    Bitcast,
    Broadcast,
    Cast,
    Const,
    Dot,
    Expr,
    GridIndex,
    GridLevel,
    Ramp,
    Reduce,
    Shuffle,
    Subscript,
    Type,
    Var,
)
from tileir.semtree.legalise.offsets import ramp_of
from tileir_opencl.emit.memory import Place, gather, load
from tileir_opencl.emit.operators import applied, converted, reinterpreted
from tileir_opencl.emit.peephole import Call, builtin_for, guard
from tileir_opencl.emit.spelling import MASKS, MEMORY, UNARY, lane_constant, register, vector
from tileir_opencl.emit.text import KernelText, Value, call, canonical, integer, lane_of, real

_HALVES: Final = {0: ".lo", 1: ".hi"}


@attrs.define(eq=False, repr=False)
class Environment:
    """What names mean at one point of a kernel."""

    out: KernelText
    ranges: Ranges
    variables: dict[str, Value] = attrs.field(factory=dict)
    arrays: dict[str, Place] = attrs.field(factory=dict)
    coordinates: dict[tuple[GridLevel, int], Value] = attrs.field(factory=dict)


def evaluate(env: Environment, expr: Expr) -> Value:
    """Return the text of ``expr``, after the statements that it needs."""
    if not expr.type.dtype.is_float:
        known = env.ranges.at(expr).known
        if known is not None:
            return integer(known, expr.type)
    match expr:
        case Const(value=value, type=kind):
            return real(float(value), kind)
        case Var(name=name):
            return env.variables[name]
        case GridIndex(level=level, axis=axis):
            return env.coordinates[level, axis]
        case Apply():
            return _apply(env, expr)
        case Cast(operand=operand, type=kind):
            return converted(env.out, evaluate(env, operand), kind)
        case Bitcast(operand=operand, type=kind):
            return reinterpreted(evaluate(env, operand), kind)
        case Broadcast(operand=operand, lanes=lanes):
            return _broadcast(evaluate(env, operand), lanes)
        case Ramp(base=base, stride=stride):
            return _ramp(env.out, evaluate(env, base), stride, expr.type)
        case Shuffle(operands=operands, lanes=chosen):
            return _shuffle(env.out, tuple(evaluate(env, operand) for operand in operands), chosen)
        case Subscript():
            return _load(env, expr)
        case Reduce() | Dot():
            raise TypeError(f"{type(expr).__name__} is expressed by other operations here")
        case _:
            assert_never(expr)


def call_builtin(env: Environment, found: Call) -> Value:
    """Return the call of a function that the peephole rows have found."""
    args = [evaluate(env, arg) for arg in found.args]
    return call(found.builtin.value, args[-1].type, *args)


def _apply(env: Environment, expr: Apply) -> Value:
    found = builtin_for(expr, fast_math=env.out.fast_math)
    if found is not None:
        return call_builtin(env, found)
    expr = guard(expr, env.ranges) or expr
    return applied(env.out, expr.op, tuple([evaluate(env, arg) for arg in expr.args]))


def _broadcast(value: Value, lanes: int) -> Value:
    """Return a scalar in every lane."""
    if lanes == 1:
        return value
    kind = Type(value.type.dtype, lanes)
    if kind.dtype.is_bool:
        return Value(f"({register(kind)})({value.at(UNARY)} ? -1 : 0)", kind)
    return Value(f"({register(kind)})({value.text})", kind, splat=value)


def _ramp(out: KernelText, base: Value, stride: int, kind: Type) -> Value:
    if kind.lanes == 1:
        return base
    steps = [Const.of(stride * number, Type(kind.dtype)).value for number in range(kind.lanes)]
    texts = ", ".join(lane_constant(int(step), kind.dtype) for step in steps)
    vectors = Value(f"({vector(MEMORY[kind.dtype], kind.lanes)})({texts})", kind)
    return vectors if base.known == 0 else applied(out, Op.ADD, (_broadcast(base, kind.lanes), vectors))


def _shuffle(out: KernelText, operands: tuple[Value, ...], lanes: tuple[int, ...]) -> Value:
    kind = operands[0].type
    used = dict.fromkeys(lane // kind.lanes for lane in lanes)
    named = {number: out.temporary("lanes", canonical(operands[number])) for number in used}
    result = Type(kind.dtype, len(lanes))
    if len(used) == 1 and len(lanes) > 1 and kind.lanes > 1:
        (only,) = named.values()
        inside = [lane % kind.lanes for lane in lanes]
        half, rest = divmod(inside[0], len(lanes))
        whole = not rest and 2 * len(lanes) == kind.lanes and inside == list(range(inside[0], inside[0] + len(lanes)))
        return Value(only.text + (_HALVES[half] if whole else f".s{''.join(f'{lane:x}' for lane in inside)}"), result)
    found = [
        named[lane // kind.lanes] if kind.lanes == 1 else lane_of(named[lane // kind.lanes], lane % kind.lanes)
        for lane in lanes
    ]
    if len(found) == 1:
        return found[0]
    parts = [f"-{value.at(UNARY)}" if kind.dtype.is_bool else value.text for value in found]
    element = vector(MASKS[8], len(lanes)) if kind.dtype.is_bool else register(result)
    return Value(f"({element})({', '.join(parts)})", result)


def _load(env: Environment, place: Subscript) -> Value:
    array, ramp = env.arrays[place.array], ramp_of(place.offset)
    if ramp is None or (ramp[1] != 1 and place.type.lanes > 1):
        return gather(array, lane_offsets(env, place.offset), place.type)
    return load(array, evaluate(env, ramp[0]), env.ranges.at(ramp[0]).divisor, place.type)


def lane_offsets(env: Environment, offset: Expr) -> list[Value]:
    """Return the offset of each lane, or the one that all lanes have."""
    ramp = ramp_of(offset)
    if ramp is None:
        whole = env.out.temporary("place", evaluate(env, offset))
        return [lane_of(whole, number) for number in range(offset.type.lanes)]
    (base, step), count = ramp, offset.type.lanes if ramp[1] else 1
    return [evaluate(env, Apply(Op.ADD, (base, Const(step * number, base.type)))) for number in range(count)]
