"""Products whose groups take several tiles in turns: which do, what they mean, and what they copy ahead."""

from __future__ import annotations

import re
from math import prod
from typing import TYPE_CHECKING

import attrs
import numpy as np
import pytest
from hypothesis import given, strategies as st

from passes.test_matrix_boxes import (
    BATCH,
    BOTH_TURNED,
    HEADS,
    LEFT_TURNED,
    PRODUCT,
    RIGHT_TURNED,
    SLICE,
    STEP,
    TARGET,
    arrays,
    expected,
    stages,
)
from strategies.effort import examples
from strategies.pipelines import fused
from tileir.core.dtype import DType
from tileir.core.errors import TileError
from tileir.core.json.codec import from_json, to_json
from tileir.driver.compiler import compile_stages
from tileir.passes.schedules.groups.distribute import Distribute
from tileir.passes.schedules.groups.matrix.contraction import MatrixContraction
from tileir.schedule.remarks import Remarks, listening
from tileir.semtree.check.verifier import verify_program
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.ir import BulkCopy
from tileir.semtree.lower.lowering import lower
from tileir.semtree.rewrite import statements
from tileir.semtree.text.parser import parse_program
from tileir.semtree.text.printer import to_text as semtree_text
from tileir.stripe.ir import Program
from tileir.stripe.text.parser import parse
from tileir.stripe.text.printer import to_text
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir.driver.compiler import Stages

IN_TURNS = attrs.evolve(STEP, turns=True, groups=2, local_bytes=64 * 1024)
"""Local memory is for one group, as pairs of them have no turns."""

SHAPES = {"A": (130, 192), "B": (192, 64)}
"""Three rows of tiles and two columns, of three steps each."""

EPILOGUE = """function (A[M, K], B[K, N], D[N]) -> (R) {
    C[i, j : M, N] = +(A[i, k] * B[k, j]);
    R = max(C + D, 0);
}"""


def of_one_kernel(found: Stages) -> tuple[int, ...]:
    (kernel,) = found.sem.kernels
    return kernel.grid


def same(found: Stages, text: str, shapes: Mapping[str, tuple[int, ...]]) -> None:
    values = arrays(shapes)
    verify_program(found.sem)
    result = run_program(found.sem, values, ALL_CHECKS)["R"].astype(np.float64)
    np.testing.assert_array_equal(result, expected(text, values))


@pytest.mark.sampled(0)
@pytest.mark.parametrize("groups", [1, 4])
def test_groups_take_tiles_in_turns(groups: int) -> None:
    found = stages(PRODUCT, SHAPES, attrs.evolve(IN_TURNS, groups=groups))
    assert of_one_kernel(found) == (groups,)
    same(found, PRODUCT, SHAPES)


@pytest.mark.parametrize("step", [attrs.evolve(IN_TURNS, groups=6), attrs.evolve(IN_TURNS, turns=False)])
def test_each_tile_has_a_group_where_all_run_at_a_time_or_nobody_asks(step: MatrixContraction) -> None:
    assert prod(of_one_kernel(stages(PRODUCT, SHAPES, step))) == 6


def test_the_end_of_a_tile_copies_what_the_next_one_needs_first() -> None:
    text = semtree_text(stages(PRODUCT, SHAPES, IN_TURNS).sem)
    head, loop = text.split("for (i32 `turn`")
    assert head.count("bulk_copy") == 2 * (STEP.stages - 1)
    assert loop.count("bulk_copy") == 2
    assert re.search(r"point_1 = first \+ ahead / 3 \* 2;\s+if \(point_1 < 6\)", loop)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "shapes", [{"A": (72, 32), "B": (32, 64)}, {"A": (72, 200), "B": (200, 64)}, {"A": (72, 192), "B": (192, 56)}]
)
def test_short_sums_and_rows_in_two_lines_have_no_turns(shapes: dict[str, tuple[int, ...]]) -> None:
    found = stages(PRODUCT, shapes, IN_TURNS)
    assert prod(of_one_kernel(found)) == 4
    same(found, PRODUCT, shapes)


@given(
    text=st.sampled_from((PRODUCT, RIGHT_TURNED, LEFT_TURNED, BOTH_TURNED, BATCH, HEADS, SLICE)),
    sizes=st.tuples(st.integers(8, 17), st.integers(2, 3), st.integers(1, 2)),
    places=st.integers(2, 4),
    groups=st.integers(1, 3),
)
@examples(4)
def test_products_of_any_size(text: str, sizes: tuple[int, int, int], places: int, groups: int) -> None:
    m, k, n = 8 * sizes[0], 64 * sizes[1], 64 * sizes[2]
    m = -(-m // 64) * 64 if text in (LEFT_TURNED, BOTH_TURNED) else m
    left = {LEFT_TURNED: (k, m), BOTH_TURNED: (k, m), BATCH: (2, m, k), HEADS: (m, 2, k), SLICE: (m + 8, k)}
    right = {RIGHT_TURNED: (n, k), BOTH_TURNED: (n, k), BATCH: (2, k, n), HEADS: (2, k, n)}
    shapes = {"A": left.get(text, (m, k)), "B": right.get(text, (k, n))}
    same(stages(text, shapes, attrs.evolve(IN_TURNS, stages=places, groups=groups)), text, shapes)


@pytest.mark.parametrize("columns", [32, 64])
def test_what_follows_the_product_is_done_before_the_next_tile(columns: int) -> None:
    """Results go through local memory where they are as wide as a line, and directly else."""
    types = {
        "A": TensorType(DType.F16, (72, 192)),
        "B": TensorType(DType.F16, (192, 128)),
        "D": TensorType(DType.F16, (128,)),
    }
    step = attrs.evolve(IN_TURNS, columns=columns, groups=2)
    found = compile_stages(EPILOGUE, types, TARGET, passes=(*fused(TARGET), step, Distribute(threads=128)))
    assert of_one_kernel(found) == (2,)
    values = arrays({"A": (72, 192), "B": (192, 128), "D": (128,)})
    result = run_program(found.sem, values, ALL_CHECKS)["R"].astype(np.float64)
    product = values["A"].astype(np.float64) @ values["B"].astype(np.float64)
    np.testing.assert_array_equal(result, np.maximum(product + values["D"], 0))


def test_text_and_json_keep_the_groups() -> None:
    found = stages(PRODUCT, SHAPES, IN_TURNS)
    text = to_text(found.scheduled)
    assert '#pipeline="3 in 2 groups"' in text
    assert parse(text) == found.scheduled
    assert from_json(to_json(found.scheduled), Program) == found.scheduled
    assert parse_program(semtree_text(found.sem)) == found.sem


def test_remarks_tell_how_many_groups_there_are() -> None:
    heard = Remarks()
    with listening(heard):
        stages(PRODUCT, SHAPES, IN_TURNS)
    assert [dict(each.facts)["groups"] for each in heard.all() if each.fired and "groups" in dict(each.facts)] == [2]


@pytest.mark.sampled(0)
def test_the_schedule_means_the_same_on_devices_without_boxes() -> None:
    scheduled, values = stages(PRODUCT, SHAPES, IN_TURNS).scheduled, arrays(SHAPES)
    program = lower(scheduled, attrs.evolve(TARGET, bulk_copies=False))
    assert not any(isinstance(s, BulkCopy) for kernel in program.kernels for s in statements(kernel.body))
    assert prod(program.kernels[0].grid) == 6
    result = run_program(program, values, ALL_CHECKS)["R"].astype(np.float64)
    np.testing.assert_array_equal(result, expected(PRODUCT, values))


def test_turns_without_boxes_or_with_too_few_steps_are_an_error() -> None:
    text = to_text(stages(PRODUCT, SHAPES, IN_TURNS).scheduled)
    boxless = re.sub(r'#copy="[^"]*"', "#copy", text)
    for wrong in (boxless, text.replace('"3 in 2 groups"', '"5 in 2 groups"')):
        assert wrong != text
        with pytest.raises(TileError, match="of groups that take turns must copy boxes"):
            lower(parse(wrong), TARGET)
