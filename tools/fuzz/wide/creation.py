"""Rows of operations that make tensors from sizes and numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Final

import numpy as np

from fuzz.wide.moves import FAR
from fuzz.wide.pointwise import converted, real
from fuzz.wide.row import ALL, FLOATS, INTEGERS, Arguments, Array, Draw, Row
from tileir.core import DType


def _arange(draw: Draw) -> Arguments:
    dtype = draw.pick((*(each for each in ALL if each != "bool"),))
    limits: tuple[Any, ...]
    to, step = DType(dtype), draw.pick((1, 2, -1, 7, FAR, -FAR))
    if to.is_float:
        limits = (0, -3, 2**24 - 2 if dtype in ("f32", "f64") else 5, 2**31 - 3, -(2**31) - 3, 2**53 - 3)
    else:
        limits = (0, to.minimum, max(to.minimum, min(to.maximum, 2**31) - 3), max(to.minimum, to.maximum - 3))
    start, count = draw.pick(limits), draw.integer(-1, 5)
    end = start + step * count
    if not to.is_float and not (to.minimum <= end <= to.maximum):
        step, end = (1, min(start + 3, to.maximum))
    return [draw.tensor(()), start, end, step], {"dtype": dtype}


def _ranged(_: Array, start: int, stop: int, step: int, dtype: str) -> Array:
    return _numbers(list(range(start, stop, step)), dtype)


def _numbers(values: Sequence[Any], dtype: str) -> Array:
    if DType(dtype).is_float:
        return np.array([np.longdouble(int(v)) if isinstance(v, int) else v for v in values], np.longdouble)
    return np.array(values, object)


def _linspace(draw: Draw) -> Arguments:
    dtype = draw.pick(("f32", "f64", "f16", "bf16", *INTEGERS))
    to, count = DType(dtype), draw.pick((1, 2, 5, 11, 201, 1000))
    start, stop = draw.pick(((0, 100), (0, 1), (-3, 3), (100, 0), (0, 10**6), (-1, 2**40), (7, 7)))
    if not to.is_float:
        start, stop = (max(to.minimum, min(to.maximum, value)) for value in (start, stop))
    return [draw.tensor(()), start, stop, count], {"dtype": dtype, "endpoint": draw.flag()}


def _spaced(_: Array, start: int, stop: int, count: int, dtype: str, endpoint: bool) -> Array:
    steps = max(1, count - 1) if endpoint else count
    exact = [start + Fraction((stop - start) * i, steps) for i in range(count)]
    if DType(dtype).is_float:
        return np.array([np.longdouble(v.numerator) / np.longdouble(v.denominator) for v in exact])
    return np.array([v.numerator // v.denominator for v in exact], object)


def _full(draw: Draw) -> Arguments:
    dtype = draw.pick(tuple(each.value for each in DType))
    value = draw.pick((0, 1, 3, 2**31, 2**40, 0.5, -1))
    if DType(dtype).is_integer and not DType(dtype).minimum <= value <= DType(dtype).maximum:
        value = 1
    return [draw.tensor(()), list(draw.shape(0, 3, axes=False)), value], {"dtype": dtype}


def _constant(value: int) -> tuple[Callable[[Draw], Arguments], Callable[..., Array]]:
    def draw(draw: Draw) -> Arguments:
        dtype = draw.pick(tuple(each.value for each in DType))
        return [draw.tensor(()), list(draw.shape(0, 3, axes=False))], {"dtype": dtype}

    return draw, lambda _, sizes, dtype: converted(np.full(sizes, value), dtype)


def _eye(draw: Draw) -> Arguments:
    return [draw.tensor(()), draw.integer(0, 5), draw.integer(0, 5)], {"offset": draw.pick((0, 1, -2, FAR, -FAR))}


def _one_hot(draw: Draw) -> Arguments:
    depth, shape = draw.integer(0, 5), draw.shape(0, 2, axes=False)
    indices = draw.tensor(shape, "wild", draw.pick(("i32", "i8", "i64", "u8")), below=depth)
    options = {"dtype": draw.pick((*FLOATS, "bool", *INTEGERS)), "axis": draw.integer(-1, len(shape))}
    return [indices, depth], options


def _hot(indices: Array, depth: int, axis: int, dtype: str) -> Array:
    found = indices[..., None] == np.arange(depth, dtype=np.int64)
    return converted(np.moveaxis(found, -1, axis).astype(np.int64), dtype)


def _index(draw: Draw) -> Arguments:
    shape = draw.shape(1)
    return [draw.tensor(shape), draw.integer(0, len(shape) - 1)], {}


def _numbered(x: Array, axis: int) -> Array:
    return np.broadcast_to(np.arange(x.shape[axis]).reshape([-1 if a == axis else 1 for a in range(x.ndim)]), x.shape)


_MADE: Final[dict[str, Any]] = {"exact": True, "constant": "*", "dtypes": ("f32", "i8")}
ROWS_CREATION: Final = (
    Row("arange", _arange, _ranged, **_MADE),
    Row(
        "linspace",
        _linspace,
        _spaced,
        constant="*",
        dtypes=("f32",),
        terms=lambda _, start, stop, *a, **o: np.longdouble(abs(start) + abs(stop)),
    ),
    Row("full", _full, lambda _, sizes, value, dtype: converted(np.full(sizes, value, np.longdouble), dtype), **_MADE),
    Row("zeros", *_constant(0), **_MADE),
    Row("ones", *_constant(1), **_MADE),
    Row("eye", _eye, lambda _, rows, columns, offset: real(np.eye(rows, columns, max(-9, min(9, offset)))), **_MADE),
    Row("one_hot", _one_hot, _hot, **_MADE),
    Row("index", _index, _numbered, **_MADE),
)
