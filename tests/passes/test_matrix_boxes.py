"""Products whose tiles are copied as boxes of tensors: what is copied, what it means, and what is copied otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.pipelines import fused
from tileir.core.dtype import DType
from tileir.core.errors import TileError
from tileir.core.fragments import named
from tileir.core.targets.target import Target
from tileir.driver.compiler import Stages, compile_stages
from tileir.passes.schedules.groups.distribute import Distribute
from tileir.passes.schedules.groups.matrix.contraction import MatrixContraction
from tileir.schedule.remarks import Remarks, listening
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.ir import AsyncCopy, Barrier, BulkCopy, Channel, ChannelStep, MatrixMultiply
from tileir.semtree.lower.lowering import lower as lower_to_semtree
from tileir.semtree.rewrite import statements
from tileir.stripe.text.parser import parse
from tileir.stripe.text.printer import to_text
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir.semtree.ir import Stmt

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
)
STEP = MatrixContraction(FRAGMENTS, local_bytes=227 * 1024, stages=3, rows=64, columns=32, boxes=1)
PRODUCT = "function (A[M, K], B[K, N]) -> (R) { R[i, j : M, N] = +(A[i, k] * B[k, j]); }"
RIGHT_TURNED = "function (A[M, K], B[N, K]) -> (R) { R[i, j : M, N] = +(A[i, k] * B[j, k]); }"
LEFT_TURNED = "function (A[K, M], B[K, N]) -> (R) { R[i, j : M, N] = +(A[k, i] * B[k, j]); }"
BOTH_TURNED = "function (A[K, M], B[N, K]) -> (R) { R[i, j : M, N] = +(A[k, i] * B[j, k]); }"
BATCH = "function (A[Z, M, K], B[Z, K, N]) -> (R) { R[z, i, j : Z, M, N] = +(A[z, i, k] * B[z, k, j]); }"
HEADS = "function (A[M, H, K], B[H, K, N]) -> (R) { R[i, h, j : M, H, N] = +(A[i, h, k] * B[h, k, j]); }"
ROWS = "function (A[Z, M, K], B[K, N]) -> (R) { R[z, i, j : Z, M, N] = +(A[z, i, k] * B[k, j]); }"
SLICE = "function (A[M, K], B[K, N]) -> (R) { R[i, j : M - 8, N] = +(A[i + 8, k] * B[k, j]); }"
WINDOW = "function (A[M, K], B[P, K, N]) -> (R) { R[i, j : M - P + 1, N] = +(A[i + p, k] * B[p, k, j]); }"


def stages(text: str, shapes: Mapping[str, tuple[int, ...]], step: MatrixContraction = STEP) -> Stages:
    types = {name: TensorType(DType.F16, shape) for name, shape in shapes.items()}
    return compile_stages(text, types, TARGET, passes=(*fused(TARGET), step, Distribute(threads=128)))


def body_of(found: Stages) -> tuple[Stmt, ...]:
    return tuple(stmt for kernel in found.sem.kernels for stmt in statements(kernel.body))


def arrays(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(5)
    return {name: generator.integers(-2, 3, shape).astype(np.float16) for name, shape in shapes.items()}


def expected(text: str, given: dict[str, np.ndarray]) -> np.ndarray:
    a, b = (given[name].astype(np.float64) for name in "AB")
    if text in (LEFT_TURNED, BOTH_TURNED):
        a = a.T
    if text in (RIGHT_TURNED, BOTH_TURNED):
        b = b.T
    if text == HEADS:
        return np.asarray(np.einsum("ihk,hkj->ihj", a, b))
    if text == WINDOW:
        return np.asarray(np.sum([a[p : len(a) - len(b) + 1 + p] @ b[p] for p in range(len(b))], axis=0))
    product: np.ndarray = (a[8:] if text == SLICE else a) @ b
    return product


CASES = [
    (PRODUCT, {"A": (64, 256), "B": (256, 32)}),
    (PRODUCT, {"A": (72, 136), "B": (136, 40)}),
    (RIGHT_TURNED, {"A": (72, 136), "B": (37, 136)}),
    (LEFT_TURNED, {"A": (75, 72), "B": (75, 40)}),
    (BOTH_TURNED, {"A": (88, 72), "B": (40, 88)}),
    (BATCH, {"A": (2, 66, 72), "B": (2, 72, 32)}),
    (HEADS, {"A": (66, 2, 72), "B": (2, 72, 40)}),
    (SLICE, {"A": (74, 64), "B": (64, 32)}),
    (WINDOW, {"A": (66, 64), "B": (3, 64, 32)}),
    (ROWS, {"A": (3, 25, 136), "B": (136, 40)}),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("text", "shapes"), CASES)
def test_tiles_are_boxes_that_one_thread_asks_for(text: str, shapes: dict[str, tuple[int, ...]]) -> None:
    found = stages(text, shapes)
    body = body_of(found)
    assert sum(isinstance(s, MatrixMultiply) for s in body) == 1
    assert not any(isinstance(s, AsyncCopy | Barrier) for s in body)
    copies = [s for s in body if isinstance(s, BulkCopy)]
    assert copies
    assert len(copies) % 2 == 0
    steps = [s.step for s in body if isinstance(s, Channel)]
    assert steps.count(ChannelStep.ACQUIRE) == steps.count(ChannelStep.SEND) == len(copies) // 2
    assert steps.count(ChannelStep.RECEIVE) == steps.count(ChannelStep.RELEASE) == 1
    given = arrays(shapes)
    result = run_program(found.sem, given, ALL_CHECKS)["R"].astype(np.float64)
    np.testing.assert_array_equal(result, expected(text, given))


@given(
    text=st.sampled_from((PRODUCT, RIGHT_TURNED, LEFT_TURNED, BOTH_TURNED, BATCH)),
    sizes=st.tuples(st.integers(8, 17), st.integers(2, 9), st.integers(8, 24)),
    places=st.integers(2, 4),
)
@examples(4)
def test_products_of_any_size(text: str, sizes: tuple[int, int, int], places: int) -> None:
    m, n, k = (8 * size for size in sizes)
    left, right = (m, k), (k, n)
    if text in (LEFT_TURNED, BOTH_TURNED):
        left = (k, m)
    if text in (RIGHT_TURNED, BOTH_TURNED):
        right = (n, k)
    shapes = {"A": (2, *left), "B": (2, *right)} if text == BATCH else {"A": left, "B": right}
    given = arrays(shapes)
    found = stages(text, shapes, attrs.evolve(STEP, stages=places))
    result = run_program(found.sem, given, ALL_CHECKS)["R"].astype(np.float64)
    np.testing.assert_array_equal(result, expected(text, given))


@pytest.mark.sampled(0)
@pytest.mark.parametrize(
    ("text", "n", "columns"),
    [(PRODUCT, 224, 224), (PRODUCT, 240, 160), (RIGHT_TURNED, 229, 224), (LEFT_TURNED, 160, 160)],
)
def test_tiles_need_not_be_powers_of_two(text: str, n: int, columns: int) -> None:
    """Boxes are whole pieces: those of neighbouring tiles overlap, and the last one may reach behind the end."""
    m, k = 72, 72
    shapes = {"A": (k, m) if text == LEFT_TURNED else (m, k), "B": (n, k) if text == RIGHT_TURNED else (k, n)}
    found = stages(text, shapes, attrs.evolve(STEP, rows=128, columns=columns))
    (product,) = (s for s in body_of(found) if isinstance(s, MatrixMultiply))
    assert product.tile[:2] == (64, columns)
    assert any(isinstance(s, BulkCopy) for s in body_of(found))
    given = arrays(shapes)
    result = run_program(found.sem, given, ALL_CHECKS)["R"].astype(np.float64)
    np.testing.assert_array_equal(result, expected(text, given))


THREE = MatrixContraction(FRAGMENTS, local_bytes=227 * 1024, stages=3, rows=192, columns=128, boxes=1, most_threads=384)


@pytest.mark.sampled(0)
@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        (PRODUCT, {"A": (192, 64), "B": (64, 128)}),
        (RIGHT_TURNED, {"A": (130, 128), "B": (101, 128)}),
        (LEFT_TURNED, {"A": (72, 256), "B": (72, 128)}),
    ],
)
def test_three_warpgroups_share_a_tile_that_one_thread_asks_for(text: str, shapes: dict[str, tuple[int, ...]]) -> None:
    found = stages(text, shapes, THREE)
    assert [kernel.group for kernel in found.sem.kernels] == [(384,)]
    given = arrays(shapes)
    result = run_program(found.sem, given, ALL_CHECKS)["R"].astype(np.float64)
    np.testing.assert_array_equal(result, expected(text, given))


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        (PRODUCT, {"A": (192, 100), "B": (100, 128)}),  # threads that copy themselves are a power of two
        (PRODUCT, {"A": (192, 72), "B": (72, 128)}),  # rows of boxes lie in two lines: wider tiles have fewer of them
    ],
)
def test_other_products_take_no_three_warpgroups(text: str, shapes: dict[str, tuple[int, ...]]) -> None:
    assert all(kernel.group != (384,) for kernel in stages(text, shapes, THREE).sem.kernels)


@pytest.mark.parametrize(
    ("text", "shapes", "word"),
    [
        (PRODUCT, {"A": (64, 100), "B": (100, 32)}, "alignment"),
        (PRODUCT, {"A": (64, 64), "B": (64, 36)}, "alignment"),
    ],
)
def test_what_is_no_box_is_copied_by_threads(text: str, shapes: dict[str, tuple[int, ...]], word: str) -> None:
    heard = Remarks()
    with listening(heard):
        found = stages(text, shapes)
    body = body_of(found)
    assert any(isinstance(s, MatrixMultiply) for s in body)
    assert not any(isinstance(s, BulkCopy | Channel) for s in body)
    (done,) = (each for each in heard.all() if each.fired and "no_boxes" in dict(each.facts))
    assert dict(done.facts)["no_boxes"] == word
    given = arrays(shapes)
    result = run_program(found.sem, given, ALL_CHECKS)["R"].astype(np.float64)
    np.testing.assert_array_equal(result, expected(text, given))


def test_small_tiles_are_copied_by_threads() -> None:
    shapes = {"A": (64, 128), "B": (128, 32)}
    for least in (64 * 32, 64 * 32 + 1):
        body = body_of(stages(PRODUCT, shapes, attrs.evolve(STEP, boxes=least)))
        assert any(isinstance(s, BulkCopy) for s in body) == (least == 64 * 32)


@pytest.mark.sampled(0)
def test_the_schedule_means_the_same_on_devices_without_such_copies() -> None:
    shapes = {"A": (72, 200), "B": (200, 40)}
    given = arrays(shapes)
    scheduled = stages(PRODUCT, shapes).scheduled
    for target in (
        attrs.evolve(TARGET, bulk_copies=False),
        attrs.evolve(TARGET, bulk_copies=False, async_copies=False),
    ):
        program = lower_to_semtree(scheduled, target)
        assert not any(isinstance(s, BulkCopy) for kernel in program.kernels for s in statements(kernel.body))
        result = run_program(program, given, ALL_CHECKS)["R"].astype(np.float64)
        np.testing.assert_array_equal(result, expected(PRODUCT, given))


def test_text_says_what_box_of_what_tensor() -> None:
    scheduled = stages(PRODUCT, {"A": (72, 200), "B": (200, 40)}).scheduled
    text = to_text(scheduled)
    assert '#copy="64x64 of 72x200 by 200x1"' in text
    assert parse(text) == scheduled


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("64x64 of 72x200 by 200x1", "64x32 of 72x200 by 200x1", "copies other elements"),
        ("64x64 of 72x200 by 200x1", "64x64 of 72x199 by 200x1", "tests something else"),
        ("64x64 of 72x200 by 200x1", "64x64 of 72x200 by 200x3", "moves between"),
    ],
)
def test_a_box_is_what_the_block_copies(old: str, new: str, said: str) -> None:
    text = to_text(stages(PRODUCT, {"A": (72, 200), "B": (200, 40)}).scheduled)
    assert old in text
    with pytest.raises(TileError, match=said) as caught:
        lower_to_semtree(parse(text.replace(old, new)), TARGET)
    assert caught.value.diagnostics[0].code == "TIL502"
