"""Structure and results of contractions after the pass, with any options."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.kernels import inputs, stripe_program
from strategies.passes import arrays_for, assert_same_meaning, programs
from strategies.pipelines import fused
from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.driver.compiler import compile_stages
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import Pass, run
from tileir.passes.schedules.groups.group_contraction import GroupContraction
from tileir.semtree.check.verifier import verify_program
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.ir import AsyncCopy, Barrier, DeclareArray, KernelFunction, Region
from tileir.semtree.lower.lowering import lower
from tileir.semtree.rewrite import statements
from tileir.semtree.text.printer import to_text
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Program
from tileir.typed.ir import TensorType

PRODUCT = """function (A[M, K], B[K, N], D[N]) -> (R) {
    C[i, j : M, N] = +(A[i, k] * B[k, j]);
    R = C + D;
}"""
TARGET = Target(index_dtype=DType.I32)
AHEAD = Target(index_dtype=DType.I32, async_copies=True)
REDUCTIONS = (
    "matmul",
    "matmul, one column",
    "matmul, second transposed",
    "batched matmul",
    "sum over rows of two axes",
    "greatest of all",
    "padded convolution",
    "pool",
    "cumulative sum",
    "default",
    "softmax",
)


def kernel(size: tuple[int, int, int], step: Pass) -> KernelFunction:
    rows, depth, columns = size
    shapes = {"A": (rows, depth), "B": (depth, columns), "D": (columns,)}
    types = {name: TensorType(DType.F32, shape) for name, shape in shapes.items()}
    (found,) = compile_stages(PRODUCT, types, TARGET, passes=(*fused(TARGET), step)).sem.kernels
    return found


def barriers(found: KernelFunction) -> int:
    return sum(isinstance(stmt, Barrier) for stmt in statements(found.body))


def arrays_of(found: KernelFunction, region: Region) -> dict[str, int]:
    declared = (s for s in statements(found.body) if isinstance(s, DeclareArray) and s.region is region)
    return {array.name: array.size for array in declared}


def test_tiles_of_both_inputs_are_staged_between_two_barriers() -> None:
    found = kernel((64, 64, 64), GroupContraction(threads=64, rows=32, columns=32))
    assert (found.grid, found.group) == ((2, 2), (64,))
    assert barriers(found) == 2
    assert arrays_of(found, Region.LOCAL) == {"A_stage": 16 * 33, "B_stage": 16 * 32}
    assert arrays_of(found, Region.PRIVATE)["C_acc"] == 16
    text = to_text(found)
    assert "max(" not in text
    assert "if (" not in text
    assert "fma(broadcast<4>(" in text
    assert text.count("f32x4 copied") == 2  # both stages are loaded by vectors


def test_copies_run_ahead() -> None:
    types = {
        "A": TensorType(DType.F32, (60, 64)),
        "B": TensorType(DType.F32, (64, 64)),
        "D": TensorType(DType.F32, (64,)),
    }
    step = GroupContraction(threads=64, rows=32, columns=32, stages=2)
    (found,) = compile_stages(PRODUCT, types, AHEAD, passes=(*fused(AHEAD), step)).sem.kernels
    assert arrays_of(found, Region.LOCAL) == {"A_stage": 2 * 32 * 20, "B_stage": 2 * 16 * 32}
    text = to_text(found)
    assert text.count("async A_stage") == text.count("async B_stage") == 2  # before the loop, and in it
    assert "max(" not in text  # a test keeps what is behind the end from being copied


@pytest.mark.sampled(0)
@pytest.mark.parametrize(
    ("merged", "tests"), [("+(A[i, k] * B[k, j])", 0), ("+(A[i, k] + B[k, j])", 1), (">(A[i, k] * B[k, j])", 1)]
)
def test_zeros_behind_the_end_are_added(merged: str, tests: int) -> None:
    types = {"A": TensorType(DType.F32, (64, 60)), "B": TensorType(DType.F32, (60, 64))}
    text = f"function (A[M, K], B[K, N]) -> (C) {{ C[i, j : M, N] = {merged}; }}"
    step = GroupContraction(threads=64, rows=32, columns=32, stages=2)
    stages = compile_stages(text, types, AHEAD, passes=(*fused(AHEAD), step))
    assert to_text(stages.sem.kernels[0]).count("min(16, 60 - ") == tests
    generator = np.random.default_rng(5)
    values = {name: generator.integers(-4, 5, kind.shape).astype(np.float32) for name, kind in types.items()}
    expected = interpret(stages.stripe, values)["C"]
    np.testing.assert_array_equal(run_program(stages.sem, values, ALL_CHECKS)["C"], expected)


@pytest.mark.sampled(0)
@pytest.mark.parametrize(("rows", "depth", "width"), [(44, 64, 4), (64, 60, 4), (44, 62, 1), (64, 64, 1)])
def test_rows_lie_along_the_sum_where_tested_copies_are_wide(rows: int, depth: int, width: int) -> None:
    types = {"A": TensorType(DType.F32, (rows, depth)), "B": TensorType(DType.F32, (depth, 64))}
    text = "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }"
    step = GroupContraction(threads=64, rows=32, columns=32, stages=2)
    stages = compile_stages(text, types, AHEAD, passes=(*fused(AHEAD), step))
    (found,) = stages.sem.kernels
    copies = [stmt for stmt in statements(found.body) if isinstance(stmt, AsyncCopy) and stmt.source.array == "A"]
    assert {stmt.source.type.lanes for stmt in copies} == {width}
    generator = np.random.default_rng(5)
    values = {name: generator.integers(-4, 5, kind.shape).astype(np.float32) for name, kind in types.items()}
    np.testing.assert_array_equal(run_program(stages.sem, values, ALL_CHECKS)["C"], values["A"] @ values["B"])


def test_loads_past_the_end_are_moved_and_stores_are_left_out() -> None:
    text = to_text(kernel((50, 24, 36), GroupContraction(threads=64, rows=32, columns=32)))
    assert "A[min(max(place, 0), 299) * 4 : 4]" in text
    assert "B[min(max(place_0, 0), 215) * 4 : 4]" in text
    assert text.count("if (") == 2


def test_tiles_are_smaller_where_groups_would_be_idle() -> None:
    assert kernel((64, 64, 64), GroupContraction(threads=16)).grid == (2, 2)
    assert kernel((64, 64, 64), GroupContraction(threads=16, groups=64)).grid == (4, 16)


WAVES = GroupContraction(threads=256, groups=132, stages=2, vector_bytes=16)


@pytest.mark.parametrize(
    ("size", "grid", "threads"),
    [
        ((1536, 16, 1536), (24, 16), 128),  # 384 tiles of 96 x 64 are 2.9 waves, 144 of 128 x 128 are 1.1
        ((2048, 16, 2048), (8, 32), 256),
        ((4096, 16, 4096), (16, 64), 256),
        ((3000, 20, 3000), (24, 32), 256),
        ((1024, 16, 1024), (8, 16), 256),
        (
            (2560, 16, 2560),
            (40, 20),
            128,
        ),  # tiles of 64 x 128 by 256 threads are as many, and have fewer outputs for each
    ],
)
def test_tiles_fill_the_last_wave(size: tuple[int, int, int], grid: tuple[int, int], threads: int) -> None:
    types = {
        "A": TensorType(DType.F32, size[:2]),
        "B": TensorType(DType.F32, size[1:]),
        "D": TensorType(DType.F32, size[2:]),
    }
    (found,) = compile_stages(PRODUCT, types, AHEAD, passes=(*fused(AHEAD), WAVES)).sem.kernels
    assert (found.grid, found.group) == (grid, (threads,))


@pytest.mark.sampled(0)
@pytest.mark.parametrize(
    ("size", "groups", "grid"), [((96, 6, 128), 2, (2,)), ((130, 6, 132), 4, (2, 2)), ((130, 6, 132), 2, (3, 2))]
)
def test_tiles_of_ninety_six_rows_are_right(size: tuple[int, int, int], groups: int, grid: tuple[int, ...]) -> None:
    shapes = {"A": size[:2], "B": size[1:], "D": size[2:]}
    types = {name: TensorType(DType.F32, shape) for name, shape in shapes.items()}
    step = attrs.evolve(WAVES, groups=groups)
    stages = compile_stages(PRODUCT, types, AHEAD, passes=(*fused(AHEAD), step))
    assert [found.grid for found in stages.sem.kernels] == [grid]
    generator = np.random.default_rng(3)
    values = {name: generator.integers(-4, 5, shape).astype(np.float32) for name, shape in shapes.items()}
    result = run_program(stages.sem, values, ALL_CHECKS)["R"]
    np.testing.assert_array_equal(result, values["A"] @ values["B"] + values["D"])


def test_idle_threads_share_the_reduction() -> None:
    found = kernel((8, 256, 8), GroupContraction(threads=64, groups=2))
    assert found.group == (64,)
    assert "C_acc_shared" in arrays_of(found, Region.LOCAL)


def test_what_local_memory_cannot_hold_is_read_where_it_is() -> None:
    assert not arrays_of(kernel((64, 64, 64), GroupContraction(threads=16, local_bytes=16)), Region.LOCAL)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize(
    "step",
    [
        GroupContraction(threads=8, always=True),
        GroupContraction(threads=8, always=True, rows=2, columns=4, depth=3, groups=50),
        GroupContraction(threads=4, always=True, rows=1, columns=1, depth=8, groups=1000),
        GroupContraction(threads=4, always=True, local_bytes=0, vector_bytes=8),
        GroupContraction(threads=4, always=True, rows=4, columns=4, depth=2, stages=3),
    ],
)
def test_programs_of_all_shapes(name: str, step: GroupContraction) -> None:
    program, values = stripe_program(name), inputs(name)
    kernels = lower(run((Accumulate(), step), program), AHEAD if step.stages > 1 else TARGET)
    verify_program(kernels)
    found = run_program(kernels, values, ALL_CHECKS)
    for output, expected in interpret(program, values).items():
        np.testing.assert_array_equal(found[output], expected)


@given(
    program=programs(kinds=("elementwise", "reduce", "product", "product", "window", "coordinate", "overlap")),
    step=st.builds(
        GroupContraction,
        threads=st.integers(1, 40),
        vector_bytes=st.sampled_from([4, 8, 16]),
        local_bytes=st.sampled_from([0, 40, 200, 4096]),
        groups=st.sampled_from([1, 5, 1000]),
        rows=st.integers(0, 5),
        columns=st.integers(0, 9),
        depth=st.integers(0, 5),
        stages=st.integers(1, 3),
        always=st.just(True),
    ),
    target=st.sampled_from([TARGET, AHEAD]),
)
@examples(50)
def test_the_meaning_stays(program: Program, step: GroupContraction, target: Target) -> None:
    scheduled = run((Accumulate(), step), program)
    assert_same_meaning(program, scheduled)
    arrays = arrays_for(program)
    kernels = lower(scheduled, target)
    verify_program(kernels)
    found = run_program(kernels, arrays, ALL_CHECKS)
    for name, expected in interpret(program, arrays).items():
        np.testing.assert_array_equal(found[name], expected)


BORDERED = """function (A[N, Y, X, C], B[P, Q, C, F]) -> (R) {
    R[n, y, x, f : N, Y, X, F] = +(A[n, y + p - 1, x + q - 1, c] * B[p, q, c, f]);
}"""
CHANNELS = """function (A[N, Y, X, C], B[P, Q, C, F]) -> (R) {
    R[n, f, y, x : N, F, Y, X] = +(A[n, y + p - 1, x + q - 1, c] * B[p, q, c, f]);
}"""


@pytest.mark.parametrize(
    ("edge", "channels", "grid", "threads"),
    [
        (14, 256, (14, 14, 2), 128),  # a row of pixels for itself skips steps beside the border
        (28, 128, (28, 14), 128),
        (56, 64, (56, 7), 256),  # few columns, which are read for eight rows of pixels
    ],
)
def test_tiles_of_windows_are_as_high_as_borders_let_them(
    edge: int, channels: int, grid: tuple[int, ...], threads: int
) -> None:
    shapes = {"A": (32, edge, edge, channels), "B": (3, 3, channels, channels)}
    types = {name: TensorType(DType.F32, shape) for name, shape in shapes.items()}
    (found,) = compile_stages(BORDERED, types, AHEAD, passes=(*fused(AHEAD), WAVES)).sem.kernels
    assert (sorted(found.grid), found.group) == (sorted(grid), (threads,))


def bordered(text: str, batch: int, picture: tuple[int, int], features: int, step: Pass) -> None:
    """Compare a convolution with its meaning, infinities and all."""
    shapes = {"A": (batch, *picture, 2), "B": (1, 3, 2, features)}
    types = {name: TensorType(DType.F32, shape) for name, shape in shapes.items()}
    found = compile_stages(text, types, AHEAD, passes=(*fused(AHEAD), step))
    generator = np.random.default_rng(2)
    given = {name: generator.integers(-3, 4, shape).astype(np.float32) for name, shape in shapes.items()}
    given["B"].flat[generator.integers(given["B"].size)] = np.inf
    with np.errstate(invalid="ignore"):
        expected = interpret(found.stripe, given)["R"]
        np.testing.assert_array_equal(interpret(found.scheduled, given)["R"], expected)


@given(
    text=st.sampled_from((BORDERED, CHANNELS)),
    batch=st.sampled_from((1, 2, 8, 9)),
    picture=st.tuples(st.integers(5, 7), st.integers(4, 7)),
    features=st.sampled_from((17, 33, 40)),
    stages=st.integers(1, 2),
)
@examples(8)
def test_rows_along_two_indices_keep_the_meaning(
    text: str, batch: int, picture: tuple[int, int], features: int, stages: int
) -> None:
    bordered(text, batch, picture, features, GroupContraction(stages=stages, local_bytes=48 * 1024))
