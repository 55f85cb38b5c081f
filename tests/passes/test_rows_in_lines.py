"""Factors whose rows do not begin where lines of the cache do: which are copied for products, and what these mean."""

from __future__ import annotations

import attrs
import numpy as np
import pytest

from passes.test_matrix_boxes import (
    BATCH,
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
from tileir.semtree.ir import BufferRole, BulkCopy
from tileir.semtree.rewrite import statements
from tileir.typed.ir import TensorType

LAY = Transpose(temporaries=False, factors=True, fragments=named("sm_90a"), line_bytes=128, line_reuse=1, line_points=1)


def stages(text: str, shapes: dict[str, tuple[int, ...]], lay: Transpose = LAY, dtype: DType = DType.F16) -> Stages:
    types = {name: TensorType(dtype, shape) for name, shape in shapes.items()}
    return compile_stages(text, types, TARGET, passes=(*fused(TARGET), lay, STEP, Distribute(threads=128)))


def copies_of(found: Stages) -> dict[str, tuple[int, ...]]:
    return {buffer.name: buffer.shape for buffer in found.sem.buffers if buffer.role is BufferRole.TEMPORARY}


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


@pytest.mark.parametrize(
    ("rows", "depth", "copied"),
    [(66, 72, False), (200, 72, False), (200, 77, True), (300, 72, False), (300, 76, True)],
)
def test_rows_that_pairs_of_groups_take_are_not_copied_before(rows: int, depth: int, copied: bool) -> None:
    """Boxes have rows of whole pieces."""
    shapes: dict[str, tuple[int, ...]] = {"A": (rows, depth), "B": (depth, 40)}
    assert bool(copies_of(stages(PRODUCT, shapes, attrs.evolve(LAY, pairs=True)))) == copied
