"""Results of products that go through local memory, so that neighbouring threads write neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np
import pytest

from strategies.pipelines import fused
from tileir.core.dtype import DType
from tileir.core.fragments import named
from tileir.core.targets.target import Target
from tileir.driver.compiler import Stages, compile_stages
from tileir.passes.schedules.groups.distribute import Distribute
from tileir.passes.schedules.groups.matrix.contraction import MatrixContraction
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.ir import Assign, DeclareArray, MatrixMultiply, Region, Subscript
from tileir.semtree.rewrite import statements
from tileir.stripe.interpret.interpreter import interpret
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from collections.abc import Mapping

FRAGMENTS = named("sm_90a")
TARGET = Target(
    index_dtype=DType.I32,
    local_bytes=227 * 1024,
    group_threads=256,
    alignment=256,
    vector_bytes=16,
    async_copies=True,
    bulk_copies=True,
    fragments=FRAGMENTS,
    approximate=True,
)
STEP = MatrixContraction(FRAGMENTS, local_bytes=227 * 1024, stages=2, rows=64, columns=64, boxes=1)
PRODUCT = "function (A[M, K], B[K, N]) -> (R) { R[i, j : M, N] = +(A[i, k] * B[k, j]); }"
RIGHT_TURNED = "function (A[M, K], B[N, K]) -> (R) { R[i, j : M, N] = +(A[i, k] * B[j, k]); }"
BATCH = "function (A[Z, M, K], B[Z, K, N]) -> (R) { R[z, i, j : Z, M, N] = +(A[z, i, k] * B[z, k, j]); }"
TAIL = """function (A[M, K], B[K, N], D[N]) -> (R) {
    C[i, j : M, N] = +(A[i, k] * B[k, j]);
    R = 0.5 * (C + D);
}"""
TURNED = "function (A[M, K], B[K, N]) -> (R) { R[j, i : N, M] = +(A[i, k] * B[k, j]); }"
TWO = """function (A[M, K], B[K, N]) -> (R, S) {
    R[i, j : M, N] = +(A[i, k] * B[k, j]);
    S = R * 2;
}"""


def stages(text: str, shapes: Mapping[str, tuple[int, ...]], dtype: DType, step: MatrixContraction = STEP) -> Stages:
    types = {name: TensorType(dtype, shape) for name, shape in shapes.items()}
    return compile_stages(text, types, TARGET, passes=(*fused(TARGET), step, Distribute(threads=128)))


def staged(found: Stages) -> bool:
    """Return whether a thread writes whole vectors, from an array beside those of the inputs."""
    body = [stmt for kernel in found.sem.kernels for stmt in statements(kernel.body)]
    assert sum(isinstance(stmt, MatrixMultiply) for stmt in body) == 1
    local = [s for s in body if isinstance(s, DeclareArray) and s.region is Region.LOCAL and s.dtype is not DType.U64]
    outputs = {param.name for kernel in found.sem.kernels for param in kernel.params if param.access.value == "out"}
    stores = [s.target for s in body if isinstance(s, Assign) and isinstance(s.target, Subscript)]
    widths = {place.type.lanes for place in stores if place.array in outputs}
    assert (len(local) == 3) == (widths == {8})
    return len(local) == 3


def check(found: Stages, shapes: Mapping[str, tuple[int, ...]], dtype: DType) -> None:
    generator = np.random.default_rng(5)
    given = {name: generator.integers(-2, 3, shape).astype(dtype.numpy) for name, shape in shapes.items()}
    expected = interpret(found.stripe, given)["R"].astype(np.float64)
    result = run_program(found.sem, given, ALL_CHECKS)["R"].astype(np.float64)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16])
@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        (PRODUCT, {"A": (64, 64), "B": (64, 64)}),
        (PRODUCT, {"A": (70, 40), "B": (40, 72)}),
        (TAIL, {"A": (66, 64), "B": (64, 64), "D": (64,)}),
        (BATCH, {"A": (2, 64, 24), "B": (2, 24, 72)}),
    ],
)
def test_results_go_through_local_memory(text: str, shapes: dict[str, tuple[int, ...]], dtype: DType) -> None:
    found = stages(text, shapes, dtype)
    assert staged(found)
    check(found, shapes, dtype)


def test_columns_come_in_turns() -> None:
    shapes = {"A": (72, 16), "B": (16, 136)}
    found = stages(PRODUCT, shapes, DType.F16, attrs.evolve(STEP, rows=128, columns=128))
    assert staged(found)
    check(found, shapes, DType.F16)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("text", "shapes", "dtype", "step"),
    [
        (RIGHT_TURNED, {"A": (64, 64), "B": (64, 64)}, DType.F32, STEP),
        (PRODUCT, {"A": (64, 64), "B": (64, 68)}, DType.F16, STEP),
        (TURNED, {"A": (64, 64), "B": (64, 64)}, DType.F16, attrs.evolve(STEP, columns=32)),
        (TWO, {"A": (64, 64), "B": (64, 64)}, DType.F16, STEP),
        (PRODUCT, {"A": (64, 128), "B": (128, 64)}, DType.F16, attrs.evolve(STEP, local_bytes=33 * 1024)),
    ],
)
def test_other_results_are_written_as_threads_hold_them(
    text: str, shapes: dict[str, tuple[int, ...]], dtype: DType, step: MatrixContraction
) -> None:
    found = stages(text, shapes, dtype, step)
    assert not staged(found)
    check(found, shapes, dtype)
