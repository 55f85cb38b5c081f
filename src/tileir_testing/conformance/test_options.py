"""Options change speed and last digits, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from tileir import Options, compile as compile_function, evaluate
from tileir_testing.subject import Subject

LAYER = """function (A[M, K], B[K, N], I) -> (O, C, J) {
  P[i, j : M, N] = +(A[i, k] * B[k, j]); O = exp(-P * P) + tanh(P) / 3; C[i : M] = >(O[i, j]); J = I * I / 7;
}"""
SPECIAL = "function (A) -> (E, L, D, M, N) { E = exp(A); L = log(A); D = 1 / A; M = max(A, 0); N = A == A; }"

each_option = pytest.mark.parametrize(
    "options",
    [Options(threads=1), Options(fast_math=True), Options(threads=2, fast_math=True), Options(quick=True)],
    ids=str,
)


@each_option
def test_results_stay_close(subject: Subject, options: Options) -> None:
    generator = np.random.default_rng(5)
    inputs = {
        "A": generator.normal(size=(17, 33)).astype(np.float32),
        "B": generator.normal(size=(33, 40)).astype(np.float32),
        "I": np.arange(-50, 50),
    }
    executable = compile_function(LAYER, inputs, device=subject.device, context=subject.context, options=options)
    wanted = evaluate(LAYER, inputs)
    # With fast_math, matrix units may round factors of f32 to the ten bits of TF32.
    tolerance = 1e-2 if options.fast_math else 1e-4
    for actual, expected in zip(executable(**inputs), wanted, strict=True):
        if expected.dtype.kind == "i":
            np.testing.assert_array_equal(actual, expected)
        else:
            np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


@each_option
def test_infinities_and_nan_keep_their_meaning(subject: Subject, options: Options) -> None:
    given = np.array([0.0, 1.0, np.inf, -np.inf, np.nan, -1.0, 100.0], np.float32)
    executable = compile_function(SPECIAL, [given], device=subject.device, context=subject.context, options=options)
    for actual, expected in zip(executable(given), evaluate(SPECIAL, given), strict=True):
        np.testing.assert_allclose(actual.astype(np.float64), expected.astype(np.float64), rtol=1e-4)
