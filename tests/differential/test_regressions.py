"""Programs that some way of running them once got wrong: every device, pipeline and interpreter agrees on them."""

from __future__ import annotations

import numpy as np
import pytest

from strategies import means
from strategies.tile import assert_equal
from tileir.core.dtype import DType
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret
from tileir.typed.ir import TensorType

Shapes = dict[str, tuple[int, ...]]

PROGRAMS: dict[str, tuple[str, Shapes]] = {
    "reshape to the same stride": ("function (A[N, M]) -> (O) { O = reshape(A, 1, N * M); }", {"A": (3, 3)}),
    "reduction from the end": (
        "function (A[N, M], B[M, L]) -> (O) { O[i, k : N, L] = +(A[i, M - 1 - j] * B[j, k]); }",
        {"A": (5, 40), "B": (40, 33)},
    ),
    "one index forwards and backwards": (
        "function (A[N, M]) -> (O) { O[l + j : M + 1] = +(A[2 - j, j] == A[j + i, k] ? A[k + 1, k]); }",
        {"A": (4, 3)},
    ),
    "gather from what the same kernel sums up": (
        "function (A[N, M]) -> (O) { P[i : 1] = *(A[i, j]); I = as_i32(P); O = gather(P, I); }",
        {"A": (1, 3)},
    ),
    "long chain of minima that the compiler unrolls": (
        "function (A) -> (O) { O[] = <(A[i / 2 + k / 3, j] == A[3, 2] ? A[i, l]) no_defract; }",
        {"A": (5, 9)},
    ),
    "running sums, in vectors and a rest, of rows that a kernel beside them makes": (
        """function (A[N, M]) -> (S, R) {
            T = A * 2;
            S[i, 0 : N, 1] = +(A[i, j]);
            R[i, j : N, M] = +(T[i, k]), j - k < M;
        }""",
        {"A": (16, 127)},
    ),
    "windows over rows, from whose ends threads hand on elements": (
        "function (A[M, N]) -> (O) { O[i, j : M, N + 7] = +(A[i, N - 1 - 2*j + 2*k]), k < 65; }",
        {"A": (9, 256)},
    ),
    "rows that a kernel writes in two ways and reads": (
        """function (A[N, M]) -> (O, P) {
            T = A * 2;
            T_0[i, 0 : N, M] = =(A[i, 1]) default T;
            O[i, 5 : N, M] = =(A[i, 2]) default T_0;
            P = T + T_0;
        }""",
        {"A": (8, 256)},
    ),
    "parts side by side over one default": (
        """function (A[N, M]) -> (O) {
            T[i, j : N, 2 * M + 3] = =(A[i, j]);
            S[i, j + M : N, 2 * M + 3] = =(A[i, M - 1 - j]) default T;
            O[i, j + 2 * M : N, 2 * M + 3] = +(A[i, k]), j < 3 default S;
        }""",
        {"A": (5, 33)},
    ),
    "sums of columns of unequal lengths, the longer one first": (
        """function (A[P, N]) -> (X, Y) {
            X[j : N] = +(A[k, j]), k < 4;
            Y[j : N] = +(A[k, j]), k < 3;
        }""",
        {"A": (4, 33)},
    ),
    "maxima and sums of unequal lengths from the end, in two axes each": (
        """function (A[P, Q, N]) -> (X, Y, Z) {
            X[j : N] = >(A[P - 1 - k, l, j]), k < 5;
            Y[j : N] = >(A[k, l, j]), k < 4, l < 2;
            Z[j : N] = <(A[2 - k, l + 1, j]), k < 3, l < 2;
        }""",
        {"A": (5, 3, 16)},
    ),
    "two sums over one panel": (
        """function (A[N, K], B[M, K], D[N, K]) -> (O) {
            T = reshape(A, N, 1, K) - reshape(B, 1, M, K);
            U = T * T;
            S[i, j : N, M] = +(U[i, j, k]);
            V = reshape(D, N, 1, K) * T;
            R[i, j : N, M] = +(V[i, j, k]);
            O = R * S;
        }""",
        {"A": (31, 3), "B": (5, 3), "D": (31, 3)},
    ),
}
"""Text and shapes; all arguments are small integers in f32."""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("passes", means.PASSES)
@pytest.mark.parametrize("target", means.TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_all_means_agree(name: str, target: str, passes: str) -> None:
    text, shapes = PROGRAMS[name]
    function = parse(text)
    generator = np.random.default_rng(3)
    inputs = {n: np.asarray(generator.integers(-3, 4, shape), np.float32) for n, shape in shapes.items()}
    types = {n: TensorType(DType.F32, shape) for n, shape in shapes.items()}
    expected = interpret(infer(function, types), inputs)
    compiled = means.stages(function, inputs, target, passes)
    assert_equal(means.on_device(compiled, inputs), expected)
    # The interpreters, which take most of the time, by turns: each has every program, every target and all passes.
    turn = list(PROGRAMS).index(name) + list(means.TARGETS).index(target) + list(means.PASSES).index(passes)
    if turn % 3 == 0:
        assert_equal(means.by_kernel_interpreter(compiled, inputs), expected)
    elif turn % 3 == 1:
        assert_equal(means.by_stripe_interpreter(compiled, inputs, scheduled=True), expected)
