from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.passes import assert_same_meaning, program_of, programs
from tileir.passes.regions.tile import Tile
from tileir.stripe.check.verifier import verify
from tileir_accelerators.tiling.reduce_constraints import ReduceConstraints

if TYPE_CHECKING:
    from tileir.stripe.ir import Block, Program

WINDOW = """
block [i:8, j:8]:64 (
  {constraints}
  in X[i] fp32:I(1):(1):4 B
  out O[i]:add fp32:I(1):(1):4 B
) {{
  0: $x = load(X)
  1: O = store($x)
}}
"""


def _window(*constraints: str) -> Block:
    text = WINDOW.format(constraints="\n  ".join(f"{c} >= 0" for c in constraints))
    program = program_of([text], {"X": (8,), "O": (8,)})
    after = ReduceConstraints()(program)
    verify(after)
    assert_same_meaning(program, after)
    return after.main.blocks[0]


def test_that_a_constraint_goes_which_two_others_imply() -> None:
    kernel = _window("i - j", "j - 2", "i - 2")
    assert kernel.ranges == {"i": 6, "j": 6}
    assert [str(c) for c in kernel.constraints] == ["i - j"]


def test_that_ranges_shrink_to_what_constraints_leave() -> None:
    kernel = _window("i + j - 13")
    assert kernel.ranges == {"i": 2, "j": 2}
    assert len(kernel.constraints) == 1


def test_that_integers_decide_where_rationals_do_not() -> None:
    kernel = _window("2*i - 2*j - 1", "i - j - 1")
    assert len(kernel.constraints) == 1


def test_that_needed_constraints_stay() -> None:
    program = program_of([WINDOW.format(constraints="i - j >= 0")], {"X": (8,), "O": (8,)})
    assert ReduceConstraints()(program) is program


def test_that_a_kernel_without_points_goes() -> None:
    program = program_of(
        [WINDOW.format(constraints="i - j - 4 >= 0\n  j - i >= 0"), WINDOW.format(constraints="i - j >= 0")],
        {"X": (8,), "O": (8,)},
    )
    assert len(ReduceConstraints()(program).main.blocks) == 1


def test_that_constraints_around_a_block_count_inside_it() -> None:
    program = program_of(
        ["""
block [i:8]:8 (
  i - 4 >= 0
  in X[i] fp32:I(1):(1):4 B
  out O[i] fp32:I(1):(1):4 B
) {
  0: block [j = i]:1 (
    j - 3 >= 0
    in X[0] fp32:I(1):(1):4 B
    out O[0] fp32:I(1):(1):4 B
  ) {
    0: $x = load(X)
    1: O = store($x)
  }
}
"""],
        {"X": (8,), "O": (8,)},
    )  # fmt: skip
    after = ReduceConstraints()(program)
    assert_same_meaning(program, after)
    kernel = after.main.blocks[0]
    assert kernel.ranges == {"i": 4}
    assert not kernel.constraints
    assert not kernel.blocks[0].constraints


def test_that_skipped_and_tagged_indices_keep_their_ranges() -> None:
    text = WINDOW.format(constraints="i - 4 >= 0\n  j - 4 >= 0").replace("j:8", "(#serial j:8)")
    program = program_of([text], {"X": (8,), "O": (8,)})
    kernel = ReduceConstraints(skip_indices=("i",))(program).main.blocks[0]
    assert kernel.ranges == {"i": 8, "j": 8}


@given(programs(kinds=("window", "overlap", "product", "reduce")), st.integers(1, 4))
@examples(150)
def test_that_meaning_is_kept_after_tiling(program: Program, size: int) -> None:
    kernels = {len(kernel.indices) for kernel in program.main.blocks}
    tiled = Tile(sizes=(size,) * kernels.pop())(program) if len(kernels) == 1 else program
    after = ReduceConstraints()(tiled)
    verify(after)
    assert_same_meaning(program, after)
    assert ReduceConstraints()(after) is after
