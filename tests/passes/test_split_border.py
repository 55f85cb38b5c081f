"""Interiors in which places are affine, and borders."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from passes.test_forward import THROUGH, blurred
from strategies.effort import examples
from strategies.families import Written, written
from strategies.passes import assert_same_meaning
from strategies.pictures import MODES
from tileir.passes.base import run
from tileir.passes.regions.join_parts import JoinBorder
from tileir.passes.regions.split_border import SplitBorder
from tileir.passes.rewrites.canonicalise import Canonicalise
from tileir.passes.schedules.vectors.vectorise import Vectorise
from tileir.stripe.ir import Block, Load, LoadIndex, Program

ALWAYS = SplitBorder(points=0, share=0, rows=1)


def split(mode: str, margin: int, *shape: int, step: SplitBorder = ALWAYS) -> Program:
    return run((*THROUGH, Canonicalise(), step), blurred(mode, margin, *shape))


def computed(kernel: Block) -> int:
    """Return how many loads are at computed places."""
    return sum(isinstance(s, Load) and s.index is not None for s in kernel.statements)


@pytest.mark.parametrize("mode", MODES)
def test_inside_nothing_is_computed(mode: str) -> None:
    inside, columns, rows = split(mode, 1, 12, 20).main.blocks
    assert inside.ranges == {"i": 10, "j": 18}
    assert columns.ranges == {"i": 12, "j_side": 2}
    assert rows.ranges == {"i_side": 2, "j": 18}
    assert computed(inside) == 0
    assert not any(isinstance(s, LoadIndex) for s in inside.statements)
    assert [("border" in kernel.tags) for kernel in (inside, columns, rows)] == [False, True, True]


def test_along_the_first_rows_places_are_affine_within_the_rows() -> None:
    *_, rows = split("edge", 1, 12, 20).main.blocks
    indices = {s.index for s in rows.statements if isinstance(s, Load)}
    coordinates = [s.affine for s in rows.statements if isinstance(s, LoadIndex)]
    assert len(indices - {None}) == 2  # the rows above and below
    assert all("j" not in affine.indices for affine in coordinates)


def test_inside_rows_are_a_multiple_where_there_are_many() -> None:
    inside, _, rows = split("edge", 1, 101, 20, step=SplitBorder(points=0, share=0, rows=4)).main.blocks
    assert inside.ranges["i"] == 96
    assert rows.ranges == {"i_side": 2, "i_edge": 4, "j": 18}  # one inside is computed twice
    # Columns are no rows, however many there are.
    inside, *_ = split("edge", 1, 20, 101, step=SplitBorder(points=0, share=0, rows=4)).main.blocks
    assert inside.ranges == {"i": 18, "j": 99}


def test_only_what_has_an_inside_is_cut() -> None:
    most = SplitBorder(points=0, share=60, rows=1)
    (_,) = split("edge", 3, 4, 5, step=most).main.blocks
    inside, columns = split("edge", 3, 4, 20, step=most).main.blocks
    assert inside.ranges == {"i": 4, "j": 14}
    assert columns.ranges == {"i": 4, "j_side": 2, "j_edge": 3}
    (_,) = split("edge", 1, 12, 20, step=SplitBorder(points=1000)).main.blocks


def test_borders_are_one_kernel_in_the_end() -> None:
    program = run((Vectorise(vector_bytes=16), JoinBorder()), split("edge", 1, 12, 20))
    _, border = program.main.blocks
    assert border.ranges == {"side": 2}
    assert len(border.blocks) == 2


@given(case=written("pictures"), rows=st.integers(1, 4), share=st.sampled_from((0, 50)), vectors=st.booleans())
@examples(100)
def test_meaning_stays(case: Written, rows: int, share: int, vectors: bool) -> None:
    program = case.program()
    steps = (*THROUGH, Canonicalise(), SplitBorder(points=0, share=share, rows=rows), Canonicalise())
    more = (Vectorise(vector_bytes=16, chunk=32), JoinBorder()) if vectors else (JoinBorder(),)
    assert_same_meaning(program, run((*steps, *more), program))
