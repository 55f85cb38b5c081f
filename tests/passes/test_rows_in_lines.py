"""Factors whose rows do not begin where lines of the cache do: which are copied for products, and what these mean."""

from __future__ import annotations

import attrs
import numpy as np
import pytest

from passes.test_matrix_boxes import (
    BATCH,
    BOTH_TURNED,
    HEADS,
    LEFT_TURNED,
    PRODUCT,
    RIGHT_TURNED,
    STEP,
    TARGET,
    WINDOW,
    arrays,
    expected,
)
from strategies.pipelines import fused
from tileir.core.dtype import DType
from tileir.core.fragments import named
from tileir.driver.compiler import Stages, compile_stages
from tileir.passes.layouts.transpose import Transpose
from tileir.passes.schedules.groups.distribute import Distribute
from tileir.semtree.check.verifier import verify_program
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.ir import BufferRole, BulkCopy, MatrixMultiply
from tileir.semtree.rewrite import statements
from tileir.typed.ir import TensorType

LAY = Transpose(temporaries=False, factors=True, fragments=named("sm_90a"), line_bytes=128, line_reuse=1, line_points=1)


WORDS = attrs.evolve(LAY, line_reuse=1 << 20, least_reuse=1, box_reuse=1, box_points=1)


def stages(text: str, shapes: dict[str, tuple[int, ...]], lay: Transpose = LAY, dtype: DType = DType.F16) -> Stages:
    types = {name: TensorType(dtype, shape) for name, shape in shapes.items()}
    target = attrs.evolve(TARGET, approximate=dtype is DType.F32)
    return compile_stages(text, types, target, passes=(*fused(target), lay, STEP, Distribute(threads=128)))


def copies_of(found: Stages) -> dict[str, tuple[int, ...]]:
    return {buffer.name: buffer.shape for buffer in found.sem.buffers if buffer.role is BufferRole.TEMPORARY}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("text", "shapes", "copied"),
    [
        (PRODUCT, {"A": (66, 72), "B": (72, 40)}, {"A_laid": (66, 128), "B_laid": (72, 64)}),
        (PRODUCT, {"A": (66, 77), "B": (77, 33)}, {"A_laid": (66, 128), "B_laid": (77, 64)}),  # no boxes otherwise
        (PRODUCT, {"A": (66, 128), "B": (128, 64)}, {}),
        (RIGHT_TURNED, {"A": (66, 72), "B": (40, 72)}, {"A_laid": (66, 128), "B_laid": (40, 128)}),
        (LEFT_TURNED, {"A": (72, 72), "B": (72, 40)}, {"A_laid": (72, 128), "B_laid": (72, 64)}),
        (BATCH, {"A": (2, 66, 72), "B": (2, 72, 40)}, {"A_laid": (2, 66, 128), "B_laid": (2, 72, 64)}),
    ],
)
def test_rows_are_copied_to_begin_with_lines(
    text: str, shapes: dict[str, tuple[int, ...]], copied: dict[str, tuple[int, ...]]
) -> None:
    found = stages(text, shapes)
    assert copies_of(found) == copied
    assert len(found.sem.kernels) == 1 + len(copied)
    boxes = [s for kernel in found.sem.kernels for s in statements(kernel.body) if isinstance(s, BulkCopy)]
    assert boxes
    assert all(stride % 64 == 0 for box in boxes for stride in box.strides[:-1])
    verify_program(found.sem)
    values = arrays(shapes)
    result = run_program(found.sem, values, ALL_CHECKS)["R"].astype(np.float64)
    np.testing.assert_array_equal(result, expected(text, values))


@pytest.mark.parametrize(
    ("text", "shapes", "lay", "dtype"),
    [
        (PRODUCT, {"A": (66, 72), "B": (72, 40)}, attrs.evolve(LAY, line_bytes=0), DType.F16),
        (PRODUCT, {"A": (66, 72), "B": (72, 40)}, attrs.evolve(LAY, line_reuse=67), DType.F16),
        (PRODUCT, {"A": (66, 72), "B": (72, 40)}, attrs.evolve(LAY, line_points=66 * 72 * 40 + 1), DType.F16),
        (PRODUCT, {"A": (66, 72), "B": (72, 40)}, LAY, DType.F64),  # no instruction takes it from local memory
        (PRODUCT, {"A": (66, 128), "B": (128, 40)}, LAY, DType.F16),  # one of both costs less than a copy
        (RIGHT_TURNED, {"A": (66, 80), "B": (40, 80)}, LAY, DType.F8E4M3FN),
        (WINDOW, {"A": (66, 72), "B": (3, 72, 64)}, LAY, DType.F16),
    ],
)
def test_others_are_read_as_they_lie(
    text: str, shapes: dict[str, tuple[int, ...]], lay: Transpose, dtype: DType
) -> None:
    assert not copies_of(stages(text, shapes, lay, dtype))


WINDOWS = """function (A[N, Y, X, K], B[P, Q, F, K]) -> (R) {
    R[n, y, x, f : N, Y, X, F] = +(A[n, y + p - 1, x + q - 1, k] * B[p, q, f, k]);
}"""
SQUARE = "function (A[M, K]) -> (R) { R[i, j : M, M] = +(A[i, k] * A[j, k]); }"
TURNED_SQUARE = "function (A[K, M]) -> (R) { R[i, j : M, M] = +(A[k, i] * A[k, j]); }"
SCALED = "function (A[M, K], B[K, N], S) -> (R) { T = A * S; R[i, j : M, N] = +(T[i, k] * B[k, j]); }"
ODD = {"A": (66, 101), "B": (101, 65)}


@pytest.mark.sampled(0)
@pytest.mark.parametrize(
    ("text", "shapes", "copied"),
    [
        (PRODUCT, ODD, {"A_laid": (66, 128), "B_laid": (101, 96)}),
        (PRODUCT, {"A": (66, 100), "B": (100, 65)}, {"B_laid": (100, 96)}),
        (PRODUCT, {"A": (66, 101), "B": (101, 68)}, {"A_laid": (66, 128)}),
        (PRODUCT, {"A": (66, 100), "B": (100, 68)}, {}),
        (RIGHT_TURNED, {"A": (66, 101), "B": (65, 101)}, {"A_laid": (66, 128), "B_laid": (65, 128)}),
        (LEFT_TURNED, {"A": (101, 66), "B": (101, 65)}, {"A_laid": (101, 96), "B_laid": (128, 65)}),
        (BOTH_TURNED, {"A": (101, 66), "B": (65, 101)}, {"A_laid": (101, 96), "B_laid": (65, 128)}),
        (BATCH, {"A": (2, 66, 101), "B": (2, 101, 65)}, {"A_laid": (2, 66, 128), "B_laid": (2, 101, 96)}),
        (HEADS, {"A": (66, 2, 101), "B": (2, 101, 65)}, {"A_laid": (66, 2, 128), "B_laid": (2, 101, 96)}),
        (SQUARE, {"A": (66, 101)}, {"A_laid": (66, 128)}),
        (TURNED_SQUARE, {"A": (101, 66)}, {"A_laid": (128, 66), "A_laid_0": (101, 96)}),
        (SCALED, {**ODD, "S": ()}, {"T": (66, 101), "T_laid": (66, 128), "B_laid": (101, 96)}),
        (WINDOWS, {"A": (1, 8, 8, 65), "B": (3, 3, 66, 65)}, {"A_laid": (1, 8, 8, 96), "B_laid": (3, 3, 66, 96)}),
    ],
)
def test_factors_that_only_boxes_round_are_copied_to_rows_of_boxes(
    text: str, shapes: dict[str, tuple[int, ...]], copied: dict[str, tuple[int, ...]]
) -> None:
    found = stages(text, shapes, WORDS, DType.F32)
    assert copies_of(found) == copied
    body = [s for kernel in found.sem.kernels for s in statements(kernel.body)]
    (product,) = (s for s in body if isinstance(s, MatrixMultiply))
    assert product.fragment.startswith("wgmma")
    assert any(isinstance(s, BulkCopy) for s in body)
    verify_program(found.sem)
    generator = np.random.default_rng(5)
    values = {name: generator.integers(-2, 3, shape).astype(np.float32) for name, shape in shapes.items()}
    result = run_program(found.sem, values, ALL_CHECKS)["R"].astype(np.float64)
    np.testing.assert_array_equal(result, product_of(text, values))


def product_of(text: str, values: dict[str, np.ndarray]) -> np.ndarray:
    a = values["A"].astype(np.float64)
    if text == SQUARE:
        return np.asarray(a @ a.T)
    if text == TURNED_SQUARE:
        return np.asarray(a.T @ a)
    if text == SCALED:
        return np.asarray(a * values["S"] @ values["B"])
    if text == WINDOWS:
        wide, (y, x) = np.pad(a, ((0, 0), (1, 1), (1, 1), (0, 0))), a.shape[1:3]
        b = values["B"].astype(np.float64)
        return np.asarray(sum(wide[:, p : p + y, q : q + x] @ b[p, q].T for p in range(3) for q in range(3)))
    return expected(text, values)


@pytest.mark.parametrize(
    ("shapes", "lay", "dtype"),
    [
        (ODD, attrs.evolve(WORDS, box_reuse=66), DType.F32),
        (ODD, attrs.evolve(WORDS, box_points=66 * 101 * 65 + 1), DType.F32),
        (ODD, attrs.evolve(WORDS, line_bytes=0), DType.F32),
        (ODD, attrs.evolve(WORDS, fragments=named("sm_80")), DType.F32),  # threads round what these take
        ({"A": (66, 102), "B": (102, 66)}, WORDS, DType.F16),
        (ODD, WORDS, DType.F64),
        ({"A": (66, 95), "B": (95, 65)}, WORDS, DType.F32),  # short sums
        ({"A": (66, 101), "B": (101, 63)}, WORDS, DType.F32),  # few outputs on one side
        ({"A": (63, 101), "B": (101, 65)}, WORDS, DType.F32),
    ],
)
def test_other_rows_that_are_no_boxes_stay(shapes: dict[str, tuple[int, ...]], lay: Transpose, dtype: DType) -> None:
    assert not copies_of(stages(PRODUCT, shapes, lay, dtype))


def test_windows_of_few_channels_that_are_no_boxes_stay() -> None:
    for inner, outer in ((63, 66), (65, 63)):
        shapes: dict[str, tuple[int, ...]] = {"A": (1, 8, 8, inner), "B": (3, 3, outer, inner)}
        assert not copies_of(stages(WINDOWS, shapes, WORDS, DType.F32))


@pytest.mark.parametrize(
    ("rows", "depth", "copied"),
    [(66, 72, False), (200, 72, False), (200, 77, True), (300, 72, False), (300, 76, True)],
)
def test_rows_that_pairs_of_groups_take_are_not_copied_before(rows: int, depth: int, copied: bool) -> None:
    """Boxes have rows of whole pieces."""
    shapes: dict[str, tuple[int, ...]] = {"A": (rows, depth), "B": (depth, 40)}
    assert bool(copies_of(stages(PRODUCT, shapes, attrs.evolve(LAY, pairs=True)))) == copied
