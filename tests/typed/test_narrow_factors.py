"""Products of 16 bits whose sums are rounded later: no cast is stored, and matrices are multiplied by instructions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
import pytest

import tileir
from strategies.golden_kernels import TARGETS, compiled
from strategies.kernel_properties import kernel_rows
from tileir.core.dtype import DType
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret
from tileir.typed.ir import Cast, Contraction, TensorType
from tileir.typed.raising.raising import raise_to_tile
from tileir.typed.simplify.preparation import prepared
from tileir.typed.verifier import verify

if TYPE_CHECKING:
    from tileir.typed.ir import Function

PLAIN = "function (A[M, K], B[K, N], D[N]) -> (O) { C[m, n : M, N] = +(A[m, k] * B[k, n]); O = C + D; }"
WIDENED = """function (A[M, K], B[K, N], D[N]) -> (O) {{
    V = widen({a}); W = {b};
    C[m, n : M, N] = +(V[m, k] * W[k, n]);
    O = as_like(C + D, D);
}}"""
BOTH = WIDENED.format(a="A", b="widen(B)")
ONE = WIDENED.format(a="A", b="B")
OTHER = WIDENED.format(a="B", b="A").replace("V[m, k] * W[k, n]", "W[m, k] * V[k, n]")
SAME = "function (A[M, K], D[M]) -> (O) { V = widen(A); C[m, n : M, M] = +(V[m, k] * A[n, k]); O = as_like(C + D, D); }"


def graph(text: str, dtype: DType, size: int = 8) -> Function:
    shapes = {"A": (size, size), "B": (size, size), "D": (size,)}
    function = tileir.parse(text)
    types = {p.name: TensorType(dtype, shapes[p.name]) for p in function.inputs}
    return prepared(infer(function, types))


@pytest.mark.parametrize("text", [BOTH, ONE, OTHER, SAME])
@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16])
def test_no_factor_is_cast(text: str, dtype: DType) -> None:
    made = graph(text, dtype)
    verify(made)
    (product,) = (operation for operation in made.operations if isinstance(operation, Contraction))
    assert (product.operand_dtype, product.accumulator, product.dtype) == (DType.F32,) * 3
    assert [operation.dtype for operation in made.operations if isinstance(operation, Cast)] == [DType.F32, dtype]


def test_wide_factors_stay() -> None:
    made = graph(BOTH, DType.F32)
    assert not any(isinstance(operation, Cast) for operation in made.operations)


@pytest.mark.parametrize("text", [BOTH, ONE, OTHER, SAME])
def test_sums_are_rounded_once(text: str) -> None:
    random = np.random.default_rng(0)
    made = graph(text, DType.BF16, 64)
    arrays = {v.name: random.standard_normal(v.shape).astype(ml_dtypes.bfloat16) for v in made.inputs}
    a, d = (arrays[name].astype(np.float64) for name in "AD")
    exact = a @ (arrays["B"].astype(np.float64) if "B" in arrays else a.T) + d
    for found in (interpret(made, arrays)["O"], tileir.jit(tileir.parse(text))(**arrays)):
        error = np.abs(np.asarray(found).astype(np.float64) - exact)
        assert (error <= np.abs(exact) * 2.0**-8 + 1e-4).all()


@pytest.mark.parametrize("text", [BOTH, ONE, OTHER, SAME])
def test_as_tile_it_means_the_same(text: str) -> None:
    made = graph(text, DType.F16)
    raised = raise_to_tile(made)
    random = np.random.default_rng(0)
    arrays = {v.name: random.standard_normal(v.shape).astype(np.float16) for v in made.inputs}
    np.testing.assert_array_equal(tileir.evaluate(raised, arrays), interpret(made, arrays)["O"])


@pytest.mark.sampled(9)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("text", [BOTH, ONE, OTHER])
def test_kernels_are_those_of_products_that_are_rounded(text: str, target: str) -> None:
    types = {name: TensorType(DType.F16, (512, 512)) for name in "AB"} | {"D": TensorType(DType.F16, (512,))}
    assert kernel_rows(compiled(text, types, target)) == kernel_rows(compiled(PLAIN, types, target))
