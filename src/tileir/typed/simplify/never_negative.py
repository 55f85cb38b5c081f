"""Values that are 0, more or NaN whatever the inputs are, as far as a short look at their definition tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tileir.core.ops import Op
from tileir.typed.ir import ArrayConstant, Cast, Constant, Coordinate, Elementwise, Operation, Reshape, Value

_DEPTH: Final = 8

_ALWAYS: Final = frozenset({Op.EXP, Op.ABS, Op.SQRT, Op.SIGMOID})
"""Operations whose results are never negative."""

_KEEPS: Final = frozenset({Op.ADD, Op.MUL, Op.MIN, Op.IDENT, Op.FLOOR, Op.CEIL, Op.ROUND, Op.TRUNC})
"""Operations on floats whose results are never negative where no operand is."""


def never_negative(name: str, definitions: Mapping[str, Value | Operation], depth: int = _DEPTH) -> bool:
    """Return whether no element of a value is surely less than 0; False where that is not plain to see."""
    value = definitions[name]
    dtype = value.dtype
    if dtype.is_bool or (dtype.is_integer and not dtype.is_signed):
        return True
    match value:
        case Constant(value=number):
            return number >= 0
        case ArrayConstant(value=array):
            return bool((array.numpy() >= 0).all())
        case Coordinate():
            return True
        case Reshape(input=source) | Cast(input=source) if depth and dtype.is_float:
            return never_negative(source, definitions, depth - 1)
        case Elementwise(op=op, inputs=inputs) if depth and dtype.is_float:
            if op is Op.MUL and inputs[0] == inputs[1]:
                return True
            known = (never_negative(each, definitions, depth - 1) for each in inputs)
            return op in _ALWAYS or (op is Op.MAX and any(known)) or (op in _KEEPS and all(known))
        case _:
            return False
