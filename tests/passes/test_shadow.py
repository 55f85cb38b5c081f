from __future__ import annotations

from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.passes import assert_same_meaning, program_of, programs
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import run
from tileir.passes.fusion.fuse import Fuse, Fusion
from tileir.passes.rewrites.scalarise import Scalarise
from tileir.passes.rewrites.shadow import Shadow
from tileir.stripe.ir import Block, Direction, Program, views_read

ROWS = """block [i:4]:4 (
    in X[i, 0] fp32:I(1, 8):(8, 1):32 B
    out T[i, 0] fp32:I(1, 8):(8, 1):32 B
    out O[i, 0] fp32:I(1, 8):(8, 1):32 B
) {
  0: block [j:8]:8 (
      in X[0, j] fp32:I(1, 1):(8, 1):4 B
      out T[0, j] fp32:I(1, 1):(8, 1):4 B
  ) {
    0: $x = load(X)
    1: $t = neg($x)
    2: T = store($t)
  }
  1: block [j:8]:8 (
      in T[0, 7 - j] fp32:I(1, 1):(8, 1):4 B
      out O[0, j] fp32:I(1, 1):(8, 1):4 B
  ) {
    0: $t = load(T)
    1: O = store($t)
  }
}"""


def reads_its_results(kernel: Block) -> bool:
    written = {r.name for r in kernel.refinements if r.direction is Direction.OUT}
    return any(written.intersection(views_read(statement)) for statement in kernel.statements)


def test_a_row_that_is_read_back_is_kept() -> None:
    program = program_of([ROWS], {"X": (4, 8), "T": (4, 8), "O": (4, 8)}, ("T", "O"))
    after = run((Shadow(),), program)
    (kernel,) = after.main.blocks
    assert reads_its_results(program.main.blocks[0])
    assert not reads_its_results(kernel)
    assert [r.shape.sizes for r in kernel.refinements if r.direction is Direction.NONE] == [(1, 8)]
    assert_same_meaning(program, after)


def test_without_such_a_result_nothing_changes() -> None:
    program = program_of(
        [ROWS.replace("in T[0, 7 - j]", "in T = X[0, 7 - j]")], {"X": (4, 8), "T": (4, 8), "O": (4, 8)}
    )
    assert run((Shadow(),), program) is program


@given(program=programs(12), joined=st.booleans())
@examples(60)
def test_meaning_stays(program: Program, joined: bool) -> None:
    before = (Accumulate(), Fusion() if joined else Fuse())
    assert_same_meaning(program, run((*before, Shadow(), Scalarise()), program))
