"""Structure of elementwise kernels after the pass; test_schedule.py checks the results."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.passes import arrays_for, assert_same_meaning, programs
from strategies.pipelines import fused
from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.driver.compiler import compile_stages
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import Pass, run
from tileir.passes.schedules.groups.distribute import Distribute
from tileir.passes.schedules.groups.group_elementwise import GroupElementwise
from tileir.semtree.check.verifier import verify_program
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.ir import KernelFunction
from tileir.semtree.lower.lowering import lower
from tileir.semtree.text.printer import to_text
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Program
from tileir.typed.ir import TensorType

COPY = "function (A) -> (O) { O = A + 1.0; }"
TARGET = Target(index_dtype=DType.I32)


def kernel(text: str, shapes: dict[str, tuple[int, ...]], step: Pass, dtype: DType = DType.F32) -> KernelFunction:
    types = {name: TensorType(dtype, shape) for name, shape in shapes.items()}
    (found,) = compile_stages(text, types, TARGET, passes=(*fused(TARGET), step)).sem.kernels
    return found


def test_threads_take_neighbouring_vectors() -> None:
    found = kernel(COPY, {"A": (64, 32)}, GroupElementwise(threads=32, vectors=1))
    text = to_text(found)
    assert (found.grid, found.group) == ((16,), (32,))
    assert "f32x4 A_0 = A[i1_group * 128 + tid * 4 : 4];" in text
    assert "if" not in text


def test_several_vectors_of_a_thread_lie_a_group_apart() -> None:
    found = kernel(COPY, {"A": (64, 32)}, GroupElementwise(threads=32, vectors=2))
    assert found.grid == (8,)
    assert "A[i1_group * 256 + i1_vector * 128 + tid * 4 : 4]" in to_text(found)


def test_threads_take_fewer_vectors_where_groups_are_few() -> None:
    assert kernel(COPY, {"A": (64, 32)}, GroupElementwise(threads=32, groups=16)).grid == (16,)
    assert kernel(COPY, {"A": (64, 32)}, GroupElementwise(threads=32, groups=4)).grid == (4,)


@pytest.mark.parametrize(
    ("text", "shape", "grid"),
    [
        (COPY, (1024,), (8,)),
        ("function (A) -> (O) { B = A * A; C = max(B, 1.0); O = C - A; }", (8, 128), (8,)),
        (COPY, (512,), (1,)),  # as many as keep the device busy, but no more
        ("function (A) -> (O) { O = exp(A); }", (1024,), (2,)),
        ("function (A) -> (O) { O = A / (A + 2.0); }", (1024,), (2,)),
        ("function (A[N]) -> (O) { O[n, m : N, 512] = =(A[n]); }", (2,), (2,)),  # writes most of all
        ("function (A[N]) -> (O) { O[m, n : 2, N] = =(A[n]); }", (512,), (2,)),
        ("function (A[M, N]) -> (O) { O[i, j : M, N - 2] = =(A[i, j + 1]); }", (8, 130), (8,)),  # as many bytes
    ],
)
def test_threads_take_one_vector_of_a_large_tensor_that_they_copy(
    text: str, shape: tuple[int, ...], grid: tuple[int, ...]
) -> None:
    step = GroupElementwise(threads=32, groups=1, single=True)
    found = kernel(text, {"A": shape}, step)
    assert math.prod(found.grid) == math.prod(grid)


def test_only_the_last_group_looks_for_the_end() -> None:
    text = to_text(kernel(COPY, {"A": (1000,)}, GroupElementwise(threads=16, vectors=2)))
    assert "if (6 - i1_group >= 0)" in text
    assert "if (i1_group - 7 >= 0)" in text


def test_elements_that_fill_no_vector_go_to_the_last_group() -> None:
    text = to_text(kernel(COPY, {"A": (131,)}, GroupElementwise(threads=32, vectors=1)))
    assert "if (2 - tid >= 0) {\n    f32 A_1 = A[tid + 128];" in text


def test_a_few_threads_take_the_rest_one_after_the_other() -> None:
    text = to_text(kernel(COPY, {"A": (11,)}, GroupElementwise(threads=2, vector_bytes=32)))
    assert "for (i32 i1_rest = 0; i1_rest < 3; i1_rest += 1)" in text


def test_groups_take_several_short_rows() -> None:
    found = kernel("function (A, B) -> (O) { O = A * B; }", {"A": (30, 40), "B": (40,)}, GroupElementwise(threads=32))
    assert (found.grid, found.group) == ((10,), (30,))
    assert "B[i2_thread * 4 : 4]" in to_text(found)


def test_rows_that_no_vector_divides_are_taken_by_elements() -> None:
    shapes: dict[str, tuple[int, ...]] = {"A": (30, 41), "B": (41,)}
    text = to_text(kernel("function (A, B) -> (O) { O = A * B; }", shapes, GroupElementwise(threads=64)))
    assert "f32x" not in text


@pytest.mark.parametrize(
    ("dtype", "most", "lanes"), [(DType.F64, 0, 2), (DType.F16, 0, 8), (DType.I8, 0, 16), (DType.I8, 4, 4)]
)
def test_lanes_fill_an_access(dtype: DType, most: int, lanes: int) -> None:
    text = "function (A) -> (O) { O = A + A; }"
    assert f"x{lanes} A_0" in to_text(kernel(text, {"A": (256,)}, GroupElementwise(threads=8, max_lanes=most), dtype))


def test_a_transposed_input_is_read_by_rows_of_threads() -> None:
    text = "function (A[M, N]) -> (O) { O[j, i : N, M] = =(A[i, j]); }"
    assert "tid >> 5" in to_text(kernel(text, {"A": (64, 64)}, GroupElementwise(threads=256)))


@given(
    program=programs(kinds=("elementwise", "choice", "cast", "coordinate", "reduce", "window")),
    threads=st.integers(1, 40),
    vector_bytes=st.sampled_from([1, 8, 16]),
    vectors=st.integers(0, 3),
    single=st.booleans(),
)
@examples(80)
def test_the_meaning_stays(program: Program, threads: int, vector_bytes: int, vectors: int, single: bool) -> None:
    step = GroupElementwise(threads, vector_bytes, vectors=vectors, single=single)
    steps = (Accumulate(), step, Distribute(threads=threads))
    scheduled = run(steps, program)
    assert_same_meaning(program, scheduled)
    arrays = arrays_for(program)
    kernels = lower(scheduled, TARGET)
    verify_program(kernels)
    found = run_program(kernels, arrays, ALL_CHECKS)
    for name, expected in interpret(program, arrays).items():
        np.testing.assert_array_equal(found[name], expected)
