"""Laws about constants, conversions and lanes. Each is exact for every value, including NaN."""

from __future__ import annotations

import math

from tileir.core.numbers.arithmetic import Array, apply, constant, rounded
from tileir.core.ops import Op
from tileir.semtree.ir import Apply, Bitcast, Broadcast, Cast, Const, Expr, Ramp, Reduce, Type
from tileir.semtree.rewrite import law

# Constants


@law("op(constants) = constant")
def fold_operation(expr: Expr) -> Expr | None:
    """Compute an operation on constants."""
    if not isinstance(expr, Apply) or not all(isinstance(arg, Const) for arg in expr.args):
        return None
    values = [constant(arg.value, arg.type.dtype) for arg in expr.args if isinstance(arg, Const)]
    return constant_of(apply(expr.op, *values), expr.type)


@law("cast(constant) = constant")
def fold_cast(expr: Expr) -> Expr | None:
    """Convert a constant."""
    match expr:
        case Cast(operand=Const(value=value), type=kind):
            return Const(rounded(value, kind.dtype), kind)
        case _:
            return None


@law("bitcast(constant) = constant, except for NaN, whose bits a constant does not keep")
def fold_bitcast(expr: Expr) -> Expr | None:
    """Reinterpret a constant."""
    match expr:
        case Bitcast(operand=Const(value=value, type=source), type=kind):
            bits = constant(value, source.dtype).view(kind.dtype.numpy)
            new = constant_of(bits, kind)
            return None if _is_nan(value) or _is_nan(new.value) else new
        case _:
            return None


def constant_of(array: Array, kind: Type) -> Const:
    """Return the constant in an array without axes."""
    value = array[()]
    return Const(float(value) if kind.dtype.is_float else value.item(), kind)


def _is_nan(value: bool | int | float) -> bool:
    return isinstance(value, float) and math.isnan(value)


# Conversions


@law("cast(x) to the type of x = x")
def same_cast(expr: Expr) -> Expr | None:
    """Drop a conversion that changes nothing."""
    match expr:
        case Cast(operand=operand, type=kind) | Bitcast(operand=operand, type=kind) if operand.type == kind:
            return operand
        case _:
            return None


@law("cast(cast(x)) = cast(x) where the inner type holds every value of x")
def cast_of_exact_cast(expr: Expr) -> Expr | None:
    """Drop an inner conversion that is exact."""
    match expr:
        case Cast(operand=Cast(operand=operand, type=Type(dtype=inner)), type=kind):
            outer, source = kind.dtype, operand.type.dtype
            # A float that is cast to an integer saturates where an integer wraps.
            alike = inner.is_float == source.is_float or not outer.is_integer or outer.holds(source)
            return Cast(operand, kind) if inner.holds(source) and alike else None
        case _:
            return None


@law("cast(cast(x)) = cast(x) for integers where the outer type is no wider than the inner one")
def cast_of_wrapping_cast(expr: Expr) -> Expr | None:
    """Wrap once instead of twice."""
    match expr:
        case Cast(operand=Cast(operand=operand, type=Type(dtype=inner)), type=kind):
            integers = operand.type.dtype.is_integer and inner.is_integer and kind.dtype.is_integer
            return Cast(operand, kind) if integers and kind.dtype.bits <= inner.bits else None
        case _:
            return None


# Lanes


@law("broadcast(constant) = constant")
def fold_broadcast(expr: Expr) -> Expr | None:
    """Give a constant its lanes, and leave a scalar alone."""
    match expr:
        case Broadcast(operand=Const(value=value)):
            return Const(value, expr.type)
        case Broadcast(operand=operand, lanes=1):
            return operand
        case _:
            return None


@law("ramp(x, 0) = broadcast(x)")
def flat_ramp(expr: Expr) -> Expr | None:
    """Replace a ramp with stride 0, or of one lane, by its base."""
    match expr:
        case Ramp(base=base, lanes=1):
            return base
        case Ramp(base=base, stride=0, lanes=lanes):
            return Broadcast(base, lanes)
        case _:
            return None


@law("op(broadcast(x), broadcast(y)) = broadcast(op(x, y))")
def operation_on_broadcasts(expr: Expr) -> Expr | None:
    """Compute once a value that is equal in every lane."""
    if not isinstance(expr, Apply) or expr.type.lanes == 1:
        return None
    if not any(isinstance(arg, Broadcast) for arg in expr.args):
        return None
    scalars = [_lane(arg) for arg in expr.args]
    known = tuple(scalar for scalar in scalars if scalar is not None)
    return Broadcast(Apply(expr.op, known), expr.type.lanes) if len(known) == len(scalars) else None


def _lane(expr: Expr) -> Expr | None:
    match expr:
        case Broadcast(operand=operand):
            return operand
        case Const(value=value, type=kind):
            return Const(value, Type(kind.dtype))
        case _:
            return None


@law("cast(broadcast(x)) = broadcast(cast(x))")
def cast_of_broadcast(expr: Expr) -> Expr | None:
    """Convert once a value that is equal in every lane."""
    match expr:
        case Cast(operand=Broadcast(operand=operand, lanes=lanes), type=kind):
            return Broadcast(Cast(operand, Type(kind.dtype)), lanes)
        case Bitcast(operand=Broadcast(operand=operand, lanes=lanes), type=kind):
            return Broadcast(Bitcast(operand, Type(kind.dtype)), lanes)
        case _:
            return None


@law("reduce<max>(broadcast(x)) = x")
def reduction_of_broadcast(expr: Expr) -> Expr | None:
    """Replace the maximum or minimum of equal lanes by one of them."""
    match expr:
        case Reduce(op=Op.MAX | Op.MIN, operand=Broadcast(operand=operand)):
            return operand
        case Reduce(operand=operand) if operand.type.lanes == 1:
            return operand
        case _:
            return None
