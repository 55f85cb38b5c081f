"""Kernels of all forms for scripts of schedules: each as its text, and the shapes of what it reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fuzz.area import Case, array_spec
from tileir.core.dtype import DType
from tileir_testing.generated.choices import Choices

SIZES: Final = (5, 1, 2, 3, 4, 7, 8, 9, 13, 16, 17, 24, 0)
DTYPES: Final = (DType.F32, DType.F64, DType.I32, DType.F16, DType.I8, DType.U8, DType.I64, DType.BOOL)

FORMS: Final[Mapping[str, Mapping[str, str]]] = {
    "C = A * 2 + B;": {"A": "m n", "B": "m n"},
    "C = A > B ? A : B;": {"A": "m n", "B": "n"},
    "C = A + B;": {"A": "2 m 1 n 3", "B": "m 2 n 1"},
    "C = A * B; D = A - C;": {"A": "m", "B": ""},
    "S[i : {m}] = {agg}(A[i, j]);": {"A": "m n"},
    "S[j : {n}] = {agg}(A[i, j]);": {"A": "m n"},
    "S[] = {agg}(A[i, j, k]);": {"A": "3 m n"},
    "S[i, j : {m}, {n}] = {agg}(A[i, k, j, l]);": {"A": "m 2 n 3"},
    "C[i, j : {m}, {n}] = +(A[i, k] * B[k, j]);": {"A": "m k", "B": "k n"},
    "C[i, j : {m}, {n}] = +(A[k, i] * B[j, k]);": {"A": "k m", "B": "n k"},
    "C[b, i, j : 2, {m}, {n}] = +(A[b, i, k] * B[b, j, k]);": {"A": "2 m k", "B": "2 n k"},
    "C[b, c, i, j : 2, 3, {m}, {n}] = +(A[b, c, i, k] * B[b, k, j]);": {"A": "2 3 m k", "B": "2 k n"},
    "C[i : {m}] = +(A[i, k] * B[k]);": {"A": "m k", "B": "k"},
    "C[i, j : {m}, {n}] = +(A[i, k] + B[k, j]), i - k < {m};": {"A": "m k", "B": "k n"},
    "C[i, j : {m}, {n}] = {agg}(A[i + k - 1, j + l - 1]), k < 3, l < 3;": {"A": "m n"},
    "C[i, o : ({m} + 1) / 2, {n}] = +(A[2*i + r - 1, c] * B[r, c, o]);": {"A": "m 3", "B": "3 3 n"},
    "C[i, j, o : {m} / 2, {n}, 4] = +(A[2*i + r, j + s - 1, c] * B[r, s, c, o]);": {"A": "m n 3", "B": "2 3 3 4"},
    "C[2*i, j : 2 * {m}, {n}] = =(A[i, j]);": {"A": "m n"},
    "C[2*i, j : {m}, {n}] = >(A[i, j]) default A;": {"A": "m n"},
    "C[j, i : {n}, {m}] = =(A[i, j]);": {"A": "m n"},
    "C[i, j : {m}, {n}] = =(A[i, {n} - 1 - j]);": {"A": "m n"},
    "C[i, j : 2 * {m}, {n}] = +(A[i - k, j]), k < 2;": {"A": "m n"},
    "C[i : {m}] = {agg}(A[k]), i - k < {m};": {"A": "m"},
    "C[i, j : {m}, {n}] = {agg}(A[i, k]), j - k < {n};": {"A": "m n"},
    "C[i, j : {m}, {m}] = +(A[i, k] * B[k, j]), i - k < {m};": {"A": "m m", "B": "m m"},
    "C[i : {m}] = +(A[i, j]), i - j < {m};": {"A": "m m"},
    "R = reduce_argmax(A, 1); V = element(R, 0); C = element(R, 1);": {"A": "m n"},
    "R = reduce_argmin(A); C = element(R, 1);": {"A": "m n"},
    "C = argsort(A, 1);": {"A": "m n"},
    "I = as_i32(argsort(A, 0)); C = gather(A, I);": {"A": "m"},
    "I = as_i32(B); C = gather(A, I);": {"A": "m n", "B": "k"},
    "I = as_i32(B); C = scatter(A, I, D);": {"A": "m n", "B": "m", "D": "5 n"},
    "T = A * 2; C[i, j : {m}, {n}] = +(T[i + k, j]), k < 3;": {"A": "m n"},
    "T[i, j : {m}, {n}] = +(A[i, j + k]), k < 3; C[i, j : {m}, {n}] = +(T[i + k, j]), k < 3;": {"A": "m n"},
    "T[i, j : {m}, {n}] = +(A[i, j + k]), k < 3; B = T * 2; C[i, j : {m}, {n}] = +(B[i + k - 1, j]), k < 3;": {
        "A": "m n"
    },
    "S[i, 0 : {m}, 1] = {agg}(A[i, j]); C = A - S;": {"A": "m n"},
    "S[0, j : 1, {n}] = {agg}(A[i, j]); C = max(A - S, 0); D = C * A;": {"A": "m n"},
    "T[i, j : {m}, {n}] = +(A[i, k] * B[k, j]); C = max(T + D, 0);": {"A": "m k", "B": "k n", "D": "n"},
    "T[i, j : {m}, {n}] = +(A[i, k] * B[k, j]); C[i, j : {m}, {k}] = +(T[i, l] * B[j, l]);": {"A": "m k", "B": "k n"},
    "T = A * B; C[i : {m}] = +(T[i, j]); D = T + 1;": {"A": "m n", "B": "m n"},
    "T[i, j : {m}, {n}] = =(A[i, {n} - 1 - j]); C[j, i : {n}, {m}] = =(T[i, j]); D = C + 1;": {"A": "m n"},
    "C = builtin_softmax(A);": {"A": "m n"},
    "S[i, j : {m}, {n}] = +(A[i, k] * B[j, k]); P = builtin_softmax(S); C[i, o : {m}, {k}] = +(P[i, j] * D[j, o]);": {
        "A": "m k", "B": "n k", "D": "n k"
    },
}  # fmt: skip
"""Statements, and what they read: its axes, as numbers or the names of sizes."""


def make(choices: Choices) -> Case:
    """Make the text of a function, and its inputs of some dtype and sizes."""
    lines = choices.pick(tuple(FORMS))
    sizes = {name: choices.pick(SIZES) for name in "mnk"}
    dtype = choices.pick(DTYPES)
    shapes = {
        name: tuple(sizes[axis] if axis in sizes else int(axis) for axis in axes.split())
        for name, axes in FORMS[lines].items()
    }
    body = lines.format(**sizes, agg=choices.pick("+><*"))
    inputs = ", ".join(f"{n}[{', '.join(f'{n}{a}' for a in range(len(s)))}]" for n, s in shapes.items())
    outputs = ", ".join(name for name in ("V", "C", "D", "S") if f" {name}" in f" {body}" and _defines(name, body))
    return {
        "inputs": {name: array_spec(choices, dtype, shape, "small") for name, shape in shapes.items()},
        "text": f"function ({inputs}) -> ({outputs}) {{ {body} }}",
    }


def _defines(name: str, body: str) -> bool:
    return any(line.strip().startswith((f"{name}[", f"{name} =")) for line in body.split(";"))
