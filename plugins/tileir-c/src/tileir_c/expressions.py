"""Expressions of kernels as expressions of C, once :mod:`tileir.semtree.legalise` has left in them what C has.

Every text that is returned binds at least as tight as a cast.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, assert_never

import attrs

from tileir.core.dtype import DType
from tileir.core.ops import Op
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
from tileir.semtree.legalise.c_operators import FUNCTIONS, INFIX
from tileir_c.spelling import VALUE, constant

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir.semtree.ir import Expr

BITS: Final = """\
// Reading another member of a union than the one written is defined in C, and no copy in any compiler.
#define TILE_BITS(name, of, to) \\
  static inline to name(of x) { const union { of from; to to_; } bits = {x}; return bits.to_; }
TILE_BITS(tile_u32_of_f32, float, uint32_t)
TILE_BITS(tile_f32_of_u32, uint32_t, float)
TILE_BITS(tile_u64_of_f64, double, uint64_t)
TILE_BITS(tile_f64_of_u64, uint64_t, double)

"""
"""The functions that expressions call, beside those of C."""

_SUMS: Final = (Op.ADD, Op.SUB, Op.MUL)
_BARE: Final[Mapping[tuple[Op, int], tuple[Op, ...]]] = MappingProxyType(
    {(Op.ADD, 0): _SUMS, (Op.ADD, 1): (Op.MUL,), (Op.SUB, 0): _SUMS, (Op.SUB, 1): (Op.MUL,), (Op.MUL, 0): (Op.MUL,)}
)
"""Operations that need no parentheses as an operand of another, by that one and the operand's number."""


@attrs.frozen
class Names:
    """The identifier of each variable and array, and of the group's coordinate along each axis."""

    names: Mapping[str, str]
    coordinates: tuple[str, ...]


def value(names: Names, expr: Expr) -> str:
    """Return C for the value of an expression with one lane."""
    match expr:
        case Const(value=number, type=kind):
            return constant(number, kind.dtype)
        case Var(name=name):
            return names.names[name]
        case GridIndex(level=level, axis=axis):
            return names.coordinates[axis] if level is GridLevel.GROUP else "0"
        case Apply():
            return _apply(names, expr)
        case Cast(operand=operand, type=kind):
            return f"({VALUE[kind.dtype]}){value(names, operand)}"
        case Bitcast(operand=operand, type=kind):
            return _bits(value(names, operand), operand.type.dtype, kind.dtype)
        case Subscript(type=kind):
            text = element(names, expr)
            return f"({text} != 0)" if kind.dtype.is_bool else text
        case Broadcast() | Ramp() | Reduce() | Shuffle() | Dot():
            raise TypeError(f"{type(expr).__name__} has lanes, which are loops here")
        case _:
            assert_never(expr)


def element(names: Names, place: Subscript) -> str:
    """Return C for one element of an array, to be read or written."""
    offset = place.offset
    text = str(offset.value) if isinstance(offset, Const) else bare(value(names, offset))
    return f"{names.names[place.array]}[{text}]"


def _apply(names: Names, expr: Apply) -> str:
    op, dtype = expr.op, expr.args[-1].type.dtype
    args = [_operand(names, expr, number) for number in range(len(expr.args))]
    if op is Op.COND:
        return f"({args[0]} ? {args[1]} : {args[2]})"
    if op in (Op.NEG, Op.BIT_NOT):
        sign = "-" if op is Op.NEG else "!" if dtype.is_bool else "~"
        return f"({sign}({args[0]}))" if args[0].startswith("-") else f"({sign}{args[0]})"
    if op in FUNCTIONS and dtype.is_float:
        return f"{FUNCTIONS[op]}{'f' if dtype is DType.F32 else ''}({', '.join(map(bare, args))})"
    return f"({args[0]} {INFIX[op]} {args[1]})"


def _operand(names: Names, expr: Apply, number: int) -> str:
    """Return an operand, without the parentheses and suffixes that it does not need there."""
    operand = expr.args[number]
    match operand:
        case Apply(op=op) if op in _BARE.get((expr.op, number), ()):
            return bare(value(names, operand))
        case Const(value=known, type=kind) if kind.dtype is DType.I64 and abs(known) <= DType.I32.maximum:
            beside = [arg for arg in expr.args if not isinstance(arg, Const)]
            plain = expr.op not in (Op.COND, Op.BIT_LEFT, Op.BIT_RIGHT) and beside
            return str(known) if plain else value(names, operand)
        case _:
            return value(names, operand)


def _bits(text: str, source: DType, target: DType) -> str:
    """Return an expression that reads the bits of one of another type of the same width."""
    if VALUE[source] == VALUE[target]:
        return text
    if source in (DType.F32, DType.F64):
        read = f"tile_u{source.bits}_of_{source.value}({bare(text)})"
        return read if not target.is_signed else f"({VALUE[target]}){read}"
    if target in (DType.F32, DType.F64):
        return f"tile_{target.value}_of_u{source.bits}({bare(text)})"
    return f"({VALUE[target]}){text}"


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
