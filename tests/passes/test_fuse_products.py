"""Products that meet other reductions elementwise, through whole pipelines."""

from __future__ import annotations

import math

import pytest

from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.core.targets.target_file import with_facts
from tileir.driver.compiler import compile_stages
from tileir.semtree import ir as sem
from tileir.semtree.text.printer import to_text as kernel_text
from tileir.tile.text.parser import parse
from tileir.typed.ir import TensorType

MEETING = {
    "sum of products": ("C[M, K], D[K, N]", "Y[i, j : M, N] = +(C[i, k] * D[k, j]); O = X + Y;"),
    "gated": ("D[K, N]", "Y[i, j : M, N] = +(A[i, k] * D[k, j]); O = X * sigmoid(X) * Y;"),
    "transposed": ("C[M, K], D[N, K]", "Y[i, j : M, N] = +(C[i, k] * D[j, k]); O = X + Y;"),
    "product and sum": ("P[M, N, L]", "Y[i, j : M, N] = +(P[i, j, l]); O = X + Y;"),
}


def meeting(name: str, dtype: DType, target: Target, terms: int = 1024) -> sem.Program:
    """Return the kernels of a product of so many terms that meets another reduction elementwise."""
    inputs, rest = MEETING[name]
    text = f"function (A[M, K], B[K, N], {inputs}) -> (O) {{ X[i, j : M, N] = +(A[i, k] * B[k, j]); {rest} }}"
    function = parse(text)
    sizes = {"M": 1024, "N": 1024, "K": terms, "L": 64}
    types = {i.name: TensorType(dtype, tuple(sizes[str(dim)] for dim in i.dims or ())) for i in function.inputs}
    return compile_stages(function, types, target).sem


@pytest.mark.sampled(5)
@pytest.mark.parametrize("dtype", [DType.F16, DType.F32])
@pytest.mark.parametrize("name", MEETING)
def test_products_that_meet_others_keep_their_schedule_on_cards(name: str, dtype: DType) -> None:
    program = meeting(name, dtype, with_facts(Target(pipeline="nvidia-hopper")))
    tiled = [kernel for kernel in program.kernels if math.prod(kernel.grid) <= 1024 * 1024 // 1024]
    assert len(tiled) == (1 if name == "product and sum" else 2)
    assert kernel_text(program).count("multiply(") == (len(tiled) if dtype is DType.F16 else 0)


@pytest.mark.parametrize(
    ("body", "dtype", "size", "kernels"),
    [
        ("O = X * (erf(X * 0.7) + 1.0);", DType.BF16, 1024, 2),
        ("O = X * (erf(X * 0.7) + 1.0);", DType.F32, 1024, 1),  # no instruction multiplies such matrices
        ("O = X * (erf(X * 0.7) + 1.0);", DType.BF16, 512, 1),  # a launch takes longer
        ("O = X * sigmoid(X);", DType.BF16, 1024, 1),  # reading again takes longer
    ],
)
def test_what_computes_much_with_a_stored_product_reads_it_again(
    body: str, dtype: DType, size: int, kernels: int
) -> None:
    function = parse(f"function (A[M, K], B[K, N]) -> (X, O) {{ X[i, j : M, N] = +(A[i, k] * B[k, j]); {body} }}")
    types = {each.name: TensorType(dtype, (size, size)) for each in function.inputs}
    made = compile_stages(function, types, with_facts(Target(pipeline="nvidia-hopper"))).sem
    assert len(made.works) == kernels
    joined = [
        kernel for kernel in made.kernels if len([p for p in kernel.params if p.access is sem.ParamAccess.WRITE]) > 1
    ]
    assert len(joined) == (kernels == 1)


def test_what_computes_much_with_a_product_that_nobody_stores_joins_it() -> None:
    function = parse("function (A[M, K], B[K, N]) -> (O) { X[i, j : M, N] = +(A[i, k] * B[k, j]); O = erf(X) * X; }")
    types = {each.name: TensorType(DType.BF16, (1024, 1024)) for each in function.inputs}
    assert len(compile_stages(function, types, with_facts(Target(pipeline="nvidia-hopper"))).sem.works) == 1


@pytest.mark.sampled(6)
@pytest.mark.parametrize("terms", [16, 32, 1024])
@pytest.mark.parametrize("name", MEETING)
def test_products_join_only_each_other_on_processors(name: str, terms: int) -> None:
    """Long ones only where they share a factor: their tiles would be smaller."""
    program = meeting(name, DType.F32, Target(threads=2), terms)
    together = name == "gated" or (terms < 32 and name != "product and sum")
    assert len(program.works) == (1 if together else 2)
