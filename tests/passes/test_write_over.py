"""Results that lie in what their kernels add: shortcuts of networks, and what must stay as it is."""

from __future__ import annotations

import numpy as np
import pytest

from tileir import evaluate
from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.driver.compiler import compile_stages
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.ir import ParamAccess
from tileir.tile.text.parser import parse
from tileir.typed.ir import TensorType

_LAST = "O[i, j : N, N] = +(R[i, k] * B[k, j])"
_CASES = [
    ("Y[i, j : N, N] = +(X[i, k] * B[k, j]); T[i, j : N, N] = +(Y[i, k] * B[k, j]); R = T + X; " + _LAST, "X"),
    ("Y[i, j : N, N] = +(X[i, k] * B[k, j]); T[i, j : N, N] = +(Y[i, k] * A[j, k]); R = T * X + X; " + _LAST, "X"),
    ("T[i, j : N, N] = +(A[i, k] * B[k, j]); U[i, j : N, N] = =(X[j, i]); R = T + U; " + _LAST, "U"),
    # read later, or by the product itself
    (
        "Y[i, j : N, N] = +(X[i, k] * B[k, j]); T[i, j : N, N] = +(Y[i, k] * B[k, j]); R = T + X; "
        "O[i, j : N, N] = +(R[i, k] * X[k, j])",
        "",
    ),
    ("T[i, j : N, N] = +(X[i, k] * B[k, j]); R = T + X; " + _LAST, ""),
    # inputs and outputs
    ("T[i, j : N, N] = +(A[i, k] * X[j, k]); R = T + A; " + _LAST, ""),
    ("T[i, j : N, N] = +(A[i, k] * B[k, j]); O = T + X", ""),
]


@pytest.mark.parametrize("size", [16, 48])
@pytest.mark.parametrize(("text", "over"), _CASES)
def test_results_lie_in_what_is_read_last(text: str, over: str, size: int) -> None:
    function = f"function (A[N, N], B[N, N]) -> (O) {{ X[i, j : N, N] = +(A[i, k] * A[k, j]); {text}; }}"
    types = dict.fromkeys("AB", TensorType(DType.F32, (size, size)))
    random = np.random.default_rng(size)
    arrays = {name: random.integers(-2, 3, (size, size)).astype(np.float32) for name in types}
    compiled = compile_stages(parse(function), types, Target(vector_bytes=64))
    params = [param for kernel in compiled.sem.kernels for param in kernel.params]
    assert [param.name for param in params if param.access is ParamAccess.READ_WRITE] == [*over]
    np.testing.assert_array_equal(run_program(compiled.sem, arrays)["O"], evaluate(function, arrays))
