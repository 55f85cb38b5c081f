"""Blocks of dot products, as kernels."""

from __future__ import annotations

import numpy as np
import pytest

from strategies.passes import program_of
from tileir.core.dtype import DType
from tileir.core.errors import TileError
from tileir.core.targets.target import Target
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.ir import Dot
from tileir.semtree.lower.lowering import lower
from tileir.semtree.rewrite import expressions, statements, walk
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Program

KERNEL = """
block []:1 ( // kernel
    out O[0] i32:I(4):(1):16 B
    in A[0] i32:I(8):(1):32 B
    in B[0, 0] i32:I(8, 4):(4, 1):128 B
    none new@0x00000000 S<REGISTER>[0] i32:I(4):(1):16 B
) {
  0:
  block [(#vector lane:4)]:4 (
      out S[lane] i32:I(1):(1):4 B
  ) {
    0: $zero = (i32)0
    1: S = store($zero)
  }
  1:
  block [k:2, (#vector lane:4), (#dot term:4)]:32 (
      inout S[lane]:add i32:I(1):(1):4 B
      in A[4*k + term] i32:I(1):(1):4 B
      in B[STEP] i32:I(1, 1):(4, 1):4 B
  ) {
    0: $a = load(A)
    1: $b = load(B)
    2: $p = mul($a, $b)
    3: S = store($p)
  }
  2:
  block [(#vector lane:4)]:4 (
      out O[lane] i32:I(1):(1):4 B
      in S[lane] i32:I(1):(1):4 B
  ) {
    0: $s = load(S)
    1: O = store($s)
  }
}
"""


def program(step: str) -> Program:
    sizes = {"O": (4,), "A": (8,), "B": (8, 4)}
    return program_of([KERNEL.replace("STEP", step)], sizes, inputs=("A", "B"), dtype=DType.I32)


def nodes(found: Program) -> list[Dot]:
    (kernel,) = lower(found, Target()).kernels
    every = (node for stmt in statements(kernel.body) for root in expressions(stmt) for node in walk(root))
    return [node for node in every if isinstance(node, Dot)]


def test_neighbours_become_the_terms_of_lanes() -> None:
    # row 4k + lane holds the terms of a lane
    found = program("4*k + lane, term")
    (dot,) = nodes(found)
    assert (dot.terms, dot.type.lanes) == (4, 4)
    values = {"A": np.arange(8, dtype=np.int32), "B": np.arange(32, dtype=np.int32).reshape(8, 4) % 7}
    wanted = interpret(found, values)["O"]
    np.testing.assert_array_equal(run_program(lower(found, Target()), values)["O"], wanted)


@pytest.mark.parametrize(
    ("good", "bad", "words"),
    [
        ("(#dot term:4)]:32 (", "(#dot term:4)]:32 (\n      3*k - term >= 0", "starts at 0 without constraints"),
        ("(#dot term:4)]:32 (", "(#dot term:4), (#dot more:1)]:32 (", "one index of block"),
        ("mul($a, $b)", "add($a, $b)", "does not just add products"),
        ("inout S[lane]:add", "inout S[lane]:max", "are added to neighbours in S"),
    ],
)
def test_other_blocks_are_an_error_and_no_loop(good: str, bad: str, words: str) -> None:
    assert good in KERNEL
    text = KERNEL.replace(good, bad).replace("STEP", "4*k + lane, term")
    wrong = program_of([text], {"O": (4,), "A": (8,), "B": (8, 4)}, inputs=("A", "B"), dtype=DType.I32)
    with pytest.raises(TileError, match=f"TIL502.*{words}"):
        lower(wrong, Target())


def test_terms_that_are_apart_are_an_error() -> None:
    with pytest.raises(TileError, match="the terms of dot products are neighbours in B"):
        nodes(program("4*k + term, lane"))
