"""Between which limits an integer of a typed function stays, as far as a short look at its definition tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.typed.ir import Argsort, Cast, Constant, Coordinate, Elementwise, Operation, Reshape, ShapeOf, Value

_DEPTH: Final = 8


def magnitude(name: str, definitions: Mapping[str, Value | Operation], depth: int = _DEPTH) -> tuple[int, int]:
    """Return limits of the elements of an integer or bool value."""
    value = definitions[name]
    dtype = value.dtype
    if dtype.is_bool:
        return 0, 1
    whole = int(dtype.minimum), int(dtype.maximum)
    match value:
        case Constant(value=number):
            return int(number), int(number)
        case Coordinate(axis=axis, shape=shape) | Argsort(axis=axis, shape=shape):
            size = shape[axis] if isinstance(value, Coordinate) else _sorted(value, definitions)
            return 0, max(0, size - 1)
        case ShapeOf(dims=dims):
            return min(dims, default=0), max(dims, default=0)
        case Reshape(input=source) | Cast(input=source) if depth and not _is_float(source, definitions):
            found = magnitude(source, definitions, depth - 1)
        case Elementwise(op=op, inputs=inputs) if depth and not any(_is_float(i, definitions) for i in inputs):
            found = _computed(op, [magnitude(i, definitions, depth - 1) for i in inputs], whole)
        case _:
            return whole
    return found if whole[0] <= found[0] and found[1] <= whole[1] else whole


def _sorted(value: Argsort, definitions: Mapping[str, Value | Operation]) -> int:
    return definitions[value.input].shape[value.axis]


def _is_float(name: str, definitions: Mapping[str, Value | Operation]) -> bool:
    dtype: DType = definitions[name].dtype
    return dtype.is_float


def _computed(op: Op, limits: list[tuple[int, int]], whole: tuple[int, int]) -> tuple[int, int]:
    match op:
        case Op.ADD:
            (a, b), (c, d) = limits
            return a + c, b + d
        case Op.SUB:
            (a, b), (c, d) = limits
            return a - d, b - c
        case Op.MUL:
            (a, b), (c, d) = limits
            ends = (a * c, a * d, b * c, b * d)
            return min(ends), max(ends)
        case Op.NEG:
            ((a, b),) = limits
            return -b, -a
        case Op.MAX:
            return max(low for low, _ in limits), max(high for _, high in limits)
        case Op.MIN:
            return min(low for low, _ in limits), min(high for _, high in limits)
        case Op.COND:
            return min(low for low, _ in limits[1:]), max(high for _, high in limits[1:])
        case Op.IDENT:
            return limits[0]
        case _:
            return whole
