"""What vectorised reductions look like; test_schedule.py holds that they keep the meaning."""

from __future__ import annotations

import pytest

from strategies.kernels import stripe_program
from tileir.core.dtype import DType
from tileir.passes.accumulate import Accumulate
from tileir.passes.base import run
from tileir.passes.vectorise_reduction import VectoriseReduction
from tileir.stripe.ir import Block, Index, Program


def indices(program: Program, tag: str) -> list[Index]:
    found: list[Index] = []
    pending: list[Block] = list(reversed(program.main.blocks))
    while pending:
        block = pending.pop()
        found.extend(index for index in block.indices if tag in index.tags)
        pending.extend(reversed(block.blocks))
    return found


def vectorised(name: str, step: VectoriseReduction, dtype: DType = DType.F32) -> Program:
    return run((Accumulate(), step), stripe_program(name, dtype))


def test_each_lane_has_an_accumulator_of_its_own() -> None:
    program = vectorised("sum over columns", VectoriseReduction(vector_bytes=16, unroll=2))
    (kernel,) = program.main.blocks
    lanes = [r for r in kernel.refinements if r.name.endswith("lanes")]
    assert [r.shape.sizes for r in lanes] == [(8,)]


def test_the_lanes_are_set_filled_and_merged_and_the_rest_is_taken_one_by_one() -> None:
    (kernel,) = vectorised("sum over columns", VectoriseReduction(vector_bytes=16, unroll=2)).main.blocks
    ranges = [[index.range for index in block.indices if index.affine is None] for block in kernel.blocks]
    assert [2, 4] in ranges  # identities, and the merge
    assert [9] in ranges  # steps of 8 over 75 elements
    assert [3] in ranges  # what is left of them


@pytest.mark.parametrize(
    ("dtype", "lanes"), [(DType.F32, 8), (DType.F64, 4), (DType.I8, 32), (DType.F16, 8), (DType.BF16, 8)]
)
def test_lanes_fill_a_register(dtype: DType, lanes: int) -> None:
    program = vectorised("sum over columns", VectoriseReduction(vector_bytes=32, unroll=1), dtype)
    assert {index.range for index in indices(program, "vector")} == {lanes}


def test_a_short_reduction_keeps_fewer_vectors_in_flight() -> None:
    program = vectorised("sum of all of three axes", VectoriseReduction(vector_bytes=16, unroll=64))
    assert {index.range for index in indices(program, "unroll")} == {15}  # 60 elements that lie in a row


@pytest.mark.parametrize("name", ["sum over rows", "cumulative sum", "transpose", "scalar"])
def test_other_kernels_are_left_alone(name: str) -> None:
    accumulated = run((Accumulate(),), stripe_program(name))
    assert indices(run((VectoriseReduction(vector_bytes=16),), accumulated), "vector") == []
