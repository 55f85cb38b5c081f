"""Structure and results of elementwise kernels with transposed inputs after the pass."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.passes import assert_same_meaning, programs
from strategies.pipelines import fused
from tileir import ops
from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.driver.compiler import compile_stages
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import run
from tileir.passes.schedules.groups.group_transpose import GroupTranspose
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.ir import KernelFunction
from tileir.semtree.text.printer import to_text
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Program
from tileir.tile.builder import FunctionBuilder
from tileir.typed.ir import TensorType

TARGET = Target(index_dtype=DType.I32)
TRANSPOSE = "function (A[M, N], B[N, M]) -> (O) { T[j, i : N, M] = =(A[i, j]); O = T + B; }"
BATCHED = "function (A[Z, M, N]) -> (O) { O[z, j, i : Z, N, M] = =(A[z, i, j]); }"
ROTATED = "function (A[M, N, K]) -> (O) { O[k, i, j : K, M, N] = =(A[i, j, k]); }"
PADDED = "function (A[M, N]) -> (O) { O[j, i : N + 3, M + 3] = +(A[i - 2, j - 1]); }"


def shapes(text: str, size: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    return {"A": size, "B": size[::-1]} if text == TRANSPOSE else {"A": size}


def kernel(text: str, size: tuple[int, ...], step: GroupTranspose, dtype: DType = DType.F32) -> KernelFunction:
    types = {name: TensorType(dtype, shape) for name, shape in shapes(text, size).items()}
    (found,) = compile_stages(text, types, TARGET, passes=(*fused(TARGET), step)).sem.kernels
    return found


def test_tiles_go_through_local_memory() -> None:
    found = kernel(TRANSPOSE, (64, 96), GroupTranspose())
    assert (found.grid, found.group) == ((2, 3), (256,))
    text = to_text(found)
    assert "local f32 A_stage[1056]" in text  # 32 rows of 33
    assert text.count("barrier();") == 1
    assert "f32x4 copied = A[" in text
    assert "if" not in text


@pytest.mark.parametrize(("text", "size"), [(TRANSPOSE, (16, 64)), (TRANSPOSE, (64, 16))])
def test_small_kernels_are_left_alone(text: str, size: tuple[int, ...]) -> None:
    assert kernel(text, size, GroupTranspose()).group == (1,)


@pytest.mark.parametrize(
    ("dtype", "size", "grid", "stage", "store"),
    [
        (DType.F16, (128, 192), (2, 3), "local f16 A_stage[4224]", "f16x2"),  # 64 rows of 66
        (DType.I8, (128, 256), (2,), "local i8 A_stage[16896]", "i8x4"),  # 128 rows of 132
        (DType.F16, (127, 192), (2, 3), "local f16 A_stage[4160]", None),  # rows of results begin in mid-word
        (DType.F16, (48, 40), (2, 2), "local f16 A_stage[1088]", "f16x2"),  # too few rows for wider tiles
    ],
)
def test_narrow_elements_have_wider_tiles(
    dtype: DType, size: tuple[int, int], grid: tuple[int, int], stage: str, store: str | None
) -> None:
    found = kernel("function (A[M, N]) -> (O) { O[j, i : N, M] = =(A[i, j]); }", size, GroupTranspose(), dtype)
    text = to_text(found)
    assert found.grid == grid
    assert stage in text
    assert store is None or f"{store} " in text.split("barrier();")[1]


def test_wider_tiles_give_way_to_local_memory() -> None:
    text = "function (A[M, N]) -> (O) { O[j, i : N, M] = =(A[i, j]); }"
    assert "A_stage[1056]" in to_text(kernel(text, (128, 128), GroupTranspose(local_bytes=4096), DType.F16))


def test_local_memory_must_hold_the_tiles() -> None:
    assert kernel(TRANSPOSE, (64, 64), GroupTranspose(local_bytes=1024)).group == (1,)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("threads", [1, 6, 64])
@pytest.mark.parametrize(
    ("text", "size"),
    [
        (TRANSPOSE, (16, 24)),
        (TRANSPOSE, (19, 21)),
        (BATCHED, (3, 9, 11)),
        (ROTATED, (5, 4, 13)),
        (PADDED, (12, 17)),
    ],
)
@pytest.mark.parametrize("dtype", [DType.I32, DType.I16, DType.U8])
def test_all_sizes(text: str, size: tuple[int, ...], threads: int, dtype: DType) -> None:
    types = {name: TensorType(dtype, shape) for name, shape in shapes(text, size).items()}
    for tile in (4, 6):
        step = GroupTranspose(threads, tile=tile)
        stages = compile_stages(text, types, TARGET, passes=(*fused(TARGET), step))
        assert "_stage" in to_text(stages.sem)
        random = np.random.default_rng(1)
        values = {name: random.integers(0, 9, t.shape).astype(t.dtype.numpy) for name, t in types.items()}
        found = run_program(stages.sem, values, ALL_CHECKS)["O"]
        np.testing.assert_array_equal(found, interpret(stages.stripe, values)["O"])


@given(
    program=programs(kinds=("elementwise", "reduce", "reshape", "coordinate", "choice")),
    threads=st.integers(1, 20),
    tile=st.integers(2, 4),
)
@examples(50)
def test_the_meaning_stays(program: Program, threads: int, tile: int) -> None:
    assert_same_meaning(program, run((Accumulate(), GroupTranspose(threads, tile=tile)), program))


def test_tensors_may_have_names_with_dots() -> None:
    """Front ends name results of operations so; local memory has a name that steps can say."""
    builder = FunctionBuilder()
    read = builder.input("A", "M", "N")
    function = builder.build(
        **{"B.1": ops.transpose(read * 2.0, (1, 0)), "C.1": ops.transpose(builder.input("A.1", "M", "N"), (1, 0))}
    )
    types = {name: TensorType(DType.F32, (64, 96)) for name in ("A", "A.1")}
    for found in compile_stages(function, types, TARGET, passes=(*fused(TARGET), GroupTranspose())).sem.kernels:
        assert "_stage[1056]" in to_text(found)
