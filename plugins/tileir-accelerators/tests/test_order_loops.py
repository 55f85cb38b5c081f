from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given

from strategies.effort import examples
from strategies.passes import assert_same_meaning, program_of, programs
from tileir.stripe.check.verifier import verify
from tileir_accelerators.tiling.order_loops import OrderLoops

if TYPE_CHECKING:
    from tileir.stripe.ir import Program

MATMUL = """
block [{indices}]:262144 (
  in A[i, k] fp32:I(1, 1):(64, 1):4 B
  in B[k, j] fp32:I(1, 1):(64, 1):4 B
  out C[i, j]:add fp32:I(1, 1):(64, 1):4 B
) {{
  0: $a = load(A)
  1: $b = load(B)
  2: $c = mul($a, $b)
  3: C = store($c)
}}
"""
SIZES = {"A": (64, 64), "B": (64, 64), "C": (64, 64)}


def _order(indices: str) -> str:
    program = program_of([MATMUL.format(indices=indices)], SIZES, outputs=("C",))
    return "".join(OrderLoops()(program).main.blocks[0].ranges)


def test_that_a_matrix_product_gets_the_memory_order_of_the_paper() -> None:
    """For row-major matrices that is IKJ, as J strides through two of them and K through one."""
    assert _order("i:64, j:64, k:64") == "ikj"
    assert _order("k:64, j:64, i:64") == "ikj"


def test_that_an_ordered_program_stays_itself() -> None:
    program = program_of([MATMUL.format(indices="i:64, k:64, j:64")], SIZES, outputs=("C",))
    assert OrderLoops()(program) is program


def test_that_tagged_indices_keep_their_places() -> None:
    assert _order("(#grid j:64), k:64, i:64") == "jik"


def test_that_blocks_without_the_tags_stay() -> None:
    program = program_of([MATMUL.format(indices="k:64, j:64, i:64")], SIZES, outputs=("C",))
    assert OrderLoops(reqs=("other",))(program) is program


@given(programs())
@examples(60)
def test_that_meaning_is_kept(program: Program) -> None:
    after = OrderLoops()(program)
    verify(after)
    assert_same_meaning(program, after)
