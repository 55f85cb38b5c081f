"""Kernels whose inside has no tests left."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.contractions import Case, convolutions
from strategies.effort import examples
from strategies.kernels import stripe_program
from strategies.passes import assert_same_meaning, programs
from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import run
from tileir.passes.fusion.fuse import Fuse
from tileir.passes.regions.separate import Separate
from tileir.passes.schedules.vectors.thread import Thread
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.lower.lowering import lower
from tileir.stripe.check.verifier import verify
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Block, Program

ALWAYS = Separate(least=1, share=0, operations=0)


def image(height: int, width: int, *, stride: int = 1, padding: int = 1, features: int = 4) -> Program:
    rows, columns = ((size + 2 * padding - 3) // stride + 1 for size in (height, width))
    at = [f"{stride}*{x} + {w} - {padding}" for x, w in (("y", "i"), ("x", "j"))]
    text = (
        "function (X[H, W, CI], F[KH, KW, CI, CO]) -> (O) { "
        f"O[y, x, co : {rows}, {columns}, CO] = +(X[{at[0]}, {at[1]}, ci] * F[i, j, ci, co]); }}"
    )
    shapes = {"X": (height, width, 2), "F": (3, 3, 2, features)}
    return run((Accumulate(),), Case(text, DType.F32, shapes).program())


def shape(kernel: Block) -> tuple[dict[str, int], int]:
    """Return the indices of a kernel, and how many tests its reduction has."""
    return kernel.ranges, sum(len(block.constraints) for block in kernel.blocks)


def test_an_image_has_an_inside_and_sides_and_corners() -> None:
    kernels = run((ALWAYS,), image(8, 12)).main.blocks
    assert [shape(kernel) for kernel in kernels] == [
        ({"y": 8, "x": 10, "co": 4}, 2),  # tests of rows only
        ({"y": 6, "x_side": 2, "co": 4}, 2),  # of columns only
        ({"y_side": 2, "x_side": 2, "co": 4}, 4),
    ]


def test_narrow_ends_stay_whole_beside_lanes_without_tests() -> None:
    kernels = run((ALWAYS,), image(8, 12, features=8)).main.blocks
    assert [shape(kernel) for kernel in kernels] == [
        ({"y": 8, "x": 10, "co": 8}, 2),
        ({"y": 8, "x_side": 2, "co": 8}, 4),
    ]
    assert len(run((ALWAYS,), image(8, 12, features=7)).main.blocks) == 3
    wide = image(16, 16, padding=2, features=8)  # two rows and columns at each end
    assert len(run((ALWAYS,), wide).main.blocks) == 2
    assert len(run((attrs.evolve(ALWAYS, narrow=3),), wide).main.blocks) == 3


@pytest.mark.parametrize(("stride", "tests"), [(1, [2, 4]), (2, [2, 1, 0])])
def test_all_borders_are_peeled_off_where_no_lanes_lie_along_memory(stride: int, tests: list[int]) -> None:
    """Back ends have vectors for loops of which all bounds are constants; with lanes, tests of rows cost nothing."""
    size = 16 // stride
    text = f"O[c, y, x : 8, {size}, {size}] = >(X[c, {stride}*y + i - 1, {stride}*x + j - 1]), i < 3, j < 3;"
    case = Case(f"function (X[C, H, W]) -> (O) {{ {text} }}", DType.F32, {"X": (8, 16, 16)})
    program = run((Accumulate(),), case.program())
    after = run((Separate(operations=0),), program)
    assert [shape(kernel)[1] for kernel in after.main.blocks] == tests
    x = np.random.default_rng(1).standard_normal((8, 16, 16), np.float32)
    assert_same_meaning(program, after, {"X": x})


def test_both_ends_count_as_many_values_as_the_longer_one() -> None:
    inside, *_ = run((Separate(least=1, share=0, operations=0, most=1),), image(9, 12, stride=2, padding=1)).main.blocks
    assert inside.ranges["x"] == 5  # of 6: the last window ends inside
    (inside, around) = run((Separate(most=1, operations=0),), image(8, 12, padding=2)).main.blocks
    assert inside.ranges["x"] == 10
    assert (around.ranges["x_side"], around.ranges["x_edge"]) == (2, 2)


def test_what_lies_along_memory_is_cut_first() -> None:
    text = (
        "function (X[C, H, W], F[C, KH, KW]) -> (O) { O[y, x : 16, 12] = +(X[c, y + i - 1, x + j - 1] * F[c, i, j]); }"
    )
    program = run((Accumulate(),), Case(text, DType.F32, {"X": (2, 16, 12), "F": (2, 3, 3)}).program())
    inside, *_ = run((ALWAYS,), program).main.blocks
    assert shape(inside) == ({"y": 16, "x": 10}, 2)  # more rows than columns are inside, but vectors run over columns


@pytest.mark.parametrize(
    "step", [Separate(), Separate(least=11, operations=0), Separate(share=90, operations=0), Separate(most=0)]
)
def test_what_does_not_pay_is_left_alone(step: Separate) -> None:
    program = image(8, 12)
    assert run((step,), program) is program


@pytest.mark.parametrize("name", ["matmul", "convolution", "cumulative sum", "default", "chain", "transpose"])
def test_kernels_without_an_inside_and_a_boundary_are_left_alone(name: str) -> None:
    program = run((Accumulate(),), stripe_program(name))
    assert run((Separate(operations=0),), program) is program


def test_aggregation_scopes_and_schedules_are_left_alone() -> None:
    program = stripe_program("padded convolution")
    assert run((ALWAYS,), program) is program
    scheduled = run((Accumulate(), Thread()), program)
    assert run((ALWAYS,), scheduled) is scheduled


@given(programs(8), st.integers(1, 3), st.integers(0, 6))
@examples(100)
def test_programs_keep_their_meaning(program: Program, most: int, narrow: int) -> None:
    before = run((Accumulate(), Fuse()), program)
    after = run((Separate(least=1, share=0, operations=0, most=most, narrow=narrow),), before)
    verify(after)
    assert_same_meaning(before, after)


@given(convolutions(), st.integers(1, 3), st.integers(0, 6))
@examples(100)
def test_convolutions_keep_their_meaning(case: Case, most: int, narrow: int) -> None:
    program = case.program()
    after = run((Accumulate(), Fuse(), Separate(least=1, share=0, operations=0, most=most, narrow=narrow)), program)
    assert_same_meaning(program, after)


def test_separated_kernels_can_be_lowered() -> None:
    program = image(7, 9)
    random = np.random.default_rng(0)
    values = {n: random.integers(-3, 4, s).astype(np.float32) for n, s in (("X", (7, 9, 2)), ("F", (3, 3, 2, 4)))}
    found = run_program(lower(run((ALWAYS,), program), Target()), values, ALL_CHECKS)
    np.testing.assert_array_equal(found["O"], interpret(program, values)["O"])
