"""Copies of every other element into rows with a border: lanes run along the inside of rows, and ends are apart."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.golden_kernels import TARGETS
from strategies.passes import assert_same_meaning
from tileir.core.dtype import DType
from tileir.driver.compiler import compile_stages
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import run
from tileir.passes.schedules.registers.register_tile import RegisterTile
from tileir.passes.schedules.vectors.vectorise import Vectorise
from tileir.passes.schedules.vectors.vectorise_reduction import VectoriseReduction
from tileir.stripe.blocks import Binding
from tileir.stripe.ir import Program
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType


def text_of(stride: int, before: int, size: int, rows: str = "y") -> str:
    """Return a copy of rows, padded, whose elements are sorted by what remains of their places."""
    sizes = ", ".join(row.upper() for row in rows)
    places = ", ".join(rows)
    return (
        f"function (X[{sizes}, W]) -> (O) "
        f"{{ O[{places}, r, q : {sizes}, {stride}, {size}] = =(X[{places}, {stride} * q + r - {before}]), "
        f"r < {stride}; }}"
    )


def lanes(program: Program) -> list[int]:
    pending, found = list(program.main.blocks), list[int]()
    while pending:
        block = pending.pop(0)
        found += [index.range for index in block.indices if "vector" in index.words]
        pending = [*block.blocks, *pending]
    return found


@given(
    stride=st.integers(1, 5),
    before=st.integers(0, 3),
    more=st.integers(0, 3),
    shape=st.tuples(st.integers(1, 4), st.integers(1, 60)),
    dtype=st.sampled_from((DType.F32, DType.F64, DType.I32, DType.F16, DType.U8)),
)
@examples(100)
def test_copies_without_loops_keep_their_meaning(
    stride: int, before: int, more: int, shape: tuple[int, int], dtype: DType
) -> None:
    text = text_of(stride, before, (shape[1] + before + more + stride - 1) // stride)
    program = run((Accumulate(),), lower(infer(parse(text), {"X": TensorType(dtype, shape)})))
    assert_same_meaning(program, run((Vectorise(vector_bytes=32, chunk=64),), program))


@pytest.mark.parametrize(("columns", "expected"), [(40, [8, 2]), (14, [4, 2]), (6, [])])
def test_the_inside_of_rows_has_lanes_in_a_kernel_without_loops(columns: int, expected: list[int]) -> None:
    types = {"X": TensorType(DType.F32, (64, columns))}
    program = run((Accumulate(),), lower(infer(parse(text_of(2, 1, columns // 2 + 1)), types)))
    made = lanes(run((Vectorise(vector_bytes=32),), program))
    assert made[len(made) - len(expected) :] == expected


@given(
    stride=st.integers(1, 5),
    before=st.integers(0, 3),
    more=st.integers(0, 3),
    planes=st.integers(8, 9),
    shape=st.tuples(st.integers(2, 9), st.integers(4, 40)),
    dtype=st.sampled_from((DType.F32, DType.F64, DType.I32, DType.F16)),
    target=st.sampled_from(("x86-64-v3", "x86-64-v4")),
)
@examples(40)
def test_copies_plane_by_plane_keep_their_meaning(
    stride: int, before: int, more: int, planes: int, shape: tuple[int, int], dtype: DType, target: str
) -> None:
    text = text_of(stride, before, (shape[1] + before + more + stride - 1) // stride, "nay")
    types = {"X": TensorType(dtype, (planes, 2, *shape))}
    stages = compile_stages(text, types, TARGETS[target])
    assert_same_meaning(lower(infer(parse(text), types)), stages.scheduled)


@pytest.mark.parametrize(("columns", "expected"), [(56, [8, 8]), (16, [4, 4])])
def test_rows_end_with_a_vector_that_overlaps_the_one_before(columns: int, expected: list[int]) -> None:
    types = {"X": TensorType(DType.F32, (8, 64, 56, columns))}
    stages = compile_stages(text_of(2, 1, columns // 2 + 1, "nay"), types, TARGETS["x86-64-v3"])
    (kernel,) = stages.scheduled.main.blocks
    (rows,) = (block for block in kernel.blocks if len(block.blocks) == 2)
    assert [i.range for block in rows.blocks for i in block.indices if "vector" in i.words] == expected


def test_vectors_of_one_row_alone_do_not_overlap() -> None:
    """Sums of what is stored would count it twice; loops over one row have shorter vectors at their ends."""
    text = "function (X[M, N]) -> (O, S) { E = X * X; S[m : M] = +(E[m, n]); O = E + 1; }"
    types = {"X": TensorType(DType.I32, (16, 77))}
    stages = compile_stages(text, types, TARGETS["x86-64-v3"])
    assert_same_meaning(lower(infer(parse(text), types)), stages.scheduled)


def test_reductions_over_elements_that_are_apart_stay_as_they_are() -> None:
    text = "function (X[M, N]) -> (S) { S[m : M] = +(X[m, 2 * k]), k < 40; }"
    program = run((Accumulate(),), lower(infer(parse(text), {"X": TensorType(DType.F32, (9, 80))})))
    assert lanes(run((VectoriseReduction(vector_bytes=32),), program)) == []


def groups_of(program: Program) -> list[int]:
    """Return how many groups each kernel has."""
    kernels = program.main.blocks
    return [prod(i.range for i in kernel.indices if i.binding is Binding.GRID) for kernel in kernels]


def test_a_group_takes_many_short_rows() -> None:
    text = "function (X[A, B, C]) -> (O) { O[b, a, c : B, A, C] = =(X[a, b, c]); }"
    program = run((Accumulate(),), lower(infer(parse(text), {"X": TensorType(DType.F32, (1024, 12, 16))})))
    assert groups_of(run((Vectorise(),), program)) == [16]


def test_ends_of_rows_share_groups() -> None:
    program = run((Accumulate(),), lower(infer(parse(text_of(2, 1, 9)), {"X": TensorType(DType.F32, (4096, 16))})))
    assert groups_of(run((Vectorise(chunk=1024),), program))[1:] == [64, 128, 128]


@given(rows=st.integers(1, 40), middle=st.integers(1, 6), columns=st.integers(4, 40), chunk=st.integers(1, 300))
@examples(60)
def test_short_rows_keep_their_meaning(rows: int, middle: int, columns: int, chunk: int) -> None:
    text = "function (X[A, B, C]) -> (O) { O[b, a, c : B, A, C] = =(X[a, b, c]); }"
    types = {"X": TensorType(DType.I32, (rows, middle, columns))}
    program = run((Accumulate(),), lower(infer(parse(text), types)))
    assert_same_meaning(program, run((Vectorise(vector_bytes=16, chunk=chunk),), program))


@given(columns=st.integers(4, 40), window=st.integers(1, 3), dtype=st.sampled_from((DType.F32, DType.I32, DType.F64)))
@examples(40)
def test_last_columns_of_windows_keep_their_meaning(columns: int, window: int, dtype: DType) -> None:
    program = windows(columns, window, dtype)
    assert_same_meaning(program, run((Accumulate(), RegisterTile(vector_bytes=32)), program))


def test_few_last_columns_are_one_tile_that_overlaps_others() -> None:
    made = run((Accumulate(), RegisterTile(vector_bytes=32)), windows(14, 3, DType.F32))
    assert set(lanes(made)) == {8}


def windows(columns: int, window: int, dtype: DType) -> Program:
    """Return windows of each channel alone, over so many places."""
    text = (
        "function (X[N, C, H, W], K[C, R, S]) -> (O) { O[n, c, y, x : N, C, H - R + 1, W - S + 1]"
        " = +(X[n, c, y + i, x + j] * K[c, i, j]); }"
    )
    types = {
        "X": TensorType(dtype, (8, 2, 9, columns + window - 1)),
        "K": TensorType(dtype, (2, window, window)),
    }
    return lower(infer(parse(text), types))
