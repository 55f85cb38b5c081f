"""Structure of reductions after the pass; test_gpu.py and test_schedule.py check the results."""

from __future__ import annotations

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
from tileir.passes.schedules.groups.group_reduction import GroupReduction
from tileir.semtree.check.verifier import verify_program
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.ir import Barrier, DeclareArray, KernelFunction, Region
from tileir.semtree.lower.lowering import lower
from tileir.semtree.rewrite import statements
from tileir.semtree.text.printer import to_text
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Program
from tileir.typed.ir import TensorType

ROWS = "function (A[M, N]) -> (O) { T[m : M] = +(A[m, n]); O = -T; }"
COLUMNS = "function (A[M, N]) -> (O) { T[n : N] = +(A[m, n]); O = -T; }"
TARGET = Target(index_dtype=DType.I32)


def kernel(text: str, shape: tuple[int, ...], step: Pass, dtype: DType = DType.F32) -> KernelFunction:
    types = {"A": TensorType(dtype, shape)}
    (found,) = compile_stages(text, types, TARGET, passes=(*fused(TARGET), step)).sem.kernels
    return found


def barriers(found: KernelFunction) -> int:
    return sum(isinstance(stmt, Barrier) for stmt in statements(found.body))


def local_elements(found: KernelFunction) -> int:
    local = (s for s in statements(found.body) if isinstance(s, DeclareArray) and s.region is Region.LOCAL)
    return sum(array.size for array in local)


def test_a_group_shares_a_long_row_and_merges_by_a_tree() -> None:
    found = kernel(ROWS, (10, 2048), GroupReduction(threads=64))
    assert (found.grid, found.group) == ((10,), (64,))
    assert barriers(found) == 2  # 64 to 8; the last step is done by the thread that reads the result
    assert local_elements(found) == 64
    text = to_text(found)
    assert "f32x4 A_0 = A[m * 2048 + n_step * 1024 + n_vector * 256 + tid * 4 : 4];" in text
    assert "O[m] = O_0;" in text


def test_short_rows_share_a_group() -> None:
    found = kernel(ROWS, (64, 32), GroupReduction(threads=64, width=8))
    assert (found.grid, found.group, barriers(found)) == ((8,), (64,), 1)


@pytest.mark.parametrize(("batch", "threads"), [(16, 64), (6, 16), (3, 8), (1, 8)])
def test_threads_share_a_second_index_where_rows_are_short(batch: int, threads: int) -> None:
    """Sums of a channel over pictures: each thread has terms of two pictures at least."""
    text = "function (A[N, C, P]) -> (O) { T[c : C] = +(A[n, c, p]); O = -T; }"
    types = {"A": TensorType(DType.I32, (batch, 5, 40))}
    stages = compile_stages(text, types, TARGET, passes=(*fused(TARGET), GroupReduction(threads=64, width=8, groups=5)))
    assert [(found.grid, found.group) for found in stages.sem.kernels] == [((5,), (threads,))]
    values = {"A": np.random.default_rng(1).integers(-9, 9, (batch, 5, 40), np.int32)}
    found = run_program(stages.sem, values, ALL_CHECKS)["O"]
    np.testing.assert_array_equal(found, -values["A"].sum((0, 2)))


def test_very_short_rows_are_left_to_single_threads() -> None:
    types = {"A": TensorType(DType.F32, (64, 8))}
    passes = (*fused(TARGET), GroupReduction(threads=64))
    (found,) = compile_stages(ROWS, types, TARGET, passes=passes).sem.kernels
    assert found.group == (1,)


def test_columns_are_summed_by_rows_of_threads() -> None:
    found = kernel(COLUMNS, (256, 64), GroupReduction(threads=64, width=8, groups=4))
    assert (found.grid, found.group, barriers(found)) == ((2,), (64,), 1)
    assert local_elements(found) == 8 * 8 * 4
    assert "f32x4" in to_text(found)


def test_groups_of_columns_are_narrow_where_they_would_be_few() -> None:
    """Of 64 columns each takes 32 bytes, and more threads share each of them."""
    found = kernel(COLUMNS, (256, 64), GroupReduction(threads=64, width=8, groups=16))
    assert (found.grid, found.group, barriers(found)) == ((8,), (256,), 2)
    assert local_elements(found) == 8 * 32


def test_no_thread_waits_where_outputs_are_many() -> None:
    found = kernel(COLUMNS, (256, 64), GroupReduction(threads=16, width=8))
    assert (found.grid, found.group, barriers(found)) == ((1,), (16,), 0)


CARD = Target(
    vector_bytes=16,
    local_bytes=48 * 1024,
    group_threads=1024,
    group_width=32,
    threads=132,
    index_dtype=DType.I32,
    pipeline="gpu",
)


def test_windows_that_overlap_have_a_thread_for_each_output() -> None:
    """Also where the next window is two elements further: pools of 3 x 3 with strides."""
    text = """function (A[N, C, H, W]) -> (O) {
        O[n, c, o, p : N, C, 28, 28] = >(A[n, c, 2 * o + i, 2 * p + j]), i < 3, j < 3;
    }"""
    (found,) = compile_stages(text, {"A": TensorType(DType.F32, (8, 64, 57, 57))}, CARD).sem.kernels
    assert np.prod(found.grid) * found.group[0] == 8 * 64 * 28 * 28
    assert not barriers(found)


def test_what_each_output_has_one_of_is_no_window() -> None:
    """Sums over images and pixels of products with deviations: a batch norm's gradient of its weights."""
    text = """function (A[N, C, H, W], M[C], G[N, C, H, W]) -> (O) {
        X = (A - reshape(M, 1, C, 1, 1)) * G; O[c : C] = +(X[n, c, h, w]);
    }"""
    shapes = {"A": (8, 256, 14, 14), "M": (256,), "G": (8, 256, 14, 14)}
    types = {name: TensorType(DType.F32, shape) for name, shape in shapes.items()}
    kernels = compile_stages(text, types, CARD).sem.kernels
    assert [(each.grid, each.group[0] >= 32) for each in kernels] == [((256,), True)]


def test_local_memory_bounds_the_tree() -> None:
    assert local_elements(kernel(ROWS, (10, 2048), GroupReduction(threads=64, local_bytes=64))) == 16


@pytest.mark.parametrize(("dtype", "lanes"), [(DType.F64, 2), (DType.I8, 16), (DType.F16, 8)])
def test_lanes_fill_an_access(dtype: DType, lanes: int) -> None:
    text = "function (A[M, N]) -> (O) { O[m : M] = >(A[m, n]); }"
    assert f"x{lanes} A_0" in to_text(kernel(text, (4, 2048), GroupReduction(), dtype))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("size", [(37, 50), (1, 131), (130, 3), (5, 1000)])
@pytest.mark.parametrize("text", [ROWS, COLUMNS, "function (A[M, N]) -> (O) { O[] = *(A[m, n]); }"])
def test_sizes_that_nothing_divides(text: str, size: tuple[int, ...]) -> None:
    types = {"A": TensorType(DType.I32, size)}
    step = GroupReduction(threads=16, width=4, groups=3, vectors=3)
    stages = compile_stages(text, types, TARGET, passes=(*fused(TARGET), step))
    values = {"A": np.random.default_rng(1).integers(-3, 4, size, np.int32)}
    found = run_program(stages.sem, values, ALL_CHECKS)["O"]
    np.testing.assert_array_equal(found, interpret(stages.stripe, values)["O"])


@given(
    program=programs(kinds=("elementwise", "reduce", "reduce", "window", "coordinate", "product")),
    threads=st.integers(1, 40),
    width=st.sampled_from([1, 4, 32]),
    vectors=st.integers(1, 3),
    local_bytes=st.sampled_from([0, 64, 4096]),
    groups=st.integers(1, 20),
)
@examples(80)
def test_the_meaning_stays(
    program: Program, threads: int, width: int, vectors: int, local_bytes: int, groups: int
) -> None:
    step = GroupReduction(threads, width, vectors=vectors, local_bytes=local_bytes, groups=groups)
    scheduled = run((Accumulate(), step), program)
    assert_same_meaning(program, scheduled)
    arrays = arrays_for(program)
    kernels = lower(scheduled, TARGET)
    verify_program(kernels)
    found = run_program(kernels, arrays, ALL_CHECKS)
    for name, expected in interpret(program, arrays).items():
        np.testing.assert_array_equal(found[name], expected)


DEPTHWISE = {
    "nhwc": "function (A[N, H, W, C], K[C, I, J]) -> (O) "
    "{{ O[n, o, p, c : N, {out}, C] = +(A[n, {o}, {p}, c] * K[c, i, j]); }}",
    "nchw": "function (A[N, C, H, W], K[C, I, J]) -> (O) "
    "{{ O[n, c, o, p : N, C, {out}] = +(A[n, c, {o}, {p}] * K[c, i, j]); }}",
}


def depthwise(
    layout: str, size: tuple[int, int, int, int], window: tuple[int, int], stride: int, dilation: int, pad: int
) -> tuple[str, dict[str, tuple[int, ...]]]:
    """Return a convolution of one channel at a time, and the shapes of its inputs; sizes are N, H, W, C."""
    batch, height, width, channels = size
    outs = ", ".join(
        str((extent + 2 * pad - dilation * (taps - 1) - 1) // stride + 1)
        for extent, taps in zip((height, width), window, strict=True)
    )
    places = {name: f"{stride}*{name} + {dilation}*{tap} - {pad}" for name, tap in (("o", "i"), ("p", "j"))}
    order = (batch, height, width, channels) if layout == "nhwc" else (batch, channels, height, width)
    return DEPTHWISE[layout].format(out=outs, **places), {"A": order, "K": (channels, *window)}


@pytest.mark.parametrize(("dtype", "lanes"), [(DType.F32, 4), (DType.F16, 8)])
def test_windows_of_one_channel_are_read_in_vectors_of_channels(dtype: DType, lanes: int) -> None:
    text, shapes = depthwise("nhwc", (4, 15, 33, 64), (3, 3), 1, 1, 1)  # no two windows have a thread
    types = {name: TensorType(dtype, shape) for name, shape in shapes.items()}
    (found,) = compile_stages(text, types, TARGET, passes=(*fused(TARGET), GroupReduction())).sem.kernels
    assert found.group == (256,)
    assert barriers(found) == 1  # behind the copy of the weights; sums are merged by no tree
    assert local_elements(found) == 9 * (64 + lanes)  # rows of the copy lie in different banks
    assert f"{dtype.value}x{lanes} A_0 = A[" in to_text(found)
    assert "ramp" not in to_text(found)


def test_windows_along_contiguous_rows_have_a_thread_for_several_outputs() -> None:
    text, shapes = depthwise("nchw", (2, 32, 64, 4), (3, 3), 1, 1, 1)
    types = {name: TensorType(DType.F32, shape) for name, shape in shapes.items()}
    (found,) = compile_stages(text, types, TARGET, passes=(*fused(TARGET), GroupReduction())).sem.kernels
    assert barriers(found) == 0
    assert "_sums[" in to_text(found)


@given(
    layout=st.sampled_from(sorted(DEPTHWISE)),
    size=st.tuples(st.integers(1, 3), st.integers(3, 9), st.integers(3, 9), st.integers(1, 20)),
    window=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    stride=st.integers(1, 2),
    dilation=st.integers(1, 2),
    pad=st.integers(1, 2),
    threads=st.sampled_from([8, 64, 256]),
    local_bytes=st.sampled_from([0, 1024, 48 * 1024]),
    dtype=st.sampled_from([DType.I32, DType.F32, DType.I8]),
)
@examples(60)
def test_windows_of_one_channel_keep_their_meaning(
    layout: str,
    size: tuple[int, int, int, int],
    window: tuple[int, int],
    stride: int,
    dilation: int,
    pad: int,
    threads: int,
    local_bytes: int,
    dtype: DType,
) -> None:
    text, shapes = depthwise(layout, size, window, stride, dilation, pad)
    types = {name: TensorType(dtype, shape) for name, shape in shapes.items()}
    step = GroupReduction(threads, local_bytes=local_bytes)
    stages = compile_stages(text, types, TARGET, passes=(*fused(TARGET), step))
    rng = np.random.default_rng(1)
    values = {name: rng.integers(-3, 4, shape).astype(dtype.numpy) for name, shape in shapes.items()}
    verify_program(stages.sem)
    found = run_program(stages.sem, values, ALL_CHECKS)["O"]
    np.testing.assert_array_equal(found, interpret(stages.stripe, values)["O"])
