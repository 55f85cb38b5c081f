"""Structure of vectorised reductions; test_schedule.py checks the results."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.kernels import stripe_program
from strategies.passes import assert_same_meaning
from tileir.core.dtype import DType
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import run
from tileir.passes.fusion.fuse import Fuse, Fusion
from tileir.passes.rewrites.localise import Localise
from tileir.passes.rewrites.scalarise import Scalarise
from tileir.passes.rewrites.shadow import Shadow
from tileir.passes.schedules.vectors.vectorise_reduction import VectoriseReduction
from tileir.stripe.ir import Block, Index, Program
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType


def indices(program: Program, tag: str) -> list[Index]:
    found: list[Index] = []
    pending: list[Block] = list(reversed(program.main.blocks))
    while pending:
        block = pending.pop()
        found.extend(index for index in block.indices if tag in index.words)
        pending.extend(reversed(block.blocks))
    return found


def vectorised(name: str, step: VectoriseReduction, dtype: DType = DType.F32) -> Program:
    return run((Accumulate(), step), stripe_program(name, dtype))


def test_each_lane_has_an_accumulator_of_its_own() -> None:
    program = vectorised("sum over columns", VectoriseReduction(vector_bytes=16, unroll=2))
    (kernel,) = program.main.blocks
    lanes = [r for r in kernel.refinements if r.name.endswith("lanes")]
    assert [r.shape.sizes for r in lanes] == [(8,)]


def test_the_lanes_are_set_filled_and_merged_and_the_rest_is_taken_by_shorter_vectors() -> None:
    (kernel,) = vectorised("sum over columns", VectoriseReduction(vector_bytes=16, unroll=2)).main.blocks
    ranges = [[index.range for index in block.indices if index.affine is None] for block in kernel.blocks]
    assert [2, 4] in ranges  # identities
    assert [9] in ranges  # steps of 8 over 75 elements
    assert [2] in ranges  # two of the three that are left
    assert ranges[-5:-2] == [[4], [4], [2]]  # one vector into the other, that into a scalar, and of the rest as well


@pytest.mark.parametrize(
    ("dtype", "lanes"), [(DType.F32, 8), (DType.F64, 4), (DType.I8, 32), (DType.F16, 8), (DType.BF16, 8)]
)
def test_lanes_fill_a_register(dtype: DType, lanes: int) -> None:
    program = vectorised("sum over columns", VectoriseReduction(vector_bytes=32, unroll=1), dtype)
    assert max(index.range for index in indices(program, "vector")) == lanes


def test_a_short_reduction_keeps_fewer_vectors_in_flight() -> None:
    program = vectorised("sum of all of three axes", VectoriseReduction(vector_bytes=16, unroll=64))
    assert max(index.range for index in indices(program, "unroll")) == 15  # 60 elements that lie in a row


@pytest.mark.parametrize("name", ["sum over rows", "cumulative sum", "transpose", "scalar"])
def test_other_kernels_are_left_alone(name: str) -> None:
    accumulated = run((Accumulate(),), stripe_program(name))
    assert indices(run((VectoriseReduction(vector_bytes=16),), accumulated), "vector") == []


@given(rows=st.integers(1, 9), columns=st.integers(1, 150), unroll=st.integers(1, 4), beside=st.integers(1, 4))
@examples(60)
def test_rows_of_any_length_keep_their_meaning(rows: int, columns: int, unroll: int, beside: int) -> None:
    """Loops that add up, store elements, or both, with all kinds of ends."""
    text = """function (X[M, N]) -> (O, S) {
        P[m, 0 : M, 1] = >(X[m, n]); E = (X - P) * X; S[m, 0 : M, 1] = +(E[m, n]); O = E - S;
    }"""
    typed = infer(parse(text), {"X": TensorType(DType.I32, (rows, columns))})
    before = lower(typed)
    joined = (Accumulate(), Fuse(), Fusion(rows=True, least_row=1), Fuse(parent_reqs=("fused",)), Shadow())
    vector = VectoriseReduction(vector_bytes=32, unroll=unroll, rows=beside)
    assert_same_meaning(before, run((*joined, Localise(), Scalarise(), vector), before))


@given(
    columns=st.integers(1, 40),
    window=st.integers(1, 5),
    before=st.integers(0, 4),
    how=st.sampled_from("+><"),
    dtype=st.sampled_from((DType.F32, DType.F64, DType.I32)),
)
@examples(60)
def test_loops_that_constraints_cut_keep_their_meaning(
    columns: int, window: int, before: int, how: str, dtype: DType
) -> None:
    text = (
        "function (X[C, H, W], G[C, H, W]) -> (O) "
        f"{{ O[c, i, j : C, 2, {window}] = {how}(X[c, y + i - 1, x + j - {before}] * G[c, y, x]); }}"
    )
    types = {name: TensorType(dtype, (2, 3, columns)) for name in "XG"}
    program = lower(infer(parse(text), types))
    assert_same_meaning(program, run((Accumulate(), VectoriseReduction(vector_bytes=16)), program))


@pytest.mark.parametrize(("columns", "expected"), [(20, True), (5, False)])
def test_the_inside_of_a_loop_gets_lanes(columns: int, expected: bool) -> None:
    text = "function (X[C, W], G[C, W]) -> (O) { O[c, j : C, 3] = +(X[c, x + j - 1] * G[c, x]); }"
    types = {name: TensorType(DType.F32, (2, columns)) for name in "XG"}
    program = run((Accumulate(), VectoriseReduction(vector_bytes=16)), lower(infer(parse(text), types)))
    assert bool(indices(program, "vector")) is expected


def test_rows_that_the_kernel_chooses_are_read_by_vectors() -> None:
    text = """function (X[H, W], N) -> (O) {
        One = 1;
        Line[y : 5] = =(One[]);
        P = index(Line, 0) + N;
        O = gather(X, P);
    }"""
    types = {"X": TensorType(DType.I32, (9, 8)), "N": TensorType(DType.I32, ())}
    program = run((Accumulate(), Fusion(rows=True, least_points=1, least_row=1)), lower(infer(parse(text), types)))
    after = run((VectoriseReduction(vector_bytes=32, unroll=1),), program)
    assert [index.range for index in indices(after, "vector")] == [8]
    assert_same_meaning(program, after)
