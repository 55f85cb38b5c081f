"""Convolutions with borders, and other products that constraints cut, on fragments: what is left out is in no sum."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from passes.test_split_reduction import EAGER
from strategies.effort import examples
from strategies.pipelines import fused
from tileir.core.dtype import DType
from tileir.core.fragments import named
from tileir.core.targets.target import Target
from tileir.driver.compiler import Stages, compile_stages
from tileir.passes.algorithms.split_reduction import SplitReduction
from tileir.passes.rewrites.canonicalise import Canonicalise
from tileir.passes.schedules.groups.distribute import Distribute
from tileir.passes.schedules.groups.matrix.contraction import MatrixContraction
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.ir import Const, For, MatrixMultiply, Type
from tileir.semtree.rewrite import statements
from tileir.semtree.text.printer import to_text
from tileir.stripe.instructions import Repair
from tileir.stripe.interpret.interpreter import interpret
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir.passes.base import Pass
    from tileir.stripe.ir import Block

WARPS = MatrixContraction(("mma_m16n8k16_f16", "mma_m16n8k8_f32"))
WARPGROUPS = MatrixContraction((*named("sm_90a"), *WARPS.fragments), local_bytes=227 * 1024)
TARGET = Target(
    index_dtype=DType.I32, group_threads=256, alignment=64, vector_bytes=16, async_copies=True, approximate=True
)
PLACES = "{s}*y + {d}*p - {b}, {s}*x + {d}*q - {b}"
ROWS, COLUMNS = (f"({n} + 2*{{b}} - {{d}}*({w} - 1) - 1) / {{s}} + 1" for n, w in (("Y", "P"), ("X", "Q")))
LAST = f"""function (A[N, Y, X, C], B[P, Q, C, F]) -> (R) {{{{
    R[n, y, x, f : N, {ROWS}, {COLUMNS}, F] = +(A[n, {PLACES}, c] * B[p, q, c, f]);
}}}}"""
FIRST = f"""function (A[N, C, Y, X], B[F, C, P, Q]) -> (R) {{{{
    R[n, f, y, x : N, F, {ROWS}, {COLUMNS}] = +(A[n, c, {PLACES}] * B[f, c, p, q]);
}}}}"""
GROUPED = f"""function (A[N, Y, X, G, C], B[P, Q, G, C, F]) -> (R) {{{{
    R[n, y, x, g, f : N, {ROWS}, {COLUMNS}, G, F] = +(A[n, {PLACES}, g, c] * B[p, q, g, c, f]);
}}}}"""
OF_WEIGHTS = """function (A[N, Y, X, C], B[N, Y, X, F]) -> (R) {
    R[p, q, c, f : 3, 3, C, F] = +(A[n, y + p - 1, x + q - 1, c] * B[n, y, x, f]);
}"""
OF_INPUT = """function (A[N, Y, X, F], B[P, Q, C, F]) -> (R) {
    R[n, y, x, c : N, Y, X, C] = +(A[n, y - p + 1, x - q + 1, f] * B[p, q, c, f]);
}"""


def stages(text: str, shapes: Mapping[str, tuple[int, ...]], step: MatrixContraction, *first: Pass) -> Stages:
    target = attrs.evolve(TARGET, fragments=step.fragments, local_bytes=step.local_bytes)
    types = {name: TensorType(DType.F16, shape) for name, shape in shapes.items()}
    return compile_stages(text, types, target, passes=(*first, *fused(target), step, Distribute(threads=128)))


def products(found: Stages) -> int:
    return sum(isinstance(s, MatrixMultiply) for kernel in found.sem.kernels for s in statements(kernel.body))


def multiplies(loop: For) -> bool:
    return any(isinstance(s, MatrixMultiply) for s in statements(loop.body))


def blocks(block: Block) -> list[Block]:
    return [block, *(each for inner in block.blocks for each in blocks(inner))]


def check(found: Stages, shapes: Mapping[str, tuple[int, ...]], spots: int, *, lowered: bool = True) -> None:
    """Compare with the meaning, with infinities and NaN at so many places of each input."""
    generator = np.random.default_rng(3)
    given = {name: generator.integers(-3, 4, shape).astype(np.float16) for name, shape in shapes.items()}
    for array in given.values():
        for value in generator.choice([np.inf, -np.inf, np.nan], spots):
            array.flat[generator.integers(array.size)] = value
    with np.errstate(invalid="ignore"):
        expected = interpret(found.stripe, given)["R"]
        np.testing.assert_array_equal(interpret(found.scheduled, given)["R"], expected)
        if lowered:
            np.testing.assert_array_equal(run_program(found.sem, given, ALL_CHECKS)["R"], expected)


@given(
    form=st.sampled_from((LAST, FIRST, GROUPED)),
    picture=st.tuples(st.integers(4, 9), st.integers(4, 9)),
    channels=st.tuples(st.sampled_from((3, 8, 16, 20)), st.sampled_from((17, 24, 32))),
    window=st.tuples(st.sampled_from((1, 3)), st.sampled_from((2, 3))),
    steps=st.tuples(st.integers(0, 2), st.integers(1, 2), st.sampled_from((1, 1, 2))),
    step=st.sampled_from((WARPS, WARPGROUPS)),
    spots=st.integers(0, 2),
)
@examples(40)
def test_convolutions(
    form: str,
    picture: tuple[int, int],
    channels: tuple[int, int],
    window: tuple[int, int],
    steps: tuple[int, int, int],
    step: MatrixContraction,
    spots: int,
) -> None:
    """An infinite weight makes those outputs NaN or infinite that read a pixel under it, and no others.

    Lowered, one of them takes the interpreter seconds, so others test that.
    """
    (c, f), (border, stride, dilation) = channels, steps
    shapes: dict[str, tuple[int, ...]] = {"A": (2, *picture, c), "B": (*window, c, f)}
    if form is FIRST:
        shapes = {"A": (2, c, *picture), "B": (f, c, *window)}
    elif form is GROUPED:
        shapes = {"A": (1, *picture, 2, c), "B": (*window, 2, c, f)}
    found = stages(form.format(b=border, s=stride, d=dilation), shapes, step)
    check(found, shapes, spots, lowered=False)


@pytest.mark.sampled(0)
@pytest.mark.parametrize(
    ("text", "shapes", "step"),
    [
        (LAST.format(b=1, s=1, d=1), {"A": (1, 5, 5, 16), "B": (3, 3, 16, 17)}, WARPS),
        (LAST.format(b=1, s=2, d=1), {"A": (2, 9, 7, 3), "B": (2, 3, 3, 24)}, WARPS),
        (LAST.format(b=1, s=1, d=1), {"A": (1, 3, 20, 20), "B": (1, 3, 20, 32)}, WARPGROUPS),
        (FIRST.format(b=1, s=1, d=1), {"A": (1, 16, 5, 6), "B": (17, 16, 2, 2)}, WARPS),
        (FIRST.format(b=0, s=1, d=1), {"A": (1, 16, 6, 9), "B": (24, 16, 1, 3)}, WARPGROUPS),
        (GROUPED.format(b=1, s=1, d=2), {"A": (1, 6, 6, 2, 16), "B": (3, 1, 2, 16, 17)}, WARPS),
        (OF_WEIGHTS, {"A": (7, 3, 2, 17), "B": (7, 3, 2, 17)}, WARPS),
        (OF_WEIGHTS, {"A": (2, 2, 17, 17), "B": (2, 2, 17, 17)}, WARPS),  # steps go along pixels, under constraints
        (OF_INPUT, {"A": (1, 6, 6, 16), "B": (2, 2, 17, 16)}, WARPS),
    ],
)
def test_products_with_borders_are_on_fragments(
    text: str, shapes: dict[str, tuple[int, ...]], step: MatrixContraction
) -> None:
    found = stages(text, shapes, step)
    assert products(found) >= 1  # a product for each part of a small picture
    check(found, shapes, 1)


@given(
    batch=st.integers(1, 6),
    picture=st.tuples(st.integers(1, 4), st.integers(1, 20)),
    channels=st.tuples(st.sampled_from((16, 17, 64)), st.sampled_from((16, 24, 32))),
    step=st.sampled_from((WARPS, WARPGROUPS)),
    parts=st.integers(1, 4),
    spots=st.integers(0, 2),
)
@examples(20)
def test_gradients_by_weights(
    batch: int, picture: tuple[int, int], channels: tuple[int, int], step: MatrixContraction, parts: int, spots: int
) -> None:
    """Steps go along pictures, pixels or rows of these, whichever are most; parts of the sum are products, too."""
    shapes = {name: (batch, *picture, count) for name, count in zip("AB", channels, strict=True)}
    split = SplitReduction(parts=2, operations=1, columns=64, groups=parts, tile=9 * channels[0] * channels[1])
    with pytest.MonkeyPatch.context() as patch:
        for name, value in EAGER.items():
            patch.setattr(f"tileir.passes.algorithms.product_parts.{name}", value)
        found = stages(OF_WEIGHTS, shapes, step, split)
    check(found, shapes, spots, lowered=False)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("batch", "columns", "along"), [(16, 12, "n"), (8, 12, "x"), (2, 24, "x")])
def test_steps_go_along_the_longest_index(batch: int, columns: int, along: str) -> None:
    shapes = dict.fromkeys("AB", (batch, 2, columns, 32))
    kernel = stages(OF_WEIGHTS, shapes, WARPS).sem.kernels[0]
    assert f"i32 {along}_copy = " in to_text(kernel)


@pytest.mark.parametrize("step", [WARPS, WARPGROUPS])
def test_constraints_on_the_depth_are_zeros_in_a_factor(step: MatrixContraction) -> None:
    text = "function (A[M, K], B[K, N]) -> (R) { R[i, j : M, N] = +(A[i, k - i] * B[k, j]); }"
    shapes = {"A": (32, 32), "B": (32, 32)}
    found = stages(text, shapes, step)
    assert products(found) == 1
    check(found, shapes, 1)


def test_constraints_between_rows_and_columns_are_tested_at_each_sum() -> None:
    """No copy of a factor can tell which of its elements they leave out."""
    text = "function (A[M, P, K], B[P, K, N]) -> (R) { R[i, j : M, N] = +(A[i, p, k] * B[p, k, j]), i - j + p < 9; }"
    shapes = {"A": (32, 2, 16), "B": (2, 16, 32)}
    found = stages(text, shapes, WARPS)
    repairs = [b for kernel in found.scheduled.main.blocks for b in blocks(kernel) if b.instruction == Repair()]
    assert (products(found), repairs) == (1, [])
    check(found, shapes, 1)


@given(
    picture=st.tuples(st.integers(3, 9), st.integers(3, 9)),
    channels=st.sampled_from((2, 3, 4, 7)),
    window=st.tuples(st.integers(1, 3), st.integers(2, 7)),
    steps=st.tuples(st.integers(0, 3), st.integers(1, 2), st.sampled_from((1, 1, 2))),
    form=st.sampled_from((LAST, FIRST)),
    step=st.sampled_from((WARPS, WARPGROUPS)),
)
@examples(12)
def test_few_channels_and_pixels_are_one_index(
    picture: tuple[int, int],
    channels: int,
    window: tuple[int, int],
    steps: tuple[int, int, int],
    form: str,
    step: MatrixContraction,
) -> None:
    border, stride, dilation = steps
    shapes: dict[str, tuple[int, ...]] = {"A": (2, *picture, channels), "B": (*window, channels, 17)}
    if form is FIRST:
        shapes = {"A": (2, channels, *picture), "B": (17, channels, *window)}
    text = form.format(b=border, s=stride, d=dilation)
    assume(min(n + 2 * border - dilation * (w - 1) for n, w in zip(picture, window, strict=True)) > 0)
    check(stages(text, shapes, step, Canonicalise(merge=False, channels=8)), shapes, 1, lowered=False)


def test_a_window_of_three_channels_has_few_steps() -> None:
    """Seven pixels of three channels fill two steps of sixteen, and would take seven of them one by one."""
    shapes = {"A": (1, 8, 16, 3), "B": (7, 7, 3, 32)}
    found = stages(LAST.format(b=3, s=2, d=1), shapes, WARPGROUPS, Canonicalise(merge=False, channels=8))
    (kernel,) = found.sem.kernels
    (steps,) = (loop.end for loop in statements(kernel.body) if isinstance(loop, For) and multiplies(loop))
    assert steps == Const(14, Type(DType.I32))


@pytest.mark.sampled(0)
@pytest.mark.parametrize(
    ("batch", "picture", "step", "tile"),
    [
        (32, (4, 4), WARPGROUPS, (64, 32)),  # rows of an instruction go on along another index
        (8, (3, 16), WARPGROUPS, (64, 32)),
        (16, (8, 3), WARPS, (16, 16)),
    ],
)
def test_tiles_lie_along_the_indices_that_leave_least_of_them_empty(
    batch: int, picture: tuple[int, int], step: MatrixContraction, tile: tuple[int, int]
) -> None:
    shapes = {"A": (batch, *picture, 16), "B": (1, 3, 16, 32)}
    found = stages(LAST.format(b=1, s=1, d=1), shapes, step)
    for kernel in found.sem.kernels:
        multiplied = [s for s in statements(kernel.body) if isinstance(s, MatrixMultiply)]
        assert all(s.tile[0] % tile[0] == s.tile[1] % tile[1] == 0 for s in multiplied)
    check(found, shapes, 1, lowered=step is WARPS)  # thousands of elements by warpgroups take the interpreter seconds


@given(
    form=st.sampled_from((LAST, FIRST, OF_INPUT)),
    sizes=st.sampled_from(((1, 5, 18), (3, 3, 9), (8, 2, 5), (16, 3, 3), (20, 2, 3), (32, 2, 3))),
    step=st.sampled_from((WARPS, WARPGROUPS)),
)
@examples(6)
def test_rows_of_any_two_indices(form: str, sizes: tuple[int, int, int], step: MatrixContraction) -> None:
    batch, *picture = sizes
    shapes: dict[str, tuple[int, ...]] = {"A": (batch, *picture, 16), "B": (2, 3, 16, 32)}
    if form is FIRST:
        shapes = {"A": (batch, 16, *picture), "B": (32, 16, 2, 3)}
    elif form is OF_INPUT:
        shapes = {"A": (batch, *picture, 16), "B": (2, 3, 32, 16)}
    text = form if form is OF_INPUT else form.format(b=1, s=1, d=1)
    check(stages(text, shapes, step), shapes, 1, lowered=False)
