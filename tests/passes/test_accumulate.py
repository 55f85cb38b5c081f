from __future__ import annotations

from hypothesis import given

from strategies.effort import examples
from strategies.passes import assert_same_meaning, program_of, programs
from tileir.core.dtype import DType
from tileir.core.ops import Aggregation
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import run
from tileir.stripe.ir import Block, Constant, Direction, Program
from tileir.stripe.text.printer import to_text


@given(programs())
@examples(100)
def test_meaning_stays(program: Program) -> None:
    assert_same_meaning(program, run((Accumulate(),), program))


def explicit(kernels: list[str], sizes: dict[str, tuple[int, ...]]) -> tuple[Block, ...]:
    return run((Accumulate(),), program_of(kernels, sizes)).main.blocks


CONVOLUTION = """
block [ci:3, x:16, k:3]:144 (
  -1 + k + x >= 0
  16 - k - x >= 0
  out O[x]:add fp32:I(1):(1):4 B
  in I[k + x - 1, ci] fp32:I(1, 1):(3, 1):4 B
  in K[k, ci] fp32:I(1, 1):(3, 1):4 B
) {
  0: $I = load(I)
  1: $K = load(K)
  2: $O = mul($I, $K)
  3: O = store($O)
}
"""
SIZES = {"I": (16, 3), "K": (3, 3), "O": (16,)}


def test_a_padded_convolution_gets_a_register() -> None:
    (kernel,) = explicit([CONVOLUTION], SIZES)
    assert (
        to_text(kernel)
        == """\
0:
block [x:16]:16 (
    out O[x] fp32:I(1):(1):4 B, E(16):64 B
    in I[-1 + x, 0] fp32:I(3, 3):(3, 1):36 B, E(18, 3):216 B
    in K[0, 0] fp32:I(3, 3):(3, 1):36 B, E(3, 3):36 B
    none new@0x00000000 O_acc<REGISTER>[] fp32:I():():4 B
) {
  0: $O_acc_init = (fp32)0.0
  1: O_acc = store($O_acc_init)
  2: #reduction
  block [x = x, ci:3, k:3]:9 (
      -1 + k + x >= 0
      16 - k - x >= 0
      inout O_acc[]:add fp32:I():():4 B, E():4 B
      in I[k, ci] fp32:I(1, 1):(3, 1):4 B, E(3, 3):36 B
      in K[k, ci] fp32:I(1, 1):(3, 1):4 B, E(3, 3):36 B
  ) {
    0: $I = load(I)
    1: $K = load(K)
    2: $O = mul($I, $K)
    3: O_acc = store($O)
  }
  3: $O_acc = load(O_acc)
  4: O = store($O_acc)
}
"""
    )


FILL = """
block [x:16]:16 (
  out O[x] fp32:I(1):(1):4 B
) {
  0: $zero = (fp32)0.0
  1: O = store($zero)
}
"""
CUT = CONVOLUTION.replace("16 - k - x", "12 - k - x")


def test_old_content_stays_where_no_point_is_valid() -> None:
    program = program_of([FILL.replace("0.0", "1.5"), CUT], SIZES)
    after = run((Accumulate(),), program)
    assert_same_meaning(program, after)
    kernel = after.main.blocks[1]
    assert kernel.refinement("O").direction is Direction.INOUT
    assert "$O_acc_new = cond($hit, $O_acc, $O_acc_old)" in to_text(kernel)


def test_old_content_that_is_the_identity_needs_no_memory_of_hits() -> None:
    program = program_of([FILL, CUT], SIZES)
    after = run((Accumulate(),), program)
    assert_same_meaning(program, after)
    assert after.main.blocks[1].refinement("O").direction is Direction.OUT
    _, greatest = explicit([FILL, CUT.replace(":add", ":max")], SIZES)
    assert greatest.refinement("O").direction is Direction.INOUT
    _, twice, again = explicit([FILL, FILL.replace("0.0", "1.5"), CUT], SIZES)
    assert again.refinement("O").direction is Direction.INOUT
    assert twice.refinement("O").direction is Direction.OUT


def test_content_that_nothing_has_written_is_not_kept() -> None:
    (kernel,) = explicit([CUT], SIZES)
    assert kernel.refinement("O").direction is Direction.OUT


def test_outputs_that_overlap_are_set_to_the_identity_first() -> None:
    fill, merge = explicit(
        [CONVOLUTION.replace("out O[x]", "out O[x + k]").replace(":add", ":max")], SIZES | {"O": (18,)}
    )
    assert fill.refinement("O").aggregation is None
    assert Constant("identity", DType.F32, float("-inf")) in fill.statements
    assert (merge.refinement("O").direction, merge.refinement("O").aggregation) == (Direction.INOUT, Aggregation.MAX)


def test_a_value_written_once_needs_no_accumulator() -> None:
    text = """
block [x:16]:16 (
  out O[x]:add fp32:I(1):(1):4 B
  in I[x, 0] fp32:I(1, 1):(3, 1):4 B
) {
  0: $I = load(I)
  1: O = store($I)
}
"""
    (kernel,) = explicit([text], SIZES)
    assert kernel.refinement("O").aggregation is None
    assert kernel.blocks == ()


def test_scopes_inside_a_kernel_become_explicit() -> None:
    text = """
block [x:16]:16 (
  out O[x] fp32:I(1):(1):4 B
  in I[x, 0] fp32:I(1, 3):(3, 1):12 B
) {
  0: block [k:3]:3 (
    out O[0]:add fp32:I(1):(1):4 B
    in I[0, k] fp32:I(1, 1):(3, 1):4 B
  ) {
    0: $I = load(I)
    1: O = store($I)
  }
}
"""
    program = program_of([text], SIZES)
    after = run((Accumulate(),), program)
    assert_same_meaning(program, after)
    assert not any(r.aggregation for r in after.main.blocks[0].blocks[0].refinements)


def test_scopes_over_several_levels_become_explicit() -> None:
    text = """
block [x:4]:4 (
  out O[4*x]:add fp32:I(4):(1):4 B
  in I[4*x, 0] fp32:I(4, 3):(3, 1):12 B
) {
  0: block [y:4, k:3]:12 (
    out O[y]:add fp32:I(1):(1):4 B
    in I[y, k] fp32:I(1, 1):(3, 1):4 B
  ) {
    0: $I = load(I)
    1: O = store($I)
  }
}
"""
    program = program_of([text], SIZES)
    after = run((Accumulate(),), program)
    assert len(after.main.blocks) == 2
    assert_same_meaning(program, after)


def test_only_kernels_with_the_tags_are_rewritten() -> None:
    program = program_of([CONVOLUTION], SIZES)
    assert Accumulate(reqs=("elsewhere",))(program) is program


@given(programs())
@examples(50)
def test_nothing_is_left_to_do(program: Program) -> None:
    once = Accumulate()(program)
    assert Accumulate()(once) is once
