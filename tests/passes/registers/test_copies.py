"""Copies of what pieces of rows read, in contiguous memory of a group."""

from __future__ import annotations

from unittest.mock import patch

import attrs
import pytest
from hypothesis import given, strategies as st

from strategies.contractions import Case
from strategies.effort import examples
from strategies.passes import assert_same_meaning
from tileir.core.dtype import DType
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import run
from tileir.passes.kernels.merge import reduction_nest
from tileir.passes.schedules.registers import copies as register_copies
from tileir.passes.schedules.registers.copies import CopiedElements, Run, copied_pieces, vectors
from tileir.passes.schedules.registers.cost import Limits, Tiling, choose
from tileir.passes.schedules.registers.register_tile import RegisterTile
from tileir.poly.affine import Affine
from tileir.schedule.nest import Nest, Segment, Use
from tileir.stripe.blocks import Binding
from tileir.stripe.check.verifier import verify
from tileir.stripe.ir import Block, Direction, Index, Load, Program, Statement, TensorShape

SMALL = RegisterTile(vector_bytes=16, registers=16, cache_bytes=1024, panel_bytes=1 << 14)
PADDED = """function (X[N, C, H, W], F[P, C, I, J, L]) -> (O) {
    O[n, y, x, p, l : N, H, W, P, L] = +(X[n, c, y + i - 1, x + j - 1] * F[p, c, i, j, l]);
}"""
STRIDED = """function (X[N, C, H, W], F[P, C, I, J, L]) -> (O) {
    O[n, y, x, p, l : N, (H + 1) / 2, (W + 1) / 2, P, L] = +(X[n, c, 2*y + i - 1, 2*x + j - 1] * F[p, c, i, j, l]);
}"""
INSIDE = """function (X[N, C, H, W], F[P, C, I, J, L]) -> (O) {
    O[n, y, x, p, l : N, H - I + 1, W - J + 1, P, L] = +(X[n, c, y + i, x + j] * F[p, c, i, j, l]);
}"""
TURNED = """function (X[N, C, H, W], F[P, C, I, J, L]) -> (O) {
    O[n, y, x, p, l : N, H, W, P, L] = +(X[n, c, y - i + 1, x - j + 1] * F[p, c, i, j, l]);
}"""


def case(
    text: str, images: int, channels: int, side: int, window: int, panels: int, lanes: int, dtype: DType = DType.F32
) -> Case:
    shapes = {"X": (images, channels, side, side), "F": (panels, channels, window, window, lanes)}
    return Case(text, dtype, shapes)


def tiled(which: Case, step: RegisterTile = SMALL) -> Program:
    return run((Accumulate(), step), which.program())


def copies(program: Program) -> list[tuple[int, ...]]:
    """Return the sizes of the copies of all groups."""
    memory = (r for block in program.main.blocks for r in block.refinements)
    return [r.shape.sizes for r in memory if "_piece" in r.name]


def grid(block: Block) -> list[str]:
    return [index.name for index in block.indices if index.binding is Binding.GRID]


CROWDED = case(PADDED, 2, 32, 32, 3, 16, 8)  # channels are two ways of the cache apart, and more than it has ways


def test_a_group_copies_rows_before_all_panels_pass_over_them() -> None:
    program = tiled(CROWDED)
    assert grid(program.main.blocks[0]) == ["n_chunk", "y_chunk"]
    # For each channel a row, those above and below and a pixel at both ends: seven cache lines.
    assert copies(program) == [(32, 7 * 16)]


def test_all_widths_of_columns_have_copies() -> None:
    assert copies(tiled(case(PADDED, 2, 32, 32, 3, 1, 140))) == [(32, 7 * 16)] * 2


@pytest.mark.parametrize(
    ("which", "step"),
    [
        (CROWDED, attrs.evolve(SMALL, panel_bytes=1 << 18)),  # all of it stays near
        (CROWDED, attrs.evolve(SMALL, panel_bytes=1 << 11)),  # a copy of one pixel would not
        (CROWDED, attrs.evolve(SMALL, threads=64)),  # too few pieces
        (case(PADDED, 2, 32, 32, 3, 1, 8), SMALL),  # too few multiply-adds for each element
        (case(PADDED, 2, 32, 31, 3, 16, 8), SMALL),  # channels meet in no set
        (case(PADDED, 9, 1, 64, 3, 16, 8), SMALL),  # one run through memory
    ],
)
def test_copies_have_to_pay(which: Case, step: RegisterTile) -> None:
    assert copies(tiled(which, step)) == []


def test_what_data_choose_is_not_copied() -> None:
    nest = reduction_nest(run((Accumulate(),), CROWDED.program()).main.blocks[0])
    assert isinstance(nest, Nest)
    limits = Limits(**{field.name: getattr(SMALL, field.name) for field in attrs.fields(Limits)})
    shapes = {name: TensorShape.dense(DType.F32, sizes) for name, sizes in CROWDED.shapes.items()}
    plan = choose(nest, limits, shapes)
    assert isinstance(plan, Tiling)
    assert copied_pieces(nest, plan, limits, 1, shapes) is not None
    segments = [attrs.evolve(s, statements=tuple(map(_chosen, s.statements))) for s in nest.segments]
    assert copied_pieces(attrs.evolve(nest, segments=tuple(segments)), plan, limits, 1, shapes) is None


def _chosen(statement: Statement) -> Statement:
    """Return a load of X at a place that a scalar chooses."""
    if isinstance(statement, Load) and statement.source == "X":
        return attrs.evolve(statement, index="place")
    return statement


def test_runs_are_joined_where_windows_overlap() -> None:
    n, y, x = Index("n", 2), Index("y", 16), Index("x", 16)
    c, i, j = Index("c", 8), Index("i", 3), Index("j", 3)
    access = (
        Affine.index("n"),
        Affine.index("c"),
        Affine.of({"y": 1, "i": 1}, -1),
        Affine.of({"x": 1, "j": 1}, -1),
    )
    shape = TensorShape.dense(DType.F32, (2, 8, 16, 16))
    use = Use("X", "X", access, shape.strides, DType.F32, Direction.IN)
    kernel = Block("", (), (), (), ())
    nest = Nest(kernel, (n, y, x), (Segment((c, i, j), (), (use,), ()),))
    found = CopiedElements.of(use, nest, {"n": 1, "y": 4, "x": 16}, {"X": shape})
    assert found is not None
    channels, run = found.runs
    assert (channels, run.count, run.step) == (Run((("c", 1),), 256, 8, 0), 5 * 16 + 18, 1)
    assert found.extents == (8, 7 * 16)
    assert (found.least, found.greatest) == (0, 2 * 8 * 256 - 1)
    assert found.is_crowded(1024)
    assert not found.is_crowded(1 << 20)
    assert (
        CopiedElements.of(use, nest, {"n": 1, "y": 4, "x": 16}, {}) is not None
    )  # without constraints all points exist


@given(st.integers(0, 300), st.sampled_from((1, 4, 16)))
def test_vectors_make_up_runs(count: int, lanes: int) -> None:
    assert sum(number * width for number, width in vectors(count, lanes)) == count


@given(
    st.sampled_from((PADDED, STRIDED, INSIDE, TURNED)),
    st.sampled_from((DType.F32, DType.F64, DType.F16, DType.I8, DType.I32)),
    st.tuples(st.integers(1, 3), st.integers(2, 9), st.integers(5, 17), st.integers(1, 3)),
    st.tuples(st.integers(2, 9), st.sampled_from((4, 8, 11))),
    st.sampled_from((512, 1024, 2048)),
    st.integers(1, 2),
)
@examples(60)
def test_copies_keep_the_meaning(
    text: str,
    dtype: DType,
    image: tuple[int, int, int, int],
    panels: tuple[int, int],
    panel_bytes: int,
    threads: int,
) -> None:
    program = case(text, *image, *panels, dtype).program()
    step = attrs.evolve(SMALL, panel_bytes=panel_bytes, threads=threads, operations=0)
    with patch.object(CopiedElements, "is_crowded", return_value=True), patch.object(register_copies, "_LEAST_USES", 1):
        after = run((Accumulate(), step), program)
    verify(after)
    assert_same_meaning(program, after)
