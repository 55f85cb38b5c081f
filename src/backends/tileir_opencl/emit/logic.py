"""Truth values: comparisons, connectives and choices, of scalars and of masks."""

from __future__ import annotations

from typing import Final

from tileir.core import DType, attrs
from tileir_opencl.emit.spelling import (
    BIT_AND,
    BIT_OR,
    BIT_XOR,
    BOTH,
    EITHER,
    EQUAL,
    MEMORY,
    ORDER,
    SHIFT,
    SUM,
    TERNARY,
    UNARY,
    register,
    register_bits,
)
from tileir_opencl.emit.text import Value, call, integer, masked, operands

WIDENED_LANES: Final = 8
"""Most lanes that a choice widens to 32 bits: PoCL 3.0 computes wrongly with vectors of 512 bits."""


def compared(sign: str, left: Value, right: Value) -> Value:
    """Compare numbers; all but ``!=`` are false for a NaN."""
    rank = EQUAL if sign in ("==", "!=") else ORDER
    kind = left.type.with_dtype(DType.BOOL)
    bits = register_bits(left.type.dtype)
    left, right = operands(left, right)
    return Value(f"{left.at(SUM)} {sign} {right.at(SUM)}", kind, rank, mask=bits)


def both(left: Value, right: Value) -> Value:
    """Return whether both hold."""
    for value, other in ((left, right), (right, left)):
        if value.known is not None:
            return other if value.known else value
    return _connective("&&", BOTH, "&", BIT_AND, left, right)


def either(left: Value, right: Value) -> Value:
    """Return whether at least one holds."""
    for value, other in ((left, right), (right, left)):
        if value.known is not None:
            return value if value.known else other
    return _connective("||", EITHER, "|", BIT_OR, left, right)


def differ(left: Value, right: Value) -> Value:
    """Return whether exactly one holds."""
    for value, other in ((left, right), (right, left)):
        if value.known is not None:
            return negated(other) if value.known else other
    return _connective("!=", EQUAL, "^", BIT_XOR, left, right)


def negated(value: Value) -> Value:
    """Return whether the value does not hold."""
    if value.known is not None:
        return integer(1 - value.known, value.type)
    sign = "!" if value.type.lanes == 1 else "~"
    return Value(sign + value.at(UNARY + 1), value.type, UNARY, mask=value.mask)


def _connective(sign: str, rank: int, mask_sign: str, mask_rank: int, left: Value, right: Value) -> Value:
    if left.type.lanes == 1:
        inner = rank if sign != "!=" else SHIFT
        return Value(f"{left.at(inner)} {sign} {right.at(max(inner, rank + 1))}", left.type, rank)
    right = masked(right, left.mask)
    # Each bit operation of masks has its own brackets, for few know how they bind.
    text = f"{left.at(mask_rank if left.rank == mask_rank else SUM)} {mask_sign} {right.at(SUM)}"
    return Value(text, left.type, mask_rank, mask=left.mask)


def choice(condition: Value, then: Value, otherwise: Value) -> Value:
    """Return ``then`` in the lanes where ``condition`` holds, else ``otherwise``."""
    kind = then.type
    if kind.lanes == 1:
        text = f"{condition.at(UNARY)} ? {then.at(TERNARY + 1)} : {otherwise.at(TERNARY)}"
        if kind.dtype.is_integer and kind.dtype.bits < 32:
            return Value(f"({MEMORY[kind.dtype]})({text})", kind, UNARY)
        return Value(text, kind, TERNARY)
    bits = register_bits(kind.dtype)
    if kind.dtype.is_bool:
        bits = condition.mask
        then, otherwise = masked(then, bits), masked(otherwise, bits)
    elif (
        bits == 16 != condition.mask
        and then.known is not None
        and otherwise.known is not None
        and kind.lanes <= WIDENED_LANES
    ):
        # NVIDIA's driver 580 turns this into a shift of the widened mask, as if that were signed: 1 : 0 became -1 : 0.
        wide = kind.with_dtype(DType.I32)
        then, otherwise = integer(then.known, wide), integer(otherwise.known, wide)
        return call(f"convert_{register(kind)}", kind, call("select", wide, otherwise, then, masked(condition, 32)))
    chosen = call("select", kind, otherwise, then, masked(condition, bits))
    return attrs.evolve(chosen, mask=bits)
