"""Orders of rows: all dtypes, sizes around those of vectors, along each axis, all elements and the first few."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from tileir.testing.programs.case import Conformance

Array = np.ndarray[Any, np.dtype[Any]]

_SPECIAL: Final = (0.0, -0.0, np.inf, -np.inf, np.nan, 1.5)
_DTYPES: Final = ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?")
_SIZES: Final = (1, 2, 3, 5, 8, 9, 16, 17, 33, 70, 130)


def _keys(dtype: str, *shape: int) -> Array:
    """Return elements with duplicates, extremes, and zeros of both signs, infinities and NaN where there are any."""
    rng = np.random.default_rng(shape)
    kind = np.dtype(dtype)
    few = rng.integers(0, 5, shape)
    if kind.kind == "b":
        return few > 2
    if kind.kind == "f":
        special = rng.choice(_SPECIAL, shape)
        return np.where(few == 0, special, np.where(few == 1, few, 8 * rng.standard_normal(shape))).astype(kind)
    limits = np.iinfo(kind)
    wide = rng.integers(limits.min, limits.max, shape, dtype=kind, endpoint=True)
    extremes = rng.choice(np.array([limits.min, limits.max], kind), shape)
    return np.where(few == 0, extremes, np.where(few == 1, kind.type(3), wide))


def _order(keys: Array, axis: int, *, descending: bool, count: int) -> Array:
    """Return the stable order as Python's sort has it, with NaN as the greatest."""

    def row(values: Array) -> list[int]:
        numbers = values.tolist()
        ranked = [(number != number, 0 if number != number else number) for number in numbers]  # NaN
        if descending:
            ranked = [(not is_nan, -number) for is_nan, number in ranked]
        return sorted(range(len(numbers)), key=ranked.__getitem__)[:count]

    return np.apply_along_axis(row, axis, keys).astype(np.int32)


def _case(name: str, keys: Array, axis: int = -1, *, descending: bool = False, count: int | None = None) -> Conformance:
    kept = keys.shape[axis] if count is None else count
    sizes = ", ".join("NMK"[: keys.ndim])
    text = f"function (X[{sizes}]) -> (O) {{ O = argsort(X, {axis}, {int(descending)}, {kept}); }}"
    return Conformance(name, text, {"X": keys}, {"O": _order(keys, axis, descending=descending, count=kept)})


def _orders() -> Iterator[Conformance]:
    for number, size in enumerate(_SIZES):
        dtype = _DTYPES[number % len(_DTYPES)]
        yield _case(f"order_of_{size}", _keys("f4", 3, size), descending=number % 2 == 1)
        yield _case(f"order_of_{size}_{dtype}", _keys(dtype, 2, size), descending=number % 2 == 0)
    for number, dtype in enumerate(_DTYPES):
        yield _case(f"order_{dtype}", _keys(dtype, 37), descending=number % 2 == 1)
        yield _case(f"first_of_order_{dtype}", _keys(dtype, 2, 75), descending=number % 2 == 0, count=1 + number)
    for axis in range(3):
        yield _case(f"order_along_{axis}", _keys("f4", 4, 6, 5), axis)
        yield _case(f"first_of_order_along_{axis}", _keys("i8", 40, 35, 36)[:, :4, :4].swapaxes(0, axis), axis, count=2)
    for dtype in ("f4", "f8", "i2", "i8", "u1", "u4"):  # long enough for digits to sort them
        yield _case(f"order_of_many_{dtype}", _keys(dtype, 1300), descending=dtype != "f8")
        yield _case(f"first_of_many_{dtype}", _keys(dtype, 700), descending=dtype == "f8", count=7)
        yield _case(f"some_of_many_{dtype}", _keys(dtype, 700), descending=dtype == "u4", count=90)
    yield _case("order_of_many_along_0", _keys("f4", 1100, 2), 0)
    yield _case("first_of_many_along_0", _keys("f8", 90, 3), 0, descending=True, count=3)
    yield _case("order_of_equals", np.full((2, 50), 2.0, np.float32), descending=True)
    yield _case("order_of_nan", np.full(20, np.nan))
    yield _case("order_of_falling", np.arange(100, 0, -1).astype(np.int32))
    yield _case("first_of_falling", np.arange(90, 0, -1).astype(np.int32), count=4)
    for count in (0, 3):
        empty = np.zeros((count, 0), np.float32)
        text = "function (X[N, M]) -> (O) { O = argsort(X, 1); }"
        yield Conformance(f"order_of_{count}_empty_rows", text, {"X": empty}, {"O": empty.astype(np.int32)})


ORDERS: Final = (*_orders(),)
