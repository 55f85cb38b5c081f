"""Functions, methods and operators of NumPy on tensors, beside NumPy's own on arrays."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

import tileir
from strategies.opencl_device import device

if TYPE_CHECKING:
    from collections.abc import Callable

X = np.linspace(-2.5, 3.1, 12, dtype="f4").reshape(3, 4)
Y = np.array([0.5, -1.5, 2.0, 0.25], "f4")
P = np.abs(X) + 0.25
K = np.array([[3, -7, 0, 5], [2, 2, -1, 9], [-4, 6, 8, 1]], "i4")
J = np.array([2, -1, 0], "i4")
V = np.array([0.0, 1.0, 2.5, 4.0], "f4")
B = X > 0

SIGNED = np.array([0.0, -0.0, 1.5, -2.5, np.inf, -np.inf], "f4")

UNARY = (
    "abs absolute negative positive exp exp2 expm1 sin cos tan arctan atan sinh cosh tanh arcsinh asinh floor ceil "
    "trunc rint sign square isfinite isinf isnan logical_not deg2rad rad2deg radians degrees sinc cbrt signbit "
    "nan_to_num conj fabs"
)
POSITIVE = "sqrt log log2 log10 log1p reciprocal"
BINARY = (
    "add subtract multiply divide true_divide floor_divide remainder mod fmod maximum minimum fmax fmin arctan2 hypot "
    "copysign logaddexp logaddexp2 less less_equal greater greater_equal equal not_equal logical_and logical_or "
    "logical_xor heaviside"
)
INTEGERS = "bitwise_and bitwise_or bitwise_xor left_shift right_shift floor_divide remainder fmod add multiply divide"
REDUCTIONS = "sum prod max min mean var std all any argmax argmin count_nonzero ptp median cumsum cumprod amax amin"

KEPT = "sum prod max min mean var std all any argmax argmin ptp median"
INVERSE = "arcsin arccos arctanh asin acos atanh"

I1, U1 = np.full(300, 100, "i1"), np.full(300, 200, "u1")

SIZED: dict[str, Callable[..., Any]] = {
    "last half": lambda x: x[:, -(x.shape[1] // 2) :],
    "bound below 0": lambda x: (x[: x.shape[0] - 4], x[x.shape[0] - 4 :], x[x.shape[0] - 5], x[:: -(x.shape[0] // 3)]),
    "bound far below 0": lambda x: (x[: x.shape[0] - 9], x[x.shape[0] - 9 :], x[x.shape[0] - 2 :: -1]),
    "powers": lambda x: x * x.shape[0] ** 2 / x.shape[1] ** 0.5 + 2 ** x.shape[0],
    "divmod": lambda x: x * divmod(x.shape[1] - 7, 2)[0] + divmod(9, x.shape[1])[1],
    "abs and round": lambda x: x * abs(1 - x.shape[0]) + round(x.shape[0] / 2),
    "bits": lambda x: x * (x.shape[0] << 2) + (x.shape[1] >> 1) + (x.shape[0] & 1) + (8 | x.shape[0]),
    "arrays of sizes": lambda x: x + np.arange(x.shape[1]) / np.prod(x.shape) + np.float32(x.shape[0]),
    "lists": lambda x: x + np.array([1.0] * x.shape[1], "f4"),
}

CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    **{f"np.{name}": (getattr(np, name), (X,)) for name in UNARY.split()},
    **{f"np.{name}": (getattr(np, name), (P,)) for name in POSITIVE.split()},
    **{f"np.{name} of floats": (getattr(np, name), (X, Y)) for name in BINARY.split()},
    **{f"np.{name} of integers": (getattr(np, name), (K, np.abs(K) + 1)) for name in INTEGERS.split()},
    **{f"np.{name}": (getattr(np, name), (X,)) for name in REDUCTIONS.split()},
    **{f"np.{name} along 0": (partial(getattr(np, name), axis=0), (X,)) for name in REDUCTIONS.split()},
    **{f"np.{name}, kept": (partial(getattr(np, name), axis=-1, keepdims=True), (X,)) for name in KEPT.split()},
    **{f"np.{name}": (getattr(np, name), (P / 4,)) for name in INVERSE.split()},
    **{
        f"np.take, {mode}": (lambda x, mode=mode: np.take(x, np.array([5, -6, -1]), axis=1, mode=mode), (X,))
        for mode in ("wrap", "clip")
    },
    "np.take of all, wrap": (lambda x: np.take(x, np.array([[25, -1]]), mode="wrap"), (X,)),
    "np.array_equal of other ranks": (lambda x: (np.array_equal(x * 0, x[0] * 0), np.array_equal(x, x)), (X,)),
    "np.isin a list": (lambda i: np.isin(i, [2, -7]), (K,)),
    "signs of zeros": (lambda x: (np.signbit(x), np.signbit(np.copysign(0.0, x)), np.signbit(np.cbrt(x))), (SIGNED,)),
    "angles of zeros": (lambda y, x: np.signbit(np.arctan2(y, x)), (SIGNED, SIGNED[[3, 1, 1, 0, 4, 5]])),
    "angles of zeros and numbers": (lambda x: (np.arctan2(x, -0.0), np.signbit(np.arctan2(-0.0, x))), (SIGNED,)),
    "neighbours of floats": (
        lambda x: (np.nextafter(x, np.inf), np.nextafter(x, -1), np.nextafter(0, x), np.spacing(x)), (SIGNED[:4],)
    ),
    "neighbours of f64": (lambda x: (np.nextafter(x, 0) - x) / np.spacing(x), (SIGNED[2:4].astype("f8"),)),
    "bits of floats": (lambda x: x.view("i4") >> 23, (X,)),
    "sums of narrow integers": (lambda i: (i.sum(), np.cumsum(i), np.trace(i.reshape(10, 30)), i[:4].prod()), (I1,)),
    "sums of narrow numbers": (lambda i: (i.sum(), np.cumsum(i), np.trace(i.reshape(10, 30)), i[:4].prod()), (U1,)),
    "dtypes of others": (lambda i, k: i.astype((k.astype("i8")).dtype) // 2, (X[0], K)),
    **{f"sizes: {name}": (call, (X,)) for name, call in SIZED.items()},
    "np.arccosh": (np.arccosh, (P + 1,)),
    "np.var with ddof": (lambda x: np.var(x, axis=1, ddof=1), (X,)),
    "np.sum where": (lambda x: np.sum(x, axis=1, where=x > 0), (X,)),
    "np.max initial": (lambda x: np.max(x, axis=1, initial=1.0), (X,)),
    "np.average": (lambda x, w: np.average(x, axis=1, weights=w), (X, P)),
    "np.quantile": (lambda x: np.quantile(x, 0.3, axis=1), (X,)),
    "np.percentile": (lambda x: np.percentile(x, [20, 50], axis=0), (X,)),
    "np.sort": (lambda x: np.sort(x, axis=0), (X,)),
    "np.argsort": (lambda x: np.argsort(x, kind="stable"), (K,)),
    "np.diff": (lambda x: np.diff(x, 2, axis=1), (X,)),
    "np.searchsorted": (np.searchsorted, (V, X.ravel())),
    "np.digitize": (np.digitize, (X.ravel(), V)),
    "np.cov": (np.cov, (X,)),
    "np.corrcoef": (np.corrcoef, (np.array([[1, 2, 4], [3, 1, 7]], "f4"),)),
    "np.nansum": (lambda x: np.nansum(np.where(x > 2, np.nan, x), axis=1), (X,)),
    "np.nanmean": (lambda x: np.nanmean(np.where(x > 2, np.nan, x), axis=1), (X,)),
    "np.nanmax": (lambda x: np.nanmax(np.where(x > 2, np.nan, x), axis=1), (X,)),
    "np.power of floats": (np.power, (P, Y)),
    "np.power of integers": (lambda i: i**5, (K,)),
    "np.round": (lambda x: np.round(x, 1), (X,)),
    "np.clip": (lambda x: np.clip(x, -1, 1), (X,)),
    "np.clip below": (lambda x: x.clip(max=0.5), (X,)),
    "np.where": (lambda x: np.where(x > 0, x, 0), (X,)),
    "np.select": (lambda x: np.select([x > 2, x > 0], [x, x * x], -1.0), (X,)),
    "np.isclose": (lambda x: np.isclose(x, x + 1e-9), (X,)),
    "np.divmod": (lambda i: np.divmod(i, 3), (K,)),
    "np.modf": (np.modf, (X,)),
    "np.zeros_like": (lambda x: np.zeros_like(x) + np.ones_like(x, "i4") + np.full_like(x, 3), (X,)),
    "np.interp": (lambda x: np.interp(x, V, V * V), (X.ravel(),)),
    "np.gradient": (lambda x: np.gradient(x, 0.5, axis=1), (X,)),
    "np.trapezoid": (lambda x: np.trapezoid(x, dx=0.5), (X,)),
    "np.trapezoid at": (lambda x, v: np.trapezoid(x, v), (X, V)),
    "np.convolve": (lambda x, v: np.convolve(x, v), (X.ravel(), Y)),
    "np.convolve same": (lambda x, v: np.convolve(x, v, "same"), (X.ravel(), Y[:3])),
    "np.correlate": (lambda x, v: np.correlate(x, v), (X.ravel(), Y)),
    "np.polyval": (lambda x: np.polyval([1.0, -2.0, 0.5], x), (X,)),
    "np.reshape": (lambda x: np.reshape(x, (2, -1)), (X,)),
    "x.reshape": (lambda x: x.reshape(4, 3).reshape((-1,)), (X,)),
    "np.ravel": (np.ravel, (X,)),
    "np.transpose": (lambda x: np.transpose(x[None], (2, 0, 1)), (X,)),
    "x.T": (lambda x: x.T + x.mT, (X,)),
    "x.transpose": (lambda x: x[None].transpose(1, 2, 0), (X,)),
    "np.swapaxes": (lambda x: np.swapaxes(x[None], 0, 2), (X,)),
    "np.moveaxis": (lambda x: np.moveaxis(x[None], [0, 1], [-1, 0]), (X,)),
    "np.rollaxis": (lambda x: np.rollaxis(x[None], 2), (X,)),
    "np.squeeze": (lambda x: np.squeeze(x[:, None]), (X,)),
    "np.expand_dims": (lambda x: np.expand_dims(x, (0, 2)), (X,)),
    "np.broadcast_to": (lambda y: np.broadcast_to(y, (2, 4)), (Y,)),
    "np.broadcast_arrays": (lambda x, y: np.broadcast_arrays(x, y), (X, Y)),
    "np.concatenate": (lambda x, y: np.concatenate([x, y[None]]), (X, Y)),
    "np.concatenate all": (lambda x, y: np.concatenate([x, y], axis=None), (X, Y)),
    "np.stack": (lambda y: np.stack([y, y * 2], axis=-1), (Y,)),
    "np.vstack": (lambda x, y: np.vstack([x, y]), (X, Y)),
    "np.hstack": (lambda x: np.hstack([x, x]), (X,)),
    "np.hstack of vectors": (lambda y: np.hstack([y, y]), (Y,)),
    "np.dstack": (lambda x: np.dstack([x, x]), (X,)),
    "np.column_stack": (lambda y: np.column_stack([y, y]), (Y,)),
    "np.split": (lambda x: np.split(x, 2, axis=1), (X,)),
    "np.split at": (lambda x: np.split(x, [1, 3], axis=1), (X,)),
    "np.atleast": (lambda y: (np.atleast_2d(y), np.atleast_3d(y), np.atleast_1d(y)), (Y,)),
    "np.repeat": (lambda x: np.repeat(x, 2, axis=0), (X,)),
    "np.tile": (lambda y: np.tile(y, (2, 3)), (Y,)),
    "np.flip": (lambda x: (np.flip(x), np.flip(x, 1), np.fliplr(x), np.flipud(x)), (X,)),
    "np.roll": (lambda x: (np.roll(x, 2), np.roll(x, -1, axis=1)), (X,)),
    "np.rot90": (np.rot90, (X,)),
    "np.pad": (lambda x: np.pad(x, 1), (X,)),
    "np.pad with widths": (lambda x: np.pad(x, ((1, 0), (0, 2)), constant_values=7), (X,)),
    "np.pad reflect": (lambda x: np.pad(x, ((1, 1), (2, 2)), mode="reflect"), (X,)),
    "np.pad edge": (lambda x: np.pad(x, 2, mode="edge"), (X,)),
    "windows": (
        lambda x: (
            np.lib.stride_tricks.sliding_window_view(x, (2, 3)),
            np.lib.stride_tricks.sliding_window_view(x, 2, axis=-1).max(-1),
        ),
        (X,),
    ),
    "np.block": (lambda x, y: np.block([[x, x], [y, y]]), (X, Y)),
    "np.choose": (lambda i: np.choose(i % 2, [i, -i]), (K,)),
    "np.array_split": (lambda x: np.array_split(x, 3, axis=1), (X,)),
    "order of Fortran": (lambda x: (x.ravel("F"), x.reshape(2, 6, order="F")), (X,)),
    "np.cov of two": (np.cov, (X, X * X)),
    "np.cov of columns": (lambda x: np.cov(x, rowvar=False), (X,)),
    "np.gradient of both": (lambda x: np.gradient(x, 0.5, 2.0), (X,)),
    "np.quantile at an array": (lambda x: np.quantile(x, np.array([0.1, 0.6])), (X,)),
    "np.repeat of each": (lambda x: np.repeat(x, [2, 0, 1], axis=0), (X,)),
    "np.std where": (lambda x: (np.std(x, where=x > 0), np.var(x, axis=1, where=x > -4, ddof=1)), (X,)),
    "np.nanstd": (lambda x: np.nanstd(np.where(x > 2, np.nan, x), axis=1), (X,)),
    "np.nanargmax": (lambda x: np.nanargmax(np.where(x > 2, np.nan, x), axis=1), (X,)),
    "np.nancumsum": (lambda x: np.nancumsum(np.where(x > 2, np.nan, x)), (X,)),
    "np.triu of a vector": (np.triu, (Y,)),
    "shapes as arrays": (
        lambda x: (x.reshape(np.array([2, 6])), np.tile(x, np.array([1, 2])), np.roll(x, np.int64(1))),
        (X,),
    ),
    "names of parameters": (
        lambda x: (
            np.sum(a=x, axis=0), np.clip(a=x, a_min=-1, a_max=1), np.reshape(x, shape=(2, 6)),
            np.transpose(a=x, axes=(1, 0)),
            np.roll(a=x, shift=1), np.tile(A=x, reps=2), np.pad(array=x, pad_width=1),
            np.split(ary=x, indices_or_sections=2, axis=1),
            np.select(condlist=[x > 1], choicelist=[x], default=2), np.linalg.norm(x=x), np.dot(a=x, b=x.T),
            np.stack(arrays=[x, x], axis=1), np.quantile(a=x, q=0.5, axis=0), np.take(a=x, indices=[1], axis=0),
            np.moveaxis(a=x, source=0, destination=1), np.interp(x=x, xp=[0, 1], fp=[0, 2]),
            np.nanmean(a=x, keepdims=True),
        ),
        (X,),
    ),
    "np.zeros_like of other shapes": (lambda x: (np.zeros_like(x, shape=(2, 3)), np.full_like(x, 2, shape=3)), (X,)),
    "np.isclose of NaN": (lambda x: np.isclose(x, x + 0, equal_nan=True), (np.array([1, np.nan, 2], "f4"),)),
    "np.meshgrid": (lambda y, v: np.meshgrid(y, v), (Y, V)),
    "np.append": (lambda y: np.append(y, y), (Y,)),
    "np.take": (lambda x, j: np.take(x, j, axis=1), (X, J)),
    "np.take_along_axis": (lambda x, j: np.take_along_axis(x, j[:, None], axis=1), (X, J)),
    "x @ y": (lambda x, y: x @ y, (X, Y)),
    "x @ x.T": (lambda x: x @ x.T, (X,)),
    "batches @": (lambda x: x[None] @ x.T[None], (X,)),
    "array @ x": (lambda x: P @ x.T, (X,)),
    "np.dot": (lambda x, y: (np.dot(x, y), np.dot(y, y), np.dot(x, 2.0)), (X, Y)),
    "np.inner": (np.inner, (X, Y)),
    "np.outer": (np.outer, (X, Y)),
    "np.vdot": (np.vdot, (X, P)),
    "np.vecdot": (np.vecdot, (X, P)),
    "np.tensordot": (lambda x, p: np.tensordot(x, p, axes=([1], [1])), (X, P)),
    "np.einsum": (lambda x, y: np.einsum("ij,j->i", x, y, optimize=True), (X, Y)),
    "np.kron": (lambda y: np.kron(y, y), (Y,)),
    "np.cross": (lambda x: np.cross(x.T[:, :3], x.T[::-1, :3]), (X,)),
    "np.trace": (lambda x: (np.trace(x), np.diagonal(x, 1), np.diag(x), np.diag(x[0])), (X,)),
    "np.tril": (lambda x: (np.tril(x), np.triu(x, 1)), (X,)),
    "np.vander": (lambda y: np.vander(y, 3), (Y,)),
    "np.linalg.norm": (lambda x: (np.linalg.norm(x), np.linalg.norm(x, axis=1), np.linalg.norm(x, 1)), (X,)),
    "np.linalg.norm, orders": (
        lambda x: (np.linalg.norm(x, np.inf), np.linalg.norm(x, 1, axis=1), np.linalg.norm(x, "fro")), (X,)
    ),
    "np.linalg.matrix_power": (lambda x: np.linalg.matrix_power(x[:, :3], 3), (X,)),
    "np.linalg.multi_dot": (lambda x: np.linalg.multi_dot([x, x.T, x]), (X,)),
    "x[1]": (lambda x: x[1], (X,)),
    "x[-1, 2]": (lambda x: x[-1, 2], (X,)),
    "x[::-2, 1:3]": (lambda x: x[::-2, 1:3], (X,)),
    "x[..., None, 0]": (lambda x: x[..., None, 0], (X,)),
    "x[j]": (lambda x, j: x[j], (X, J)),
    "x[:, j]": (lambda x, j: x[:, j], (X, J)),
    "x[j, j]": (lambda x, j: x[j, j + 1], (X, J)),
    "x[j[:, None], j]": (lambda x, j: x[j[:, None], j], (X, J)),
    "x[0, :, j]": (lambda x, j: np.stack([x, x])[0, :, j], (X, J)),
    "x[:, list]": (lambda x: x[:, [0, -1]], (X,)),
    "x[array mask]": (lambda x: x[np.array([True, False, True])], (X,)),
    "x[None, ..., j]": (lambda x, j: x[None, ..., j], (X, J)),
    "reflected operators": (lambda x: (2 - x, 1.5 / x, 3**x, 7 // x, 7 % x, np.float32(2) * x), (P,)),
    "array operators": (lambda x: (Y + x, Y * x, P - x, np.greater(Y, x)), (X,)),
    "operators of integers": (lambda i: (i / 4, i // 4, i % 4, -i, ~i, i << 1, i >> 1, i & 3, abs(i)), (K,)),
    "truth": (lambda b: (b & ~b, b | b, b ^ b, b.any(), b.all(), b.sum()), (B,)),
    "divmod": (lambda i: divmod(i, 4), (K,)),
    "methods": (lambda x: (x.sum(0), x.mean(), x.max(1), x.argmin(1), x.std(), x.cumsum(1)), (X,)),
    "astype": (lambda x: (x.astype("i4"), x.astype(np.float64), x.astype(bool)), (X,)),
    "round": (lambda x: x.round(), (X,)),
    "np.add.reduce": (lambda x: (np.add.reduce(x), np.maximum.reduce(x, axis=1), np.add.accumulate(x, 1)), (X,)),
    "np.multiply.outer": (lambda y: np.multiply.outer(y, y), (Y,)),
    "shape": (lambda x: (x * x.shape[0], x / x.size, x + x.ndim, x - len(x), x * np.shape(x)[1]), (X,)),
    "rows": (lambda x: sum(row * 2 for row in x), (X,)),
    "size arithmetic": (lambda x: x * (x.shape[0] / 2 + x.shape[1] // 2 - x.shape[1] % 3) + 1 / x.shape[0], (X,)),
}  # fmt: skip


def agree(found: Any, wanted: Any) -> None:
    if isinstance(wanted, tuple | list):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            agree(one, other)
        return
    wanted = np.asarray(wanted)
    assert found.shape == wanted.shape
    assert found.dtype.kind == wanted.dtype.kind or wanted.dtype.kind in "iuf"
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6)


@pytest.mark.sampled(35)
@pytest.mark.parametrize("name", CASES)
def test_functions_give_what_numpy_gives(name: str) -> None:
    function, arrays = CASES[name]
    agree(tileir.evaluate(function, arrays), function(*arrays))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", CASES)
def test_functions_run_compiled(name: str) -> None:
    function, arrays = CASES[name]
    agree(tileir.jit(function)(*arrays), function(*arrays))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CASES)
def test_functions_run_on_opencl(name: str) -> None:
    function, arrays = CASES[name]
    agree(tileir.jit(function, device())(*arrays), function(*arrays))


@pytest.mark.parametrize(
    ("function", "array"),
    [
        (np.squeeze, X[None, :, :1]),
        (lambda x: x.squeeze() * len(x), X[:1]),
        (np.nanmax, np.array([[np.nan, np.nan]], np.float32)),
        (lambda x: np.nanmin(x, axis=1, keepdims=True), np.array([[np.nan, np.nan], [np.nan, 2]], np.float32)),
        (np.nanmax, np.array([2**30 + 1, 3], np.int32)),
        (np.nanargmin, np.array([2**30 + 1, 2**30], np.int32)),
        (np.nanmin, np.array([True, False])),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:All-NaN")
def test_sizes_of_one_and_rows_without_numbers(function: Callable[..., Any], array: Any) -> None:
    found, wanted = np.asarray(tileir.evaluate(function, [array])), np.asarray(function(array))
    np.testing.assert_array_equal(found, wanted, strict=wanted.dtype.kind != "i")


@pytest.mark.parametrize(
    "function", [np.logaddexp, np.logaddexp2, np.hypot, np.arctan2], ids=lambda each: each.__name__
)
def test_integers_beside_wide_floats_are_wide(function: Any) -> None:
    x, i = np.array([0.9, 1.3]), np.array([1491068891, 7], np.int32)
    np.testing.assert_allclose(tileir.evaluate(function, [x, i]), function(x, i), rtol=1e-15)
    np.testing.assert_allclose(tileir.evaluate(function, [i, x]), function(i, x), rtol=1e-15)


def test_quotients_of_integers_keep_their_digits() -> None:
    i, j = np.array([1019363975]), np.array([1019363974], np.uint32)
    np.testing.assert_allclose(tileir.evaluate(np.divide, [i, j]), i / j, rtol=1e-15)


@pytest.mark.parametrize("number", [1, -1.5])
@pytest.mark.parametrize(
    "function",
    [np.fmin, np.fmax, np.heaviside, np.divide, np.float_power, np.logaddexp2],
    ids=lambda each: each.__name__,
)
def test_numbers_stand_on_either_side(function: Any, number: float) -> None:
    x = np.array([np.nan, 2, -3, 0.5], np.float32)
    found = tileir.evaluate(lambda x: (function(number, x), function(x, number), -1 / (x > 1)), [x])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(found[0], function(number, x), rtol=1e-6)
        np.testing.assert_allclose(found[1], function(x, number), rtol=1e-6)
        np.testing.assert_allclose(found[2], -1 / (x > 1))


@pytest.mark.parametrize("subscripts", ["a,b->b", "a,b,b->b"])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_sums_of_one_factor_have_the_dtype_of_the_product(subscripts: str, dtype: Any) -> None:
    large, small = np.full(100, 100, np.int8), np.array([1, 2], dtype)
    factors = [large, small, small][: subscripts.count(",") + 1]
    found = tileir.evaluate(lambda *tensors: np.einsum(subscripts, *tensors), factors)
    np.testing.assert_array_equal(found, np.einsum(subscripts, *factors), strict=True)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("sizes", [(3, 3), (4, 3), (3, 4), (1, 2)])
def test_nothing_beyond_the_ends_is_convolved(mode: Any, sizes: tuple[int, int]) -> None:
    a, v = np.array([np.inf, 2, 1.5, 3], np.float32)[: sizes[0]], np.array([1, np.nan, 2, 1], np.float32)[: sizes[1]]
    found = tileir.evaluate(lambda a, v: (np.convolve(a, v, mode), np.correlate(v, a, mode)), [a, v])
    np.testing.assert_array_equal(found[0], np.convolve(a, v, mode))
    np.testing.assert_array_equal(found[1], np.correlate(v, a, mode))


def test_means_of_some_integers_do_not_wrap() -> None:
    x = np.full((2, 17), 60000, np.uint16)
    means = tileir.evaluate(lambda x: (np.mean(x, where=x > 0), np.nanmean(x), np.nanvar(x, axis=0)), [x])
    for found, wanted in zip(means, (60000, 60000, np.zeros(17)), strict=True):
        np.testing.assert_array_equal(found, wanted)
    h = np.full(3000, 60, np.float16)
    found = tileir.evaluate(lambda h: np.mean(h, where=h > 0), [h])
    assert (found, found.dtype) == (60, np.float16)


@pytest.mark.filterwarnings("ignore:Degrees of freedom", "ignore:invalid value", "ignore:divide by zero")
@pytest.mark.parametrize("size", [0, 1, 2, 3])
def test_variances_of_too_few_elements(size: int) -> None:
    x = np.arange(2 * size, dtype=np.float32).reshape(size, 2)
    found = tileir.evaluate(lambda x: (np.var(x, 0, ddof=2), np.std(x.reshape(size, 2), 0, ddof=1)), [x])
    np.testing.assert_allclose(found[0], np.var(x, 0, ddof=2))
    np.testing.assert_allclose(found[1], np.std(x, 0, ddof=1))


def test_integers_are_rounded_to_floats_by_rint_alone() -> None:
    rounded, same = tileir.evaluate(lambda i: (np.rint(i), np.round(i)), [K])
    assert (rounded.dtype.kind, same.dtype.kind) == ("f", "i")
    np.testing.assert_array_equal(rounded, K)


def test_borders_are_not_negative() -> None:
    with pytest.raises(tileir.TileError, match="slice the tensor to cut some of it off") as raised:
        tileir.evaluate(lambda x: np.pad(x, ((1, 0), (0, -1))), [X])
    assert raised.value.diagnostics[0].code == "TIL217"


@pytest.mark.parametrize(
    ("update", "wanted"),
    [
        (lambda x: x.at[0].set(7), lambda x: x.__setitem__(0, 7)),
        (lambda x: x.at[:, 1:3].add(1.5), lambda x: x.__setitem__((slice(None), slice(1, 3)), x[:, 1:3] + 1.5)),
        (lambda x: x.at[::-2, 0].set(Y[:2]), lambda x: x.__setitem__((slice(None, None, -2), 0), Y[:2])),
        (lambda x: x.at[J].multiply(2.0), lambda x: np.multiply.at(x, J, 2.0)),
        (lambda x: x.at[[0, 0, 1]].add(1.0), lambda x: np.add.at(x, [0, 0, 1], 1.0)),
        (lambda x: x.at[:, [1, 1]].max(0.5), lambda x: np.maximum.at(x, cast(Any, (slice(None), [1, 1])), 0.5)),
        (lambda x: x.at[1, J].min(0.25), lambda x: np.minimum.at(x, cast(Any, (1, J)), 0.25)),
    ],
)  # fmt: skip
def test_updates_of_places(update: Callable[..., Any], wanted: Callable[..., Any]) -> None:
    copy = X.copy()
    wanted(copy)
    np.testing.assert_allclose(tileir.evaluate(update, [X]), copy, rtol=1e-6)


@pytest.mark.parametrize(
    ("function", "code", "words"),
    [
        (lambda x: x[x > 0], "TIL215", "numpy.where"),
        (lambda x: 1 if x.sum() > 0 else 2, "TIL215", "truth value"),
        (lambda x: np.linalg.svd(x), "TIL215", "decompositions"),
        (lambda x: np.unique(x), "TIL215", "depends on values"),
        (lambda x: np.add(x, 1, out=np.zeros(3)), "TIL215", "out"),
        (lambda x: x.__setitem__(0, 1), "TIL215", "x.at[key].set"),
        (lambda x: x[1.5], "TIL217", "integer"),
        (lambda x: x["a"], "TIL217", "key"),
        (lambda x: x[..., ...], "TIL217", "one '...'"),
        (lambda x: x[np.array([True, False])], "TIL215", "a mask of 2 elements"),
        (lambda x: x[..., np.array([True, False]), None], "TIL215", "this one has 4"),
        (lambda x: x[[3]], "TIL215", "are -3 to 2"),
        (lambda x: x[:, np.array([[0, -5]])], "TIL215", "are -4 to 3"),
        (lambda x: x[: x[0, 0]], "TIL215", "numpy.arange"),
        (lambda x: x[0, 0, 0], "TIL209", "rank 2"),
        (lambda x: x[np.array([0.5])], "TIL302", "positions are integers"),
        (lambda x: np.sum(x, axis=5), "TIL314", "axis"),
        (lambda x: np.asarray(x), "TIL215", "no values"),
        (lambda x: x.sum(nonsense=2), "TIL217", "nonsense"),
        (lambda x: x.argsort(axis=7), "TIL314", "axis"),
    ],
)
def test_what_a_tensor_cannot_mean_says_what_to_write(function: Callable[..., Any], code: str, words: str) -> None:
    with pytest.raises(tileir.TileError) as caught:
        tileir.jit(function)(X)
    assert caught.value.diagnostics[0].code == code
    assert words in str(caught.value)
    assert "test_functions.py" in str(caught.value)


def test_attributes_that_arrays_have_and_tensors_lack() -> None:
    with pytest.raises(AttributeError, match="run the function"):
        tileir.jit(lambda x: x.tolist())(X)
    with pytest.raises(AttributeError, match="did you mean reshape"):
        tileir.jit(lambda x: x.reshap(3))(X)


def test_dtypes_are_known_while_a_function_is_traced() -> None:
    seen: list[Any] = []

    def look(x: Any, i: Any) -> Any:
        seen.extend(
            [x.dtype, i.dtype, (x + i).dtype, (x > 0).dtype, (i / 2).dtype, (i // 2).dtype, x.astype("f2").dtype]
        )
        return x

    tileir.evaluate(look, [X, K])
    assert seen == [np.float32, np.int32, np.float32, np.bool_, np.float32, np.int32, np.float16]


def test_tensors_of_a_builder_have_the_functions_too() -> None:
    f = tileir.FunctionBuilder()
    x: Any = f.input("X", "N", "M")
    function = f.build(*cast(Any, (np.exp(x) @ x.T, x.sum(axis=0), x[0, ::2], x // 2, np.where(x > 0, x, 0))))
    wanted = (np.exp(X) @ X.T, X.sum(axis=0), X[0, ::2], X // 2, np.where(X > 0, X, 0))
    agree(tileir.evaluate(function, [X]), wanted)


@pytest.mark.parametrize("values", [B, K.astype("i1"), X], ids=["bool", "i8", "f32"])
@pytest.mark.parametrize("initial", [True, 0, 2, -1, 2.75])
def test_initial_has_the_dtype_of_the_reduction(values: np.ndarray[Any, Any], initial: Any) -> None:
    for name in ("min", "max", "sum", "prod"):
        for where in (True, B):

            def reduced(x: Any, name: str = name, where: Any = where) -> Any:
                return getattr(np, name)(x, axis=0, initial=initial, where=where)

            found, wanted = tileir.jit(reduced, device=device())(values), reduced(values)
            np.testing.assert_allclose(found, wanted, rtol=1e-6)
            assert found.dtype == wanted.dtype or (name in ("sum", "prod") and found.dtype.kind == wanted.dtype.kind)


def test_stacks_of_scalars() -> None:
    for stack in (np.vstack, np.hstack, np.dstack, np.column_stack):
        found = tileir.jit(lambda x, stack=stack: stack([x.sum(), x.max()]), device=device())(X)
        np.testing.assert_allclose(found, stack([X.sum(), X.max()]), rtol=1e-6)
        assert found.shape == stack([X.sum(), X.max()]).shape


def test_dtypes_in_another_byte_order_are_refused() -> None:
    other = np.dtype("f4").newbyteorder().str
    with pytest.raises(tileir.TileError, match="write 'float32' for") as fault:
        tileir.jit(lambda x: x.astype(other))(X)
    assert "error[TIL206]" in str(fault.value)


@pytest.mark.parametrize("axis", [None, 1, (1,), (0, 2), (-1, -3, 1)])
def test_quantiles_along_several_axes(axis: Any) -> None:
    values = np.sin(np.arange(60, dtype="f4")).reshape(3, 4, 5)
    for function in (np.median, lambda x, **more: np.percentile(x, np.array([5, 70]), **more)):
        for keepdims in (False, True):

            def found(x: Any, function: Any = function, keepdims: bool = keepdims) -> Any:
                return function(x, axis=axis, keepdims=keepdims)

            wanted = found(values)
            np.testing.assert_allclose(tileir.jit(found, device=device())(values), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("shape", [(), (1,), (2, 3)])
def test_variances_of_single_numbers(shape: tuple[int, ...]) -> None:
    values = np.arange(np.prod(shape, dtype=int), dtype="f4").reshape(shape)
    for ddof in (0, 1):
        for axis in (None, ()):

            def found(x: Any, axis: Any = axis, ddof: int = ddof) -> Any:
                return np.var(x, axis=axis, ddof=ddof)

            np.testing.assert_allclose(tileir.jit(found, device=device())(values), found(values))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("shape", [(1, 4), (3, 1), (3, 0), (6,)])
def test_covariances_of_one_row_and_of_no_columns(shape: tuple[int, ...]) -> None:
    values = np.cos(np.arange(np.prod(shape), dtype="f4")).reshape(shape)
    for name in ("cov", "corrcoef"):
        wanted = getattr(np, name)(values)
        found = tileir.jit(lambda x, name=name: getattr(np, name)(x), device=device())(values)
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
        assert found.shape == wanted.shape


def test_bounds_that_all_elements_keep_need_not_fit() -> None:
    values = np.array([0, 1, 5, 255], "u1")
    for low, high in ((-1, 3), (2, 300), (-(2**70), None), (None, 2**70)):
        found = tileir.jit(lambda x, low=low, high=high: np.clip(x, low, high), device=device())(values)
        np.testing.assert_array_equal(found, np.clip(values, low, high))
        assert found.dtype == np.uint8
