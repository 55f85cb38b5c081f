"""Narrow dtypes: what gives floats of integers does not wrap on the way, and sums of f16 do not overflow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import ml_dtypes
import numpy as np
import pytest

import tileir
from strategies.operations import run
from tileir import ops

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_UNARY: Final[Mapping[str, Callable[..., Any]]] = {
    "mean": lambda x: ops.mean(x, 1),
    "std": lambda x: ops.std(x, 1),
    "norm": lambda x: ops.norm(x, 1),
    "norm_of_order_3": lambda x: ops.norm(x, 1, order=3),
    "logsumexp": lambda x: ops.logsumexp(x, 1),
    "softmax": ops.softmax,
    "log_softmax": ops.log_softmax,
    "logcumsumexp": ops.logcumsumexp,
    "batch_norm": lambda x: ops.batch_norm(x, axis=0)[0],
    "layer_norm": ops.layer_norm,
    "rms_norm": ops.rms_norm,
    "group_norm": lambda x: ops.group_norm(x, 1),
    "l2_normalise": ops.l2_normalise,
    "local_response_norm": lambda x: ops.local_response_norm(x, 3),
    "average_pool": lambda x: ops.average_pool(x, 2, layout="nx"),
    "global_average_pool": lambda x: ops.global_average_pool(x, layout="nx"),
    "adaptive_average_pool": lambda x: ops.adaptive_average_pool(x, 2, layout="nx"),
    "lp_pool": lambda x: ops.lp_pool(x, 2, 2, layout="nx"),
    "iou": lambda x: ops.iou(x, x),
}
_BINARY: Final[Mapping[str, Callable[..., Any]]] = {
    "logaddexp": ops.logaddexp,
    "lerp": lambda x, y: ops.lerp(x, y, 0.5),
    "hypot": ops.hypot,
    "atan2": ops.atan2,
    "isclose": lambda x, y: ops.isclose(x, y, atol=2),
    "l1_loss": ops.l1_loss,
    "mse_loss": ops.mse_loss,
    "huber_loss": ops.huber_loss,
    "cosine_similarity": ops.cosine_similarity,
}
_NARROW: Final = {
    np.int8: np.array([[-128, 127, 5, 100], [3, -50, 120, -128]]),
    np.uint8: np.array([[1, 3, 250, 200], [255, 0, 100, 254]]),
    np.float16: np.array([[300.0, -900.0, 1000.0, 5.0], [40.0, 1.0, -800.0, 9.0]]),
}


@pytest.mark.sampled(27)
@pytest.mark.parametrize("dtype", _NARROW)
@pytest.mark.parametrize("name", _UNARY)
def test_narrow_dtypes_give_what_wide_ones_do(name: str, dtype: Any) -> None:
    _check(_UNARY[name], dtype, _NARROW[dtype])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("name", _BINARY)
def test_differences_do_not_wrap(name: str, dtype: Any) -> None:
    _check(_BINARY[name], dtype, _NARROW[dtype], _NARROW[dtype][::-1].copy())


@pytest.mark.parametrize("options", [{}, {"padding": 1, "count_include_pad": False}, {"ceil_mode": True, "stride": 2}])
def test_means_of_great_halves_are_finite(options: dict[str, Any]) -> None:
    means = run(lambda x: ops.average_pool(x, 2, **options), np.full((1, 1, 5, 5), 30000, np.float16))
    assert (means == 30000).all()


def test_means_of_many_halves_are_finite() -> None:
    assert run(ops.mean, np.full(3000, 100, np.float16)) == 100
    assert run(ops.mean, np.full(3000, 2**30, np.int32)) == 2**30


@pytest.mark.parametrize(
    ("dtype", "limit"),
    [
        (np.float16, 65504),
        (ml_dtypes.bfloat16, (2 - 2**-7) * 2.0**127),
        (np.float32, np.finfo(np.float32).max),
        (np.float64, np.finfo(np.float64).max),
    ],
)
def test_infinities_become_the_greatest_numbers(dtype: Any, limit: float) -> None:
    found = run(ops.nan_to_num, np.array([np.nan, np.inf, -np.inf, 2], dtype))
    np.testing.assert_array_equal(found, np.array([0, limit, -limit, 2], dtype))
    assert found.dtype == dtype
    assert run(ops.nan_to_num, np.array([3, 127], np.int8)).tolist() == [3, 127]


def _check(build: Callable[..., Any], dtype: Any, *arrays: Any) -> None:
    found = run(build, *(array.astype(dtype) for array in arrays))
    wanted = run(build, *(array.astype(np.float64) for array in arrays))
    assert found.dtype == (np.bool_ if wanted.dtype == np.bool_ else np.float16 if dtype == np.float16 else np.float32)
    np.testing.assert_allclose(found, wanted, rtol=1e-5 if dtype != np.float16 else 4e-3, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int8, np.float16, np.float64])
def test_what_fills_has_the_dtype_of_what_it_fills(dtype: Any) -> None:
    x = np.array([1, 0, 1], dtype)
    masked = run(lambda x, m: ops.masked_fill(x, m, 3.5), x, np.array([True, False, False]))
    assert masked.dtype == dtype
    np.testing.assert_array_equal(masked, np.array([np.array(3.5).astype(dtype), 0, 1]))
    taken = run(lambda x, i: ops.take(x, i, mode="fill", fill=1), x, np.array([-1, 1], np.int32))
    assert taken.dtype == dtype
    np.testing.assert_array_equal(taken, np.array([1, 0], dtype))
    taken = run(lambda x, i: ops.gather_nd(x, i, depth=1, mode="fill", fill=1), x, np.array([[7], [1]], np.int32))
    assert taken.dtype == dtype
    np.testing.assert_array_equal(taken, np.array([1, 0], dtype))


def test_differences_of_differences_are_rounded_once() -> None:
    x = np.array([1000.0, 2049.0, 1.0, 4095.0, -30000.0], np.float16)
    found = run(lambda x: ops.diff(x, 2), x)
    np.testing.assert_array_equal(found, np.diff(x.astype(np.float64), 2).astype(np.float16), strict=True)


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", None])
def test_floats_of_a_declared_dtype_are_cast_only_if_they_are_narrow(dtype: str | None) -> None:
    f = tileir.FunctionBuilder()
    x, w = f.input("X", 1, 2, 5, 5, dtype=dtype), f.input("W", 3, 2, 3, 3, dtype=dtype)
    bias, y = f.input("B", 3, dtype=dtype), f.input("Y", 4, 6, dtype=dtype)
    convolved = ops.conv(x, w, bias, padding=1)
    text = tileir.to_text(f.build(C=convolved, S=ops.softmax(y), G=ops.gelu(y), E=ops.einsum("ij,ik->k", y, y)))
    assert ("as_like" in text or "widen" in text) == (dtype not in ("f32", "f64"))


@pytest.mark.parametrize("other", ["f32", "f64", "f16", "i32"])
def test_declared_dtypes_promote_as_unknown_ones_do(other: str) -> None:
    def build(x: Any, y: Any) -> list[Any]:
        return [ops.lerp(x, y, 0.5), ops.linear(x, y, ops.sum(y, 0)), ops.huber_loss(x, y), ops.atan2(y, x)]

    x = np.array([[0.5, 2.0], [3.0, 1.0]], np.float32)
    y = np.array([[4, 5], [6, 7]], f"{other[0]}{int(other[1:]) // 8}")
    found = []
    for kinds in ((None, None), ("f32", other)):
        f = tileir.FunctionBuilder()
        tensors = [f.input(name, 2, 2, dtype=kind) for name, kind in zip("XY", kinds, strict=True)]
        results = build(*tensors)
        found.append(tileir.evaluate(f.build(**{f"R{n}": each for n, each in enumerate(results)}), [x, y]))
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two, strict=True)
