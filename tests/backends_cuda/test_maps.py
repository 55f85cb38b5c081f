"""Tensor maps, of which those of factors in TF32 round what is copied."""

from __future__ import annotations

import sys
from typing import Any, TypeGuard

import pytest

import tileir
from strategies.card_driver import without_a_card
from tileir.core import DType
from tileir.core.fragments import FRAGMENTS, OperandMemory
from tileir.semtree.ir import BulkCopy, MatrixMultiply, Stmt
from tileir.semtree.rewrite import statements
from tileir_cuda.emit.boxes import TensorMap, rounding_maps, tensor_maps

PRODUCTS = {
    "A[M, K], B[K, N]": "A[i, k] * B[k, j]",
    "A[M, K], B[N, K]": "A[i, k] * B[j, k]",
    "A[K, M], B[K, N]": "A[k, i] * B[k, j]",
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("inputs", "terms"), PRODUCTS.items())
@pytest.mark.parametrize("size", [1024, 4096])
def test_factors_in_tf32_are_rounded_on_their_way(inputs: str, terms: str, size: int) -> None:
    text = f"function ({inputs}) -> (C) {{ C[i, j : M, N] = +({terms}); }}"
    options = tileir.Options(fast_math=True)
    *_, kernel = tileir.compile(text, [f"f32[{size}, {size}]"] * 2, device="cuda.sm_90a", options=options).sem.kernels
    boxes = {each.array for each in tensor_maps(kernel)}
    assert len(boxes - {"C"}) == 2
    assert {each.array for each in rounding_maps(kernel)} == boxes - {"C"}


PRODUCT = "A[M, K], B[K, N]", "C[i, j : M, N] = +(A[i, k] * B[k, j])"
TURNED = "A[M, K], B[N, K]", "C[i, j : M, N] = +(A[i, k] * B[j, k])"
OF_BOTH_SIDES = "A[M, K], B[K, N]", "S[i, j : M, N] = +(A[i, k] * B[k, j]); C = max(S + A, 0.0)"
SQUARED = "A[M, K]", "C[i, j : M, M] = +(A[i, k] * A[j, k])"
BATCHED = "A[T, M, K], B[T, K, N]", "C[t, i, j : T, M, N] = +(A[t, i, k] * B[t, k, j])"
WINDOWS = (
    "A[N, Y, X, K], B[P, Q, K, F]",
    "C[n, y, x, f : N, Y, X, F] = +(A[n, y + p - 1, x + q - 1, k] * B[p, q, k, f])",
)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("program", "shapes"),
    [
        *((program, [[size, size]] * 2) for program in (PRODUCT, TURNED) for size in (64, 128, 256, 512, 515, 768)),
        *((PRODUCT, [[m, k], [k, n]]) for m, n, k in ((64, 64, 4096), (16, 512, 512), (4096, 40, 64), (100, 200, 300))),
        (PRODUCT, [[2049, 3001], [3001, 4097]]),
        *((OF_BOTH_SIDES, [[size, size]] * 2) for size in (512, 1024)),
        *((SQUARED, [[size, size]]) for size in (512, 1024)),
        (BATCHED, [[16, 128, 64], [16, 64, 128]]),
        (WINDOWS, [[8, 28, 28, 64], [3, 3, 64, 128]]),
        (WINDOWS, [[1, 14, 14, 36], [3, 3, 36, 64]]),
    ],
)
def test_no_instruction_reads_words_that_nobody_rounded(program: tuple[str, str], shapes: list[list[int]]) -> None:
    text = f"function ({program[0]}) -> (C) {{ {program[1]}; }}"
    options = tileir.Options(fast_math=True)
    types = [f"f32[{', '.join(map(str, shape))}]" for shape in shapes]
    kernels = tileir.compile(text, types, device="cuda.sm_90a", options=options).sem.kernels
    products = [(kernel, stmt) for kernel in kernels for stmt in statements(kernel.body) if is_product(stmt)]
    assert products
    for kernel, product in products:
        if FRAGMENTS[product.fragment].a.where is not OperandMemory.LOCAL:
            continue  # threads load it, and round it
        maps = rounding_maps(kernel)
        copies = [stmt for stmt in statements(kernel.body) if isinstance(stmt, BulkCopy)]
        rounded = {stmt.local.array for stmt in copies if TensorMap.of(stmt) in maps}
        assert product.right.start.array in rounded


def is_product(stmt: Stmt) -> TypeGuard[MatrixMultiply]:
    return isinstance(stmt, MatrixMultiply) and FRAGMENTS[stmt.fragment].a.dtype is DType.F32


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", ["f16", "bf16", "f8e4m3fn"])
def test_what_is_exact_is_copied_as_it_is(dtype: str) -> None:
    text = "function (A[M, K], B[N, K]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[j, k]); }"
    *_, kernel = tileir.compile(text, [f"{dtype}[4096, 4096]"] * 2, device="cuda.sm_90a").sem.kernels
    assert tensor_maps(kernel)
    assert not rounding_maps(kernel)


@pytest.mark.parametrize("fast_math", [False, True])
def test_the_driver_is_told(fast_math: bool) -> None:
    text = "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }"
    types = ["f32[4096, 4096]" if fast_math else "f16[4096, 4096]"] * 2
    options = tileir.Options(fast_math=fast_math)
    *_, kernel = tileir.compile(text, types, device="cuda.sm_90a", options=options).sem.kernels
    with without_a_card() as (driver, _):
        from tileir_cuda.run import maps

        asked: list[str] = []
        module: Any = sys.modules["cuda.bindings.driver"]
        told = module.cuTensorMapEncodeTiled

        def encoded(kind: str, *rest: object) -> Any:
            asked.append(kind)
            return told(kind, *rest)

        module.cuTensorMapEncodeTiled = encoded
        maps.Maps.of(kernel).at([512 * number for number in range(len(kernel.params))])
        assert driver.calls == []
    rounded = "CU_TENSOR_MAP_DATA_TYPE_TFLOAT32"
    assert asked.count(rounded) == (2 if fast_math else 0)
    assert all(kind == rounded or kind.startswith("CU_TENSOR_MAP_DATA_TYPE_UINT") for kind in asked)


def test_maps_for_other_addresses_differ_in_these_alone() -> None:
    text = "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }"
    *_, kernel = tileir.compile(text, ["f16[4096, 4096]"] * 2, device="cuda.sm_90a").sem.kernels
    with without_a_card():
        from tileir_cuda.run import maps

        made = maps.Maps.of(kernel)
        first, second = (made.at([start + 512 * n for n in range(len(kernel.params))]) for start in (0, 4096))
        assert [[*one] for one in made.at([512 * n for n in range(len(kernel.params))])] == [[*one] for one in first]
    assert len(first) == len(tensor_maps(kernel))
    for one, other in zip(first, second, strict=True):
        assert other[0] == one[0] + 4096
        assert [*one][1:] == [*other][1:]
        assert one[1] >= 2
