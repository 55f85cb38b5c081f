"""Windows of one channel of which a thread computes several neighbours, from what it loads once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from passes.test_group_reduction import TARGET, depthwise
from strategies.effort import examples
from strategies.pipelines import fused
from tileir.core.dtype import DType
from tileir.driver.compiler import Stages, compile_stages
from tileir.passes.schedules.groups.group_reduction import GroupReduction
from tileir.semtree.check.verifier import verify_program
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.text.printer import to_text
from tileir.stripe.interpret.interpreter import interpret
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from collections.abc import Mapping

SEVERAL = "_sums["
"""Text in kernels whose threads hold the sums of several windows."""


def stages(text: str, shapes: Mapping[str, tuple[int, ...]], dtype: DType, step: GroupReduction) -> Stages:
    types = {name: TensorType(dtype, shape) for name, shape in shapes.items()}
    return compile_stages(text, types, TARGET, passes=(*fused(TARGET), step))


def check(found: Stages, shapes: Mapping[str, tuple[int, ...]], dtype: DType, spots: int = 0) -> None:
    """Compare with the meaning, with infinities and NaN at so many places of each input."""
    rng = np.random.default_rng(1)
    values = {name: rng.integers(-3, 4, shape).astype(dtype.numpy) for name, shape in shapes.items()}
    for array in values.values():
        if np.issubdtype(array.dtype, np.floating):
            for value in rng.choice([np.inf, -np.inf, np.nan], spots):
                array.flat[rng.integers(array.size)] = value
    verify_program(found.sem)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(
            run_program(found.sem, values, ALL_CHECKS)["O"], interpret(found.stripe, values)["O"]
        )


@given(
    batch=st.integers(1, 2),
    picture=st.tuples(st.integers(3, 8), st.integers(3, 8)),
    channels=st.sampled_from((4, 8, 12, 20)),
    window=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    steps=st.tuples(st.integers(1, 3), st.integers(1, 2), st.integers(0, 3)),
    threads=st.sampled_from((2, 3, 8)),
    local_bytes=st.sampled_from((0, 48 * 1024)),
    dtype=st.sampled_from((DType.I32, DType.F32, DType.F16)),
    spots=st.integers(0, 2),
)
@examples(60)
def test_the_meaning_stays(
    batch: int,
    picture: tuple[int, int],
    channels: int,
    window: tuple[int, int],
    steps: tuple[int, int, int],
    threads: int,
    local_bytes: int,
    dtype: DType,
    spots: int,
) -> None:
    """Also where weights or pixels are infinite or NaN: only windows that see them are."""
    stride, dilation, pad = steps
    assume(all(extent + 2 * pad > dilation * (taps - 1) for extent, taps in zip(picture, window, strict=True)))
    text, shapes = depthwise("nhwc", (batch, *picture, channels), window, stride, dilation, pad)
    check(stages(text, shapes, dtype, GroupReduction(threads, local_bytes=local_bytes)), shapes, dtype, spots)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("window", "steps", "picture", "outputs"),
    [
        ((3, 3), (1, 1, 1), (8, 8), (2, 4)),
        ((3, 3), (1, 1, 1), (7, 8), (1, 4)),
        ((3, 3), (1, 1, 1), (8, 6), (2, 2)),
        ((3, 3), (2, 1, 1), (8, 16), (2, 4)),
        ((5, 5), (1, 1, 2), (8, 8), (2, 4)),
        ((3, 3), (1, 2, 2), (8, 8), (2, 4)),
        ((7, 7), (1, 1, 3), (8, 8), (2, 4)),
        ((3, 3), (1, 1, 1), (14, 14), (1, 7)),
        ((7, 7), (1, 1, 3), (7, 7), (1, 7)),
        ((7, 7), (1, 1, 3), (5, 5), None),  # nothing divides it
        ((3, 3), (1, 1, 1), (11, 11), None),
    ],
)
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16])
def test_a_thread_has_neighbours_along_both_axes(
    window: tuple[int, int],
    steps: tuple[int, int, int],
    picture: tuple[int, int],
    outputs: tuple[int, int] | None,
    dtype: DType,
) -> None:
    text, shapes = depthwise("nhwc", (1, *picture, 16), window, *steps)
    found = stages(text, shapes, dtype, GroupReduction(4))
    (kernel,) = found.sem.kernels
    assert (SEVERAL in to_text(kernel)) == (outputs is not None)
    if outputs is not None:
        assert f"_sums[{4 * outputs[0] * outputs[1]}] align" in to_text(kernel)
    check(found, shapes, dtype)


@pytest.mark.parametrize(("groups", "sums"), [(30, 32), (60, 16), (120, 8), (300, 0)])
def test_threads_have_fewer_windows_where_there_are_few(groups: int, sums: int) -> None:
    text, shapes = depthwise("nhwc", (4, 16, 16, 32), (3, 3), 1, 1, 1)
    (kernel,) = stages(text, shapes, DType.F32, GroupReduction(32, groups=groups)).sem.kernels
    assert (f"_sums[{sums}]" in to_text(kernel)) if sums else (SEVERAL not in to_text(kernel))


def test_each_pixel_is_loaded_once() -> None:
    """Two by four windows of 3 x 3 see four rows of six pixels, and the nine weights come from local memory."""
    text, shapes = depthwise("nhwc", (4, 16, 16, 32), (3, 3), 1, 1, 1)
    (kernel,) = stages(text, shapes, DType.F32, GroupReduction(32)).sem.kernels
    assert to_text(kernel).count(" = A[") == 24


def test_what_follows_is_done_for_each_window() -> None:
    text = """function (A[N, H, W, C], K[C, I, J], B[C]) -> (R) {
        O[n, o, p, c : N, H, W, C] = +(A[n, o + i - 1, p + j - 1, c] * K[c, i, j]);
        R = O + B > 0 ? O + B : 0.0;
    }"""
    shapes = {"A": (2, 8, 8, 8), "K": (8, 3, 3), "B": (8,)}
    found = stages(text, shapes, DType.F32, GroupReduction(8))
    (kernel,) = found.sem.kernels
    assert SEVERAL in to_text(kernel)
    values = {name: np.random.default_rng(2).integers(-3, 4, shape).astype("f4") for name, shape in shapes.items()}
    np.testing.assert_array_equal(run_program(found.sem, values, ALL_CHECKS)["R"], interpret(found.stripe, values)["R"])


@given(
    batch=st.integers(1, 2),
    channels=st.integers(1, 5),
    picture=st.tuples(st.integers(1, 9), st.sampled_from((4, 6, 7, 8, 14, 16))),
    window=st.tuples(st.integers(1, 4), st.integers(1, 5)),
    steps=st.tuples(st.integers(1, 3), st.integers(1, 2), st.integers(0, 3)),
    threads=st.sampled_from((1, 3, 8, 64)),
    dtype=st.sampled_from((DType.I32, DType.F32, DType.F16)),
    spots=st.integers(0, 2),
)
@examples(60)
def test_threads_have_several_windows_of_a_row(
    batch: int,
    channels: int,
    picture: tuple[int, int],
    window: tuple[int, int],
    steps: tuple[int, int, int],
    threads: int,
    dtype: DType,
    spots: int,
) -> None:
    """Rows lie along memory, those of each channel apart."""
    stride, dilation, pad = steps
    assume(all(extent + 2 * pad > dilation * (taps - 1) for extent, taps in zip(picture, window, strict=True)))
    text, shapes = depthwise("nchw", (batch, *picture, channels), window, stride, dilation, pad)
    check(stages(text, shapes, dtype, GroupReduction(threads)), shapes, dtype, spots)


@pytest.mark.parametrize(("window", "wide", "outputs"), [(5, 7, 7), (5, 14, 14), (3, 56, 8), (5, 28, 4), (3, 13, 13)])
def test_a_thread_has_neighbours_along_a_row(window: int, wide: int, outputs: int) -> None:
    text, shapes = depthwise("nchw", (2, 8, wide, 16), (window, window), 1, 1, window // 2)
    found = stages(text, shapes, DType.F16, GroupReduction(8))
    check(found, shapes, DType.F16)
    assert f"_sums[{outputs}]" in to_text(found.sem.kernels[0])


@pytest.mark.parametrize(("stride", "pad"), [(1, 1), (2, 1), (2, 0)])
def test_rows_are_found_in_tensors_of_one_axis(stride: int, pad: int) -> None:
    out = [(extent + 2 * pad - 3) // stride + 1 for extent in (6, 9)]
    text = f"""function (B[M], K[C, I, J]) -> (O) {{
        A = reshape(B, 2, 3, 6, 9);
        O[n, c, o, p : 2, 3, {out[0]}, {out[1]}] =
            +(A[n, c, {stride} * o + i - {pad}, {stride} * p + j - {pad}] * K[c, i, j]);
    }}"""
    shapes = {"B": (324,), "K": (3, 3, 3)}
    found = stages(text, shapes, DType.F32, GroupReduction(8))
    check(found, shapes, DType.F32)
    assert SEVERAL in to_text(found.sem.kernels[-1])


@pytest.mark.parametrize("dtype", [DType.F32, DType.F16])
@pytest.mark.parametrize("steps", [1, 2])
def test_gradients_by_pixels_go_backwards(dtype: DType, steps: int) -> None:
    text = f"""function (A[N, P, Q, C], K[C, I, J]) -> (O) {{
        O[n, o + i - 1, {steps} * p + j - 1, c : N, P, {steps} * Q, C] = +(A[n, o, p, c] * K[c, i, j]);
    }}"""
    shapes = {"A": (2, 8, 8, 8), "K": (8, 3, 3)}
    found = stages(text, shapes, dtype, GroupReduction(8))
    check(found, shapes, dtype, spots=1)
    assert (SEVERAL in to_text(found.sem.kernels[0])) == (steps == 1)


@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.I32])
@pytest.mark.parametrize("places", [3, 5])
def test_threads_of_a_group_take_places_of_a_gradient_by_weights(dtype: DType, places: int) -> None:
    text = f"""function (A[N, H, W, C], G[N, P, Q, C]) -> (O) {{
        O[i, j, c : {places}, {places}, C] = +(A[n, o + i - 1, p + j - 1, c] * G[n, o, p, c]);
    }}"""
    shapes = {"A": (2, 10, 9, 16), "G": (2, 10, 9, 16)}
    found = stages(text, shapes, dtype, GroupReduction(64, groups=64))
    check(found, shapes, dtype)
    assert any(to_text(kernel).count("_thread = ") > 1 for kernel in found.sem.kernels)


@given(
    batch=st.integers(1, 2),
    gradient=st.tuples(st.integers(2, 7), st.integers(4, 12)),
    channels=st.sampled_from((4, 8, 12)),
    window=st.tuples(st.integers(1, 4), st.integers(2, 5)),
    steps=st.tuples(st.integers(1, 2), st.integers(1, 2), st.integers(0, 2)),
    threads=st.sampled_from((2, 8, 64)),
    dtype=st.sampled_from((DType.I32, DType.F32, DType.F16)),
    spots=st.integers(0, 2),
)
@examples(40)
def test_gradients_by_weights_keep_their_meaning(
    batch: int,
    gradient: tuple[int, int],
    channels: int,
    window: tuple[int, int],
    steps: tuple[int, int, int],
    threads: int,
    dtype: DType,
    spots: int,
) -> None:
    """A thread has all places of a window along a row, and terms of each in turns."""
    (high, wide), (rows, columns), (stride, dilation, pad) = gradient, window, steps
    picture = tuple(stride * (n - 1) + dilation * (k - 1) + 1 - 2 * pad for n, k in zip(gradient, window, strict=True))
    assume(min(picture) > 0 and batch * high * wide >= 32)
    text = f"""function (A[N, H, W, C], G[N, P, Q, C]) -> (O) {{
        O[i, j, c : {rows}, {columns}, C] = +(
            A[n, {stride} * o + {dilation} * i - {pad}, {stride} * p + {dilation} * j - {pad}, c] * G[n, o, p, c]
        );
    }}"""
    shapes = {"A": (batch, *picture, channels), "G": (batch, high, wide, channels)}
    found = stages(text, shapes, dtype, GroupReduction(threads))
    check(found, shapes, dtype, spots)


@pytest.mark.parametrize(
    ("window", "wide", "stride", "terms"),
    [(7, 28, 1, 7), (3, 56, 1, 8), (5, 12, 1, 6), (3, 24, 2, 6), (7, 7, 1, 7), (3, 13, 1, 0)],
)
def test_a_thread_has_all_places_of_a_row(window: int, wide: int, stride: int, terms: int) -> None:
    """It holds what they see of as many terms as registers hold; pixels whose number is prime are no such rows."""
    text = f"""function (A[N, H, W, C], G[N, P, Q, C]) -> (O) {{
        O[i, j, c : {window}, {window}, C] = +(A[n, {stride} * o + i - 1, {stride} * p + j - 1, c] * G[n, o, p, c]);
    }}"""
    size = stride * (wide - 1) + window - 2
    found = stages(text, {"A": (1, size, size, 8), "G": (1, wide, wide, 8)}, DType.F32, GroupReduction(64))
    (kernel,) = found.sem.kernels
    assert (f"_sums[{4 * window}]" in to_text(kernel)) == (terms > 0)
    assert not terms or to_text(kernel).count(" = G[") == terms
