from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.passes import assert_same_meaning, program_of, programs
from tileir.core.dtype import DType
from tileir.stripe.check.verifier import verify
from tileir_accelerators.tiling.pad import Pad

if TYPE_CHECKING:
    from tileir.stripe.ir import Program

CONVOLUTION = """
#contraction block [x:8, k:3]:24 (
  x + k - 1 >= 0
  8 - x - k >= 0
  in X[x + k - 1] {dtype}:I(1):(1):4 B
  in W[k] {dtype}:I(1):(1):4 B
  {direction} O[x]:{how} {dtype}:I(1):(1):4 B
) {{
  0: $x = load(X)
  1: $w = load(W)
  2: $o = mul($x, $w)
  3: O = store($o)
}}
"""


def _convolution(dtype: DType, how: str = "add", direction: str = "out") -> Program:
    text = CONVOLUTION.format(dtype={DType.F32: "fp32", DType.I32: "i32"}[dtype], how=how, direction=direction)
    return program_of([text], {"X": (8,), "W": (3,), "O": (8,)}, dtype=dtype)


def _pads(program: Program, step: Pad = Pad()) -> bool:  # noqa: B008 - an immutable value
    after = step(program)
    if after is program:
        return False
    verify(after)
    assert_same_meaning(program, after)
    return True


def test_that_a_convolution_of_integers_loses_its_constraints() -> None:
    program = _convolution(DType.I32)
    assert _pads(program)
    after = Pad()(program)
    fill, copy, kernel = after.main.blocks
    assert (fill.ranges, copy.ranges) == ({"i0": 10}, {"i0": 8})
    assert not kernel.constraints
    assert str(kernel.refinement("X").access[0]) == "k + x"


def test_that_floats_are_padded_only_where_they_are_known_to_be_finite() -> None:
    program = _convolution(DType.F32)
    assert not _pads(program)
    assert _pads(program, Pad(finite=True))


def test_that_products_under_a_maximum_stay() -> None:
    assert not _pads(_convolution(DType.I32, "max"))


POOL = """
block [x:8, k:3]:24 (
  x + k - 1 >= 0
  8 - x - k >= 0
  in X[x + k - 1] fp32:I(1):(1):4 B
  out O[x]:{how} fp32:I(1):(1):4 B
) {{
  0: $x = load(X)
  1: O = store($x)
}}
"""


@pytest.mark.parametrize("how", ["add", "max", "min", "mul"])
def test_that_windows_are_padded_with_what_is_neutral(how: str) -> None:
    assert _pads(program_of([POOL.format(how=how)], {"X": (8,), "O": (8,)}))


def test_that_an_output_with_a_default_stays() -> None:
    fill = """
block [x:8]:8 (
  out O[x] fp32:I(1):(1):4 B
) {
  0: $v = (fp32)5.0
  1: O = store($v)
}
"""
    program = program_of([fill, POOL.format(how="max").replace("x + k - 1 >= 0", "x - 2 >= 0")], {"X": (8,), "O": (8,)})
    assert not _pads(program)


def test_that_a_constraint_of_another_kind_keeps_the_kernel() -> None:
    text = POOL.format(how="add").replace("x + k - 1 >= 0", "x + k - 2 >= 0")
    assert not _pads(program_of([text], {"X": (8,), "O": (8,)}))


PRODUCT = """
block [i:4, j:5, k:37]:740 (
  in A[i, k] fp32:I(1, 1):(37, 1):4 B
  in B[k, j] fp32:I(1, 1):(5, 1):4 B
  out C[i, j]:add fp32:I(1, 1):(5, 1):4 B
) {
  0: $a = load(A)
  1: $b = load(B)
  2: $c = mul($a, $b)
  3: C = store($c)
}
"""


def test_that_reductions_of_awkward_length_are_rounded_up() -> None:
    program = program_of([PRODUCT], {"A": (4, 37), "B": (37, 5), "C": (4, 5)}, outputs=("C",))
    step = Pad(multiple=8)
    assert _pads(program, step)
    kernel = step(program).main.blocks[-1]
    assert sorted(kernel.ranges.values()) == [4, 5, 40]
    assert not _pads(program, Pad(multiple=8, threshold=38))


def test_that_blocks_without_the_tags_stay() -> None:
    assert not _pads(_convolution(DType.I32), Pad(reqs=("other",)))


@given(programs(kinds=("window", "overlap", "product", "reduce", "elementwise")), st.integers(1, 5))
@examples(200)
def test_that_meaning_is_kept(program: Program, multiple: int) -> None:
    after = Pad(multiple=multiple, threshold=2, finite=True)(program)
    verify(after)
    assert_same_meaning(program, after)
