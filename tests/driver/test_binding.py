"""Inputs that are bound: what comes out, what is refused, and what caches see."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tileir
from tileir.core.dtype import DType
from tileir.core.errors import ArgumentError, TileError
from tileir.tile.ir import Constant

CONVOLUTION = """function (I[H, W], K[KH, KW], Scale) -> (R) {
  O[y, x : H - KH + 1, W - KW + 1] = +(I[y + j, x + i] * K[j, i]);
  R = O * Scale;
}"""
IMAGE = np.random.default_rng(0).normal(size=(9, 11)).astype(np.float32)
WEIGHTS = np.array([[1, 2, 1], [2, 4.5, -0.0], [-1, 0.1, 3]], np.float32)


def test_bound_inputs_are_constants_and_no_inputs() -> None:
    bound = tileir.bind(CONVOLUTION, K=WEIGHTS, Scale=2.0)
    assert [parameter.name for parameter in bound.inputs] == ["I"]
    assert [s.name for s in bound.statements if isinstance(s, Constant)] == ["K", "Scale"]
    assert tileir.parse(tileir.to_text(bound)) == bound
    assert tileir.bind(tileir.bind(CONVOLUTION, Scale=2.0), {"K": WEIGHTS}) == bound
    assert tileir.bind(tileir.parse(CONVOLUTION), {"K": WEIGHTS}, Scale=2.0) == bound
    assert tileir.bind(bound) is bound


@pytest.mark.sampled(2)
@pytest.mark.parametrize("scale", [2.0, 0.1, -3, True, np.float32(0.5), np.float64(0.1), np.array(3, np.int16)])
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64, DType.F16, DType.BF16])
def test_results_are_those_of_the_arguments(scale: Any, dtype: DType) -> None:
    image, weights = IMAGE.astype(dtype.numpy), WEIGHTS.astype(dtype.numpy)
    expected = tileir.evaluate(CONVOLUTION, (image, weights, scale))
    bound = tileir.bind(CONVOLUTION, K=weights, Scale=scale)
    result = tileir.evaluate(bound, image)
    assert (result.dtype, result.tobytes()) == (expected.dtype, expected.tobytes())
    called = tileir.jit(CONVOLUTION)(image, weights, scale)
    assert tileir.jit(bound)(image).dtype == called.dtype
    np.testing.assert_allclose(
        tileir.jit(bound)(image).astype(np.float64), called.astype(np.float64), rtol=1e-2, atol=1e-2
    )


def test_derivatives_by_the_others() -> None:
    bound = tileir.bind(CONVOLUTION, K=WEIGHTS, Scale=2.0)
    expected = tileir.jit(tileir.gradient(CONVOLUTION, "I"))(IMAGE, WEIGHTS, 2.0)
    np.testing.assert_allclose(tileir.jit(tileir.gradient(bound))(IMAGE), expected, rtol=1e-5)
    written = tileir.gradient(bound, arguments=[IMAGE])
    np.testing.assert_allclose(tileir.jit(written)(IMAGE), expected, rtol=1e-5)
    assert set(tileir.vjp(bound, [IMAGE], [np.ones((7, 9), np.float32)])) == {"I"}
    moved = tileir.jvp(bound, [IMAGE], [IMAGE])["R"]
    np.testing.assert_allclose(moved, tileir.jit(bound)(IMAGE), rtol=1e-4, atol=1e-5)


def test_a_bound_input_has_no_derivative() -> None:
    with pytest.raises(TileError, match="TIL710"):
        tileir.gradient(tileir.bind(CONVOLUTION, K=WEIGHTS), "K")


def test_sizes() -> None:
    source = "function (X[N], M[]) -> (O, R) { O[i : M] = +(X[i + k]), k < M; R = X * M; }"
    x = np.arange(6, dtype=np.float32)
    for value in (3, np.int64(3), np.array(3, np.uint8)):
        bound = tileir.bind(source, M=value)
        expected = tileir.evaluate(source, (x, value))
        for mine, other in zip(tileir.evaluate(bound, x), expected, strict=True):
            assert mine.dtype == other.dtype
            assert np.array_equal(mine, other)
        for mine, other in zip(tileir.jit(bound)(x), expected, strict=True):
            assert np.array_equal(mine, other)
    for bad in (2.5, np.ones(2, int), np.float32(2), True):
        with pytest.raises(ArgumentError, match=r"TIL711.*sizes are computed from 'M'"):
            tileir.bind(source, M=bad)


def test_everything_may_be_bound() -> None:
    whole = tileir.bind(CONVOLUTION, I=IMAGE, K=WEIGHTS, Scale=2.0)
    assert whole.inputs == ()
    expected = tileir.evaluate(CONVOLUTION, (IMAGE, WEIGHTS, 2.0))
    assert np.array_equal(tileir.evaluate(whole), expected)
    np.testing.assert_allclose(tileir.jit(whole)(), expected, rtol=1e-5)


def test_a_result_may_be_what_was_bound() -> None:
    source = "function (A[N], B) -> (A, C, D, E) { C = A; D = reshape(A, N, 1); E = B; }"
    a, b = np.arange(3, dtype=np.int16), np.array([[1.5]])
    bound = tileir.bind(source, A=a, B=b)
    for run in (tileir.evaluate(bound), tileir.jit(bound)()):
        for mine, other in zip(run, (a, a, a[:, None], b), strict=True):
            assert (mine.dtype, mine.tolist()) == (other.dtype, other.tolist())


@pytest.mark.parametrize("value", [math.nan, -0.0, math.inf, -math.inf, 5e-324, 2**64 - 1, -(2**63), False])
def test_odd_numbers(value: bool | int | float) -> None:
    source = "function (X, S) -> (R) { R = as_float(S, 64) + as_float(X, 64) * 0; }"
    x = np.zeros(2, np.float32)
    expected = tileir.evaluate(source, (x, value))
    assert tileir.evaluate(tileir.bind(source, S=value), x).tobytes() == expected.tobytes()


def test_defaults_and_steps_read_constants() -> None:
    source = """function (X[T, N], W[N], H[N], D[N]) -> (S, O) {
      S = scan(H; X; W) function (A[N], B[N], C[N]) -> (E) { E = A * C + B; };
      O[i : N] = =(X[0, i]), i < 2 default D;
    }"""
    rng = np.random.default_rng(3)
    x = rng.integers(-3, 3, (4, 5)).astype(np.float32)
    w, h, d = (rng.integers(-3, 3, 5).astype(np.float32) for _ in range(3))
    bound = tileir.bind(source, W=w, H=h, D=d)
    for mine, other in zip(tileir.jit(bound)(x), tileir.evaluate(source, (x, w, h, d)), strict=True):
        assert np.array_equal(mine, other)


def test_arrays_of_the_caller_may_change_later() -> None:
    weights = WEIGHTS.copy()
    bound = tileir.bind(CONVOLUTION, K=weights, Scale=1)
    before = tileir.jit(bound)(IMAGE)
    weights[:] = 0
    assert np.array_equal(tileir.jit(bound)(IMAGE), before)


def test_equal_constants_share_executables() -> None:
    context = tileir.Context()
    made = [
        tileir.jit(tileir.bind(CONVOLUTION, K=WEIGHTS.copy(), Scale=1.0), context=context).specialise(IMAGE)
        for _ in range(2)
    ]
    other = tileir.jit(tileir.bind(CONVOLUTION, K=WEIGHTS + 1, Scale=1.0), context=context).specialise(IMAGE)
    assert made[0] is made[1]
    assert other is not made[0]


@pytest.mark.parametrize(
    ("values", "code", "words"),
    [
        ({"k": WEIGHTS}, "TIL711", "did you mean K"),
        ({"R": WEIGHTS}, "TIL711", "is an output"),
        ({"K": [1, 2]}, "TIL702", "is of type list"),
        ({"K": np.zeros((3, 3), complex)}, "TIL702", "convert it"),
        ({"K": WEIGHTS[0]}, "TIL305", "names 2 dimensions"),
        ({"K": np.float32(2)}, "TIL305", "names 2 dimensions"),
        ({"K": 2.0}, "TIL305", "has no axes"),
        ({"Scale": 1 << 70}, "TIL702", "no integer type"),
    ],
)
def test_what_is_refused(values: dict[str, Any], code: str, words: str) -> None:
    with pytest.raises(TileError, match=words) as caught:
        tileir.bind(CONVOLUTION, values)
    assert caught.value.diagnostics[0].code == code


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(ArgumentError) as caught:
        tileir.bind(CONVOLUTION, k=1, R=2, K=[1])
    assert [d.code for d in caught.value.diagnostics] == ["TIL711", "TIL711", "TIL702"]


def test_one_value_for_each_input() -> None:
    with pytest.raises(ArgumentError, match=r"TIL711.*given twice"):
        tileir.bind(CONVOLUTION, {"K": WEIGHTS}, K=WEIGHTS)
    with pytest.raises(ArgumentError, match=r"TIL711.*a constant already"):
        tileir.bind(tileir.bind(CONVOLUTION, K=WEIGHTS), K=WEIGHTS)
    with pytest.raises(ArgumentError, match="TIL707"):
        tileir.bind(CONVOLUTION, [WEIGHTS])  # type: ignore[arg-type]


def test_sizes_that_contradict_each_other() -> None:
    source = "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }"
    a, b = np.ones((2, 3), np.float32), np.ones((4, 5), np.float32)
    with pytest.raises(TileError, match=r"TIL304.*'K' is 3 on axis 1 of 'A', but 4 on axis 0 of 'B'"):
        tileir.bind(source, A=a, B=b)
    with pytest.raises(TileError, match="TIL304"):
        tileir.evaluate(tileir.bind(source, B=b), a)


def test_entries_on_disk_have_no_copy_of_long_arrays(tmp_path: Any) -> None:
    source = "function (X[M, K], W[K, N]) -> (O) { O[i, j : M, N] = +(X[i, k] * W[k, j]); }"
    weights = np.random.default_rng(5).normal(size=(300, 400)).astype(np.float32)
    x = np.ones((2, 300), np.float32)
    results = []
    for _ in range(2):
        with tileir.Context(disk_cache=tileir.DiskCache(tmp_path)) as context:
            results.append(tileir.jit(tileir.bind(source, W=weights), context=context)(x))
    assert np.array_equal(*results)
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) < weights.nbytes
