from __future__ import annotations

import pytest
from hypothesis import given

import tileir
from strategies.effort import examples
from strategies.passes import assert_same_meaning, program_of, programs
from tileir import ops
from tileir.core.dtype import DType
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import run
from tileir.passes.fusion.fuse import Fuse
from tileir.passes.rewrites.dead_code import DeadCode
from tileir.passes.rewrites.localise import Localise
from tileir.passes.rewrites.scalarise import Scalarise
from tileir.stripe.ir import Direction, Program
from tileir.stripe.lower.lowering import lower
from tileir.stripe.text.printer import to_text
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType


def cleaned(kernels: list[str], names: str = "XTO", outputs: tuple[str, ...] = ("O",)) -> Program:
    program = program_of(kernels, dict.fromkeys(names, (4,)), outputs)
    after = run((DeadCode(),), program)
    assert_same_meaning(program, after)
    return after


def copying(source: str, target: str) -> str:
    return f"""
block [i:4]:4 (
  in {source}[i] fp32:I(1):(1):4 B
  out {target}[i] fp32:I(1):(1):4 B
) {{
  0: $x = load({source})
  1: {target} = store($x)
}}
"""


def test_kernels_that_reach_no_result_go() -> None:
    after = cleaned([copying("X", "T"), copying("X", "O"), copying("T", "U")], "XTUO")
    assert len(after.main.blocks) == 1
    assert [r.name for r in after.entry.refinements] == ["X", "O"]
    assert [r.name for r in after.main.refinements] == ["X", "O"]


def test_stores_scalars_and_views_without_use_go() -> None:
    after = cleaned(
        [
            """
block [i:4]:4 (
  in X[i] fp32:I(1):(1):4 B
  in Y = X[i] fp32:I(1):(1):4 B
  out T[i] fp32:I(1):(1):4 B
  out O[i] fp32:I(1):(1):4 B
  none new@0x00000000 L[0] fp32:I(1):(1):4 B
) {
  0: $x = load(X)
  1: $y = load(Y)
  2: $z = exp($y)
  3: T = store($z)
  4: L = store($z)
  5: O = store($x)
}
"""
        ]
    )
    assert (
        to_text(after.main.blocks[0])
        == """\
0:
block [i:4]:4 (
    in X[i] fp32:I(1):(1):4 B, E(4):16 B
    out O[i] fp32:I(1):(1):4 B, E(4):16 B
) {
  0: $x = load(X)
  1: O = store($x)
}
"""
    )


NESTED = """
block [i:4]:4 (
  in X[i] fp32:I(1):(1):4 B
  out O[i] fp32:I(1):(1):4 B
  none new@0x00000000 L[0] fp32:I(1):(1):4 B
) {
  0: $zero = (fp32)0.0
  1: L = store($zero)
  2: block [k:3]:3 (
    inout L[0]:add fp32:I(1):(1):4 B
    in X[0] fp32:I(1):(1):4 B
  ) {
    0: $x = load(X)
    1: L = store($x)
  }
  3: $l = load(L)
  4: O = store($l)
}
"""


def test_accumulators_that_are_read_stay() -> None:
    program = program_of([NESTED], dict.fromkeys("XO", (4,)))
    assert DeadCode()(program) is program


def test_nested_blocks_without_effect_go() -> None:
    after = cleaned([NESTED.replace("$l = load(L)", "$l = load(X)")])
    assert after.main.blocks[0].blocks == ()
    assert "L" not in to_text(after.main.blocks[0])


def test_what_is_no_longer_read_is_only_written() -> None:
    update = copying("X", "O").replace("out O", "inout O")
    after = cleaned([copying("X", "O"), update])
    assert after.main.blocks[1].refinement("O").direction is Direction.OUT


def test_dependencies_are_dropped_with_the_numbers_they_hold() -> None:
    text = copying("X", "O").replace("1: O", "2: [1] O").replace("0: $x", "0: $dead = (fp32)1.0\n  1: $x")
    after = cleaned([text])
    assert all(statement.deps == () for statement in after.main.blocks[0].statements)


@given(programs(12))
@examples(80)
def test_meaning_stays(program: Program) -> None:
    assert_same_meaning(program, run((DeadCode(),), program))
    assert_same_meaning(program, run((Accumulate(), Fuse(), Localise(), Scalarise(), DeadCode()), program))


@pytest.mark.parametrize("columns", [1, 2])
def test_a_reduction_keeps_its_whole_state_though_one_part_of_it_is_asked_for(columns: int) -> None:
    builder = tileir.FunctionBuilder()
    function = builder.build(R=ops.argmax(builder.input("X", "M", "N"), 1))
    program = lower(infer(function, {"X": TensorType(DType.F32, (3, columns))}))
    after = run((DeadCode(),), program)
    assert_same_meaning(program, after)


def test_what_the_next_point_of_a_serial_block_reads_stays() -> None:
    kernel = """
    block []:1 (
        in X[0] fp32:I(4):(1):16 B
        out O[0] fp32:I(4):(1):16 B
        none new@0x00000000 last[0] fp32:I(1):(1):4 B
    ) {
      0: $zero = (fp32)0.0
      1: last = store($zero)
      2: block [(#serial i:4)]:4 (
          in X[i] fp32:I(1):(1):4 B
          in before = last[0] fp32:I(1):(1):4 B
          out after = last[0] fp32:I(1):(1):4 B
          out O[i] fp32:I(1):(1):4 B
      ) {
        0: $before = load(before)
        1: O = store($before)
        2: $x = load(X)
        3: after = store($x)
      }
    }
    """
    program = program_of([kernel], {"X": (4,), "O": (4,)})
    assert_same_meaning(program, run((DeadCode(),), program))
    assert run((DeadCode(), Scalarise()), program) is program
