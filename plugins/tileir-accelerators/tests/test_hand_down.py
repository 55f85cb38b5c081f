from __future__ import annotations

import pytest

from strategies.passes import assert_same_meaning, program_of
from tileir.stripe.aliases import Aliases
from tileir.stripe.check.scope import enter
from tileir.stripe.check.verifier import verify
from tileir.stripe.ir import Program
from tileir_accelerators.placement.partition import hand_down, visible

NEST = """
block [x:4, y:2]:8 (
  in X[x] fp32:I(1):(1):4 B
  out O[x, y] fp32:I(1, 1):(2, 1):4 B
) {
  0: block [x = y]:1 (
      in X[0] fp32:I(1):(1):4 B
      out O[0, 0] fp32:I(1, 1):(2, 1):4 B
  ) {
    0: #inner
    block [k:1]:1 (
        in X[0] fp32:I(1):(1):4 B
        out O[0, 0] fp32:I(1, 1):(2, 1):4 B
    ) {
      0: $x = load(X)
      1: O = store($x)
    }
  }
}
"""


def nest() -> Program:
    return program_of([NEST], {"X": (4,), "O": (4, 2)})


def test_indices_are_handed_through_all_blocks_between() -> None:
    after = hand_down(nest(), lambda _: ("3:x", "3:y", "5:k"), ("inner",))
    verify(after)
    assert_same_meaning(nest(), after)
    kernel = after.main.blocks[0]
    middle = kernel.blocks[0]
    inner = middle.blocks[0]
    assert [(i.name, str(i.affine)) for i in middle.indices] == [("x", "y"), ("x_0", "x")]
    assert [(i.name, str(i.affine)) for i in inner.indices] == [("k", "None"), ("x", "x_0"), ("y", "x")]


def test_what_is_visible_is_not_handed_down() -> None:
    assert hand_down(nest(), lambda _: ("5:k",), ("inner",)) == nest()
    program = nest()
    assert hand_down(program, lambda _: (), ("inner",)) is program
    main = enter(program.main, enter(program.entry, None, 0), 0)
    kernel = enter(program.main.blocks[0], main, 0)
    middle = enter(program.main.blocks[0].blocks[0], kernel, 0)
    assert visible(Aliases(middle)) == {"3:y": "x"}


def test_indices_that_no_block_has_are_a_defect_of_the_caller() -> None:
    with pytest.raises(KeyError, match=r"no block has the indices \['9:y', '9:z'\]"):
        hand_down(nest(), lambda _: ("9:z", "3:x", "9:y"), ("inner",))
