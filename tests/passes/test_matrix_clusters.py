"""Products whose groups copy one factor together, in clusters: which do, what they mean, and which do not."""

from __future__ import annotations

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
    WINDOW,
    arrays,
    expected,
    stages,
)
from passes.test_matrix_roles import IN_ROLES
from passes.test_matrix_turns import same
from strategies.effort import examples
from tileir.core.json.codec import from_json, to_json
from tileir.schedule.remarks import Remarks, listening
from tileir.semtree.ir import Barrier, BulkCopy, Scope, WarpRole
from tileir.semtree.rewrite import statements
from tileir.stripe.instructions import Pipeline
from tileir.stripe.ir import Program, Tags
from tileir.stripe.text.instruction_words import instruction_of, instruction_words
from tileir.stripe.text.parser import parse
from tileir.stripe.text.printer import to_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir.driver.compiler import Stages

PAIRS = attrs.evolve(STEP, cluster=2)
IN_TURNS = attrs.evolve(PAIRS, turns=True, groups=2, local_bytes=64 * 1024)
SHAPES = {"A": (256, 192), "B": (192, 64)}
"""Four rows of tiles and two columns, of three steps each."""


def clusters_of(found: Stages) -> int:
    """Return the size of the kernel's clusters, all of which copy the right factor, and that one alone."""
    (kernel,) = found.sem.kernels
    copies = [stmt for stmt in statements(kernel.body) if isinstance(stmt, BulkCopy)]
    assert {stmt.source.array for stmt in copies if stmt.scope is Scope.CLUSTER} == (
        {"B"} if kernel.cluster > 1 else set()
    )
    assert ({"A"} if kernel.cluster > 1 else {"A", "B"}) == {s.source.array for s in copies if s.scope is Scope.GROUP}
    assert (kernel.body[-1] == Barrier(Scope.CLUSTER)) == (kernel.cluster > 1)
    return kernel.cluster


@pytest.mark.sampled(0)
@pytest.mark.parametrize("step", [PAIRS, IN_TURNS, attrs.evolve(IN_TURNS, groups=3), attrs.evolve(PAIRS, cluster=4)])
@pytest.mark.parametrize("rows", [SHAPES["A"][0], 192, 130])
def test_groups_of_a_cluster_copy_the_right_factor_together(step: object, rows: int) -> None:
    assert isinstance(step, type(STEP))
    shapes = SHAPES | {"A": (rows, 192)}  # three rows of tiles are filled up to four
    found = stages(PRODUCT, shapes, step)
    assert clusters_of(found) == step.cluster
    same(found, PRODUCT, shapes)


@pytest.mark.sampled(0)
@pytest.mark.parametrize("turns", [False, True])
def test_one_warp_of_each_group_copies_for_the_cluster(turns: bool) -> None:
    step = attrs.evolve(IN_ROLES, cluster=2, turns=turns, groups=2)
    shapes = {"A": (512, 192), "B": (192, 64)}
    found = stages(PRODUCT, shapes, step)
    (kernel,) = found.sem.kernels
    assert kernel.grid == ((2,) if turns else (4,))
    assert clusters_of(found) == 2
    assert isinstance(kernel.body[-2], WarpRole)
    same(found, PRODUCT, shapes)


@pytest.mark.sampled(0)
@pytest.mark.parametrize(
    ("step", "shapes"),
    [
        (STEP, SHAPES),
        (attrs.evolve(PAIRS, boxes=0), SHAPES),
    ],
)
def test_others_copy_by_themselves(step: object, shapes: Mapping[str, tuple[int, ...]]) -> None:
    assert isinstance(step, type(STEP))
    found = stages(PRODUCT, shapes, step)
    assert all(kernel.cluster == 1 for kernel in found.sem.kernels)
    same(found, PRODUCT, shapes)


def test_remarks_text_and_json_tell_of_clusters() -> None:
    heard = Remarks()
    with listening(heard):
        found = stages(PRODUCT, SHAPES, IN_TURNS)
    assert [dict(each.facts)["cluster"] for each in heard.all() if each.fired and "cluster" in dict(each.facts)] == [2]
    text = to_text(found.scheduled)
    assert '#pipeline="3 in 2 groups in clusters of 2"' in text
    assert parse(text) == found.scheduled
    assert from_json(to_json(found.scheduled), Program) == found.scheduled


PIPELINES = [
    Pipeline(3, n, registers, teams, size)
    for n in (0, 4)
    for registers in ((), (40, 232))
    for teams in (1, 2)
    for size in (1, 2)
]


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_words_of_pipelines(pipeline: Pipeline) -> None:
    assert instruction_of(Tags.of(**instruction_words(pipeline))) == (pipeline, Tags())
    assert from_json(to_json(pipeline), Pipeline) == pipeline


@given(
    text=st.sampled_from((PRODUCT, RIGHT_TURNED, LEFT_TURNED, BOTH_TURNED, BATCH, HEADS, SLICE, WINDOW)),
    sizes=st.tuples(st.integers(4, 24), st.integers(2, 3), st.integers(1, 2)),
    columns=st.sampled_from((32, 64)),
    places=st.integers(2, 4),
    groups=st.sampled_from((0, 2, 4)),
)
@examples(6)
def test_products_of_any_size(text: str, sizes: tuple[int, int, int], columns: int, places: int, groups: int) -> None:
    m, k, n = 8 * sizes[0], 64 * sizes[1], 64 * sizes[2]
    m = -(-m // 64) * 64 if text in (LEFT_TURNED, BOTH_TURNED) else m
    left = {LEFT_TURNED: (k, m), BOTH_TURNED: (k, m), BATCH: (2, m, k), HEADS: (m, 2, k), SLICE: (m + 8, k)}
    right = {RIGHT_TURNED: (n, k), BOTH_TURNED: (n, k), BATCH: (2, k, n), HEADS: (2, k, n), WINDOW: (3, k, n)}
    shapes = {"A": left.get(text, (m, k)), "B": right.get(text, (k, n))}
    step = attrs.evolve(IN_TURNS if groups else PAIRS, stages=places, columns=columns, groups=max(1, groups))
    found = stages(text, shapes, step)
    same(found, text, shapes)
    values = arrays(shapes)
    assert np.isfinite(expected(text, values)).all()


@given(
    text=st.sampled_from((PRODUCT, RIGHT_TURNED)),
    sizes=st.tuples(st.integers(17, 31), st.integers(9, 20), st.integers(16, 22)),
    columns=st.sampled_from((224, 256)),
    turns=st.booleans(),
)
@examples(3)
def test_rows_in_two_lines_are_copied_by_pairs_of_groups(
    text: str, sizes: tuple[int, int, int], columns: int, turns: bool
) -> None:
    m, k, n = (8 * size + 8 * (size % 8 == 0) for size in sizes)
    step = attrs.evolve(IN_ROLES, cluster=1, roles=False, pairs=True, turns=turns, groups=2, columns=columns)
    shapes = {"A": (m, k), "B": (n, k) if text == RIGHT_TURNED else (k, n)}
    found = stages(text, shapes, attrs.evolve(step, local_bytes=200 * 1024))
    (kernel,) = found.sem.kernels
    if any(isinstance(stmt, BulkCopy) for stmt in statements(kernel.body)):
        assert (kernel.cluster, isinstance(kernel.body[-2], WarpRole)) == (2, True)
    same(found, text, shapes)
