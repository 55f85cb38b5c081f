"""What the three vectorising passes do to the shapes of kernels; test_schedule.py holds that they keep the meaning."""

from __future__ import annotations

import pytest

from strategies.kernels import stripe_program
from tileir.core.dtype import DType
from tileir.passes.accumulate import Accumulate
from tileir.passes.base import run
from tileir.passes.vectorise import Vectorise
from tileir.stripe.ir import Block, Program


def lanes(program: Program) -> list[int]:
    """Return the ranges of all vector indices, in order."""
    found: list[int] = []
    pending: list[Block] = list(reversed(program.main.blocks))
    while pending:
        block = pending.pop()
        found.extend(index.range for index in block.indices if "vector" in index.tags)
        pending.extend(reversed(block.blocks))
    return found


def vectorised(name: str, step: Vectorise, dtype: DType = DType.F32) -> Program:
    return run((Accumulate(), step), stripe_program(name, dtype))


@pytest.mark.parametrize(
    ("dtype", "widths"), [(DType.F32, {4}), (DType.F64, {2}), (DType.I8, {16, 4}), (DType.F16, {8, 4})]
)
def test_lanes_fill_a_register_of_the_widest_dtype_in_each_kernel(dtype: DType, widths: set[int]) -> None:
    # A product of i8 is i8, and a sum with 1.0 is f32; f16 is computed in f32, but compared as it is.
    assert set(lanes(vectorised("chain", Vectorise(vector_bytes=16), dtype))) == widths


def test_what_is_left_over_runs_by_elements() -> None:
    program = vectorised("chain", Vectorise(vector_bytes=16))  # rows of 41: ten vectors of 4, and one element
    first, *_ = program.main.blocks
    assert [len(block.indices) for block in first.blocks] == [1, 0]


def test_long_rows_are_cut_over_the_grid() -> None:
    program = vectorised("chain", Vectorise(vector_bytes=16, chunk=16))
    grids = [[i.range for i in kernel.indices if "grid" in i.tags] for kernel in program.main.blocks]
    assert grids[0] == [3, 2]  # rows, and two chunks of four vectors each
    assert grids[1] == [3]  # the rest of each row


def test_a_transposed_input_is_read_in_blocks() -> None:
    kernel = vectorised("blocked transpose", Vectorise(vector_bytes=16)).main.blocks[0]
    names = [index.name for block in kernel.blocks for index in block.indices]
    assert any(name.endswith("_in") for name in names)


@pytest.mark.parametrize("name", ["matmul", "greatest of all", "scalar"])
def test_other_kernels_are_left_alone(name: str) -> None:
    accumulated = run((Accumulate(),), stripe_program(name))
    assert lanes(run((Vectorise(),), accumulated)) == []
