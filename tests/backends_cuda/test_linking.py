"""Machine code that the driver makes while other kernels are written, on a driver that has no card."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

import tileir
from strategies.card_driver import CUBIN, Result, without_a_card
from tileir.core.errors import BackendError, Diagnostic
from tileir_cuda.library import CudaLibrary
from tileir_llvm.emit.spelling import symbol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strategies.card_driver import CardDriver

CHAIN = """function (A[N, N], W[N, N]) -> (C, S) {
  B[i, j : N, N] = +(A[i, k] * W[k, j]); C[i, j : N, N] = +(B[i, k] * W[k, j]); S[i : N] = +(C[i, j]);
}"""
TYPES = {"A": "f32[8, 8]", "W": "f32[8, 8]"}
ARRAYS = [np.arange(64, dtype=np.float32).reshape(8, 8) % 5, np.eye(8, dtype=np.float32) * 3]


@pytest.fixture
def card() -> Iterator[tuple[CardDriver, tileir.Context]]:
    with without_a_card() as found:
        yield found


def check(executable: tileir.Executable[tuple[tileir.DeviceArray, ...]]) -> None:
    for found, wanted in zip(executable(*ARRAYS), tileir.evaluate(CHAIN, ARRAYS), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_each_kernel_is_linked_and_loaded_alone(card: tuple[CardDriver, tileir.Context]) -> None:
    driver, context = card
    executable = tileir.compile(CHAIN, TYPES, context=context)
    count = len(executable.sem.kernels)
    assert count > 1
    assert [driver.calls.count(name) for name in ("cuLinkComplete", "cuModuleLoadData")] == [count, count]
    assert not driver.links
    check(executable)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("function", ["cuLinkCreate", "cuLinkAddData", "cuLinkComplete"])
def test_without_a_linker_ptx_is_loaded(card: tuple[CardDriver, tileir.Context], function: str) -> None:
    driver, context = card
    driver.refusals[function] = [Result.CUDA_ERROR_UNKNOWN] * 9
    executable = tileir.compile(CHAIN, TYPES, context=context)
    assert driver.calls.count("cuModuleLoadData") == 1
    assert not driver.links
    check(executable)


@pytest.mark.parametrize("call", ["rcp.rn.f32", "div.rn.f64", "sqrt.rn.f32", "div.s64", "rem.u64"])
def test_products_of_four_warps_are_not_linked_beside_calls(card: tuple[CardDriver, tileir.Context], call: str) -> None:
    from tileir_cuda.run.linking import linker  # it loads the driver

    driver, _ = card
    link = linker(0)
    product = (
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {}; rcp.approx.f32 %f1, %f2; div.full.f32 %f1, %f2, %f3;"
    )
    assert link(f"{product} {call} %a, %b, %c;") is None
    assert "cuLinkCreate" not in driver.calls
    assert link(product) is not None
    assert link(f".version 8.0 {call} %a, %b, %c;") is not None


def test_kernels_that_are_not_linked_are_loaded_alone(
    card: tuple[CardDriver, tileir.Context], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tileir_cuda.run import linking  # it loads the driver

    driver, context = card
    link, seen = linking._linked, []

    def every_second(code: bytes) -> bytes:
        seen.append(code)
        if len(seen) % 2:
            raise BackendError((Diagnostic("TIL805", "no"),))
        return link(code)

    monkeypatch.setattr(linking, "_linked", every_second)
    executable = tileir.compile(CHAIN, TYPES, context=context)
    library = executable._library
    assert isinstance(library, CudaLibrary)
    assert driver.calls.count("cuModuleLoadData") == len(executable.sem.kernels) > 1
    assert {code.startswith(CUBIN) for code in library.codes} == {False, True}
    assert all(code.startswith(CUBIN) or code.endswith(b"\0") for code in library.codes)
    again = CudaLibrary.load(executable.sem.kernels, dict(library.save()))
    assert again.codes == library.codes
    check(executable)


def test_code_that_the_driver_refuses_is_told_when_it_is_loaded(card: tuple[CardDriver, tileir.Context]) -> None:
    driver, context = card
    driver.refusals["cuLinkAddData"] = [Result.CUDA_ERROR_INVALID_PTX] * 9
    driver.refusals["cuModuleLoadData"] = [Result.CUDA_ERROR_INVALID_PTX]
    with pytest.raises(BackendError, match="TIL805"):
        tileir.compile(CHAIN, TYPES, context=context)


def test_libraries_keep_machine_code(card: tuple[CardDriver, tileir.Context]) -> None:
    _, context = card
    executable = tileir.compile(CHAIN, TYPES, context=context)
    library, kernels = executable._library, executable.sem.kernels
    assert isinstance(library, CudaLibrary)
    parts = dict(library.save())
    again = CudaLibrary.load(kernels, parts)
    assert again.codes == library.codes
    assert [code.startswith(CUBIN) for code in again.codes] == [True] * len(kernels)
    assert [symbol(*each).encode() in again.codes[each[0]] for each in enumerate(kernels)] == [True] * len(kernels)
    assert again.ptx == library.ptx
    for name in parts:
        with pytest.raises(BackendError, match="TIL806"):
            CudaLibrary.load(kernels, {key: part for key, part in parts.items() if key != name})


def test_the_largest_kernel_comes_first(
    card: tuple[CardDriver, tileir.Context], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As all others are done before it is, where there are enough threads."""
    driver, context = card
    linked: list[bytes] = []

    def added(state: int, kind: str, code: bytes, *rest: object) -> tuple[Result]:
        linked.append(code)
        return driver.cuLinkAddData(state, kind, code, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(sys.modules["cuda.bindings.driver"], "cuLinkAddData", added)
    text = "function (A[N], W[M, M]) -> (B, C) { B = A + 1; C[i, j : M, M] = +(W[i, k] * W[k, j]); }"
    options = tileir.Options(threads=1)
    tileir.compile(text, {"A": "f32[8]", "W": "f32[64, 64]"}, context=context, options=options)
    assert [len(code) for code in linked] == sorted(map(len, linked), reverse=True)
    assert len(linked) == 2
