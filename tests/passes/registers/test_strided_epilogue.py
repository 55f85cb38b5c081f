"""Epilogues of reductions strided along the lanes: squares of sums are transposed, and lanes run along rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.contractions import Case
from strategies.effort import examples
from strategies.passes import assert_same_meaning
from tileir import FunctionBuilder, ops
from tileir.core import DType, Op
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import run
from tileir.passes.fusion.fuse import Fuse
from tileir.passes.kernels.merge import reduction_nest
from tileir.passes.rewrites.dead_code import DeadCode
from tileir.passes.rewrites.localise import Localise
from tileir.passes.rewrites.scalarise import Scalarise
from tileir.passes.schedules.registers.register_tile import RegisterTile
from tileir.passes.schedules.registers.strided_epilogue import apart, square
from tileir.schedule.nest import Nest
from tileir.stripe.check.verifier import verify
from tileir.stripe.ir import Binding, Block, Intrinsic, Program, Special

if TYPE_CHECKING:
    Array = np.ndarray[Any, np.dtype[np.float64]]

TURNED = "function (A[M, K], B[K, N]) -> (O) { O[n, m : N, M] = +(A[m, k] * B[k, n]); }"
BIASED = (
    "function (A[M, K], B[K, N], C[N, U], D[N, M]) -> (O) "
    "{ S[n, m : N, M] = +(A[m, k] * B[k, n]); O = max(S + C, 0) - D; }"
)
LONG = (
    "function (A[M, K], B[K, N], C[N, U]) -> (O, P) "
    "{ S[n, m : N, M] = +(A[m, k] * B[k, n]); T = S + C; O = T / (T * T + 1); P = T / (T * T + 3) - T; }"
)
BESIDE = LONG.replace("C[N, U]", "C[N, U], D[N, M]").replace(
    "T = S + C", "T = S + C - D"
)  # what lies apart along the lanes
IMAGES = (
    "function (X[C, H, W], F[D, C, I, J]) -> (O) "
    "{ O[d, y, x : D, (H - I) / 2 + 1, (W - J) / 2 + 1] = +(X[c, 2*y + i, 2*x + j] * F[d, c, i, j]); }"
)


def scheduled(case: Case, lanes: int, rows: int, columns: int) -> Program:
    tiles = RegisterTile(vector_bytes=lanes * case.dtype.itemsize, registers=64, rows=rows, columns=columns)
    return run((Accumulate(), Fuse(), Localise(), Scalarise(), DeadCode(), tiles), case.program())


def squares(block: Block) -> list[int]:
    """Return the rows of the squares that are turned after the last loop of a reduction."""
    own = [
        next(view for view in block.refinements if view.name == special.inputs[0]).shape.sizes[0]
        for special in block.statements
        if isinstance(special, Special) and special.name == "transpose" and "_tile_" in special.inputs[0]
    ]
    return [*own, *(rows for inner in block.blocks for rows in squares(inner))]


@given(
    st.sampled_from((TURNED, BIASED, LONG, BESIDE)),
    st.tuples(st.integers(1, 22), st.integers(1, 5), st.integers(4, 21)),
    st.sampled_from((DType.I8, DType.I32, DType.F16, DType.F32, DType.F64)),
    st.sampled_from((4, 8, 16)),
    st.integers(2, 22),
    st.integers(1, 3),
)
@examples(100)
def test_sums_that_are_turned_keep_their_meaning(
    text: str, sizes: tuple[int, int, int], dtype: DType, lanes: int, rows: int, columns: int
) -> None:
    height, depth, width = sizes
    shapes = {"A": (height, depth), "B": (depth, width)}
    shapes |= {"C": (width, 1)} if text != TURNED else {}
    shapes |= {"D": (width, height)} if text in {BIASED, BESIDE} else {}
    case = Case(text, dtype, shapes)
    program = scheduled(case, lanes, rows, columns)
    verify(program)
    assert_same_meaning(case.program(), program)


@given(
    st.tuples(st.integers(1, 2), st.integers(3, 7), st.integers(9, 33), st.integers(4, 19)),
    st.sampled_from((4, 8)),
    st.integers(4, 14),
)
@examples(40)
def test_pictures_of_channels_are_stored_along_their_columns(
    sizes: tuple[int, int, int, int], lanes: int, rows: int
) -> None:
    channels, height, width, features = sizes
    case = Case(IMAGES, DType.F32, {"X": (channels, height, width), "F": (features, channels, 3, 2)})
    program = scheduled(case, lanes, rows, 2)
    verify(program)
    assert_same_meaning(case.program(), program)


@pytest.mark.parametrize(
    ("text", "lanes", "rows", "found"),
    [
        (TURNED, 4, 5, [4]),  # the second four begin where the first are not over
        (TURNED, 8, 5, [4]),
        (TURNED, 8, 14, [8]),
        (TURNED, 16, 14, [8]),
        (TURNED, 16, 21, [8, 8]),  # three squares lie no equal steps apart
        (TURNED, 8, 3, []),
        (BIASED, 8, 5, [4]),
        (BIASED, 8, 3, []),
    ],
)
def test_squares_are_as_large_as_rows_and_lanes(text: str, lanes: int, rows: int, found: list[int]) -> None:
    shapes = {"A": (rows, 5), "B": (5, 2 * lanes)}
    shapes |= {"C": (2 * lanes, 1), "D": (2 * lanes, rows)} if text == BIASED else {}
    program = scheduled(Case(text, DType.F32, shapes), lanes, rows, 2)
    assert squares(program.main) == found


@pytest.mark.parametrize(
    ("lanes", "height", "overlaps", "found"),
    [(16, 14, True, 8), (16, 14, False, 0), (16, 16, False, 8), (4, 12, False, 4), (8, 3, True, 0), (2, 8, True, 0)],
)
def test_squares_that_are_left_over_need_elements_stored_twice(
    lanes: int, height: int, overlaps: bool, found: int
) -> None:
    assert square(lanes, height, overlaps=overlaps) == found


@pytest.mark.parametrize(("text", "lanes"), [(LONG, {16}), (BESIDE, {8})])
def test_long_epilogues_run_in_the_lanes_of_sums(text: str, lanes: set[int]) -> None:
    shapes = {"A": (13, 5), "B": (5, 32), "C": (32, 1)} | ({"D": (32, 13)} if text == BESIDE else {})
    program = scheduled(Case(text, DType.F32, shapes), 16, 13, 2)
    assert quotients(program.main, 1) == lanes
    assert squares(program.main) == [8] * (2 if text == LONG else 1)


def quotients(block: Block, lanes: int) -> set[int]:
    """Return the lanes in which quotients are computed."""
    lanes = max([lanes, *(index.range for index in block.indices if index.binding is Binding.LANE)])
    own = any(isinstance(each, Intrinsic) and each.op is Op.DIV for each in block.statements)
    return {lanes for _ in range(own)}.union(*(quotients(inner, lanes) for inner in block.blocks))


def test_accesses_are_dear_where_no_row_has_neighbours() -> None:
    program = run((Accumulate(),), Case(TURNED, DType.F32, {"A": (8, 5), "B": (5, 8)}).program())
    nest = reduction_nest(program.main.blocks[0])
    assert isinstance(nest, Nest)
    uses = [use for segment in nest.segments if not segment.loops for use in segment.uses]
    strided = {name: sum(use.stride(name) not in (0, 1) for use in uses) for name in "mn"}
    along = apart(uses, strided["n"], 8, {"m": 8}, overlaps=True)
    assert 0 < along < apart(uses, strided["n"], 8, {"m": 3}, overlaps=True)
    assert apart(uses, strided["m"], 8, {"n": 8}, overlaps=True) == 0


def drawn(x: Array, w: Array, stride: int) -> Array:
    """Return a transposed convolution in f64 whose windows do not overlap."""
    n, _, rows, columns = x.shape
    _, features, height, width = w.shape
    result = np.zeros((n, features, rows, stride, columns, stride))
    result[:, :, :, :height, :, :width] = np.einsum("nkyx,kcij->ncyixj", x, w, optimize=True)
    return result.reshape(n, features, rows * stride, columns * stride)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("dtype", "stored", "tolerance"),
    [
        (DType.F32, np.float32, 1e-5),
        (DType.F64, np.float64, 1e-13),
        (DType.F16, np.float16, 2e-3),
        (DType.BF16, ml_dtypes.bfloat16, 1e-2),
    ],
)
@pytest.mark.parametrize(
    ("image", "features", "window", "stride"),
    [
        ((1, 64, 16, 16), 32, 2, 2),  # rows of a tile are two indices, pixels and what is drawn of each
        ((3, 48, 9, 13), 64, 2, 2),
        ((8, 32, 12, 12), 32, 3, 3),
        ((1, 40, 7, 11), 32, 1, 2),  # pixels that nothing is drawn to
        ((2, 33, 10, 24), 48, 4, 4),
        ((1, 20, 5, 6), 7, 2, 2),
    ],
)
def test_transposed_convolutions(
    image: tuple[int, ...], features: int, window: int, stride: int, dtype: DType, stored: Any, tolerance: float
) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(image).astype(stored)
    w = (rng.standard_normal((image[1], features, window, window)) / 9).astype(stored)
    size = (image[0], features, image[2] * stride, image[3] * stride)
    beside = rng.standard_normal(size).astype(stored)
    f = FunctionBuilder()
    y = ops.conv_transpose(f.input("X", *image, dtype=dtype), f.constant(w), stride=stride, output_size=size[2:])
    call = tileir.jit(f.build(Y=ops.relu(y + f.input("B", *size, dtype=dtype))))
    wanted = np.maximum(drawn(x.astype(np.float64), w.astype(np.float64), stride) + beside.astype(np.float64), 0)
    found = np.asarray(call(x, beside)).astype(np.float64)
    assert np.abs(found - wanted).max() / np.abs(wanted).max() < tolerance
