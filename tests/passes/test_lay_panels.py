"""Panels of constant factors: their shapes, which factors get none, and results as in NumPy in f64."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

import tileir
from strategies.effort import examples
from strategies.passes import arrays_for, assert_same_meaning
from tileir import FunctionBuilder, ops
from tileir.core.dtype import DType
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import run
from tileir.passes.layouts.lay_panels import LayPanels
from tileir.passes.rewrites.dead_code import DeadCode
from tileir.stripe.blocks import Binding
from tileir.stripe.check.verifier import verify
from tileir.stripe.ir import Loop
from tileir.stripe.lower.lowering import lower
from tileir.stripe.works import launches, loops
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from tileir.stripe.ir import Program
    from tileir.tile.ir import Function

    Array = np.ndarray[Any, np.dtype[np.float64]]

STEP = LayPanels(vector_bytes=16)  # four lanes of f32


def weights(*shape: int, seed: int = 0) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return integers, which add up exactly in any order."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


def convolution(
    image: tuple[int, ...], shape: tuple[int, ...], *, stride: int = 1, padding: int = 0, groups: int = 1
) -> tuple[Function, TensorType]:
    """Return a convolution by constant weights, a bias, and the type of its images."""
    f = FunctionBuilder()
    x = f.input("X", *image)
    y = ops.conv(x, f.constant(weights(*shape)), stride=stride, padding=padding, groups=groups)
    return f.build(Y=y + f.constant(weights(shape[0], 1, 1, seed=1))), TensorType(DType.F32, image)


def before(function: Function, kind: TensorType) -> Program:
    return run((DeadCode(), Accumulate()), lower(infer(function, {"X": kind})))


def panels(program: Program, step: LayPanels = STEP) -> list[tuple[int, ...]]:
    """Return the shapes of the panels that a pass adds."""
    after = run((step,), program)
    return [r.shape.sizes for r in after.memory if "_panels" in r.name]


@given(
    image=st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(3, 5), st.integers(3, 5)),
    features=st.sampled_from((3, 4, 8, 12, 16)),
    window=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    stride=st.integers(1, 2),
    padding=st.integers(0, 1),
)
@examples(12)
def test_the_meaning_stays(
    image: tuple[int, ...], features: int, window: tuple[int, int], stride: int, padding: int
) -> None:
    assume(padding < min(window))
    function, kind = convolution(image, (features, image[1], *window), stride=stride, padding=padding)
    program = before(function, kind)
    after = run((STEP,), program)
    verify(after)
    assert_same_meaning(program, after, arrays_for(program))


def test_the_widest_panels_that_fit_are_two_vectors() -> None:
    found = [panels(before(*convolution((1, 5, 6, 6), (count, 5, 3, 3)))) for count in (4, 8, 12, 16, 20, 24, 7)]
    wanted = [(1, 5, 3, 3, 4), (1, 5, 3, 3, 8), (1, 5, 3, 3, 12), (2, 5, 3, 3, 8), (5, 5, 3, 3, 4), (3, 5, 3, 3, 8)]
    assert found == [*([each] for each in wanted), []]


def test_vectors_narrower_than_an_element_are_one_element() -> None:
    program = before(*convolution((1, 5, 6, 6), (4, 5, 3, 3)))
    assert panels(program, LayPanels(vector_bytes=1)) == panels(program, LayPanels(vector_bytes=4))


def test_equal_factors_share_panels() -> None:
    f = FunctionBuilder()
    x, w = f.input("X", 9, 6), f.constant(weights(6, 8))
    program = before(f.build(Y=ops.matmul(x, w), Z=ops.matmul(x * 2.0, w)), TensorType(DType.F32, (9, 6)))
    assert panels(program) == [(1, 6, 8)]
    assert_same_meaning(program, run((STEP,), program), arrays_for(program))


def test_what_is_computed_of_constants_gets_panels() -> None:
    f = FunctionBuilder()
    y = ops.matmul(f.input("X", 9, 6), f.constant(weights(6, 8)) * 2.0 + 1.0)
    program = before(f.build(Y=y), TensorType(DType.F32, (9, 6)))
    assert panels(program) == [(1, 6, 8)]
    assert_same_meaning(program, run((STEP,), program), arrays_for(program))


def test_inputs_few_rows_integers_and_groups_get_none() -> None:
    kind = TensorType(DType.F32, (9, 6))
    f = FunctionBuilder()
    x = f.input("X", 9, 6)
    assert panels(before(f.build(Y=ops.matmul(x, ops.transpose(x[:8]))), kind)) == []
    few = FunctionBuilder()
    product = few.build(Y=ops.matmul(few.input("X", 7, 6), few.constant(weights(6, 8))))
    assert panels(before(product, TensorType(DType.F32, (7, 6)))) == []
    whole = FunctionBuilder()
    integers = whole.build(Y=ops.matmul(whole.input("X", 9, 6), whole.constant(np.ones((6, 8), np.int32))))
    assert panels(before(integers, TensorType(DType.I32, (9, 6)))) == []
    assert panels(before(*convolution((1, 8, 6, 6), (8, 1, 3, 3), groups=8))) == []


def test_products_of_what_is_far_away_get_none() -> None:
    program = before(*convolution((1, 5, 6, 6), (8, 5, 3, 3)))
    assert panels(program, LayPanels(vector_bytes=16, most_bytes=4 * 5 * 6 * 6)) == [(1, 5, 3, 3, 8)]
    assert panels(program, LayPanels(vector_bytes=16, most_bytes=4 * 5 * 6 * 6 - 1)) == []


def test_what_lanes_cannot_run_along_is_no_nearer_as_a_copy() -> None:
    for kind in ({"stride": 2}, {"padding": 1}):  # neighbours are apart, or an edge cuts lanes
        program = before(*convolution((1, 5, 12, 12), (8, 5, 3, 3), **kind))
        assert panels(program, LayPanels(vector_bytes=16, most_bytes=0)) == [(1, 5, 3, 3, 8)]


def test_products_whose_pixels_are_drawn_apart_get_some_in_any_case() -> None:
    f = FunctionBuilder()
    y = ops.conv_transpose(f.input("X", 1, 5, 6, 6), f.constant(weights(5, 8, 2, 2)), stride=2)
    program = before(f.build(Y=y), TensorType(DType.F32, (1, 5, 6, 6)))
    assert panels(program, LayPanels(vector_bytes=16, most_bytes=1)) == [(1, 5, 2, 2, 8)]


LOOP = """function (Xs[T, B, N], H[B, N], W[N, N]) -> (S) {{
        V = {weights};
        S = scan(H; Xs; V) function (H[B, N], X[B, N], V[N, N]) -> (H2) {{
            Y[i, j : B, N] = +(H[i, k] * V[k, j]);
            H2 = max(min(Y, 3.0), -3.0) + X;
        }};
    }}"""


def loop(weights: str, steps: int = 8, batch: int = 8) -> Program:
    """Return a loop of products by some weights."""
    types = {name: TensorType(DType.F32, shape) for name, shape in (("H", (batch, 8)), ("W", (8, 8)))}
    types["Xs"] = TensorType(DType.F32, (steps, batch, 8))
    return lower(infer(parse(LOOP.format(weights=weights)), types))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("weights", ["W", "W + 1.0", "1.0 * index(W, 0) + index(W, 1)"])
def test_loops_read_what_is_laid_before_them(weights: str) -> None:
    program = run((DeadCode(), Accumulate()), loop(weights))
    after = run((STEP,), program)
    verify(after)
    assert panels(program) == [(1, 8, 8)]
    assert [type(work) for work in after.works][-1] is Loop
    assert not any("lay_" in work.name for each in loops(after.works) for work in launches(each.works))
    assert_same_meaning(program, after, arrays_for(program))


def test_short_loops_lay_constants_alone() -> None:
    assert panels(run((Accumulate(),), loop("W", steps=7))) == []
    assert panels(run((Accumulate(),), loop("1.0 * index(W, 0) + index(W, 1)", steps=7))) == [(1, 8, 8)]


def test_what_steps_change_is_not_laid() -> None:
    text = """function (Xs[T, N, N], H[N, N]) -> (S) {
        S = scan(H; Xs) function (H[N, N], X[N, N]) -> (H2) { H2[i, j : N, N] = +(X[i, k] * H[k, j]); };
    }"""
    types = {"Xs": TensorType(DType.F32, (9, 8, 8)), "H": TensorType(DType.F32, (8, 8))}
    program = run((Accumulate(),), lower(infer(parse(text), types)))
    assert run((STEP,), program) is program


def test_weights_that_several_kernels_put_together_get_panels() -> None:
    f = FunctionBuilder()
    x = f.input("X", 9, 6)
    w = ops.concatenate([f.constant(weights(6, 4)) * 2.0, f.constant(weights(6, 4, seed=1))], 1)
    program = before(f.build(Y=ops.matmul(x, w)), TensorType(DType.F32, (9, 6)))
    assert panels(program) == [(1, 6, 8)]
    assert_same_meaning(program, run((STEP,), program), arrays_for(program))


def wide(x: np.ndarray[Any, np.dtype[Any]]) -> Array:
    return x.astype(np.float64)


def exact(x: Array, w: Array, stride: int, padding: int, dilation: int = 1) -> Array:
    """Return a convolution in f64, by sums over windows."""
    rows, columns = ((size - 1) * dilation + 1 for size in w.shape[2:])
    padded = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (rows, columns), (2, 3))
    windows = windows[:, :, ::stride, ::stride, ::dilation, ::dilation]
    result: Array = np.einsum("nchwij,kcij->nkhw", windows, w)
    return result


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("image", "shape", "stride"),
    [
        ((1, 40, 7, 7), (64, 40, 3, 3), 1),
        ((1, 70, 14, 14), (48, 70, 1, 1), 1),
        ((2, 33, 15, 15), (32, 33, 3, 3), 2),
        ((1, 300, 28, 28), (64, 300, 1, 1), 1),
        ((3, 20, 9, 11), (96, 20, 1, 1), 2),
        ((1, 3, 32, 32), (16, 3, 5, 5), 2),
        ((1, 2100, 7, 7), (32, 2100, 1, 1), 1),
    ],
)
def test_kernels_with_panels_convolve(image: tuple[int, ...], shape: tuple[int, ...], stride: int) -> None:
    function, _ = convolution(image, shape, stride=stride, padding=shape[2] // 2)
    x = weights(*image, seed=2)
    wanted = exact(wide(x), wide(weights(*shape)), stride, shape[2] // 2) + weights(shape[0], 1, 1, seed=1)
    call = tileir.jit(function)
    for _ in range(2):  # the copies are made before the first
        np.testing.assert_allclose(call(x), wanted, rtol=0)


SMALL_CACHES = """inline, accumulate, dead_code, fuse,
    fusion{rows=true, shorten=true, products=true, fused_set=(fused, rows), least_points=8, most_bytes=262144},
    fuse{parent_reqs=(rows)}, forward, localise, shadow, scalarise, dead_code, canonicalise,
    lay_panels{most_bytes=1024}, canonicalise,
    register_tile{registers=32, cache_bytes=1024, panel_bytes=PANEL, threads=2, operations=0, edges=20}, separate,
    register_tile{registers=32, cache_bytes=1024, panel_bytes=PANEL, threads=2, operations=0}, join_border, thread"""


@given(
    dtype=st.sampled_from((np.float32, np.float64, np.float16, np.int8)),
    batch=st.sampled_from((1, 3)),
    channels=st.sampled_from((1, 3, 17)),
    sides=st.tuples(st.integers(9, 21), st.integers(9, 21)),
    features=st.sampled_from((16, 48, 33)),
    window=st.sampled_from((1, 3)),
    stride=st.integers(1, 3),
    dilation=st.integers(1, 2),
    panel_bytes=st.sampled_from((2048, 8192)),
)
@examples(12)
def test_panels_pass_over_pieces_of_images(
    *,
    dtype: type[np.float32 | np.float64 | np.float16 | np.int8],
    batch: int,
    channels: int,
    sides: tuple[int, int],
    features: int,
    window: int,
    stride: int,
    dilation: int,
    panel_bytes: int,
) -> None:
    random = np.random.default_rng(3)
    x, w = (
        random.integers(-2, 3, shape).astype(dtype)
        for shape in ((batch, channels, *sides), (features, channels, window, window))
    )
    f = FunctionBuilder()
    padding = dilation * (window // 2)
    y = ops.conv(f.input("X", *x.shape), f.constant(w), stride=stride, padding=padding, dilation=dilation)
    call = tileir.compile(f.build(Y=y), {"X": x}, passes=SMALL_CACHES.replace("PANEL", str(panel_bytes)))
    wanted = exact(wide(x), wide(w), stride, padding, dilation)
    found = call(x)
    if dtype is np.int8:
        wanted = wanted.astype(np.int64).astype(found.dtype)  # sums wrap around
    np.testing.assert_array_equal(found, wanted)  # all sums are exact


@pytest.mark.sampled(2)
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize(("batch", "side", "channels"), [(1, 21, 3), (3, 41, 31), (2, 12, 1)])
def test_sums_of_two_convolutions_pass_over_pieces(batch: int, side: int, channels: int, stride: int) -> None:
    small = -(-side // stride)
    x, z = weights(batch, channels, side, side, seed=4), weights(batch, 5, small, small, seed=5)
    v, w = weights(48, channels, 1, 1, seed=6), weights(48, 5, 3, 3, seed=7)
    f = FunctionBuilder()
    a, b = f.input("X", *x.shape), f.input("Z", *z.shape)
    y = ops.conv(a, f.constant(v), stride=stride) + ops.conv(b, f.constant(w), padding=1)
    call = tileir.compile(f.build(Y=y), {"X": x, "Z": z}, passes=SMALL_CACHES.replace("PANEL", "16384"))
    grids = [[i.name for i in each.indices if i.binding is Binding.GRID] for each in call.scheduled.main.blocks]
    if channels > 16 and stride < 3:
        assert ["n_chunk", "o0_chunk", "k_panel"] in grids  # all panels pass over a piece before the next one
    left, right = exact(wide(x), wide(v), stride, 0), exact(wide(z), wide(w), 1, 1)
    np.testing.assert_array_equal(call(x, z), left + right)


def sigmoid(x: Array) -> Array:
    result: Array = 1 / (1 + np.exp(-x))
    return result


def remembered(x: Array, w_x: Array, w_h: Array, *, backwards: bool) -> Array:
    """Return the states of long short-term memory after each step in f64."""
    h = c = np.zeros((x.shape[1], w_h.shape[1]))
    states = []
    for now in x[::-1] if backwards else x:
        i, f, g, o = np.split(now @ w_x.T + h @ w_h.T, 4, 1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        states.append(h)
    return np.array(states[::-1] if backwards else states).reshape(len(x), *h.shape)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("dtype", "stored", "tolerance"),
    [
        (DType.F32, np.float32, 1e-5),
        (DType.F64, np.float64, 1e-13),
        (DType.F16, np.float16, 5e-3),
        (DType.BF16, ml_dtypes.bfloat16, 4e-2),
    ],
)
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize(("steps", "batch"), [(12, 1), (9, 3), (10, 8), (8, 17), (1, 8), (0, 8)])
def test_networks_with_memory(
    steps: int, batch: int, constant: bool, dtype: DType, stored: Any, tolerance: float
) -> None:
    inputs, hidden = 20, 32
    rng = np.random.default_rng(0)
    shapes = ((4 * hidden, inputs), (4 * hidden, hidden)) * 2
    parts = [(rng.standard_normal(shape) / 6).astype(stored) for shape in shapes]
    x = rng.standard_normal((steps, batch, inputs)).astype(stored)
    f = FunctionBuilder()
    data = f.input("X", *x.shape, dtype=dtype)
    names = ("A", "B", "C", "D")
    given_parts = [
        f.constant(each) if constant else f.input(name, *each.shape, dtype=dtype)
        for name, each in zip(names, parts, strict=True)
    ]
    sides = [ops.RecurrentWeights(*given_parts[:2]), ops.RecurrentWeights(*given_parts[2:])]
    y, _, _ = ops.lstm(data, sides, bidirectional=True)
    found = np.asarray(tileir.jit(f.build(Y=y))(x, *(() if constant else parts))).astype(np.float64)
    wide = [each.astype(np.float64) for each in (x, *parts)]
    both = [remembered(wide[0], *wide[1:3], backwards=False), remembered(wide[0], *wide[3:], backwards=True)]
    wanted = np.concatenate(both, -1)
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max(initial=0) < tolerance
