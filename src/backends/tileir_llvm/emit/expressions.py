"""Expressions of kernels as LLVM instructions."""

from __future__ import annotations

from functools import lru_cache
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias, assert_never

from tileir.core import BackendError, DType, Op, attrs
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
from tileir_llvm.emit.conversions import cast, convert, integer
from tileir_llvm.emit.dots import apply_dot
from tileir_llvm.emit.floats import NATIVE, apply_float
from tileir_llvm.emit.integers import apply_integer, select
from tileir_llvm.emit.memory import Offset, Place, broadcast, joined, lane_of, load, ramp
from tileir_llvm.emit.spelling import constant, register, suffix
from tileir_llvm.emit.tables import error_function
from tileir_llvm.emit.text import FunctionText, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tileir.semtree.analysis.ranges import Ranges

    Part: TypeAlias = Callable[["Environment", Expr, int], tuple[Value | None, int]]
    Term: TypeAlias = tuple[Op, Part, Expr, int]

_SUMS: Final = frozenset({Op.ADD, Op.SUB, Op.MUL})
"""Operations that propagate the guarantee that an offset does not overflow."""

_MERGES: Final = frozenset({Op.ADD, Op.SUB})
_OFFSET: Final = Type(DType.I64)
"""Type of offsets, whose sums cannot overflow, in any order."""


@attrs.frozen
class Cell:
    """Reassigned variable, which lives in memory until LLVM's ``mem2reg``."""

    pointer: str
    type: Type


@attrs.define(eq=False, repr=False)
class Environment:
    """Meanings of names at one point of a kernel; and caches of constants and of offsets as sums, by identity.

    With ``ranges``, accesses get the alignment of their offsets' divisors: cards only move aligned vectors.
    """

    out: FunctionText
    variables: dict[str, Value | Cell] = attrs.field(factory=dict)
    arrays: dict[str, Place] = attrs.field(factory=dict)
    coordinates: dict[tuple[GridLevel, int], Value] = attrs.field(factory=dict)
    constants: dict[int, tuple[Const, Value]] = attrs.field(factory=dict)
    sums: dict[int, tuple[Expr, tuple[Term, ...]]] = attrs.field(factory=dict)
    ranges: Ranges | None = None


def evaluate(env: Environment, expr: Expr, *, index: bool = False) -> Value:
    """Write the instructions that compute ``expr``; ``index`` says that it is part of an offset."""
    match expr:
        case Var():
            return _variable(env, expr)
        case Apply():
            return _apply(env, expr, index=index)
        case Const():
            return _constant(env, expr)
        case Subscript(array=array, offset=offset, type=kind):
            return load(env.out, env.arrays[array], offset_of(env, offset), kind)
        case Shuffle(operands=operands, lanes=chosen):
            return _shuffle(env.out, tuple([evaluate(env, operand) for operand in operands]), chosen)
        case GridIndex(level=level, axis=axis, type=kind):
            return cast(env.out, env.coordinates[level, axis], kind.dtype)
        case Cast(operand=operand, type=kind):
            return cast(env.out, evaluate(env, operand), kind.dtype)
        case Bitcast(operand=operand, type=kind):
            return _bitcast(env.out, evaluate(env, operand), kind)
        case Broadcast(operand=operand, lanes=lanes):
            return broadcast(env.out, evaluate(env, operand, index=index), lanes)
        case Ramp(base=base, stride=stride, lanes=lanes):
            return ramp(env.out, evaluate(env, base, index=index), stride, lanes)
        case Reduce(op=op, operand=operand):
            return _reduce(env.out, op, evaluate(env, operand))
        case Dot():
            return _dot(env, expr)
        case _:
            assert_never(expr)


def _dot(env: Environment, dot: Dot) -> Value:
    """Write a dot product by the processor's instruction; others were expanded before."""
    left, right, total = (evaluate(env, part) for part in (dot.left, dot.right, dot.total))
    return apply_dot(env.out, left, right, total)


def _constant(env: Environment, expr: Const) -> Value:
    known = env.constants.get(id(expr))
    if known is None:
        value, kind = expr.value, expr.type
        spelt = Value(constant(value, kind), kind) if kind.dtype.is_float else integer(int(value), kind)
        known = env.constants[id(expr)] = expr, spelt
    return known[1]


def _variable(env: Environment, variable: Var) -> Value:
    meaning = env.variables[variable.name]
    if isinstance(meaning, Value):
        return meaning
    return Value(env.out.result(f"load {register(meaning.type)}, ptr {meaning.pointer}"), meaning.type)


def _apply(env: Environment, expr: Apply, *, index: bool) -> Value:
    op = expr.op
    if index and op in _SUMS and expr.type == _OFFSET:
        return _total(env, *_sum(env, expr))
    index = index and op in _SUMS
    if op is Op.COND:
        return _choice(env, expr.args, index=index)
    args = tuple([evaluate(env, arg, index=index) for arg in expr.args])
    if not args[0].type.dtype.is_float:
        return apply_integer(env.out, op, args, index=index)
    if op is Op.ERF and args[0].type.dtype is DType.F32:
        return error_function(env.out, args[0])
    if op not in NATIVE and not (op is Op.EXP and env.out.module.exponential):
        raise BackendError.of("TIL804", f"the LLVM back end has no {op.value}; expand it before")
    return apply_float(env.out, op, args)


def _choice(env: Environment, args: tuple[Expr, ...], *, index: bool) -> Value:
    """Write a selection between values.

    For scalar conditions and few lanes, LLVM makes a branch, which costs less than a mask of lanes.
    """
    condition, *values = args
    if isinstance(condition, Broadcast) and condition.lanes <= _FEW_LANES:
        condition = condition.operand
    decision = evaluate(env, condition, index=index)
    return select(env.out, decision, *(evaluate(env, value, index=index) for value in values))


_FEW_LANES: Final = 4


def offset_of(env: Environment, expr: Expr) -> Offset | Value:
    """Return the offset of an access, in parts if they are known; irregular lanes unchanged."""
    found = ramp_of(expr)
    if found is None:
        return evaluate(env, expr, index=True)
    (base, step), lanes = found, expr.type.lanes
    if base.type == _OFFSET:
        outside, inside, distance = _parts(env, base)
        if env.out.module.scheduled:
            return Offset(outside, inside, distance, step, lanes, divisor=_divisor(env, base))
        total = _total(env, _joined(env, outside, inside), distance)
    else:
        total = cast(env.out, evaluate(env, base, index=True), DType.I64)
    if total.known is not None:
        return Offset(None, None, total.known, step, lanes)
    return Offset(None, total, 0, step, lanes, divisor=_divisor(env, base))


def _divisor(env: Environment, offset: Expr) -> int:
    return 1 if env.ranges is None else env.ranges.at(offset).divisor


def _sum(env: Environment, expr: Expr) -> tuple[Value | None, int]:
    """Return the sum of an offset: the computed part, None for none, and the constant part."""
    outside, inside, distance = _parts(env, expr)
    return _joined(env, outside, inside), distance


def _joined(env: Environment, outside: Value | None, inside: Value | None) -> Value | None:
    return outside if inside is None else inside if outside is None else _merged(env, Op.ADD, outside, inside)


def _parts(env: Environment, expr: Expr) -> tuple[Value | None, Value | None, int]:
    """Return the sum of an offset: the invariant part of the innermost loop, the varying part, and the constant part.

    Parts that fewer loops change go first, so that as much as possible is hoisted out of the innermost loop. Constant
    parts go last, so that accesses a constant distance apart, as in unrolled loops, share the rest.
    """
    known = env.sums.get(id(expr))
    if known is None:
        known = env.sums[id(expr)] = expr, _terms(expr)
    key: list[int | str] = [id(expr)]
    distance = 0
    for op, part, term, factor in known[1]:
        if isinstance(term, Var):
            value = env.variables[term.name]
            if isinstance(value, Cell):
                return _added(env, known[1])
            if value.known is None:
                key.append(value.text)
                continue
            key.append(0)
            factor *= value.known
        elif part is not _known:
            return _added(env, known[1])
        distance += factor if op is Op.ADD else -factor
    name = tuple(key)
    sums = env.out.recalled(name)
    if sums is None:
        sums = _added(env, known[1])[:2]
        env.out.remember(name, sums)
    outside, inside = sums
    return outside, inside, distance


def _added(env: Environment, terms: tuple[Term, ...]) -> tuple[Value | None, Value | None, int]:
    """Return the same for a sum that is computed for the first time, or that is not of multiples of variables."""
    computed: list[tuple[int, Op, Value]] = []
    distance = 0
    for op, part, term, factor in terms:
        value, constant_part = part(env, term, factor)
        distance += constant_part if op is Op.ADD else -constant_part
        if value is not None:
            computed.append((env.out.depth_of(value.text), op, value))
    computed.sort(key=itemgetter(0))
    sums: list[Value | None] = [None, None]
    for depth, op, value in computed:
        place = depth == computed[-1][0]
        before = sums[place]
        sums[place] = value if before is None and op is Op.ADD else _merged(env, op, before, value)
    outside, inside = sums
    return outside, inside, distance


def _terms(expr: Expr) -> tuple[Term, ...]:
    """Return the terms of a sum in order, with the operations that combine them, and their computations."""
    later: list[Term] = []
    while isinstance(expr, Apply) and expr.op in _MERGES:
        op, (expr, right) = expr.op, expr.args
        later.append((op, *_part(right)))
    return ((Op.ADD, *_part(expr)), *reversed(later))


def _part(expr: Expr) -> tuple[Part, Expr, int]:
    """Return the computation of a part of a sum, the expression that it evaluates, and a constant factor."""
    match expr:
        case Const(value=value):
            return _known, expr, int(value)
        case Var():
            return _multiple, expr, 1
        case Apply(op=Op.MUL, args=(Var() as variable, Const(value=value))) if value not in (0, 1):
            return _multiple, variable, int(value)
        case Apply(op=Op.MUL):
            return _product, expr, 1
        case Apply(op=op) if op in _MERGES:
            return _nested, expr, 1
        case _:
            return _computed, expr, 1


def _known(_env: Environment, _expr: Expr, value: int) -> tuple[Value | None, int]:
    return None, value


def _multiple(env: Environment, variable: Expr, factor: int) -> tuple[Value | None, int]:
    assert isinstance(variable, Var)
    value = _variable(env, variable)
    if value.known is not None:
        return None, value.known * factor
    return value if factor == 1 else Value(env.out.pure(f"mul nsw i64 {value.text}, {factor}"), _OFFSET), 0


def _product(env: Environment, expr: Expr, _factor: int) -> tuple[Value | None, int]:
    assert isinstance(expr, Apply)
    (left, before), (right, after) = (_sum(env, factor) for factor in expr.args)
    if left is None and right is None:
        return None, before * after
    return _merged(env, Op.MUL, _total(env, left, before), _total(env, right, after)), 0


def _nested(env: Environment, expr: Expr, _factor: int) -> tuple[Value | None, int]:
    return _sum(env, expr)


def _computed(env: Environment, expr: Expr, _factor: int) -> tuple[Value | None, int]:
    value = evaluate(env, expr, index=True)
    return (value, 0) if value.known is None else (None, value.known)


def _total(env: Environment, value: Value | None, distance: int) -> Value:
    if value is not None and not distance:
        return value
    known = integer(distance, _OFFSET)
    return known if value is None else _merged(env, Op.ADD, value, known)


def _merged(env: Environment, op: Op, left: Value | None, right: Value) -> Value:
    if left is None or left.known is not None or right.known is not None:
        return apply_integer(env.out, op, (left or integer(0, _OFFSET), right), index=True)
    return Value(env.out.pure(f"{op.value} nsw i64 {left.text}, {right.text}"), _OFFSET)


def _bitcast(out: FunctionText, value: Value, kind: Type) -> Value:
    if register(value.type) == register(kind):
        return Value(value.text, kind)
    return convert(out, "bitcast", value, kind)


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
    count = len(lanes)
    # Two operands at a time: lanes placed by earlier steps stay.
    for step, (mask, blend) in enumerate(_masks(lanes, kind.lanes)):
        pair = [operands[number].text for number in used[2 * step : 2 * step + 2]]
        second = pair[1] if len(pair) == 2 else "poison"
        made = out.pure(f"shufflevector {vector} {pair[0]}, {vector} {second}, <{count} x i32> <{mask}>")
        if step:
            wide = register(result)
            made = out.pure(f"shufflevector {wide} {text}, {wide} {made}, <{count} x i32> <{blend}>")
        text = made
    return Value(text, result)


@lru_cache(maxsize=1 << 8)
def _masks(lanes: tuple[int, ...], width: int) -> tuple[tuple[str, str], ...]:
    """Return lane selections for each pair of used operands of this many lanes.

    The first text selects lanes of both operands, the second merges them with lanes of earlier steps.
    """
    used = list(dict.fromkeys(lane // width for lane in lanes))
    masks = []
    for step in range(0, len(used), 2):
        places = {
            number * width + lane: place * width + lane
            for place, number in enumerate(used[step : step + 2])
            for lane in range(width)
        }
        mask = ", ".join(f"i32 {places[lane]}" if lane in places else "i32 poison" for lane in lanes)
        blend = ", ".join(f"i32 {j + len(lanes) * (lane in places)}" for j, lane in enumerate(lanes))
        masks.append((mask, blend))
    return tuple(masks)


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
