"""Tile texts whose schedules differ, with the shapes that they are run on: shared by tests of passes and lowering."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tileir.core.dtype import DType
from tileir.stripe.ir import Program
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed import ir as typed
from tileir.typed.inference.inference import infer

Array = np.ndarray[Any, np.dtype[Any]]

PROGRAMS: Final[dict[str, tuple[str, dict[str, tuple[int, ...]]]]] = {
    "matmul": (
        "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }",
        {"A": (19, 11), "B": (11, 37)},
    ),
    "matmul, one column": (
        "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }",
        {"A": (9, 21), "B": (21, 1)},
    ),
    "matmul, second transposed": (
        "function (A[M, K], B[N, K]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[j, k]); }",
        {"A": (17, 19), "B": (23, 19)},
    ),
    "matmul, bias and relu": (
        "function (A[M, K], B[K, N], D[N]) -> (R) { C[i, j : M, N] = +(A[i, k] * B[k, j]); S = C + D; R = relu(S); }",
        {"A": (16, 8), "B": (8, 32), "D": (32,)},
    ),
    "batched matmul": (
        "function (A[Z, M, K], B[Z, K, N]) -> (C) { C[z, i, j : Z, M, N] = +(A[z, i, k] * B[z, k, j]); }",
        {"A": (3, 9, 5), "B": (3, 5, 18)},
    ),
    "sum over rows": ("function (A[M, N]) -> (O) { O[n : N] = +(A[m, n]); }", {"A": (7, 35)}),
    "sum over rows of two axes": (
        "function (A[M, P, N]) -> (O) { T[n : N] = +(A[m, p, n]); O = T * 2.0; }",
        {"A": (3, 6, 32)},
    ),
    "sum over columns": ("function (A[M, N]) -> (O) { O[m : M] = +(A[m, n]); }", {"A": (7, 75)}),
    "product over columns": ("function (A[M, N]) -> (O) { O[m : M] = *(A[m, n]); }", {"A": (2, 33)}),
    "greatest of all": ("function (A[M, N]) -> (O) { O[] = >(A[m, n]); }", {"A": (7, 75)}),
    "least over rows": ("function (A[M, N]) -> (O) { O[n : N] = <(A[m, n]); }", {"A": (5, 19)}),
    "convolution": (
        "function (I[H, W, C], K[P, Q, C, D]) -> (O) "
        "{ O[y, x, d : H - P + 1, W - Q + 1, D] = +(I[y + i, x + j, c] * K[i, j, c, d]); }",
        {"I": (7, 9, 3), "K": (3, 2, 3, 20)},
    ),
    "padded convolution": (
        "function (I[H, W, C], K[P, Q, C, D]) -> (O) "
        "{ O[y, x, d : H, W, D] = +(I[y + i - 1, x + j - 1, c] * K[i, j, c, d]); }",
        {"I": (5, 6, 2), "K": (3, 3, 2, 17)},
    ),
    "pool": (
        "function (I[H, W]) -> (O) { O[y, x : (H + 1) / 2, (W + 1) / 2] = >(I[2*y + i, 2*x + j]), i < 2, j < 2; }",
        {"I": (5, 9)},
    ),
    "cumulative sum": ("function (I[N]) -> (O) { O[i : N] = +(I[k]), i - k < N; }", {"I": (21,)}),
    "transpose": ("function (A[M, N]) -> (O) { O[j, i : N, M] = =(A[i, j]); }", {"A": (9, 18)}),
    "blocked transpose": ("function (A[M, N]) -> (O) { O[j, i : N, M] = =(A[i, j]); }", {"A": (37, 24)}),
    "chain": ("function (A, B) -> (O) { T = A * B + 1.0; O = T > 0.0 ? T : -T; }", {"A": (3, 41), "B": (41,)}),
    "only even elements": ("function (A[N]) -> (O) { O[2*i : N] = +(A[2*i]); }", {"A": (37,)}),
    "default": (
        "function (A[N], D[N]) -> (O) { O[i + 3 : N] = >(A[i]) default D; }",
        {"A": (40,), "D": (40,)},
    ),
    "softmax": (
        "function (I[M, N]) -> (O) { T[m, 0 : M, 1] = >(I[m, n]); E = I - T; S[m, 0 : M, 1] = +(E[m, n]); O = E + S; }",
        {"I": (5, 33)},
    ),
    "blur of three channels": (
        "function (I[H, W, C], K[P, Q]) -> (O) "
        "{ O[y, x, c : H - P + 1, W - Q + 1, C] = +(I[y + i, x + j, c] * K[i, j]); }",
        {"I": (6, 11, 3), "K": (3, 2)},
    ),
    "sum of all of three axes": ("function (A[M, N, K]) -> (O) { O[] = +(A[i, j, k]); }", {"A": (4, 5, 3)}),
    "two results": ("function (A[M, N]) -> (S, P) { S[m : M] = +(A[m, n]); P = A + 1.0; }", {"A": (6, 20)}),
    "scalar": ("function (A[]) -> (O) { O = A + A; }", {"A": ()}),
}
"""Name, text and shapes; all floats so that small integers as inputs give exact results in any order."""


def typed_program(name: str, dtype: DType = DType.F32) -> typed.Function:
    """Return a program of :data:`PROGRAMS` with all inputs of one dtype."""
    text, shapes = PROGRAMS[name]
    return infer(parse(text), {n: typed.TensorType(dtype, shape) for n, shape in shapes.items()})


def stripe_program(name: str, dtype: DType = DType.F32) -> Program:
    """Return the Stripe form of a program of :data:`PROGRAMS`."""
    return lower(typed_program(name, dtype))


def inputs(name: str, dtype: DType = DType.F32) -> dict[str, Array]:
    """Return small integers as inputs: sums and products of them are exact in f32."""
    generator = np.random.default_rng(7)
    shapes = PROGRAMS[name][1]
    return {n: np.asarray(generator.integers(-2, 3, shape), dtype.numpy) for n, shape in shapes.items()}
