"""Tensor maps, of which those of factors in TF32 round what is copied."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import tileir
from strategies.card_driver import without_a_card
from tileir_cuda.emit.boxes import rounding_maps, tensor_maps

PRODUCTS = {
    "A[M, K], B[K, N]": "A[i, k] * B[k, j]",
    "A[M, K], B[N, K]": "A[i, k] * B[j, k]",
    "A[K, M], B[K, N]": "A[k, i] * B[k, j]",
}


@pytest.mark.parametrize(("inputs", "terms"), PRODUCTS.items())
@pytest.mark.parametrize("size", [1024, 4096])
def test_factors_in_tf32_are_rounded_on_their_way(inputs: str, terms: str, size: int) -> None:
    text = f"function ({inputs}) -> (C) {{ C[i, j : M, N] = +({terms}); }}"
    options = tileir.Options(fast_math=True)
    *_, kernel = tileir.compile(text, [f"f32[{size}, {size}]"] * 2, device="cuda.sm_90a", options=options).sem.kernels
    boxes = {each.array for each in tensor_maps(kernel)}
    assert len(boxes - {"C"}) == 2
    assert {each.array for each in rounding_maps(kernel)} == boxes - {"C"}


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
