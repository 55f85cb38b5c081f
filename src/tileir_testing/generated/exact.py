"""Exactness of generated programs: equal values by every means of computing them, or how far they may differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tileir.core import Aggregation, Combination, Domain, DType, Op, dtype_of
from tileir.typed import ir as typed
from tileir.typed.ir import Contraction, Elementwise, operands

Array = np.ndarray[Any, np.dtype[Any]]

LARGEST = 64.0


def tolerance(function: typed.Function, rough: set[str]) -> float:
    """Return the relative error that results may have: 0 for exact programs, else some units of the coarsest dtype."""
    return LARGEST * max((_epsilon(o.dtype) for o in function.operations if o.name in rough), default=0.0)


def _epsilon(dtype: DType) -> float:
    return max(dtype.format.epsilon, 2.0**-50)  # functions of f64 are those of NumPy, which may be some units off


def rough_values(function: typed.Function) -> set[str] | None:
    """Return the values that are rounded differently by different means; None if something exact depends on one."""
    rough: set[str] = set()
    for operation in function.operations:
        tainted = any(name in rough for name in operands(operation))
        inexact = isinstance(operation, Elementwise) and operation.op.info.domain is Domain.FLOAT
        if tainted and not (_is_smooth(operation) and operation.dtype.is_float):
            return None
        if tainted or inexact:
            rough.add(operation.name)
    return rough


def _is_smooth(operation: typed.Operation) -> bool:
    """Return whether a small change of the operands makes a change of the result that is not much larger."""
    match operation:
        case Elementwise(op=op):
            return op in _SMOOTH
        case Contraction(aggregation=aggregation, combination=combination):
            return aggregation is not Aggregation.PROD and combination not in (Combination.EQ, Combination.COND)
        case _:
            return True


def allowed(value: Array, rough: bool, special: bool) -> bool:
    """Return whether all elements are values that a program may have."""
    if not dtype_of(value).is_float:
        return True
    wide = value.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    if finite.size < wide.size and not special:
        return False
    return bool(np.all(np.abs(finite) <= LARGEST) and (rough or np.all(finite * 2 == np.round(finite * 2))))


def sums_exactly(operation: typed.Operation, values: Mapping[str, Array]) -> bool:
    """Return whether no order of a contraction's sum rounds: integers that it takes as floats are small enough."""
    if not isinstance(operation, Contraction) or not operation.operand_dtype.is_float:
        return True
    operands = [values[access.tensor] for access in operation.inputs]
    integers = [operand for operand in operands if not dtype_of(operand).is_float]
    return all(float(np.max(np.abs(array.astype(np.float64)), initial=0.0)) <= LARGEST for array in integers)


_SIGNED_BY_ZERO = {Op.DIV: 1, Op.RSQRT: 0, Op.POW: 0}
"""Which operand of an operation decides by the sign of its zero whether the result is inf or -inf."""


def zeros_have_signs(function: typed.Function, values: Mapping[str, Array]) -> bool:
    """Return whether no zero that a sum may give either sign decides between inf and -inf.

    A sum of nothing but negative zeros is one of them where it begins with its first term, and is not where it begins
    with 0; both are right.
    """
    summed: set[str] = set()
    for operation in function.operations:
        names = operands(operation)
        if summed.intersection(names) or (
            isinstance(operation, Contraction) and operation.aggregation is Aggregation.SUM
        ):
            summed.add(operation.name)
        if isinstance(operation, Elementwise) and operation.op in _SIGNED_BY_ZERO:
            decides = names[_SIGNED_BY_ZERO[operation.op]]
            if decides in summed and decides in values and not np.all(values[decides]):
                return False
    return True


_SMOOTH = frozenset(
    (Op.IDENT, Op.NEG, Op.ABS, Op.ADD, Op.SUB, Op.MUL, Op.MAX, Op.MIN, Op.COND, *(op for op in Op if op.info.steady))
)
