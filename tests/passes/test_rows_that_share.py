"""Matrices times vectors along contiguous rows: rows beside each other load the vector once."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from strategies.contractions import Case
from strategies.effort import examples
from strategies.passes import assert_same_meaning
from tileir.core.dtype import DType
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import run
from tileir.passes.schedules.vectors.vectorise_reduction import VectoriseReduction
from tileir.stripe.check.verifier import verify
from tileir.stripe.ir import Program

VECTOR = "function (A[M, K], X[K]) -> (O) { O[m : M] = +(A[m, k] * X[k]); }"
BATCHES = "function (A[Z, M, K], X[Z, K]) -> (O) { O[z, m : Z, M] = +(A[z, m, k] * X[z, k]); }"
BACKWARDS = "function (A[M, K], X[K]) -> (O) { O[M - 1 - m : M] = +(X[k] * A[m, k]); }"
SQUARES = "function (A[M, K]) -> (O) { O[m : M] = +(A[m, k] * A[m, k]); }"
GREATEST = "function (A[M, K], X[K]) -> (O) { O[m : M] = >(A[m, k] + X[k]); }"
SHAPES = {
    VECTOR: {"A": "MK", "X": "K"},
    BATCHES: {"A": "ZMK", "X": "ZK"},
    BACKWARDS: {"A": "MK", "X": "K"},
    SQUARES: {"A": "MK"},
    GREATEST: {"A": "MK", "X": "K"},
}


def case_of(text: str, dtype: DType, sizes: tuple[int, int, int]) -> Case:
    ranges = dict(zip("ZMK", sizes, strict=True))
    shapes = {name: tuple(ranges[axis] for axis in axes) for name, axes in SHAPES[text].items()}
    return Case(text, dtype, shapes)


def scheduled(case: Case, registers: int, threads: int = 1, unroll: int = 1) -> Program:
    along = VectoriseReduction(
        vector_bytes=4 * case.dtype.itemsize, unroll=unroll, registers=registers, threads=threads
    )
    return run((Accumulate(), along), case.program())


@given(
    st.sampled_from(tuple(SHAPES)),
    st.tuples(st.integers(1, 3), st.integers(1, 11), st.integers(30, 75)),
    st.sampled_from((DType.I8, DType.I32, DType.F32, DType.F64)),
    st.sampled_from((1, 8, 32)),
    st.sampled_from((1, 2)),
)
@examples(80)
def test_rows_that_share_keep_their_meaning(
    text: str, sizes: tuple[int, int, int], dtype: DType, registers: int, unroll: int
) -> None:
    case = case_of(text, dtype, sizes)
    program = scheduled(case, registers, unroll=unroll)
    verify(program)
    assert_same_meaning(case.program(), program)


@pytest.mark.parametrize(
    ("text", "shape", "registers", "threads", "rows"),
    [
        (VECTOR, (1, 16, 40), 16, 1, [4]),
        (VECTOR, (1, 18, 40), 16, 1, [4, 2]),  # as many points of four rows as there can be, and two single ones
        (VECTOR, (1, 16, 40), 4, 1, [8]),
        (VECTOR, (1, 16, 40), 3, 1, [16]),  # two rows need a register for each sum, and one for what they share
        (VECTOR, (1, 16, 40), 16, 4, [8]),
        (VECTOR, (1, 16, 40), 16, 8, [16]),
        (VECTOR, (1, 16, 28), 16, 1, [16]),  # seven steps are unrolled
        (BATCHES, (3, 8, 40), 16, 1, [6]),
        (SQUARES, (1, 16, 40), 16, 1, [16]),
    ],
)
def test_rows_share_as_far_as_registers_and_threads_go(
    text: str, shape: tuple[int, int, int], registers: int, threads: int, rows: list[int]
) -> None:
    program = scheduled(case_of(text, DType.F32, shape), registers, threads)
    points = []
    for kernel in program.main.blocks:
        count = 1
        for index in kernel.indices:
            count *= index.range
        points.append(count)
    assert points == rows
