"""Expressions of the right type: zeros, lanes and conversions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.core.ops import Op
from tileir.semtree import ir as sem

if TYPE_CHECKING:
    from tileir.core.dtype import DType


def zero(dtype: DType) -> bool | int | float:
    """Return zero as the kind of Python value that constants of a dtype hold."""
    return False if dtype.is_bool else 0.0 if dtype.is_float else 0


def widened(value: sem.Expr, lanes: int) -> sem.Expr:
    """Return a scalar in as many lanes; a value that has them as it is."""
    if value.type.lanes == lanes:
        return value
    if isinstance(value, sem.Const):
        return sem.Const(value.value, sem.Type(value.type.dtype, lanes))
    return sem.Broadcast(value, lanes)


def uniform(values: tuple[sem.Expr, ...]) -> tuple[sem.Expr, ...]:
    """Bring operands to the same number of lanes."""
    lanes = max(value.type.lanes for value in values)
    return tuple(widened(value, lanes) for value in values)


def cast(value: sem.Expr, dtype: DType) -> sem.Expr:
    """Return a value as another dtype; itself where it has that."""
    return value if value.type.dtype is dtype else sem.Cast(value, value.type.with_dtype(dtype))


def backward_run(element: sem.Expr) -> sem.Subscript | None:
    """Return the neighbours that lanes address last one first, in the order of memory; None for other elements."""
    match element:
        case sem.Subscript(array=array, offset=sem.Ramp(base=base, stride=-1, lanes=lanes), type=kind):
            first = sem.Apply(Op.SUB, (base, sem.Const(lanes - 1, base.type)))
            return sem.Subscript(array, first, kind)
        case _:
            return None


def reversed_lanes(value: sem.Expr) -> sem.Expr:
    """Return the lanes of a vector, last one first."""
    return sem.Shuffle((value,), tuple(reversed(range(value.type.lanes))))
