"""Scatters in all modes beside NumPy's ``ufunc.at`` in f64: dtypes, axes, bounds, repeated and sorted positions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import ml_dtypes
import numpy as np
import pytest

import tileir
from tileir import ops
from tileir.tile import builder_functions as tf

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.tile.builder import Tensor

    Array = np.ndarray[Any, Any]

MODES: Final = ("add", "mul", "max", "min", "set")
PLACES: Final[dict[str, Callable[[np.random.Generator, int, int], Array]]] = {
    "random": lambda random, size, count: random.integers(0, size, count),
    "outside": lambda random, size, count: random.integers(-3, size + 3, count),
    "one": lambda _, size, count: np.full(count, size - 1),
    "sorted": lambda random, size, count: np.sort(random.integers(0, size, count)),
}


def put(mode: str, x: Array, places: Array, updates: Array, bounds: str) -> Array:
    """Return what NumPy makes of rows in f64, or of integers in i64, one update after the other."""
    wide = np.float64 if x.dtype.kind not in "iu" else np.int64
    x, updates = x.astype(wide), updates.astype(wide)
    if bounds == "drop":
        kept = (places >= 0) & (places < len(x))
        places, updates = places[kept], updates[kept]
    places = places % len(x) if bounds == "wrap" else np.clip(places, 0, len(x) - 1)
    if mode == "set":
        for place, update in zip(places, updates, strict=True):
            x[place] = update
        return x
    {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[mode].at(x, places, updates)
    return x


def evaluated(build: Callable[..., Tensor], *arrays: Array) -> Array:
    f = tileir.FunctionBuilder()
    inputs = [f.input(f"A{k}", *[f"N{k}_{axis}" for axis in range(array.ndim)]) for k, array in enumerate(arrays)]
    found = tileir.evaluate(f.build(O=build(*inputs)), list(arrays))
    return np.asarray(found)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize("bounds", ["clamp", "drop", "wrap"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("size", "count", "columns"), [(7, 300, 5), (300, 7, 64), (33, 1000, 1), (5, 0, 3)])
def test_modes_bounds_and_positions(mode: str, bounds: str, places: str, size: int, count: int, columns: int) -> None:
    random = np.random.default_rng(0)
    x: Array = random.uniform(0.9, 1.1, (size, columns)).astype(np.float32)
    updates: Array = random.uniform(0.9, 1.1, (count, columns)).astype(np.float32)
    at = PLACES[places](random, size, count).astype(np.int64)
    found = evaluated(lambda x, i, u: ops.scatter(x, i, u, mode=mode, bounds=bounds), x, at, updates)
    np.testing.assert_allclose(found, put(mode, x, at, updates, bounds), rtol=1e-4 if mode == "mul" else 1e-5)


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint16, np.float16, ml_dtypes.bfloat16, np.float64])
@pytest.mark.parametrize("mode", MODES)
def test_dtypes(mode: str, dtype: type) -> None:
    random = np.random.default_rng(1)
    x: Array = random.integers(1, 3, (9, 3)).astype(dtype)
    updates: Array = random.integers(1, 3, (20, 3)).astype(dtype)
    at = random.integers(0, 9, 20).astype(np.int32)
    found = evaluated(lambda x, i, u: ops.scatter(x, i, u, mode=mode), x, at, updates)
    assert found.dtype == x.dtype
    expected = put(mode, x.astype(np.float64) if x.dtype.kind == "V" else x, at, updates, "clamp")
    np.testing.assert_array_equal(found.astype(np.float64), expected.astype(x.dtype).astype(np.float64))


@pytest.mark.sampled(19)
@pytest.mark.parametrize("bounds", ["clamp", "drop"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", [(40,), (40, 3), (40, 64)])
def test_unique_positions(mode: str, bounds: str, shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(2)
    x, updates = random.normal(size=shape).astype(np.float32), random.normal(size=(29, *shape[1:])).astype(np.float32)
    at = random.permutation(40)[:29].astype(np.int32)
    if bounds == "drop":
        at[[3, 5]] = [-1, 40]
    found = evaluated(lambda x, i, u: ops.scatter(x, i, u, mode=mode, bounds=bounds, unique=True), x, at, updates)
    np.testing.assert_allclose(found, put(mode, x, at, updates, bounds), rtol=1e-6)


@pytest.mark.sampled(22)
@pytest.mark.parametrize("unique", [False, True])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("shape", "axis"), [((6, 50), 1), ((50, 6), 0), ((4, 30, 5), 1), ((3, 4, 70), 2)])
def test_elements_along_an_axis(mode: str, shape: tuple[int, ...], axis: int, unique: bool) -> None:
    random = np.random.default_rng(4)
    x = random.uniform(0.9, 1.1, shape).astype(np.float32)
    updates, drawn = random.uniform(0.9, 1.1, shape).astype(np.float32), random.normal(size=shape)
    at = np.argsort(drawn, axis) if unique else random.integers(0, shape[axis], shape)
    found = evaluated(lambda x, i, u: ops.scatter_along_axis(x, i, u, axis, mode=mode, unique=unique), x, at, updates)
    rows = (np.moveaxis(each, axis, -1).reshape(-1, shape[axis]) for each in (x, at, updates))
    put_rows = [put(mode, row, places, terms, "clamp") for row, places, terms in zip(*rows, strict=True)]
    moved = np.moveaxis(x, axis, -1).shape
    np.testing.assert_allclose(np.moveaxis(found, axis, -1), np.reshape(put_rows, moved), rtol=1e-5)


def test_extrema_are_nan_where_an_update_is() -> None:
    x, updates = np.zeros(3, np.float32), np.array([1, np.nan, -np.inf], np.float32)
    at = np.array([0, 0, 2], np.int32)
    for mode, expected in (("max", [np.nan, 0, 0]), ("min", [np.nan, 0, -np.inf])):
        found = evaluated(lambda x, i, u, mode=mode: ops.scatter(x, i, u, mode=mode), x, at, updates)
        np.testing.assert_array_equal(found, np.array(expected, np.float32))


def gradients(mode: str, x: Array, at: Array, updates: Array, *, unique: bool = False) -> tuple[Array, Array]:
    """Return the gradients by rows and updates of results times 1, 2, 3 …"""

    def by(which: int) -> Array:
        def build(x: Tensor, i: Tensor, u: Tensor) -> Tensor:
            y = ops.scatter(x, i, u, mode=mode, unique=unique)
            return tf.gradient(y * (tf.index(y, 0) + 1), (x, u)[which])

        return evaluated(build, x, at, updates)

    return by(0), by(1)


AT: Final = np.array([0, 2, 0, 3, 2, 0], np.int32)


@pytest.mark.parametrize(
    ("mode", "updates", "by_rows", "by_updates"),
    [
        ("add", [5, 6, 7, 8, 9, 1], [1, 2, 3, 4], [1, 3, 1, 4, 3, 1]),
        ("set", [5, 6, 7, 8, 9, 1], [0, 2, 0, 0], [0, 0, 0, 4, 3, 1]),
        ("max", [5, 6, 7, 8, 9, 1], [0, 2, 0, 0], [0, 0, 1, 4, 3, 0]),
        ("min", [5, 6, 7, 8, 9, 1], [1, 2, 3, 4], [0, 0, 0, 0, 0, 0]),
        ("mul", [5, 6, 7, 8, 9, 1], [35, 2, 162, 32], [14, 81, 10, 16, 54, 70]),
        ("mul", [0, 6, 7, 8, 0, 1], [0, 2, 0, 32], [14, 0, 0, 16, 54, 0]),
        ("mul", [0, 6, 0, 8, 9, 1], [0, 2, 162, 32], [0, 81, 0, 16, 54, 0]),
    ],
)
def test_gradients(mode: str, updates: list[float], by_rows: list[float], by_updates: list[float]) -> None:
    x = np.full(4, 2 if mode == "mul" else -1, np.float32)
    if mode == "mul":
        x = np.array([2, 1, 3, 1], np.float32)
        expected = [w * other for w, other in zip((1, 2, 3, 4), _others(updates), strict=True)]
        by_rows, by_updates = expected, _products(x, updates)
    rows, found = gradients(mode, x, AT, np.array(updates, np.float32))
    np.testing.assert_array_equal(rows, by_rows)
    np.testing.assert_array_equal(found, by_updates)


def _others(updates: list[float]) -> list[float]:
    return [float(np.prod([u for u, place in zip(updates, AT, strict=True) if place == row])) for row in range(4)]


def _products(x: Array, updates: list[float]) -> list[float]:
    """Return for each update the product of the row and of its other updates, times the weight of the row."""
    return [
        float((row + 1) * x[row] * np.prod([u for m, u in enumerate(updates) if AT[m] == row and m != n]))
        for n, row in enumerate(AT)
    ]


@pytest.mark.parametrize("mode", MODES)
def test_gradients_of_unique_positions(mode: str) -> None:
    x, updates, at = np.array([1, 2, 3], np.float32), np.array([7, 5], np.float32), np.array([2, 0], np.int32)
    rows, found = gradients(mode, x, at, updates, unique=True)
    expected: dict[str, tuple[list[float], list[float]]] = {
        "add": ([1, 2, 3], [3, 1]), "mul": ([5, 2, 21], [9, 1]), "max": ([0, 2, 0], [3, 1]),
        "min": ([1, 2, 3], [0, 0]), "set": ([0, 2, 0], [3, 1]),
    }  # fmt: skip
    np.testing.assert_array_equal(rows, expected[mode][0])
    np.testing.assert_array_equal(found, expected[mode][1])


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_sums_have_the_same_bits_on_any_number_of_threads(threads: int) -> None:
    random = np.random.default_rng(3)
    x, updates = np.zeros(50, np.float32), random.normal(size=40_000).astype(np.float32)
    at = random.integers(0, 50, 40_000).astype(np.int32)
    f = tileir.FunctionBuilder()
    function = f.build(O=ops.scatter(f.input("X", "V"), f.input("I", "N"), f.input("U", "N")))
    one, other = (
        tileir.compile(function, [x, at, updates], context=tileir.Context(options=tileir.Options(threads=each)))
        for each in (1, threads)
    )
    np.testing.assert_array_equal(np.asarray(one(x, at, updates)), np.asarray(other(x, at, updates)))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int8, np.bool_])
@pytest.mark.parametrize(
    ("shape", "count", "axis"),
    [((70_000,), 90_000, 0), ((257,), 50_000, 0), ((300, 64), 4_000, 0), ((40, 7), 9_000, 0), ((6, 50, 33), 400, 1)],
)
def test_last_updates_on_any_number_of_threads(
    shape: tuple[int, ...], count: int, axis: int, dtype: type[np.generic]
) -> None:
    random = np.random.default_rng(5)
    x: Array = random.integers(0, 100, shape).astype(dtype)
    at = random.integers(-3, shape[axis] + 3, count)
    updates: Array = random.integers(0, 100, (*shape[:axis], count, *shape[axis + 1 :])).astype(dtype)
    expected = np.moveaxis(x, axis, 0).copy()
    for place, update in zip(np.clip(at, 0, shape[axis] - 1), np.moveaxis(updates, axis, 0), strict=True):
        expected[place] = update
    f = tileir.FunctionBuilder()
    names = [
        f.input(name, *[f"{name}{k}" for k in range(array.ndim)])
        for name, array in zip("XIU", (x, at, updates), strict=True)
    ]
    function = f.build(O=ops.scatter(*names, axis=axis, mode="set"))
    for threads in (1, 2, 3):
        context = tileir.Context(options=tileir.Options(threads=threads))
        found = np.asarray(tileir.compile(function, [x, at, updates], context=context)(x, at, updates))
        np.testing.assert_array_equal(found, np.moveaxis(expected, 0, axis))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int64])
def test_positions_of_all_integers(dtype: type[np.generic]) -> None:
    x, updates = np.arange(5, dtype=np.float32), np.arange(10, 18, dtype=np.float32)
    at = np.array([3, 0, 3, 1, 100, 0, 3, 1], dtype)
    found = evaluated(lambda x, i, u: ops.scatter(x, i, u, mode="set"), x, at, updates)
    np.testing.assert_array_equal(found, [15, 17, 2, 16, 14])


def test_last_updates_of_steps() -> None:
    random = np.random.default_rng(6)
    x, updates = random.normal(size=(9, 4)).astype(np.float32), random.normal(size=(5, 7, 4)).astype(np.float32)
    at = random.integers(-2, 11, (5, 7)).astype(np.int32)

    def build(x: Tensor, i: Tensor, u: Tensor) -> Tensor:
        (last,) = tf.scan(lambda h, i, u: ops.scatter(h, i, u, mode="set") * 1.5, [x], [i, u])
        return last

    expected = x.astype(np.float64)
    for places, terms in zip(at, updates, strict=True):
        expected = put("set", expected, places, terms, "clamp") * 1.5
    np.testing.assert_allclose(evaluated(build, x, at, updates), expected, rtol=1e-6)


def last_of(at: Array) -> Array:
    """Return which updates are the last ones of their rows."""
    return np.array([place not in at[n + 1 :] for n, place in enumerate(at)])


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_derivatives_of_last_updates_of_rows(dtype: type[np.generic]) -> None:
    random = np.random.default_rng(7)
    x: Array = random.normal(size=(6, 3)).astype(dtype)
    updates: Array = random.normal(size=(20, 3)).astype(dtype)
    at = random.integers(0, 5, 20).astype(np.int32)

    def by(which: int) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
        def build(x: Tensor, i: Tensor, u: Tensor) -> Tensor:
            y = ops.scatter(x, i, u, mode="set")
            return tf.gradient(y * y * y, (x, u)[which])

        return build

    wide, kept = updates.astype(np.float64), last_of(at)[:, None]
    slope = np.where(kept, 3 * wide**2, 0)
    np.testing.assert_allclose(evaluated(by(1), x, at, updates), slope, rtol=2e-3)
    untouched = ~np.isin(np.arange(6), at)[:, None]
    np.testing.assert_allclose(
        evaluated(by(0), x, at, updates), np.where(untouched, 3 * x.astype(float) ** 2, 0), rtol=2e-3
    )

    def twice(x: Tensor, i: Tensor, u: Tensor) -> Tensor:
        return tf.gradient(by(1)(x, i, u), u)

    np.testing.assert_allclose(evaluated(twice, x, at, updates), np.where(kept, 6 * wide, 0), rtol=2e-3)

    def moved(x: Tensor, i: Tensor, u: Tensor) -> Tensor:
        return tf.jvp(ops.scatter(x, i, u, mode="set"), u, u * 2)

    expected = np.where(np.isin(np.arange(6), at)[:, None], 2 * put("set", x, at, updates, "clamp"), 0)
    np.testing.assert_allclose(evaluated(moved, x, at, updates), expected, rtol=2e-3)


def test_many_updates_take_no_pairs() -> None:
    """Updates were compared with each other, which took 10^12 comparisons here."""
    count = 1_000_000
    x, at = np.zeros(count, np.float32), np.arange(count, dtype=np.int32)[::-1].copy()
    for mode in ("set", "max"):
        found = evaluated(lambda x, i, mode=mode: ops.scatter(x, i, 3, mode=mode), x, at)
        np.testing.assert_array_equal(found, np.full(count, 3, np.float32))


@pytest.mark.parametrize("zeros", [(), (0,), (4,), (0, 1), (1, 5), (0, 1, 2)])
def test_second_derivatives_of_products_are_right_at_zeros(zeros: tuple[int, ...]) -> None:
    program = """function (U, I, V, W, C) -> (H) {
        O = scatter_mul(U, I, V);
        L = simple_reduce(reshape(O * W, 4));
        G = gradient(L, U);
        S = simple_reduce(reshape(G * C, 7));
        H = gradient(S, U);
    }"""
    generator = np.random.default_rng(0)
    updates, weights, factors = generator.normal(size=7), generator.normal(size=4), generator.normal(size=7)
    updates[list(zeros)] = 0
    rows = np.array([0, 0, 0, 1, 1, 2, 2], np.int32)
    expected = np.zeros(7)
    for one, other in np.ndindex(7, 7):
        if one != other and rows[one] == rows[other]:
            left = [k for k in range(7) if rows[k] == rows[one] and k not in (one, other)]
            expected[other] += factors[one] * weights[rows[one]] * np.prod(updates[left])
    found = tileir.evaluate(program, (updates, rows, np.zeros(4), weights, factors))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
