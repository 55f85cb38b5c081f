from __future__ import annotations

import gc
import weakref

from strategies.kernels import stripe_program
from tileir import TensorType
from tileir.core.dtype import DType
from tileir.driver.compiler import compile_stages
from tileir.passes.kernels.analysis_cache import forget_kernels, remembered
from tileir.runtime.context import default_context
from tileir.stripe.ir import Block

NAMES = ("sum of all of three axes", "matmul")


def blocks() -> list[Block]:
    return [block for name in NAMES for block in stripe_program(name).main.blocks]


def test_an_analysis_runs_once_for_each_kernel_until_it_is_forgotten() -> None:
    asked: list[Block] = []

    @remembered
    def analysis(kernel: Block) -> int:
        asked.append(kernel)
        return len(asked)

    kernels = blocks()
    first = [analysis(kernel) for kernel in kernels]
    assert [analysis(kernel) for kernel in reversed(kernels)] == first[::-1]
    assert len(asked) == len(kernels)
    forget_kernels()
    assert [analysis(kernel) for kernel in kernels] == [len(kernels) + 1 + place for place in range(len(kernels))]


def test_results_that_are_nothing_are_remembered_too() -> None:
    asked: list[Block] = []

    @remembered
    def analysis(kernel: Block) -> None:
        asked.append(kernel)

    kernel = blocks()[0]
    assert analysis(kernel) is analysis(kernel) is None
    assert len(asked) == 1


def test_nothing_keeps_the_kernels_of_a_program_that_is_compiled() -> None:
    text = "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }"
    types = {"A": TensorType(DType.F32, (64, 48)), "B": TensorType(DType.F32, (48, 80))}
    stages = compile_stages(text, types, default_context().device("llvm").target, tolerant=True)
    kept = [weakref.ref(block) for block in stages.scheduled.main.blocks]
    assert kept
    del stages
    gc.collect()
    assert [each() for each in kept] == [None] * len(kept)
