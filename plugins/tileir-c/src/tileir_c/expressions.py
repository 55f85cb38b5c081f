"""Expressions of kernels as expressions of C.

An expression with several lanes is written as what one lane of it computes: it stands in a loop over ``lane``.
Every text that is returned binds at least as tight as a cast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

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
    GridLevel,
    Ramp,
    Reduce,
    Shuffle,
    Subscript,
    Var,
)
from tileir.semtree.rewrite import children
from tileir_c.conversions import bits, cast
from tileir_c.floats import apply_float
from tileir_c.integers import apply_integer
from tileir_c.offsets import LANE, Sum, sum_of
from tileir_c.spelling import VALUE, constant

if TYPE_CHECKING:
    from tileir.core.names import NameScope
    from tileir.semtree.ir import Expr
    from tileir_c.prelude import Prelude


@attrs.define
class Environment:
    """What names mean at one place of a kernel.

    Attributes:
        prelude: Where functions are defined.
        scope: Identifiers that are taken.
        names: The identifier of each variable and array.
        coordinates: The identifier of the group's coordinate along each axis.
        in_lane: Variables with lanes that are scalars here, for the loop over lanes is around all that uses them.
        computed: Where the values of expressions are that are computed before the statement.

    """

    prelude: Prelude
    scope: NameScope
    names: dict[str, str]
    coordinates: tuple[str, ...]
    in_lane: set[str] = attrs.field(factory=set)
    computed: dict[Expr, str] = attrs.field(factory=dict)


def value(env: Environment, expr: Expr) -> str:
    """Return C for the value of an expression, of one lane of it where it has several."""
    if expr in env.computed:
        return env.computed[expr]
    match expr:
        case Const(value=number, type=kind):
            return constant(number, kind.dtype)
        case Var(name=name, type=kind):
            return env.names[name] + ("" if kind.lanes == 1 or name in env.in_lane else f"[{LANE}]")
        case GridIndex(level=level, axis=axis):
            return env.coordinates[axis] if level is GridLevel.GROUP else "0"
        case Apply():
            return _apply(env, expr)
        case Cast(operand=operand, type=kind):
            return cast(env.prelude, value(env, operand), operand.type.dtype, kind.dtype)
        case Bitcast(operand=operand, type=kind):
            return bits(env.prelude, value(env, operand), operand.type.dtype, kind.dtype)
        case Broadcast(operand=operand):
            return value(env, operand)
        case Ramp():
            return _ramp(env, expr)
        case Reduce(operand=operand):
            return value(env, operand)  # of one lane: all others have been computed
        case Shuffle(operands=operands, lanes=lanes):
            return value(env, operands[lanes[0] // operands[0].type.lanes])  # computed before the statement
        case Dot():
            return value(env, plain_dot(expr))
        case Subscript(type=kind):
            text = element(env, expr)
            return f"({text} != 0)" if kind.dtype.is_bool else text
        case _:
            assert_never(expr)


def element(env: Environment, place: Subscript) -> str:
    """Return C for one element of an array, to be read or written."""
    return f"{env.names[place.array]}[{offset(env, offset_of(place))}]"


def offset_of(place: Subscript) -> Sum:
    """Return the offset of the element that a lane addresses."""
    total = sum_of(place.offset)
    if place.type.lanes == 1 or place.offset.type.lanes > 1:
        return total
    return Sum(total.constant, {**total.terms, LANE: 1})


def offset(env: Environment, total: Sum) -> str:
    """Return C for an offset: 64 bits wide, without parentheses around it."""
    parts: list[tuple[int, str]] = []
    for term, factor in total.terms.items():
        if isinstance(term, str):
            continue
        text = value(env, term)
        if term.type.dtype is DType.I32 and not (isinstance(term, Var | GridIndex) and factor == 1):
            text = f"(int64_t){text}"
        parts.append((factor, text))
    if total.constant or not total.terms:
        parts.append((total.constant, ""))
    if total.step:
        parts.append((total.step, LANE))
    return _sum(parts)


def _sum(parts: list[tuple[int, str]]) -> str:
    """Return C for numbers times expressions; the expression 1 is written as an empty one."""
    words: list[str] = []
    for factor, text in parts:
        size = str(abs(factor)) if not text else text if abs(factor) == 1 else f"{text} * {abs(factor)}"
        if words:
            words.append(f" {'-' if factor < 0 else '+'} {size}")
        else:
            words.append(f"-{size}" if factor < 0 else size)
    return "".join(words)


def _apply(env: Environment, expr: Apply) -> str:
    args = tuple(value(env, arg) for arg in expr.args)
    known = tuple(int(arg.value) if isinstance(arg, Const) and _is_whole(arg) else None for arg in expr.args)
    return combine(env.prelude, expr.op, expr.args[-1].type.dtype, args, known)


def _is_whole(const: Const) -> bool:
    return not const.type.dtype.is_float


def combine(
    prelude: Prelude, op: Op, dtype: DType, args: tuple[str, ...], known: tuple[int | None, ...] = (None, None)
) -> str:
    """Return C for an operation on operands of ``dtype``; ``known`` are the values of integer constants among them."""
    if op is Op.COND:
        return f"({args[0]} ? {args[1]} : {args[2]})"
    if dtype.is_float:
        return apply_float(prelude, op, dtype, args)
    return apply_integer(prelude, op, dtype, args, known)


def _ramp(env: Environment, ramp: Ramp) -> str:
    dtype = ramp.type.dtype
    base = value(env, ramp.base)
    if ramp.lanes == 1:
        return base
    lane = f"({VALUE[dtype]}){LANE}"
    scaled = combine(env.prelude, Op.MUL, dtype, (lane, constant(ramp.stride, dtype))) if ramp.stride != 1 else lane
    return combine(env.prelude, Op.ADD, dtype, (base, scaled))


def shared(root: Expr) -> list[Expr]:
    """Return what an expression computes more than once, operands first; offsets and what is short do not count."""
    uses: dict[Expr, int] = {}
    order: list[Expr] = []
    stack: list[tuple[Expr, bool]] = [(root, False)]
    while stack:
        node, finished = stack.pop()
        if finished:
            order.append(node)
            continue
        if node in uses:
            continue
        uses[node] = 0
        stack.append((node, True))
        stack.extend((child, False) for child in _computed_operands(node))
    for node in order:
        for child in _computed_operands(node):
            uses[child] += 1
    return [node for node in order if uses[node] > 1 and any(map(_computed_operands, _computed_operands(node)))]


def _computed_operands(expr: Expr) -> tuple[Expr, ...]:
    """Return the operands that are computed where the expression is: neither an offset nor lanes that are merged."""
    return () if isinstance(expr, Subscript | Reduce | Shuffle) else children(expr)


def bare(text: str) -> str:
    """Return an expression without parentheses around the whole of it."""
    if not text.startswith("("):
        return text
    depth = 0
    for position, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth == 0:
            return text[1:-1] if position == len(text) - 1 else text
    return text
