"""Structure of streamed reductions; test_schedule.py checks the results."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.kernels import stripe_program
from strategies.passes import assert_same_meaning
from tileir.core.dtype import DType
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import run
from tileir.passes.schedules.vectors.stream_reduction import StreamReduction
from tileir.stripe.blocks import Binding
from tileir.stripe.check.verifier import verify
from tileir.stripe.ir import Block, Program
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

ROWS = "sum over rows of two axes"  # 3 * 6 rows of 32


def streamed(name: str, step: StreamReduction) -> Program:
    return run((Accumulate(), step), stripe_program(name))


def all_blocks(program: Program) -> list[Block]:
    found: list[Block] = []
    pending = list(program.main.blocks)
    while pending:
        block = pending.pop()
        found.append(block)
        pending.extend(block.blocks)
    return found


@pytest.mark.parametrize(("stretch", "width"), [(32, 8), (64, 16), (128, 32)])
def test_each_group_takes_a_stretch_of_sums(stretch: int, width: int) -> None:
    program = streamed(ROWS, StreamReduction(vector_bytes=16, stretch_bytes=stretch))
    kernel = program.main.blocks[0]
    (sums,) = [r for r in kernel.refinements if r.name.endswith("acc")]
    assert sums.shape.elements == width
    assert [i.range for i in kernel.indices if i.binding is Binding.GRID] == [32 // width] * (width < 32)


@pytest.mark.parametrize(("unroll", "rows"), [(1, set()), (2, {2}), (4, {3}), (6, {6})])
def test_a_few_rows_are_added_at_a_time(unroll: int, rows: set[int]) -> None:
    program = streamed(ROWS, StreamReduction(vector_bytes=16, stretch_bytes=64, unroll=unroll))
    assert {i.range for b in all_blocks(program) for i in b.indices if i.binding is Binding.UNROLL} == rows


@pytest.mark.parametrize("name", ["sum over columns", "matmul", "cumulative sum", "pool", "transpose", "scalar"])
def test_other_kernels_are_left_alone(name: str) -> None:
    accumulated = run((Accumulate(),), stripe_program(name))
    assert run((StreamReduction(vector_bytes=16, stretch_bytes=32),), accumulated) is accumulated


@pytest.mark.parametrize(("threads", "width"), [(1, 32), (2, 16), (4, 8), (8, 32)])
def test_stretches_are_shorter_where_threads_would_have_none(threads: int, width: int) -> None:
    """A quarter of a page at least; more threads than that get no more groups for shorter stretches."""
    program = streamed(ROWS, StreamReduction(vector_bytes=16, stretch_bytes=128, threads=threads))
    (sums,) = [r for r in program.main.blocks[0].refinements if r.name.endswith("acc")]
    assert sums.shape.elements == width


@pytest.mark.parametrize(
    ("cache", "threads", "width"),
    [(0, 1, 8), (9 * 32, 1, 8), (9 * 64, 1, 16), (9 * 128, 1, 32), (9 * 128, 2, 16), (9 * 128, 99, 8)],
)
def test_stretches_are_longer_where_the_cache_and_threads_leave_room(cache: int, threads: int, width: int) -> None:
    step = StreamReduction(vector_bytes=16, stretch_bytes=32, cache_bytes=cache, threads=threads)
    (sums,) = [r for r in streamed(ROWS, step).main.blocks[0].refinements if r.name.endswith("acc")]
    assert sums.shape.elements == width


@pytest.mark.parametrize("threads", range(1, 9))
def test_threads_get_equal_parts_of_a_row_where_stretches_allow_it(threads: int) -> None:
    step = StreamReduction(vector_bytes=8, stretch_bytes=16, cache_bytes=9 * 128, threads=threads)
    (sums,) = [r for r in streamed(ROWS, step).main.blocks[0].refinements if r.name.endswith("acc")]
    groups = 32 // sums.shape.elements
    busiest = -(-groups // threads) * sums.shape.elements
    assert groups >= threads
    assert busiest == min(-(-(32 // width) // threads) * width for width in (2, 4, 8, 16, 32) if 32 // width >= threads)


def row_sums(rows: int, columns: int) -> Program:
    text = "function (A[M, N], B[M]) -> (O) { O[n : N] = +(B[m] * A[m, n]); }"
    types = {"A": TensorType(DType.F32, (rows, columns)), "B": TensorType(DType.F32, (rows,))}
    return lower(infer(parse(text), types))


def test_the_last_stretch_overlaps_where_vectors_do_not_divide_a_row() -> None:
    """Three stretches of 12 take the fewest vectors for 33 sums that fit two vectors of sums and more."""
    program = run((Accumulate(), StreamReduction(vector_bytes=16, stretch_bytes=48)), row_sums(9, 33))
    widths = {r.shape.elements for kernel in program.main.blocks for r in kernel.refinements if r.name.endswith("acc")}
    assert widths == {12}


@given(st.integers(8, 24), st.integers(4, 70), st.integers(1, 3))
@examples(40)
def test_rows_of_all_lengths_keep_their_meaning(rows: int, columns: int, threads: int) -> None:
    program = row_sums(rows, columns)
    step = StreamReduction(vector_bytes=16, stretch_bytes=32, cache_bytes=9 * 64, threads=threads)
    after = run((Accumulate(), step), program)
    verify(after)
    assert_same_meaning(program, after)
