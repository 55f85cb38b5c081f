"""The PTX that products of matrices and asynchronous copies become, and how devices without it compute the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np
import pytest

from strategies.fragment_kernels import arrays_for, held_arrays_for, held_product_by, product_by
from strategies.opencl_source import FEATURES, POCL, run
from strategies.pipelines import fused
from tileir.core.dtype import DType
from tileir.core.fragments import FRAGMENTS, OperandMemory, named
from tileir.core.targets.target import Target
from tileir.driver.compiler import compile_stages
from tileir.passes.schedules.groups.distribute import Distribute
from tileir.passes.schedules.groups.matrix.contraction import MatrixContraction
from tileir.semtree.interpret import interpreter
from tileir.semtree.ir import KernelFunction
from tileir.semtree.text.parser import parse_kernel
from tileir.typed.ir import TensorType
from tileir_opencl.device.features import SPELT, Features
from tileir_opencl.emit.emitter import emit
from tileir_testing.semtree_kernels import GROUPS

if TYPE_CHECKING:
    from collections.abc import Callable

PTX = Features(ptx=True)
TARGET = Target(
    index_dtype=DType.I32,
    local_bytes=48 * 1024,
    group_threads=256,
    vector_bytes=16,
    alignment=128,
    async_copies=True,
    fragments=SPELT,
    approximate=True,
)
PRODUCT = "function (A[M, K], B[K, N]) -> (O) { O[i, j : M, N] = +(A[i, k] * B[k, j]); }"


def matmul(dtype: DType, size: int) -> KernelFunction:
    types = {"A": TensorType(dtype, (size, size)), "B": TensorType(dtype, (size, size))}
    step = MatrixContraction(SPELT, rows=64, columns=64)
    (found,) = compile_stages(PRODUCT, types, TARGET, passes=(*fused(TARGET), step, Distribute())).sem.kernels
    return found


@pytest.mark.parametrize("dtype", [DType.F16, DType.F32])
def test_text_of_a_matrix_product(dtype: DType, golden: Callable[[str], None]) -> None:
    golden(emit([matmul(dtype, 128)], PTX))


def test_copies_that_may_not_be_aligned_are_ordinary_ones() -> None:
    text = """
kernel k(out f32 O[4] align(4) noalias, in f32 A[8] align(4) noalias) grid(1) group(1) index(i32) {
  local f32 t[4] align(16);
  async t[0 : 4] = A[1 : 4];
  async_commit();
  async_wait(0);
  O[0 : 4] = t[0 : 4];
}"""
    written = emit([parse_kernel(text)], PTX)
    assert "cp.async.cg" not in written
    assert "vload4(0, A + 1)" in written


@pytest.mark.sampled(0)
@pytest.mark.parametrize("feature", sorted({row.feature for row in FRAGMENTS.values()}))
def test_fragments_without_a_statement_are_computed_by_threads(feature: str) -> None:
    kernels: list[KernelFunction] = []
    arrays, expected = [], []
    for row in (FRAGMENTS[name] for name in named(feature)):
        (m, n, k), turned = row.mnk, len(kernels) % 2 == 0
        if n > 32:
            continue  # wider ones differ in the number of columns only, and compilers take their time
        given, sums = arrays_for(row, (m, n, 2 * k), turned=turned, seed=k)
        kernels.append(product_by(row, (m, n, 2 * k), turned=turned, swizzled=row.a.where is OperandMemory.LOCAL))
        arrays.append(given)
        expected.append(sums)
    texts = emit(kernels, PTX)
    assert texts.count("mma.sync") == len(set(SPELT) & set(named(feature)))
    run(kernels, arrays)
    for given, sums in zip(arrays, expected, strict=True):
        np.testing.assert_array_equal(given[0], sums)


def test_what_threads_hold_is_passed_on_or_goes_through_local_memory() -> None:
    row = FRAGMENTS["mma_m16n8k16_f16"]
    kernel = held_product_by(row, (16, 8, 32))
    written = emit([kernel], PTX)
    assert "vload4(0, (const __private uint *)" in written
    assert written.count("mma.sync") == 1  # one function, which is called twice
    features = attrs.evolve(FEATURES[POCL], ptx=False)
    assert "asm" not in emit([kernel], features)
    arrays, expected = held_arrays_for(row, (16, 8, 32), seed=5)
    run([kernel], [arrays], features=features)
    np.testing.assert_array_equal(arrays[0], expected)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", [name for name in GROUPS if "product" in name or "copies" in name])
def test_devices_without_ptx_compute_the_same(name: str) -> None:
    kernel = parse_kernel(GROUPS[name].replace("$index", "i32"))
    generator = np.random.default_rng(3)
    arrays = [generator.integers(-3, 4, param.size).astype(param.dtype.numpy) for param in kernel.params]
    expected = [array.copy() for array in arrays]
    interpreter.run(kernel, expected)
    features = attrs.evolve(FEATURES[POCL], ptx=False)
    assert "asm" not in emit([kernel], features)
    run([kernel], [arrays], features=features)
    np.testing.assert_array_equal(arrays[0], expected[0])
