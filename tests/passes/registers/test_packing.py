"""Panels are packed whole where the kernel reads at both ends of all that moves them."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import given, reject, strategies as st

from strategies.effort import examples
from strategies.families import places
from strategies.passes import assert_same_meaning
from tileir.core.dtype import DType
from tileir.core.errors import TileError
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import run
from tileir.passes.kernels.merge import reduction_nest
from tileir.passes.kernels.schedule import constrained_indices
from tileir.passes.regions.separate import Separate
from tileir.passes.rewrites.canonicalise import Canonicalise
from tileir.passes.schedules.registers.packing import dearness, is_crowded, whole_uses
from tileir.passes.schedules.registers.register_tile import RegisterTile
from tileir.poly.affine import Affine, total
from tileir.schedule.nest import Nest, Use
from tileir.stripe.ir import Direction, Index, Program, TensorShape
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir.passes.base import Pass

BACKWARD: Final = """function (G[Y, D], K[I, C, D], X[Y, C]) -> (DX) {
    DX[y + i - 1, c : Y, C] = +(G[y, d] * K[i, c, d]);
}"""
SKEWED: Final = "function (A[N, J], B[K, J]) -> (O) { O[n, j : N, J] = +(A[n, j] * B[k, j]), n + k < 3; }"


def accumulated(text: str, shapes: dict[str, tuple[int, ...]], dtype: DType = DType.F32) -> Program:
    types = {name: TensorType(dtype, shape) for name, shape in shapes.items()}
    return run((Accumulate(),), lower(infer(parse(text), types)))


def whole(program: Program, shapes: Mapping[str, TensorShape] = MappingProxyType({})) -> set[str]:
    nest = reduction_nest(program.main.blocks[0])
    assert isinstance(nest, Nest)
    return {use.name for use in whole_uses(nest, shapes)}


@pytest.mark.parametrize(("rows", "expected"), [(9, True), (1, False)])
def test_weights_are_whole_where_some_row_reads_all_of_them(rows: int, expected: bool) -> None:
    program = accumulated(BACKWARD, {"G": (rows, 4), "K": (3, 16, 4), "X": (rows, 16)})
    names = whole(program)
    assert ("K" in names) is (expected or not constrained(program))
    assert not constrained(program) or "G" not in names  # two constrained indices move one of its axes


def constrained(program: Program) -> bool:
    nest = reduction_nest(program.main.blocks[-1])
    assert isinstance(nest, Nest)
    return bool(constrained_indices(nest))


def test_an_axis_that_one_constrained_index_moves_is_whole() -> None:
    assert whole(accumulated(SKEWED, {"A": (3, 8), "B": (3, 8)})) >= {"A", "B"}


def test_bounds_decide_where_sizes_are_known() -> None:
    text = "function (X[C, H], F[D, C, I]) -> (O) { O[d, y : D, H / 2] = +(X[c, 2*y + i - 1] * F[d, c, i]); }"
    program = run((Separate(operations=0),), accumulated(text, {"X": (3, 16), "F": (8, 3, 3)}))
    assert len(program.main.blocks) == 2
    shapes = {view.name: view.shape for view in program.main.refinements}
    assert "F" not in whole(program)  # the first row does not meet the first weight
    assert "F" in whole(program, shapes)
    assert "X" not in whole(program, shapes)
    after = run((RegisterTile(vector_bytes=16),), program)
    assert all(kernel is not program.main.blocks[-1] for kernel in after.main.blocks)
    assert_same_meaning(program, after)


DIAGONAL: Final = "function (A[I, J, K]) -> (O) { O[l, k, i : J, J / 2, I] = +(A[j, l, j + k] * A[i, k, l]); }"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shape", [(9, 8, 9), (9, 8, 12), (7, 16, 8), (8, 9, 9)])
@pytest.mark.parametrize("dtype", [DType.U16, DType.F32])
def test_panels_along_diagonals_stay_inside(shape: tuple[int, ...], dtype: DType) -> None:
    program = run((Canonicalise(), Accumulate()), lower(infer(parse(DIAGONAL), {"A": TensorType(dtype, shape)})))
    after = run((RegisterTile(vector_bytes=16, registers=8, cache_bytes=1024, panel_bytes=512),), program)
    assert_same_meaning(program, after)


def test_both_ends_of_each_axis_of_a_diagonal_are_not_enough() -> None:
    program = lower(infer(parse(DIAGONAL), {"A": TensorType(DType.F32, (9, 8, 9))}))
    program = run((Canonicalise(), Accumulate()), program)
    shapes = {view.name: view.shape for view in program.main.refinements}
    (kernel,) = program.main.blocks[-1:]
    assert kernel.refinement("A").shape.strides == (73, 9, 1)
    assert "A" not in whole(program, shapes)
    assert "A_0" in whole(program, shapes)


@given(
    reads=st.lists(places(), min_size=4, max_size=4),
    sizes=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    guard=st.sampled_from(("", ", k < 3", ", i + k < 5")),
    steps=st.sampled_from(((Accumulate(),), (Canonicalise(), Accumulate()))),
    known=st.booleans(),
)
@examples(200)
def test_what_is_whole_stays_inside_of_its_memory(
    reads: list[str], sizes: tuple[int, int], guard: str, steps: tuple[Pass, ...], known: bool
) -> None:
    """The places that a use leads to over the box of its indices are elements of its tensor."""
    text = (
        "function (A[M, N], B[N, M]) -> (O) {"
        f" O[i, j : M, N] = +(A[{reads[0]}, {reads[1]}] * B[{reads[2]}, {reads[3]}]){guard}; }}"
    )
    types = {"A": TensorType(DType.F32, sizes), "B": TensorType(DType.F32, sizes[::-1])}
    try:
        program = run(steps, lower(infer(parse(text), types)))
    except TileError:  # some index has no bounds
        reject()
    shapes = {view.name: view.shape for view in program.main.refinements}
    for nest in (found for found in map(reduction_nest, program.main.blocks) if isinstance(found, Nest)):
        inside = whole_uses(nest, shapes if known else {})
        for segment in nest.segments:
            ranges = {index.name: index.range for index in (*nest.indices, *segment.loops)}
            for use in inside.intersection(segment.uses):
                if use.root in shapes:
                    low, high = total(a * s for a, s in zip(use.access, use.strides, strict=True)).bounds(ranges)
                    assert low >= 0, use
                    assert high < shapes[use.root].elements, use


def test_the_gradient_of_a_convolution_gets_register_tiles() -> None:
    program = accumulated(BACKWARD, {"G": (9, 4), "K": (3, 16, 4), "X": (9, 16)})
    after = run((RegisterTile(vector_bytes=16),), program)
    assert after is not program
    assert_same_meaning(program, after)


LINE: Final = 16
"""Elements of f32 in a cache line of 64 bytes."""


def read(*strides: int) -> Use:
    names = [f"k{number}" for number in range(len(strides))]
    return Use("B", "B", tuple(map(Affine.index, names)), strides, DType.F32, Direction.IN)


def loops(*ranges: int) -> tuple[Index, ...]:
    return tuple(Index(f"k{number}", size) for number, size in enumerate(ranges))


@given(lines=st.integers(1, 200), rows=st.integers(1, 300), ways=st.sampled_from((4, 8, 12)))
@examples(400)
def test_rows_of_a_line_are_crowded_where_some_set_of_the_cache_does_not_hold_them(
    lines: int, rows: int, ways: int
) -> None:
    sets, pages = [0] * 64, set()
    for row in range(rows):
        sets[row * lines % 64] += 1
        pages.add(row * lines // 64)
    expected = max(sets) > ways and rows <= 64 * ways
    found = is_crowded(read(LINE * lines), loops(rows), LINE, ways * 4096)
    if len(pages) < 60 or len(pages) > 68:  # a run of rows may begin a page more or less
        assert found == (expected or len(pages) > 64)


@pytest.mark.parametrize(
    ("stride", "rows", "expected"),
    [
        (128, 128, 16),  # 128 floats apart, rows meet in 8 sets of 8 ways
        (160, 160, 1),
        (512, 32, 16),
        (512, 16, 1),
        (500, 500, 16),  # no set is crowded, but that are 244 pages
        (1 << 12, 1 << 14, 32),
    ],
)
def test_what_reading_in_place_costs(stride: int, rows: int, expected: int) -> None:
    assert dearness(read(stride), loops(rows), LINE, 1 << 15, 1 << 18) == expected


def test_rows_of_windows_that_overlap_do_not_crowd_each_other() -> None:
    assert is_crowded(read(1024, 64), loops(64, 3), LINE, 1 << 15)
    assert not is_crowded(read(1024, 64, 1), loops(64, 3, 3), LINE, 1 << 15)


@given(
    rows=st.integers(20, 60),
    columns=st.sampled_from((512, 515, 1024)),
    dtype=st.sampled_from((DType.F32, DType.F64, DType.I32)),
)
@examples(12)
def test_a_panel_is_packed_where_its_rows_are_crowded(rows: int, columns: int, dtype: DType) -> None:
    shapes: dict[str, tuple[int, ...]] = {"A": (rows, 9), "B": (9, columns)}
    program = accumulated(
        "function (A[M, K], B[K, N]) -> (O) { O[m, n : M, N] = +(A[m, k] * B[k, n]); }", shapes, dtype
    )
    after = run((RegisterTile(vector_bytes=16, cache_bytes=4096, panel_bytes=1 << 20),), program)
    packs = any(view.name == "B_panel" for kernel in after.main.blocks for view in kernel.refinements)
    assert packs == (rows >= 32 and columns != 515)
    assert_same_meaning(program, after)
