"""Factors whose neighbours lie along an output, for instructions that take them along the sum only.

Threads load words of the left one, so that both may change sides; others are copied to another order first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.pipelines import fused
from tileir.core.dtype import DType
from tileir.core.fragments import FRAGMENTS, named
from tileir.core.targets.target import Target
from tileir.driver.compiler import Stages, compile_stages
from tileir.passes.layouts.transpose import Transpose
from tileir.passes.schedules.groups.distribute import Distribute
from tileir.passes.schedules.groups.matrix.contraction import MatrixContraction
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.ir import BulkCopy, DeclareArray, MatrixMultiply
from tileir.semtree.rewrite import statements
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir.passes.base import Pass
    from tileir.semtree.ir import Stmt

HOPPER = named("sm_90a")
ADA = ("mma_m16n8k8_f32", *named("sm_89"))
TARGET = Target(
    index_dtype=DType.I32,
    local_bytes=227 * 1024,
    group_threads=256,
    alignment=256,
    vector_bytes=16,
    async_copies=True,
    bulk_copies=True,
    fragments=HOPPER,
    approximate=True,
)
STEP = MatrixContraction(HOPPER, local_bytes=227 * 1024, stages=3, rows=64, columns=32, boxes=1)
WARPS = MatrixContraction(ADA, local_bytes=99 * 1024, stages=2, rows=64, columns=32)
LAY = Transpose(temporaries=False, factors=True, fragments=HOPPER, least_reuse=1)
WORDS = DType.F32
BYTES = (DType.F8E4M3FN, DType.F8E5M2)
LAYOUTS = {
    "plain": ("A[M, K], B[K, N]", "A[i, k] * B[k, j]"),
    "right turned": ("A[M, K], B[N, K]", "A[i, k] * B[j, k]"),
    "left turned": ("A[K, M], B[K, N]", "A[k, i] * B[k, j]"),
    "both turned": ("A[K, M], B[N, K]", "A[k, i] * B[j, k]"),
}


def text_of(layout: str, *, batch: bool = False, tail: str = "C") -> str:
    inputs, term = LAYOUTS[layout]
    if batch:
        inputs, term = inputs.replace("[", "[Z, "), term.replace("[", "[z, ")
    axes, sizes = ("z, i, j", "Z, M, N") if batch else ("i, j", "M, N")
    return f"function ({inputs}, D[N]) -> (R) {{ C[{axes} : {sizes}] = +({term}); R = {tail} + D; }}"


def shapes_of(layout: str, m: int, n: int, k: int, batch: int = 0) -> dict[str, tuple[int, ...]]:
    sizes = {"M": m, "N": n, "K": k}
    before = (batch,) if batch else ()
    left, right = (part.split("]")[0] for part in LAYOUTS[layout][0].split("[")[1:])
    factors = {
        name: (*before, *(sizes[axis] for axis in axes.split(", ")))
        for name, axes in zip("AB", (left, right), strict=True)
    }
    return {**factors, "D": (n,)}


def compiled(
    text: str, shapes: Mapping[str, tuple[int, ...]], dtype: DType, *steps: Pass, target: Target = TARGET
) -> Stages:
    types = {name: TensorType(WORDS if name == "D" else dtype, shape) for name, shape in shapes.items()}
    return compile_stages(text, types, target, passes=(*fused(target), *steps, Distribute(threads=128)))


def check(layout: str, found: Stages, shapes: Mapping[str, tuple[int, ...]], dtype: DType) -> None:
    """Small whole numbers are exact, so that results are equal."""
    generator = np.random.default_rng(5)
    arrays = {
        name: generator.integers(-2, 3, shape).astype(np.float32 if name == "D" else dtype.numpy)
        for name, shape in shapes.items()
    }
    a, b = (arrays[name].astype(np.float64) for name in "AB")
    a = a.swapaxes(-1, -2) if layout in ("left turned", "both turned") else a
    b = b.swapaxes(-1, -2) if layout in ("right turned", "both turned") else b
    result = run_program(found.sem, arrays, ALL_CHECKS)["R"].astype(np.float64)
    np.testing.assert_array_equal(result, a @ b + arrays["D"])


def body_of(found: Stages) -> tuple[Stmt, ...]:
    return tuple(stmt for kernel in found.sem.kernels for stmt in statements(kernel.body))


def products_of(found: Stages) -> list[MatrixMultiply]:
    return [stmt for stmt in body_of(found) if isinstance(stmt, MatrixMultiply)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_words_are_loaded_on_one_side(layout: str) -> None:
    shapes = shapes_of(layout, 72, 40, 72)
    found = compiled(text_of(layout), shapes, WORDS, STEP)
    made = products_of(found)
    assert bool(made) == (layout != "left turned")  # there both lie along outputs
    for stmt in made:
        assert stmt.fragment.startswith("wgmma")
        assert stmt.right.strides[0] == 1
        # What lies along an output is on the left, whatever side it had.
        assert (stmt.left.strides[0] == 1) == (layout != "right turned")
        assert stmt.left.start.array == ("B_stage" if layout == "plain" else "A_stage")
        assert any(isinstance(each, BulkCopy) for each in body_of(found))
        check(layout, found, shapes, WORDS)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [WORDS, *BYTES, DType.F16])
def test_other_factors_are_copied_to_another_order(layout: str, dtype: DType) -> None:
    shapes = shapes_of(layout, 80, 48, 64)
    found = compiled(text_of(layout), shapes, dtype, LAY, STEP)
    turned = {"plain": 1, "right turned": 0, "left turned": 2, "both turned": 1}[layout]
    copies = {DType.F16: 0, WORDS: int(turned == 2)}.get(dtype, turned)
    assert len(found.sem.kernels) == 1 + copies
    assert products_of(found)
    check(layout, found, shapes, dtype)


def test_small_products_are_no_reason_for_a_copy() -> None:
    shapes = shapes_of("plain", 80, 48, 64)
    found = compiled(text_of("plain"), shapes, BYTES[0], attrs.evolve(LAY, least_points=80 * 48 * 64 + 1), STEP)
    assert len(found.sem.kernels) == 1
    assert not products_of(found)


@given(
    layout=st.sampled_from(sorted(LAYOUTS)),
    dtype=st.sampled_from((WORDS, *BYTES)),
    sizes=st.tuples(st.integers(60, 90), st.integers(17, 70), st.integers(30, 150)),
    batch=st.sampled_from((0, 2)),
    tail=st.sampled_from(("C", "max(C, 0)")),
    warps=st.booleans(),
)
@examples(4)
def test_products_of_any_size(
    layout: str, dtype: DType, sizes: tuple[int, int, int], batch: int, tail: str, warps: bool
) -> None:
    m, n, k = sizes
    shapes = shapes_of(layout, m, n, k, batch)
    text = text_of(layout, batch=batch > 0)
    target = attrs.evolve(TARGET, fragments=ADA, bulk_copies=False) if warps else TARGET
    steps = (WARPS,) if warps else (LAY, STEP)
    found = compiled(text, shapes, dtype, *steps, target=target)
    assert not warps or products_of(found)
    check(layout, found, shapes, dtype)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("step", "target"),
    [(STEP, TARGET), (WARPS, attrs.evolve(TARGET, fragments=ADA, bulk_copies=False))],
    ids=["four warps", "one"],
)
@pytest.mark.parametrize("promote", [False, True])
@pytest.mark.parametrize("depth", [128, 272])
def test_sums_of_bytes_are_promoted_after_so_many_terms(
    step: MatrixContraction, target: Target, promote: bool, depth: int
) -> None:
    shapes = shapes_of("right turned", 64, 32, depth)
    step = attrs.evolve(step, promote=promote)
    found = compiled(text_of("right turned"), shapes, BYTES[0], step, target=target)
    (made,) = products_of(found)
    limit = FRAGMENTS[made.fragment].exact_depth
    assert limit == 128
    assert made.tile[2] <= limit
    private = {stmt.name for stmt in body_of(found) if isinstance(stmt, DeclareArray)}
    assert ("C_acc_part" in private) == (promote and depth > limit)
    assert made.accumulators.array == ("C_acc_part" if promote and depth > limit else "C_acc_tile")
    check("right turned", found, shapes, BYTES[0])


@pytest.mark.parametrize("promote", [False, True])
def test_three_warpgroups_hide_promotion(promote: bool) -> None:
    shapes = shapes_of("right turned", 4096, 4096, 4096)
    step = attrs.evolve(STEP, rows=0, columns=0, stages=4, groups=132, most_threads=512, boxes=128 * 128)
    found = compiled(text_of("right turned"), shapes, BYTES[0], attrs.evolve(step, promote=promote))
    assert [kernel.group for kernel in found.sem.kernels] == [(384,) if promote else (256,)]


def test_each_pair_of_bytes_has_instructions_of_one_warp_and_of_four() -> None:
    for left in BYTES:
        for right in BYTES:
            rows = [row for row in FRAGMENTS.values() if row.dtypes == (left, right, WORDS)]
            assert {row.feature for row in rows} == {"sm_89", "sm_90a"}
            assert all(row.mnk[2] == 32 for row in rows)
            assert not any(row.a.turns or row.b.turns or row.rounded for row in rows)


def test_windows_of_bytes_with_borders() -> None:
    text = """function (A[N, Y, X, C], B[P, Q, F, C]) -> (R) {
        R[n, y, x, f : N, Y, X, F] = +(A[n, y + p - 1, x + q - 1, c] * B[p, q, f, c]);
    }"""
    shapes = {"A": (1, 8, 8, 32), "B": (3, 3, 32, 32)}
    found = compiled(text, shapes, BYTES[0], STEP)
    assert products_of(found)
    generator = np.random.default_rng(5)
    arrays = {name: generator.integers(-2, 3, shape).astype(BYTES[0].numpy) for name, shape in shapes.items()}
    wide = np.pad(arrays["A"].astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    expected = np.zeros((1, 8, 8, 32))
    for p in range(3):
        for q in range(3):
            expected += wide[:, p : p + 8, q : q + 8] @ arrays["B"][p, q].astype(np.float64).T
    np.testing.assert_array_equal(run_program(found.sem, arrays, ALL_CHECKS)["R"].astype(np.float64), expected)
