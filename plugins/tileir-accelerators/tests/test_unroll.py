from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.kernels import PROGRAMS, inputs, stripe_program
from strategies.passes import assert_same_meaning, program_of, programs
from tileir.core.errors import TileError
from tileir.core.targets.target import Target
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import Pass, run
from tileir.passes.pipelines.catalog import parse_pipeline
from tileir.passes.regions.tile import Tile
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.lower.lowering import lower
from tileir.stripe.blocks import Binding
from tileir.stripe.check.verifier import verify
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.text.printer import to_text
from tileir_accelerators.tiling.tensorise import Tensorise
from tileir_accelerators.tiling.unroll import Unroll

if TYPE_CHECKING:
    from tileir.stripe.ir import Program

PAIR = """
block [i:4, j:2]:8 (
  in X[i, j] fp32:I(1, 1):(2, 1):4 B
  in Y[i] fp32:I(1):(1):4 B
  out O[i, j] fp32:I(1, 1):(2, 1):4 B
) {
  0: $x = load(X)
  1: $y = load(Y)
  2: $n = load_index(i + j)
  3: $m = cast_fp32($n)
  4: $s = add($x, $y)
  5: $t = add($s, $m)
  6: O = store($t)
}
"""
OVERLAP = """
block [i:4, j:2]:8 (
  in X[i, j] fp32:I(1, 1):(2, 1):4 B
  out O[i + j]:add fp32:I(1):(1):4 B
) {
  0: $x = load(X)
  1: O = store($x)
}
"""
WRITTEN_OUT = """
0:
block [i:4]:4 (
    in X[i, 0] fp32:I(1, 1):(2, 1):4 B, E(4, 1):16 B
    in Y[i] fp32:I(1):(1):4 B, E(4):16 B
    out O[i, 0] fp32:I(1, 1):(2, 1):4 B, E(4, 1):16 B
    in X_0 = X[i, 1] fp32:I(1, 1):(2, 1):4 B, E(4, 1):16 B
    out O_0 = O[i, 1] fp32:I(1, 1):(2, 1):4 B, E(4, 1):16 B
) {
  0: $x = load(X)
  1: $y = load(Y)
  2: $n = load_index(i)
  3: $m = cast_fp32($n)
  4: $s = add($x, $y)
  5: $t = add($s, $m)
  6: O = store($t)
  7: $x_0 = load(X_0)
  8: $y_0 = load(Y)
  9: $n_0 = load_index(1 + i)
  10: $m_0 = cast_fp32($n_0)
  11: $s_0 = add($x_0, $y_0)
  12: $t_0 = add($s_0, $m_0)
  13: O_0 = store($t_0)
}
"""


def pair() -> Program:
    return program_of([PAIR.strip()], {"X": (4, 2), "Y": (4,), "O": (4, 2)})


def test_views_that_do_not_move_are_shared() -> None:
    program = pair()
    after = run((Unroll(indices=("j",)),), program)
    assert to_text(after.main.blocks[0]) == WRITTEN_OUT.lstrip()
    assert_same_meaning(program, after)


def test_small_blocks_become_straight_lines() -> None:
    program = pair()
    after = run((Unroll(),), program)
    assert after.main.blocks[0].indices == ()
    assert len(after.main.blocks[0].statements) == 8 * 7
    assert_same_meaning(program, after)
    assert [i.name for i in Unroll(most=4)(program).main.blocks[0].indices] == ["i"]
    assert Unroll(most=1)(program) is program


def test_indices_are_chosen_by_name_and_tag() -> None:
    program = pair()
    assert Unroll(indices=("z",))(program) is program
    assert Unroll(index_reqs=("tagged",))(program) is program
    assert Unroll(reqs=("elsewhere",))(program) is program
    marked = Unroll(indices=("i",), mark=True)(program)
    assert marked.main.blocks[0].index("i").binding is Binding.UNROLL
    assert Unroll(indices=("i",))(marked) is marked
    tiles = run((Tensorise(), Unroll(reqs=("stencil",), index_reqs=("stencil_m",))), stripe_program("matmul"))
    assert "stencil_m" in str(tiles)


def test_sums_that_start_anew_keep_the_indices_that_meet_in_one_element() -> None:
    program = program_of([OVERLAP.strip()], {"X": (4, 2), "O": (5,)})
    assert Unroll()(program) is program
    after = run((Accumulate(), Unroll()), program)
    assert_same_meaning(program, after)
    assert [len(block.indices) for block in after.main.blocks] == [0, 0]


@given(programs(6), st.sampled_from((2, 4, 12)), st.booleans(), st.booleans(), st.booleans())
@examples(80)
def test_copies_keep_the_meaning(program: Program, most: int, first: bool, mark: bool, tiled: bool) -> None:
    steps: list[Pass] = [Accumulate()] if first else []
    if tiled:
        steps.append(parse_pipeline("autotile{memory_bytes=32,inner_set=(inner)}")[0])
    after = run((*steps, Unroll(most=most, mark=mark)), program)
    verify(after)
    assert_same_meaning(program, after)


@given(programs(4), st.sampled_from(("i", "j", "k", "x", "i0", "i1")))
@examples(60)
def test_any_index_may_be_asked_for(program: Program, name: str) -> None:
    assert_same_meaning(program, run((Accumulate(), Unroll(indices=(name,))), program))


@pytest.mark.sampled(13)
@pytest.mark.parametrize("name", PROGRAMS)
def test_unrolled_kernels_can_be_lowered(name: str) -> None:
    program, values = stripe_program(name), inputs(name)
    found = run_program(lower(run((Accumulate(), Unroll()), program), Target()), values)
    for output, array in interpret(program, values).items():
        np.testing.assert_array_equal(found[output], array)


def test_indices_with_values_from_outside_stay_as_their_base() -> None:
    program = run((Tile((2, 2)), Unroll(most=4)), pair())
    assert_same_meaning(pair(), program)


def test_options_are_checked() -> None:
    with pytest.raises(TileError) as caught:
        parse_pipeline("unroll{most=0}")
    assert caught.value.diagnostics[0].code == "TIL543"
