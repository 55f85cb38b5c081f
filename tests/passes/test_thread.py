from __future__ import annotations

import pytest

from strategies.kernels import stripe_program
from strategies.passes import program_of
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import run
from tileir.passes.schedules.vectors.thread import Thread
from tileir.stripe.blocks import Binding
from tileir.stripe.ir import Block, Program


def grids(program: Program) -> list[list[int]]:
    return [
        [index.range for index in kernel.indices if index.binding is Binding.GRID] for kernel in program.main.blocks
    ]


@pytest.mark.parametrize(("groups", "expected"), [(1, []), (9, [9]), (10, [9, 18]), (200, [9, 18, 3])])
def test_outer_indices_join_the_grid_until_there_are_groups_enough(groups: int, expected: list[int]) -> None:
    program = run((Accumulate(), Thread(groups=groups)), stripe_program("batched matmul"))
    assert grids(program) == [expected]


def test_a_grid_has_at_most_three_axes() -> None:
    text = "block [a:2, b:2, c:2, d:2] ( in A[a, b, c, d] fp32:I(1, 1, 1, 1):(8, 4, 2, 1) " \
           "out O[a, b, c, d] fp32:I(1, 1, 1, 1):(8, 4, 2, 1) ) { 0: $x = load(A) 1: O = store($x) }"  # fmt: skip
    program = Thread(groups=1000)(program_of([text], {"A": (2, 2, 2, 2), "O": (2, 2, 2, 2)}))
    assert grids(program) == [[2, 2, 2]]
    assert [index.name for index in program.main.blocks[0].indices] == ["a", "b", "c", "d"]


def test_indices_of_the_grid_come_first() -> None:
    text = "block [a:1, b:5, c:4] ( in A[b, c] fp32:I(1, 1):(4, 1) out O[b, c] fp32:I(1, 1):(4, 1) ) " \
           "{ 0: $x = load(A) 1: O = store($x) }"  # fmt: skip
    (kernel,) = Thread(groups=2)(program_of([text], {"A": (5, 4), "O": (5, 4)})).main.blocks
    assert [(i.name, i.binding is Binding.GRID) for i in kernel.indices] == [("b", True), ("a", False), ("c", False)]


def test_points_that_merge_into_one_element_stay_in_one_group() -> None:
    text = "block [a:5, b:4] ( in A[a, b] fp32:I(1, 1):(4, 1) inout O[b]:add fp32:I(1):(1) ) " \
           "{ 0: $x = load(A) 1: O = store($x) }"  # fmt: skip
    start = "block [b:4] ( out O[b] fp32:I(1):(1) ) { 0: $x = (fp32)0.0 1: O = store($x) }"
    program = Thread(groups=100)(program_of([start, text], {"A": (5, 4), "O": (4,)}))
    assert grids(program) == [[4], [4]]
    assert [i.name for i in program.main.blocks[1].indices] == ["b", "a"]


def test_points_that_run_in_their_order_have_no_grid() -> None:
    text = "block [(#serial a:5), b:4] ( in A[a, b] fp32:I(1, 1):(4, 1) out O[a, b] fp32:I(1, 1):(4, 1) ) " \
           "{ 0: $x = load(A) 1: O = store($x) }"  # fmt: skip
    program = program_of([text], {"A": (5, 4), "O": (5, 4)})
    assert Thread(groups=100)(program) is program


def test_kernels_with_a_grid_are_left_alone() -> None:
    program = run((Accumulate(), Thread(groups=4)), stripe_program("matmul"))
    assert Thread(groups=100)(program) is program


def test_a_scalar_kernel_has_no_grid() -> None:
    program = run((Accumulate(),), stripe_program("scalar"))
    assert Thread()(program) is program
    assert all(isinstance(kernel, Block) for kernel in program.main.statements)
