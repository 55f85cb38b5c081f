"""Pieces of rows that stay near while all panels pass over them."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given, strategies as st

from strategies.contractions import Case
from strategies.effort import examples
from strategies.passes import assert_same_meaning
from tileir.core.dtype import DType
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import run
from tileir.passes.schedules.registers.register_tile import RegisterTile
from tileir.stripe.blocks import Binding
from tileir.stripe.check.verifier import verify
from tileir.stripe.ir import Program

SMALL = RegisterTile(vector_bytes=16, registers=16, cache_bytes=1024, panel_bytes=512)
FIRST = """function (X[N, C, H, W], F[I, J, C, K]) -> (O) {
    O[n, y, x, k : N, (H - I) / 2 + 1, (W - J) / 2 + 1, K] = +(X[n, c, 2*y + i, 2*x + j] * F[i, j, c, k]);
}"""
PADDED = """function (X[N, C, H, W], F[I, J, C, K]) -> (O) {
    O[n, y, x, k : N, H / 2, W / 2, K] = +(X[n, c, 2*y + i - 1, 2*x + j - 1] * F[i, j, c, k]);
}"""
LAST = """function (X[N, H, W, C], F[I, J, C, K]) -> (O) {
    O[n, y, x, k : N, (H - I) / 2 + 1, (W - J) / 2 + 1, K] = +(X[n, 2*y + i, 2*x + j, c] * F[i, j, c, k]);
}"""

READY = """function (X[P, C], F[O, C, K]) -> (Y) {
    Y[p, o, k : P, O, K] = +(X[p, c] * F[o, c, k]);
}"""


def sizes(images: int, channels: int, side: int, window: int, features: int) -> dict[str, tuple[int, ...]]:
    return {"X": (images, channels, side, side), "F": (window, window, channels, features)}


def grids(program: Program) -> list[list[str]]:
    """Return what the grid of each kernel counts, from outside to inside."""
    return [[i.name for i in block.indices if i.binding is Binding.GRID] for block in program.main.blocks]


def tiled(text: str, shapes: dict[str, tuple[int, ...]], step: RegisterTile = SMALL) -> Program:
    return run((Accumulate(), step), Case(text, DType.F32, shapes).program())


def test_all_panels_pass_over_an_image_before_the_next_one() -> None:
    assert grids(tiled(FIRST, sizes(4, 2, 9, 1, 32))) == [["n_chunk", "k_panel"]]


@pytest.mark.parametrize(
    ("panel_bytes", "pieces"),
    [(1 << 12, True), (1 << 14, False), (1 << 8, False)],  # results are far; they are near; panels are not
)
def test_panels_that_lie_ready_pass_over_pieces_of_results(panel_bytes: int, pieces: bool) -> None:
    shapes = {"X": (96, 4), "F": (4, 4, 8)}
    (names,) = grids(tiled(READY, shapes, attrs.evolve(SMALL, rows=4, columns=2, panel_bytes=panel_bytes)))
    assert names == (["p_chunk", "o"] if pieces else ["o"])


@pytest.mark.parametrize(
    ("images", "side", "features", "panel_bytes"),
    [
        (4, 9, 8, 512),  # one panel is all there is
        (4, 9, 32, 1 << 14),  # all images are near anyway
        (4, 9, 32, 32),  # not even one row would be
        (4, 9, 512, 512),  # nor would all panels
        (1, 9, 32, 512),  # nothing to cut
        (40, 3, 32, 64),  # packing costs more than so few pixels wait
    ],
)
def test_pieces_have_to_pay(images: int, side: int, features: int, panel_bytes: int) -> None:
    step = attrs.evolve(SMALL, panel_bytes=panel_bytes)
    assert "n_chunk" not in grids(tiled(FIRST, sizes(images, 2, side, 1, features), step))[0]


def test_rows_of_an_image_that_is_not_near_are_pieces() -> None:
    found = grids(tiled(FIRST, sizes(2, 2, 33, 1, 32), attrs.evolve(SMALL, panel_bytes=1 << 11)))
    assert found == [["n_chunk", "y_chunk", "k_panel"]]


def test_panels_that_lie_ready_pass_over_a_piece_and_need_not_be_near() -> None:
    text = """function (X[N, C, H, W], F[P, C, L]) -> (O) {
        O[n, y, x, p, l : N, (H + 1) / 2, (W + 1) / 2, P, L] = +(X[n, c, 2*y, 2*x] * F[p, c, l]);
    }"""
    case = Case(text, DType.F32, {"X": (4, 8, 17, 17), "F": (9, 8, 8)})
    program = run((Accumulate(), attrs.evolve(SMALL, panel_bytes=1 << 10)), case.program())
    assert grids(program) == [["n_chunk", "y_chunk", "p"]]


def test_rows_that_run_through_memory_are_fetched_ahead() -> None:
    shapes: dict[str, tuple[int, ...]] = {"X": (4, 9, 9, 16), "F": (1, 1, 16, 32)}
    assert "n_chunk" not in grids(tiled(LAST, shapes, attrs.evolve(SMALL, panel_bytes=1 << 12)))[0]


@given(
    st.sampled_from((FIRST, PADDED)),
    st.sampled_from((DType.F32, DType.F64, DType.F16, DType.BF16, DType.I8, DType.I32)),
    st.tuples(st.integers(2, 5), st.integers(1, 3), st.integers(5, 11), st.integers(1, 3), st.integers(9, 37)),
    st.sampled_from((256, 512, 1024)),
    st.integers(1, 3),
)
@examples(60)
def test_pieces_keep_the_meaning(
    text: str, dtype: DType, shape: tuple[int, int, int, int, int], panel_bytes: int, threads: int
) -> None:
    program = Case(text, dtype, sizes(*shape)).program()
    step = attrs.evolve(SMALL, panel_bytes=panel_bytes, threads=threads, operations=0)
    after = run((Accumulate(), step), program)
    verify(after)
    assert_same_meaning(program, after)


@pytest.mark.parametrize(("panel_bytes", "grid"), [(4096, ["y_chunk", "k_panel"]), (1 << 14, ["k_panel"])])
def test_lines_count_whole_however_little_of_them_is_read(panel_bytes: int, grid: list[str]) -> None:
    """Elements that are read have 3200 bytes, and twice as many with those between them."""
    assert grids(tiled(FIRST, sizes(1, 8, 20, 1, 256), attrs.evolve(SMALL, panel_bytes=panel_bytes))) == [grid]
