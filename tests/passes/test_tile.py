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
from tileir.passes.base import map_blocks, run, with_kernels
from tileir.passes.pipelines.catalog import parse_pipeline
from tileir.passes.regions.tile import Tile, tiled
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.lower.lowering import lower
from tileir.stripe.check.verifier import verify
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Block
from tileir.stripe.text.printer import to_text

if TYPE_CHECKING:
    from tileir.stripe.ir import Program, Statement

MATMUL = """
#contraction block [i:5, j:5, k:5]:125 (
  in A[i, k] fp32:I(1, 1):(5, 1):4 B
  in B[k, j] fp32:I(1, 1):(5, 1):4 B
  out C[i, j]:add fp32:I(1, 1):(5, 1):4 B
) {
  0: $a = load(A)
  1: $b = load(B)
  2: $c = mul($a, $b)
  3: C = store($c)
}
"""
REVERSED = """
block [i:7]:7 (
  3 - i >= 0
  in X[6 - i] fp32:I(1):(1):4 B
  out O[i] fp32:I(1):(1):4 B
  none new@0x00000000 T[0] fp32:I(1):(1):4 B
) {
  0: $n = load_index(2*i)
  1: $f = cast_fp32($n)
  2: T = store($f)
  3: block [j = i]:1 (
    in X[0] fp32:I(1):(1):4 B
    in T[0] fp32:I(1):(1):4 B
    out O[0] fp32:I(1):(1):4 B
  ) {
    0: $m = load_index(j)
    1: $g = cast_fp32($m)
    2: $x = load(X)
    3: $t = load(T)
    4: $s = add($x, $t)
    5: $y = add($s, $g)
    6: O = store($y)
  }
}
"""
CUT = """
0: #contraction #outer
block [i:1, j:3, k:1]:3 (
    in A[5*i, 5*k] fp32:I(5, 5):(5, 1):100 B, E(5, 5):100 B
    in B[5*k, 2*j] fp32:I(5, 2):(5, 1):40 B, E(5, 6):120 B
    out C[5*i, 2*j]:add fp32:I(5, 2):(5, 1):40 B, E(5, 6):120 B
) {
  0: #inner
  block [i:5, j:2, k:5, j_tile = j]:50 (
      4 - j - 2*j_tile >= 0
      in A[i, k] fp32:I(1, 1):(5, 1):4 B, E(5, 5):100 B
      in B[k, j] fp32:I(1, 1):(5, 1):4 B, E(5, 2):40 B
      out C[i, j]:add fp32:I(1, 1):(5, 1):4 B, E(5, 2):40 B
  ) {
    0: $a = load(A)
    1: $b = load(B)
    2: $c = mul($a, $b)
    3: C = store($c)
  }
}
"""
ROWS_A = [[1, 2, 3, 4, 5], [4, 5, 6, 7, 8], [7, 8, 9, 7, 8], [1, 2, 3, 1, 2], [1, 2, 3, 1, 2]]
PRODUCT = [[15, 30, 45, 15, 30], [30, 60, 90, 30, 60], [39, 78, 117, 39, 78], [9, 18, 27, 9, 18], [9, 18, 27, 9, 18]]


def matmul() -> Program:
    return program_of([MATMUL.strip()], {"A": (5, 5), "B": (5, 5), "C": (5, 5)}, ("C",))


@pytest.mark.parametrize(
    "pipeline",
    [
        "",
        "tile{sizes=(5,2,2),inner_set=inner}",
        "tile{sizes=(5,2,2),inner_set=inner},tile{sizes=(5,3,2,1,1),reqs=inner}",
    ],
)
def test_the_product_of_the_reference_stays_the_same(pipeline: str) -> None:
    after = run(parse_pipeline(pipeline), matmul())
    given_arrays = {"A": np.array(ROWS_A, np.float32), "B": np.tile(np.array([1, 2, 3, 1, 2], np.float32), (5, 1))}
    for seed in (None, 3):
        np.testing.assert_array_equal(interpret(after, given_arrays, seed=seed)["C"], PRODUCT)
    scheduled = run(parse_pipeline("accumulate"), after)
    np.testing.assert_array_equal(run_program(lower(scheduled, Target()), given_arrays)["C"], PRODUCT)


def test_a_size_that_does_not_divide_cuts_the_last_tile() -> None:
    (kernel,) = run((Tile((5, 2, 5), outer_set=("outer",), inner_set=("inner",)),), matmul()).main.blocks
    assert to_text(kernel) == CUT.lstrip()


def test_views_start_at_the_least_element_of_a_tile_and_observed_indices_are_absolute() -> None:
    program = program_of([REVERSED.strip()], {"X": (7,), "O": (7,)})
    for size in (1, 2, 3, 7, 9):
        assert_same_meaning(program, run((Tile((size,)),), program))


def test_only_blocks_with_the_tags_are_split_the_outermost_first() -> None:
    program = run((Tile((5, 5, 5), inner_set=("inner",)),), matmul())
    assert run((Tile((9,), reqs=("elsewhere",)),), program) is program
    (kernel,) = run((Tile((1, 5, 5), reqs=("inner",)),), program).main.blocks
    assert [index.range for index in kernel.indices] == [1, 1, 1]
    (inner,) = kernel.blocks
    assert [index.range for index in inner.indices] == [5, 1, 1]


def test_no_sizes_do_nothing() -> None:
    program = matmul()
    assert Tile()(program) is program


def test_a_wrong_number_of_sizes_is_an_error_for_each_block() -> None:
    with pytest.raises(TileError) as caught:
        run((Tile((2, 2)),), matmul())
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "TIL543"
    assert "has 3 indices (i, j, k), but sizes has 2" in diagnostic.message


@pytest.mark.parametrize("text", ["tile{sizes=(4,0)}", "tile{sizes=-1}", "tile{sizes=half}"])
def test_sizes_are_checked(text: str) -> None:
    with pytest.raises(TileError) as caught:
        parse_pipeline(text)
    assert caught.value.diagnostics[0].code == "TIL543"


def _split_all(statement: Statement, sizes: list[int]) -> Statement:
    if not isinstance(statement, Block):
        return statement
    return tiled(statement, [sizes[number % len(sizes)] for number in range(len(statement.indices))])


def with_tiles(program: Program, sizes: list[int]) -> Program:
    """Split every kernel, whatever the number of its indices."""
    return with_kernels(program, tuple(_split_all(statement, sizes) for statement in program.main.statements))


INTERLEAVED = """
0: #contraction #outer
block [i:1, j:3, k:1]:3 (
    in A[i, k] fp32:I(5, 5):(5, 1):100 B, E(5, 5):100 B
    in B[k, j] fp32:I(5, 4):(5, 1):80 B, E(5, 6):120 B
    out C[i, j]:add fp32:I(5, 4):(5, 1):80 B, E(5, 6):120 B
) {
  0: #contraction #inner
  block [i:5, j:2, k:5, j_tile = j]:50 (
      4 - 3*j - j_tile >= 0
      in A[i, k] fp32:I(1, 1):(5, 1):4 B, E(5, 5):100 B
      in B[k, 3*j] fp32:I(1, 1):(5, 1):4 B, E(5, 4):80 B
      out C[i, 3*j]:add fp32:I(1, 1):(5, 1):4 B, E(5, 4):80 B
  ) {
    0: $a = load(A)
    1: $b = load(B)
    2: $c = mul($a, $b)
    3: C = store($c)
  }
}
"""


def test_interleaved_tiles_hold_points_as_far_apart_as_there_are_tiles() -> None:
    step = Tile((5, 2, 5), (), ("outer",), ("inner",), copy_set=("contraction", "elsewhere"), interleaved=True)
    (kernel,) = run((step,), matmul()).main.blocks
    assert to_text(kernel) == INTERLEAVED.lstrip()
    assert_same_meaning(matmul(), run((step,), matmul()))


def test_interleaved_tiles_know_the_values_of_observed_indices() -> None:
    program = program_of([REVERSED.strip()], {"X": (7,), "O": (7,)})
    for size in (1, 2, 3, 7, 9):
        assert_same_meaning(program, run((Tile((size,), interleaved=True),), program))


def _interleaved(program: Program, sizes: list[int]) -> Program:
    def split(block: Block) -> Block:
        chosen = [sizes[number % len(sizes)] for number in range(len(block.indices))]
        return tiled(block, chosen, interleaved=True)

    return map_blocks(program, split)


@given(programs(8), st.lists(st.integers(1, 4), min_size=1, max_size=3))
@examples(60)
def test_interleaved_tiles_keep_the_meaning(program: Program, sizes: list[int]) -> None:
    after = _interleaved(program, sizes)
    verify(after)
    assert_same_meaning(program, after)
    assert_same_meaning(program, _interleaved(after, sizes))


@given(programs(8), st.lists(st.integers(1, 4), min_size=1, max_size=3))
@examples(100)
def test_tiles_keep_the_meaning(program: Program, sizes: list[int]) -> None:
    after = with_tiles(program, sizes)
    verify(after)
    assert_same_meaning(program, after)
    assert_same_meaning(program, with_tiles(after, sizes))


@pytest.mark.sampled(11)
@pytest.mark.parametrize("order", ["tile first", "accumulate first"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_tiled_kernels_can_be_lowered(name: str, order: str) -> None:
    program, values = stripe_program(name), inputs(name)
    expected = interpret(program, values)
    accumulate = parse_pipeline("accumulate")
    if order == "tile first":
        after = run(accumulate, with_tiles(program, [4, 3]))
    else:
        after = with_tiles(run(accumulate, program), [4, 3])
    found = run_program(lower(after, Target()), values)
    for output, array in expected.items():
        np.testing.assert_array_equal(found[output], array)
