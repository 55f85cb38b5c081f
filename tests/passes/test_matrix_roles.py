"""Products of which one warp copies the tiles while the others multiply: which do, and what they mean."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import attrs
import numpy as np
import pytest
from hypothesis import given, strategies as st

from passes.test_masked_products import check
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
from passes.test_window_boxes import stages as window_stages, window
from strategies.effort import examples
from strategies.pipelines import fused
from tileir.core.dtype import DType
from tileir.core.errors import TileError
from tileir.core.json.codec import from_json, to_json
from tileir.driver.compiler import compile_stages
from tileir.passes.schedules.groups.distribute import Distribute
from tileir.semtree.check.verifier import verify_program
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.lower.lowering import lower
from tileir.semtree.roles import roles
from tileir.semtree.text.parser import parse_program
from tileir.semtree.text.printer import to_text as semtree_text
from tileir.stripe.check.verifier import verify
from tileir.stripe.ir import Program
from tileir.stripe.text.parser import parse
from tileir.stripe.text.printer import to_text
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir.driver.compiler import Stages

IN_ROLES = attrs.evolve(STEP, rows=128, columns=64, threads=256, groups=1, local_bytes=96 * 1024, roles=True)
"""Local memory is for one group, as pairs of them have no roles."""

SHAPES = {"A": (136, 192), "B": (192, 64)}
"""Two tiles, of three steps each."""


def same(found: Stages, text: str, shapes: Mapping[str, tuple[int, ...]]) -> None:
    values = arrays(shapes)
    verify_program(found.sem)
    result = run_program(found.sem, values, ALL_CHECKS)["R"].astype(np.float64)
    np.testing.assert_array_equal(result, expected(text, values))


@pytest.mark.sampled(0)
@pytest.mark.parametrize(("turns", "grid"), [(False, 2), (True, 1)])
def test_one_warp_copies_and_eight_multiply(turns: bool, grid: int) -> None:
    found = stages(PRODUCT, SHAPES, attrs.evolve(IN_ROLES, turns=turns))
    (kernel,) = found.sem.kernels
    assert np.prod(kernel.grid) == grid
    assert kernel.group == (384,)
    assert [(role.first, role.warps, role.registers) for role in roles(kernel)] == [(0, 4, 232), (8, 1, 40)]
    assert [role.teams for role in roles(kernel)] == [2, 1]
    shared, multiplying, copying = semtree_text(found.sem).split("role(")
    assert not any(word in shared for word in ("bulk_copy", "channel "))
    assert "bulk_copy" not in multiplying
    assert copying.count("bulk_copy") == 2
    assert "multiply" not in copying
    same(found, PRODUCT, SHAPES)


@pytest.mark.sampled(0)
@pytest.mark.parametrize(
    "step",
    [
        attrs.evolve(IN_ROLES, roles=False),
        attrs.evolve(IN_ROLES, rows=64),
        attrs.evolve(IN_ROLES, boxes=0),
        attrs.evolve(IN_ROLES, stages=1),
        attrs.evolve(IN_ROLES, local_bytes=227 * 1024),
    ],
)
def test_others_copy_what_they_multiply(step: object) -> None:
    """Four warps have registers enough, and pairs of groups hide each other's waiting."""
    found = stages(PRODUCT, SHAPES, step)  # type: ignore[arg-type]
    assert not any(map(roles, found.sem.kernels))
    same(found, PRODUCT, SHAPES)


@given(
    text=st.sampled_from((PRODUCT, RIGHT_TURNED, LEFT_TURNED, BATCH, HEADS)),
    sizes=st.tuples(st.integers(9, 17), st.integers(1, 3), st.integers(1, 2)),
    places=st.integers(2, 3),
    turns=st.booleans(),
)
@examples(4)
def test_products_of_any_size(text: str, sizes: tuple[int, int, int], places: int, turns: bool) -> None:
    m, k, n = 8 * sizes[0], 64 * sizes[1], 64 * sizes[2]
    left = {LEFT_TURNED: (k, m), BATCH: (2, m, k), HEADS: (m, 2, k)}.get(text, (m, k))
    right = {RIGHT_TURNED: (n, k), BATCH: (2, k, n), HEADS: (2, k, n)}.get(text, (k, n))
    shapes = {"A": left, "B": right}
    step = attrs.evolve(IN_ROLES, stages=places, turns=turns)
    same(stages(text, shapes, step), text, shapes)


def test_what_follows_the_product_is_done_by_those_that_multiply() -> None:
    text = "function (A[M, K], B[K, N], D[N]) -> (R) { C[i, j : M, N] = +(A[i, k] * B[k, j]); R = max(C + D, 0); }"
    shapes = {"A": (136, 128), "B": (128, 64), "D": (64,)}
    types = {name: TensorType(DType.F16, shape) for name, shape in shapes.items()}
    step = attrs.evolve(IN_ROLES, turns=True)
    found = compile_stages(text, types, TARGET, passes=(*fused(TARGET), step, Distribute(threads=128)))
    (kernel,) = found.sem.kernels
    assert len(roles(kernel)) == 2
    values = arrays(shapes)
    result = run_program(found.sem, values, ALL_CHECKS)["R"].astype(np.float64)
    product = values["A"].astype(np.float64) @ values["B"].astype(np.float64)
    np.testing.assert_array_equal(result, np.maximum(product + values["D"], 0))


@pytest.mark.sampled(0)
def test_windows_with_borders_are_copied_by_a_warp_of_their_own() -> None:
    """Sums with infinities that borders leave out are computed again, by those that multiply."""
    shapes = {"A": (17, 1, 8, 16), "B": (1, 3, 16, 64)}
    found = window_stages(window(1, 8, b=0), shapes, attrs.evolve(IN_ROLES, turns=True, local_bytes=40 * 1024))
    assert any(map(roles, found.sem.kernels))
    check(found, shapes, 1)


def test_text_and_json_keep_the_registers() -> None:
    for turns in (False, True):
        found = stages(PRODUCT, SHAPES, attrs.evolve(IN_ROLES, turns=turns))
        text = to_text(found.scheduled)
        assert f'#pipeline="3{" in 1 groups" if turns else ""} of 2 teams with 40x232 registers"' in text
        assert parse(text) == found.scheduled
        assert from_json(to_json(found.scheduled), Program) == found.scheduled
        assert parse_program(semtree_text(found.sem)) == found.sem


@pytest.mark.sampled(0)
def test_the_schedule_means_the_same_on_devices_without_boxes() -> None:
    scheduled, values = stages(PRODUCT, SHAPES, IN_ROLES).scheduled, arrays(SHAPES)
    program = lower(scheduled, attrs.evolve(TARGET, bulk_copies=False))
    assert not any(map(roles, program.kernels))
    assert program.kernels[0].group == (256,)
    result = run_program(program, values, ALL_CHECKS)["R"].astype(np.float64)
    np.testing.assert_array_equal(result, expected(PRODUCT, values))


def test_registers_of_more_or_fewer_than_two_kinds_of_threads_are_an_error() -> None:
    text = to_text(stages(PRODUCT, SHAPES, IN_ROLES).scheduled)
    with pytest.raises(TileError, match="registers of threads that copy and of others"):
        verify(parse(text.replace("40x232", "40")))
    with pytest.raises(TileError, match="teams where a warp of its own copies"):
        verify(parse(text.replace(" with 40x232 registers", "")))


def test_pipelines_in_loops_have_no_warp_of_their_own() -> None:
    text = to_text(stages(PRODUCT, {"A": (136, 192), "B": (192, 128)}, IN_ROLES).scheduled)
    looped = re.sub(r"block \[(.*?)\(#grid j:2\)", r"block [\1j:2", text)
    assert looped != text
    with pytest.raises(TileError, match="made by a warp of its own"):
        lower(parse(looped), TARGET)
