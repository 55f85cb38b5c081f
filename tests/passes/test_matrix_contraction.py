"""Structure and results of contractions of halves after the pass, with matrix instructions and without."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import attrs
import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from strategies.effort import examples
from strategies.pipelines import fused
from tileir.core.dtype import DType
from tileir.core.fragments import FRAGMENTS, named
from tileir.core.targets.target import Target
from tileir.driver.compiler import Stages, compile_stages
from tileir.passes.pipelines.catalog import resolve_pipeline
from tileir.passes.schedules.groups.distribute import Distribute
from tileir.passes.schedules.groups.matrix.contraction import MatrixContraction
from tileir.passes.schedules.groups.matrix.plan import Panel, swizzle_of
from tileir.schedule.nest import Use
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.ir import AsyncCopy, Barrier, DeclareArray, KernelFunction, MatrixMultiply, Region
from tileir.semtree.rewrite import statements
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Direction, Index
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from collections.abc import Mapping

NVIDIA = ("mma_m16n8k16_f16", "mma_m16n8k16_bf16", "mma_m16n8k8_f32")
WARPGROUPS = named("sm_90a")
PLAIN = Target(index_dtype=DType.I32, local_bytes=48 * 1024, group_threads=256, alignment=64, vector_bytes=16)
TARGET = attrs.evolve(PLAIN, async_copies=True, fragments=NVIDIA, approximate=True)
PRODUCT = "function (A[M, K], B[K, N]) -> (R) { R[i, j : M, N] = +(A[i, k] * B[k, j]); }"
RIGHT_TURNED = "function (A[M, K], B[N, K]) -> (R) { R[i, j : M, N] = +(A[i, k] * B[j, k]); }"
LEFT_TURNED = "function (A[K, M], B[K, N]) -> (R) { R[i, j : M, N] = +(A[k, i] * B[k, j]); }"
BOTH_TURNED = "function (A[K, M], B[N, K]) -> (R) { R[i, j : M, N] = +(A[k, i] * B[j, k]); }"
BATCH = "function (A[Z, M, K], B[Z, K, N]) -> (R) { R[z, i, j : Z, M, N] = +(A[z, i, k] * B[z, k, j]); }"
TAIL = """function (A[M, K], B[K, N], D[N]) -> (R) {
    C[i, j : M, N] = +(A[i, k] * B[k, j]);
    R = 0.5 * (C + D);
}"""
CONVOLUTION = """function (A[Y, X, C], B[P, Q, C, F]) -> (R) {
    R[y, x, f : Y - P + 1, X - Q + 1, F] = +(A[y + p, x + q, c] * B[p, q, c, f]);
}"""
TILE = MatrixContraction(NVIDIA, rows=32, columns=32)
WIDE = MatrixContraction(WARPGROUPS, local_bytes=227 * 1024)


def stages(
    text: str,
    shapes: Mapping[str, tuple[int, ...]],
    dtype: DType,
    step: MatrixContraction = TILE,
    target: Target = TARGET,
) -> Stages:
    types = {name: TensorType(dtype, shape) for name, shape in shapes.items()}
    return compile_stages(text, types, target, passes=(*fused(target), step, Distribute(threads=128)))


def kernel(found: Stages) -> KernelFunction:
    (only,) = found.sem.kernels
    return only


def products(found: Stages) -> list[MatrixMultiply]:
    return [s for s in statements(kernel(found).body) if isinstance(s, MatrixMultiply)]


def arrays(shapes: Mapping[str, tuple[int, ...]], dtype: DType) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(5)
    return {name: generator.integers(-3, 4, shape).astype(dtype.numpy) for name, shape in shapes.items()}


def check(found: Stages, given: dict[str, np.ndarray]) -> None:
    expected = interpret(found.stripe, given)["R"].astype(np.float64)
    np.testing.assert_allclose(run_program(found.sem, given, ALL_CHECKS)["R"].astype(np.float64), expected, rtol=1e-2)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16, DType.F32])
def test_tiles_are_copied_ahead_and_multiplied_by_instructions(dtype: DType) -> None:
    shapes = {"A": (32, 64), "B": (64, 32)}
    found = stages(PRODUCT, shapes, dtype)
    (multiply,) = products(found)
    assert multiply.tile[:2] == (16, 16)
    assert kernel(found).group == (128,)
    body = tuple(statements(kernel(found).body))
    assert sum(isinstance(s, AsyncCopy) for s in body) >= 4
    assert sum(isinstance(s, Barrier) for s in body) == 2
    local = sum(s.size for s in body if isinstance(s, DeclareArray) and s.region is Region.LOCAL)
    assert local == (32 + 32) * multiply.tile[2] * min(3, 64 // multiply.tile[2])
    check(found, arrays(shapes, dtype))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        (PRODUCT, {"A": (40, 48), "B": (48, 24)}),
        (RIGHT_TURNED, {"A": (32, 32), "B": (32, 32)}),
        (LEFT_TURNED, {"A": (32, 32), "B": (32, 32)}),
        (BATCH, {"A": (2, 32, 16), "B": (2, 16, 32)}),
        (TAIL, {"A": (32, 32), "B": (32, 32), "D": (32,)}),
        (CONVOLUTION, {"A": (3, 26, 16), "B": (2, 3, 16, 32)}),
    ],
)
def test_other_contractions(text: str, shapes: dict[str, tuple[int, ...]]) -> None:
    found = stages(text, shapes, DType.F16)
    assert len(products(found)) == 1
    check(found, arrays(shapes, DType.F16))


@pytest.mark.sampled(0)
@pytest.mark.parametrize(
    ("text", "shapes", "folds"),
    [
        (PRODUCT, {"A": (128, 64), "B": (64, 128)}, ((0, 0, 0), (64, 128, 32))),
        (RIGHT_TURNED, {"A": (128, 64), "B": (128, 64)}, ((0, 0, 0), (0, 0, 0))),
        (LEFT_TURNED, {"A": (64, 128), "B": (64, 128)}, ((64, 128, 32), (64, 128, 32))),
        (PRODUCT, {"A": (96, 96), "B": (96, 120)}, ((0, 0, 0), (64, 128, 32))),
    ],
)
def test_instructions_that_read_local_memory_find_rows_across_the_depth_in_pieces(
    text: str, shapes: dict[str, tuple[int, ...]], folds: tuple[tuple[int, int, int], ...]
) -> None:
    target = attrs.evolve(TARGET, fragments=WARPGROUPS, local_bytes=227 * 1024)
    found = stages(text, shapes, DType.F16, MatrixContraction(WARPGROUPS, local_bytes=227 * 1024), target)
    (multiply,) = products(found)
    assert multiply.fragment == "wgmma_m64n128k16_f16"
    assert (multiply.left.fold, multiply.right.fold) == folds
    check(found, arrays(shapes, DType.F16))


@pytest.mark.parametrize(
    ("size", "tile"),
    [
        (512, (64, 32)),
        (1024, (128, 64)),
        (1536, (128, 160)),
        (2048, (128, 256)),
        (3072, (128, 192)),
        (5120, (128, 224)),
        (8192, (128, 256)),
    ],
)
def test_tiles_that_read_local_memory_are_chosen_by_waves_of_groups(size: int, tile: tuple[int, int]) -> None:
    """With 132 processors; what little is left for a last wave takes as long as a whole one."""
    step = MatrixContraction(WARPGROUPS, local_bytes=227 * 1024, groups=132)
    target = attrs.evolve(TARGET, fragments=WARPGROUPS, local_bytes=227 * 1024)
    found = stages(PRODUCT, {"A": (size, size), "B": (size, size)}, DType.F16, step, target)
    assert math.prod(kernel(found).grid) == math.prod(-(-size // extent) for extent in tile)


def test_windows_have_tiles_as_wide_as_instructions_that_read_rows_once() -> None:
    text = """function (A[N, Y, X, C], B[P, Q, C, F]) -> (R) {
        R[n, y, x, f : N, Y, X, F] = +(A[n, y + p - 1, x + q - 1, c] * B[p, q, c, f]);
    }"""
    step = MatrixContraction(WARPGROUPS, local_bytes=227 * 1024, groups=132, boxes=128 * 128)
    target = attrs.evolve(TARGET, fragments=WARPGROUPS, local_bytes=227 * 1024)
    found = stages(text, {"A": (32, 7, 7, 512), "B": (3, 3, 512, 512)}, DType.F16, step, target)
    assert (math.prod(kernel(found).grid), kernel(found).group) == (7 * 4 * 4, (128,))


@pytest.mark.sampled(0)
@pytest.mark.parametrize(("width", "rows", "columns"), [(28, 64, 32), (14, 32, 32), (16, 64, 32)])
def test_short_rows_share_a_tile(width: int, rows: int, columns: int) -> None:
    shapes = {"A": (7, width + 2, 16), "B": (2, 3, 16, 32)}
    step = MatrixContraction(NVIDIA, rows=rows, columns=columns)
    found = stages(CONVOLUTION, shapes, DType.F16, step)
    assert math.prod(kernel(found).grid) <= 6 * width / rows + 1
    assert len(products(found)) == 1
    check(found, arrays(shapes, DType.F16))


@pytest.mark.parametrize("target", [PLAIN, attrs.evolve(PLAIN, async_copies=True)])
def test_the_schedule_means_the_same_without_instructions(target: Target) -> None:
    shapes = {"A": (20, 32), "B": (32, 24)}
    found = stages(PRODUCT, shapes, DType.F16, target=target)
    assert not products(found)
    assert kernel(found).group == (128,)
    check(found, arrays(shapes, DType.F16))
    given = arrays(shapes, DType.F16)
    np.testing.assert_array_equal(interpret(found.scheduled, given)["R"], interpret(found.stripe, given)["R"])


def test_instructions_do_not_need_asynchronous_copies() -> None:
    shapes = {"A": (32, 64), "B": (64, 32)}
    found = stages(PRODUCT, shapes, DType.F16, target=attrs.evolve(TARGET, async_copies=False))
    assert len(products(found)) == 1
    assert not any(isinstance(s, AsyncCopy) for s in statements(kernel(found).body))
    check(found, arrays(shapes, DType.F16))


@pytest.mark.parametrize(
    ("text", "shapes", "dtype"),
    [
        (PRODUCT, {"A": (32, 64), "B": (64, 32)}, DType.F64),
        (PRODUCT, {"A": (32, 64), "B": (64, 8)}, DType.F16),
        (PRODUCT, {"A": (7, 64), "B": (64, 32)}, DType.F16),
        (PRODUCT, {"A": (32, 2), "B": (2, 32)}, DType.F16),
        (PRODUCT.replace("+(", ">("), {"A": (32, 32), "B": (32, 32)}, DType.F16),
        (PRODUCT.replace("*", "+"), {"A": (32, 32), "B": (32, 32)}, DType.F16),
    ],
)
def test_what_instructions_do_not_fit_is_left_to_others(
    text: str, shapes: dict[str, tuple[int, ...]], dtype: DType
) -> None:
    assert not products(stages(text, shapes, dtype))


def test_vectors_narrower_than_an_element_copy_single_elements() -> None:
    shapes = {"A": (32, 32), "B": (32, 32)}
    found = stages(PRODUCT, shapes, DType.F16, attrs.evolve(TILE, vector_bytes=1))
    assert len(products(found)) == 1
    check(found, arrays(shapes, DType.F16))


@given(
    text=st.sampled_from((PRODUCT, RIGHT_TURNED, LEFT_TURNED, BOTH_TURNED, BATCH)),
    sizes=st.tuples(st.integers(17, 40), st.integers(17, 40), st.integers(4, 70)),
    dtype=st.sampled_from((DType.F16, DType.BF16, DType.F32)),
    step=st.sampled_from((TILE, WIDE)),
)
@examples(50)
def test_sizes_are_free(text: str, sizes: tuple[int, int, int], dtype: DType, step: MatrixContraction) -> None:
    """Elements behind the ends of a tile are zero in both factors, whatever the group's memory held before."""
    rows, columns, depth = sizes
    known = {"M": rows, "N": columns, "K": depth, "Z": 2}
    signature = re.findall(r"(\w)\[([^\]]*)\]", text.partition("->")[0])
    shapes = {name: tuple(known[size.strip()] for size in sizes.split(",")) for name, sizes in signature}
    wide = step is WIDE
    target = attrs.evolve(TARGET, fragments=step.fragments, local_bytes=227 * 1024 if wide else 48 * 1024)
    found = stages(text, shapes, dtype, step, target)
    assume(not wide or products(found))  # few tiles lie as those instructions read them
    assert len(products(found)) == 1
    check(found, arrays(shapes, dtype))


def test_tiles_are_smaller_where_processors_would_be_idle() -> None:
    shapes = {"A": (512, 64), "B": (64, 512)}
    tiles = [products(stages(PRODUCT, shapes, DType.F16, MatrixContraction(NVIDIA, groups=n))) for n in (1, 64, 256)]
    assert [found[0].tile[:2] for found in tiles] == [(64, 64), (32, 32), (16, 16)]


@pytest.mark.parametrize(("depth", "stages_of_copies"), [(256, 3), (960, 5), (2048, 8), (8192, 8)])
def test_few_groups_copy_far_ahead_for_long_sums(depth: int, stages_of_copies: int) -> None:
    shapes = {"A": (16, depth), "B": (depth, 32)}
    found = stages(PRODUCT, shapes, DType.F16, MatrixContraction(NVIDIA, groups=4))
    local = [s for s in statements(kernel(found).body) if isinstance(s, DeclareArray) and s.region is Region.LOCAL]
    assert sum(array.size for array in local) == stages_of_copies * (16 + 32) * 64


@pytest.mark.parametrize(
    ("shape", "groups", "local_bytes", "stages_of_copies"),
    [((64, 64), 1, 200, 8), ((64, 64), 1, 96, 6), ((64, 320), 4, 200, 6), ((64, 320), 4, 96, 3)],
)
def test_groups_that_share_a_processor_share_its_local_memory(
    shape: tuple[int, int], groups: int, local_bytes: int, stages_of_copies: int
) -> None:
    """Five tiles of 64 columns have half of the memory each where four groups run at a time, and one has all of it."""
    shapes = {"A": (shape[0], 8192), "B": (8192, shape[1])}
    step = MatrixContraction(NVIDIA, groups=groups, local_bytes=local_bytes * 1024)
    found = stages(PRODUCT, shapes, DType.F16, step)
    local = [s for s in statements(kernel(found).body) if isinstance(s, DeclareArray) and s.region is Region.LOCAL]
    assert sum(array.size for array in local) == stages_of_copies * (64 + 64) * 64


@pytest.mark.parametrize(("depth", "count"), [(640, 5), (1024, 8), (1032, 5)])
def test_half_of_a_sum_is_copied_ahead_and_a_third_where_rows_lie_in_two_lines(depth: int, count: int) -> None:
    shapes = {"A": (64, depth), "B": (depth, 64)}
    found = stages(PRODUCT, shapes, DType.F16, MatrixContraction(NVIDIA, local_bytes=200 * 1024))
    local = [s for s in statements(kernel(found).body) if isinstance(s, DeclareArray) and s.region is Region.LOCAL]
    assert sum(array.size for array in local) == count * (64 + 64) * 64


@pytest.mark.parametrize(("rows", "threads"), [(64, 128), (16, 32)])
def test_sixteen_columns_are_a_tile(rows: int, threads: int) -> None:
    shapes = {"A": (rows, 64), "B": (64, 16)}
    found = stages(PRODUCT, shapes, DType.F16, MatrixContraction(NVIDIA))
    assert products(found)
    assert kernel(found).group == (threads,)
    check(found, arrays(shapes, DType.F16))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("rows", [8, 9, 15])
def test_rows_that_fill_half_a_tile_are_enough(rows: int) -> None:
    shapes = {"A": (rows, 64), "B": (64, 48)}
    found = stages(PRODUCT, shapes, DType.F16, MatrixContraction(NVIDIA))
    assert products(found)
    check(found, arrays(shapes, DType.F16))


@pytest.mark.sampled(0)
def test_copies_far_ahead_keep_the_meaning() -> None:
    shapes = {"A": (16, 2048), "B": (2048, 32)}
    found = stages(PRODUCT, shapes, DType.F16, MatrixContraction(NVIDIA, groups=4))
    check(found, arrays(shapes, DType.F16))


def test_f32_is_rounded_only_for_fast_mathematics() -> None:
    target = attrs.evolve(TARGET, approximate=False, pipeline="gpu", group_width=32)
    types = {"A": TensorType(DType.F32, (64, 64)), "B": TensorType(DType.F32, (64, 64))}
    for chosen, count in ((target, 0), (target.with_approximations(), 1)):
        found = compile_stages(PRODUCT, types, chosen, passes=resolve_pipeline("gpu", chosen))
        assert len(products(found)) == count


@pytest.mark.parametrize("along_loop", [False, True])
@pytest.mark.parametrize("dtype", [DType.F64, DType.F32, DType.F16, DType.I8])
@pytest.mark.parametrize("width", [8, 16, 32, 64, 128, 256])
def test_swizzles_move_no_bits_to_themselves(width: int, dtype: DType, along_loop: bool) -> None:
    """Tiles of 16 columns, as fragments of MFMA have them, are narrower than a line of banks."""
    use = Use("X", "X", (), (), dtype, Direction.IN)
    shift, mask = swizzle_of(Panel(use, Index("i", width), along_loop), FRAGMENTS["mma_m16n8k8_f32"], width)
    assert shift >= 0
    assert mask & (mask << shift) == 0
    assert mask < width


def test_columns_of_a_narrow_tile_have_banks_of_their_own() -> None:
    use = Use("X", "X", (), (), DType.F32, Direction.IN)
    for width in (16, 32, 64):
        shift, mask = swizzle_of(Panel(use, Index("i", width), along_loop=False), FRAGMENTS["mma_m16n8k8_f32"], width)
        places = [row * width + column for row in range(4) for column in range(8)]
        assert len({(place ^ ((place >> shift) & mask)) % 32 for place in places}) == 32
