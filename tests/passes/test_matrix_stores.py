"""Products whose results are stored as boxes: what they mean, and what waits for what."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np
import pytest
from hypothesis import given, strategies as st

from passes.test_matrix_boxes import (
    BATCH,
    HEADS,
    LEFT_TURNED,
    PRODUCT,
    RIGHT_TURNED,
    STEP,
    TARGET,
    arrays,
    expected,
    stages,
)
from passes.test_matrix_turns import same
from strategies.effort import examples
from tileir.core.json.codec import from_json, to_json
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.ir import BulkStore, BulkWait
from tileir.semtree.lower.lowering import lower
from tileir.semtree.rewrite import statements
from tileir.semtree.text.printer import to_text as semtree_text
from tileir.stripe.ir import Program
from tileir.stripe.text.parser import parse
from tileir.stripe.text.printer import to_text

if TYPE_CHECKING:
    from tileir.driver.compiler import Stages

IN_TURNS = attrs.evolve(STEP, stores=True, turns=True, groups=1, rows=128, columns=128, local_bytes=160 * 1024)


def of_kind(found: Stages, kind: type) -> list[object]:
    return [s for kernel in found.sem.kernels for s in statements(kernel.body) if isinstance(s, kind)]


@given(
    text=st.sampled_from((PRODUCT, RIGHT_TURNED, LEFT_TURNED, BATCH, HEADS)),
    sizes=st.tuples(st.integers(9, 17), st.integers(2, 3), st.integers(0, 2)),
    columns=st.sampled_from((64, 128, 160, 224, 256)),
    groups=st.integers(1, 3),
)
@examples(3)
def test_products_of_any_size(text: str, sizes: tuple[int, int, int], columns: int, groups: int) -> None:
    m, k, n = 8 * sizes[0], 64 * sizes[1], 64 * sizes[2] + columns // 64 * 64
    m = -(-m // 64) * 64 if text == LEFT_TURNED else m
    left = {LEFT_TURNED: (k, m), BATCH: (2, m, k), HEADS: (m, 2, k)}
    right = {RIGHT_TURNED: (n, k), BATCH: (2, k, n), HEADS: (2, k, n)}
    shapes = {"A": left.get(text, (m, k)), "B": right.get(text, (k, n))}
    found = stages(text, shapes, attrs.evolve(IN_TURNS, groups=groups, columns=columns, local_bytes=200 * 1024))
    assert found.sem.kernels[0].grid == (groups,) or not of_kind(found, BulkStore)
    same(found, text, shapes)


def waits(found: Stages) -> list[int]:
    return [each.pending for each in of_kind(found, BulkWait) if isinstance(each, BulkWait)]


@pytest.mark.sampled(0)
@pytest.mark.parametrize(
    ("columns", "kib", "pending"),
    [(256, 192, [1, 1, 1, 1]), (128, 160, [0]), (256, 224, [0]), (224, 172, [0, 1, 0]), (160, 227, [0])],
)
def test_a_box_is_made_while_those_before_are_stored(columns: int, kib: int, pending: list[int]) -> None:
    """Threads wait for the stores that have read what they write next, and for no later ones."""
    shapes = {"A": (200, 192), "B": (192, 512)}
    found = stages(PRODUCT, shapes, attrs.evolve(IN_TURNS, stages=3, columns=columns, local_bytes=kib * 1024))
    assert waits(found) == pending
    same(found, PRODUCT, shapes)


@pytest.mark.sampled(0)
def test_each_team_stores_its_rows_where_a_warp_of_its_own_copies() -> None:
    shapes = {"A": (200, 192), "B": (192, 128)}
    found = stages(PRODUCT, shapes, IN_TURNS)
    stores = [each for each in of_kind(found, BulkStore) if isinstance(each, BulkStore)]
    assert [each.box for each in stores] == [(64, 64), (64, 64)]
    assert waits(found) == [0]
    same(found, PRODUCT, shapes)


def test_text_and_json_keep_stores_of_boxes() -> None:
    found = stages(PRODUCT, {"A": (200, 192), "B": (192, 128)}, IN_TURNS)
    text = to_text(found.scheduled)
    assert text.count('#copy_back="64x64 of 200x128 by 128x1"') == 2
    assert parse(text) == found.scheduled
    assert from_json(to_json(found.scheduled), Program) == found.scheduled


@pytest.mark.sampled(0)
def test_the_schedule_means_the_same_on_devices_without_boxes() -> None:
    shapes = {"A": (200, 192), "B": (192, 128)}
    scheduled, values = stages(PRODUCT, shapes, IN_TURNS).scheduled, arrays(shapes)
    program = lower(scheduled, attrs.evolve(TARGET, bulk_copies=False))
    assert "bulk_" not in semtree_text(program)
    result = run_program(program, values, ALL_CHECKS)["R"].astype(np.float64)
    np.testing.assert_array_equal(result, expected(PRODUCT, values))
