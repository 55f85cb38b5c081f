"""Pooling, index tricks, gather, scatter, reshape: programs whose point is where elements go.

Orders of rows: all dtypes, sizes around those of vectors, along each axis, all elements and the first few.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from tileir_testing.programs.case import Conformance, as_array, halves, integers


def _pooling() -> Iterator[Conformance]:
    odd, even = as_array([3, 1, 4, 1, 5, 9, 2], "f4"), as_array([3, 1, 4, 1, 5, 9], "f4")
    floor = "function (I[N]) -> (O) { O[i : N / 2] = >(I[2 * i + j]), j < 2; }"
    ceil = "function (I[N]) -> (O) { O[i : (N + 1) / 2] = >(I[2 * i + j]), j < 2; }"
    yield Conformance("max_pool_even", floor, {"I": even}, {"O": as_array([3, 4, 9], "f4")})
    yield Conformance("max_pool_odd", floor, {"I": odd}, {"O": as_array([3, 4, 9], "f4")})
    yield Conformance("max_pool_ceil", ceil, {"I": odd}, {"O": as_array([3, 4, 9, 2], "f4")})
    mean = "function (I[N]) -> (O) { S[i : N / 2] = +(I[2i + j]), j < 2; O = S / 2; }"
    yield Conformance("average_pool", mean, {"I": even}, {"O": as_array([2, 2.5, 7], "f4")})
    image = halves("f4", 6, 4)
    plane = "function (I[X, Y]) -> (O) { O[x, y : X / 2, Y / 2] = >(I[2 * x + i, 2 * y + j]), i < 2, j < 2; }"
    blocks = image.reshape(3, 2, 2, 2).max(axis=(1, 3))
    yield Conformance("max_pool_2d", plane, {"I": image}, {"O": blocks})
    gradient = """function (I[N], O[M], D[M]) -> (G) {
      G[2 * i + j : N] = +(I[2 * i + j] == O[i] ? D[i]), j < 2;
    }"""
    inputs = {"I": as_array([3, 3, 1, 4], "f4"), "O": as_array([3, 4], "f4"), "D": as_array([10, 20], "f4")}
    yield Conformance("max_pool_gradient_with_ties", gradient, inputs, {"G": as_array([10, 10, 0, 20], "f4")})


def _index_tricks() -> Iterator[Conformance]:
    v = as_array([1, 2, 3], "i4")
    x = integers("i4", 4, 3)
    skip = "function (I[N]) -> (O) { O[i : 6] = +(I[(i - 1) / 2]); }"
    yield Conformance("only_integral_indices", skip, {"I": v}, {"O": as_array([0, 1, 0, 2, 0, 3], "i4")})
    both = "function (I[N], K[M]) -> (O) { O[i : 5] = +(I[(i - j + 1) / 2] * K[j]); }"
    yield Conformance("fractional_convolution", both, {"I": v, "K": v}, {"O": as_array([2, 5, 4, 9, 6], "i4")})
    even = "function (I[N, M]) -> (O) { O[2 * i : N] = +(I[2 * i, j]); }"
    rows = x.sum(axis=1, dtype="i4")
    rows[1::2] = 0
    yield Conformance("even_rows", even, {"I": x}, {"O": rows})
    pad = "function (I[M, N]) -> (O) { O[n : N + 1] = +(I[m, n]); }"
    yield Conformance("larger_output", pad, {"I": x}, {"O": np.append(x.sum(axis=0, dtype="i4"), np.int32(0))})
    cut = "function (I[M, N]) -> (O) { O[n : N - 1] = +(I[m, n]); }"
    yield Conformance("smaller_output", cut, {"I": x}, {"O": x.sum(axis=0, dtype="i4")[:-1]})
    overlap = "function (I[N]) -> (O) { O[2 * x + i : 8] = +(I[x]), i < 4; }"
    yield Conformance("unpool_overlap", overlap, {"I": v}, {"O": as_array([1, 1, 3, 3, 5, 5, 3, 3], "i4")})
    clean = "function (I[N]) -> (O) { O[2 * x + i : 8] = +(I[x]), i < 2; }"
    yield Conformance("unpool_clean", clean, {"I": v}, {"O": as_array([1, 1, 2, 2, 3, 3, 0, 0], "i4")})
    assigned = "function (I[N]) -> (O) { O[3 * n + k : 3 * N] = =(I[n]), k < 3; }"
    yield Conformance("repeat", assigned, {"I": v}, {"O": np.repeat(v, 3)})
    tile = "function (I[N]) -> (O) { O[N * k + n : 2 * N] = =(I[n]), k < 2; }"
    yield Conformance("tile", tile, {"I": v}, {"O": np.tile(v, 2)})
    back = "function (I[N, M]) -> (O) { O[i, j : N, M] = =(I[N - 1 - i, j]); }"
    yield Conformance("reverse", back, {"I": x}, {"O": x[::-1]})
    steps = "function (I[N, M]) -> (O) { O[i, j : 2, M] = =(I[3 - 2 * i, j]); }"
    yield Conformance("slice_with_negative_step", steps, {"I": x}, {"O": x[3::-2]})
    turn = "function (I[N, M]) -> (O) { T[j, i : M, N] = =(I[i, j]); O = reshape(T, N * M); }"
    yield Conformance("transpose_and_reshape", turn, {"I": x}, {"O": x.T.reshape(-1)})
    join = "function (A[N], B[M]) -> (O) { X[i : N + M] = =(A[i]); O[N + i : N + M] = =(B[i]) default X; }"
    inputs = {"A": v, "B": as_array([7, 8], "i4")}
    yield Conformance("concatenate", join, inputs, {"O": as_array([1, 2, 3, 7, 8], "i4")})


def _assignments() -> Iterator[Conformance]:
    v = as_array([1, 2, 3], "i4")
    channel = "function (I[N, C], D[N, C]) -> (O) { O[n, 3 : N, C] = =(I[n, 3]) default D; }"
    inputs = {"I": halves("f4", 2, 7), "D": halves("f4", 2, 7, seed=1)}
    mixed = inputs["D"].copy()
    mixed[:, 3] = inputs["I"][:, 3]
    yield Conformance("use_default", channel, inputs, {"O": mixed})
    pure = "function (I[N], D[M]) -> (S, P) { S[2 * i : M] = +(I[i]) default D; P[2 * i : M] = >(I[i]) default D; }"
    inputs = {"I": as_array([-5, -6], "i4"), "D": as_array([1, 2, 3, 4], "i4")}
    result = as_array([-5, 2, -6, 4], "i4")
    yield Conformance("default_takes_no_part", pure, inputs, {"S": result, "P": result})
    unwritten = "function (I[N]) -> (P, Q) { P[2 * i : 4] = *(I[i]); Q[2 * i : 4] = <(I[i]); }"
    result = as_array([5, 0, 6, 0], "f4")
    yield Conformance("unwritten_is_zero", unwritten, {"I": as_array([5, 6], "f4")}, {"P": result, "Q": result})
    outer = "function (A[N], B[M]) -> (O) { O[i, j : N, M] = =(A[i] * B[j]); }"
    inputs = {"A": as_array([1, 2, 3, 4, 5], "i4"), "B": as_array([1, 2, 3, 4, 5], "i4")}
    yield Conformance("outer_product_by_assignment", outer, inputs, {"O": np.outer(inputs["A"], inputs["B"])})
    single = "function (A[N, L], B[L, M]) -> (O) { O[i, j : N, M] = =(A[i, k] * B[k, j]); }"
    inputs = {"A": inputs["A"].reshape(5, 1), "B": inputs["B"].reshape(1, 5)}
    yield Conformance("assignment_over_one_value", single, inputs, {"O": inputs["A"] @ inputs["B"]})
    hot = "function (I[N], C[M]) -> (O) { O[n, c : N, M] = =(I[n] == C[c]); }"
    inputs = {"I": as_array([2, 0, 1], "i4"), "C": as_array([0, 1, 2], "i4")}
    yield Conformance("one_hot", hot, inputs, {"O": np.eye(3, dtype=bool)[inputs["I"]]})
    twice = "function (I[N]) -> (O) { O[i : N - 1] = =(I[i] + I[i + 1]); }"
    yield Conformance("one_tensor_at_two_indices", twice, {"I": v}, {"O": v[:-1] + v[1:]})
    fraction = "function (I[N], J[M]) -> (O) { O[i / 5 + j : 9] = +(I[i / 3 + j] * J[i / 2]); }"
    inputs = {"I": integers("i8", 12), "J": integers("i8", 8, seed=1)}
    full = np.zeros(9, np.int64)
    for i in range(0, 40, 30):
        for j in range(-40, 40):
            if 0 <= i // 5 + j < 9 and 0 <= i // 3 + j < 12 and 0 <= i // 2 < 8:
                full[i // 5 + j] += inputs["I"][i // 3 + j] * inputs["J"][i // 2]
    yield Conformance("fractions_of_many_denominators", fraction, inputs, {"O": full})


def _gather_and_scatter() -> Iterator[Conformance]:
    data = integers("i4", 4, 3)
    text = "function (D, I) -> (O) { O = gather(D, I); }"
    for dtype in ("i4", "i8"):
        for shape in ((), (3,), (2, 2), (2, 1, 3)):
            indices = np.random.default_rng(3).integers(0, 4, shape).astype(dtype)
            name = f"gather_{indices.dtype}_rank_{len(shape)}"
            yield Conformance(name, text, {"D": data, "I": np.asarray(indices)}, {"O": data[indices]})
    far = as_array([-3, 9, 1], "i4")
    yield Conformance("gather_clamps", text, {"D": data, "I": far}, {"O": data[[0, 3, 1]]})
    text = "function (U, I, V) -> (O) { O = scatter(U, I, V); }"
    updates = as_array([[1, 2], [3, 4], [5, 6], [7, 8]], "f4")
    indices = as_array([0, 2, 0, 9], "i4")
    full = as_array([[6, 8], [0, 0], [3, 4], [0, 0], [7, 8]], "f4")
    inputs = {"U": updates, "I": indices, "V": np.zeros(5, np.float32)}
    yield Conformance("scatter_adds_duplicates_and_clamps", text, inputs, {"O": full})
    for name, ufunc, identity in (("mul", np.multiply, 1), ("max", np.maximum, -np.inf), ("min", np.minimum, np.inf)):
        text = f"function (U, I, V) -> (O) {{ O = scatter_{name}(U, I, V); }}"
        expected = np.full((5, 2), identity, np.float32)
        ufunc.at(expected, np.minimum(indices, 4), updates)
        yield Conformance(f"scatter_{name}", text, inputs, {"O": expected})
    text = "function (U, I, L) -> (O) { O = scatter_assign(U, I, L); }"
    rows = as_array([0, 2, 1, 4], "i4")
    table = np.arange(10, dtype=np.float32).reshape(5, 2)
    expected = table.copy()
    expected[rows] = updates
    yield Conformance("scatter_assign", text, {"U": updates, "I": rows, "L": table}, {"O": expected})
    text = "function (U, I, L) -> (O) { O = scatter_last(U, I, L); }"
    expected = table.copy()
    expected[[0, 2, 4]] = updates[[2, 1, 3]]
    yield Conformance("scatter_last", text, {"U": updates, "I": indices, "L": table}, {"O": expected})
    text = "function (A[N, M]) -> (O) { O = shape(A); }"
    yield Conformance("shape", text, {"A": data}, {"O": as_array([4, 3], "i4")})
    text = "function (A[N, M]) -> (I, J) { I = index(A, 0); J = index(A, 1); }"
    row, column = np.indices(data.shape, np.int32)
    yield Conformance("index", text, {"A": data}, {"I": row, "J": column})
    text = "function (A[N, M]) -> (O) { O = reshape(A, M, 2, N / 2); }"
    yield Conformance("reshape", text, {"A": data}, {"O": data.reshape(3, 2, 2)})
    text = "function (A[N, M]) -> (O, P) { O = simple_reduce(A, 1, M); P = simple_reduce(A, M); }"
    total = data.sum(axis=0, dtype="i4")
    yield Conformance("simple_reduce", text, {"A": data}, {"O": total[None], "P": total})


MOVES: tuple[Conformance, ...] = (*_pooling(), *_index_tricks(), *_assignments(), *_gather_and_scatter())


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
