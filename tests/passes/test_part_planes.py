"""Planes of temporaries that begin in different sets of a cache: which ones move, and results as in NumPy in f64."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.effort import examples
from strategies.passes import arrays_for, assert_same_meaning
from tileir import FunctionBuilder, ops
from tileir.core.dtype import DType
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import run
from tileir.passes.layouts.part_planes import PartPlanes
from tileir.passes.rewrites.dead_code import DeadCode
from tileir.stripe.check.verifier import verify
from tileir.stripe.lower.lowering import lower
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from tileir.stripe.ir import Program
    from tileir.tile.ir import Function

STEP = PartPlanes(way_bytes=64, line_bytes=16, least_reuse=8)  # a plane of sixteen f32 is a way, and a line four


def convolutions(image: tuple[int, ...], features: int, window: int = 3, dtype: DType = DType.F32) -> Function:
    """Return a sum, whose place in memory is free, and a convolution of it by weights that are an input."""
    f = FunctionBuilder()
    x, w = f.input("X", *image, dtype=dtype), f.input("W", features, image[1], window, window, dtype=dtype)
    return f.build(Y=ops.conv(x + 1, w, padding=window // 2))


def before(image: tuple[int, ...], features: int, window: int = 3, dtype: DType = DType.F32) -> Program:
    types = {"X": TensorType(dtype, image), "W": TensorType(dtype, (features, image[1], window, window))}
    return run((DeadCode(), Accumulate()), lower(infer(convolutions(image, features, window, dtype), types)))


def strides(program: Program) -> list[tuple[int, ...]]:
    """Return the strides of temporaries of four axes."""
    fixed = {*program.inputs, *program.outputs, *(buffer.name for buffer in program.buffers)}
    return [r.shape.strides for r in program.memory if r.name not in fixed and len(r.shape.dims) == len("ncyx")]


@given(
    image=st.tuples(st.integers(1, 2), st.sampled_from((17, 20)), st.sampled_from((4, 8)), st.sampled_from((4, 8))),
    features=st.integers(1, 9),
    window=st.sampled_from((1, 3)),
)
@examples(8)
def test_the_meaning_stays(image: tuple[int, ...], features: int, window: int) -> None:
    program = before(image, features, window)
    after = run((STEP,), program)
    verify(after)
    assert_same_meaning(program, after, arrays_for(program))


def test_a_line_is_behind_each_plane_of_one_set() -> None:
    assert strides(before((2, 21, 8, 4), 8)) == [(672, 32, 4, 1)]
    assert strides(run((STEP,), before((2, 21, 8, 4), 8))) == [(21 * 36, 36, 4, 1)]
    assert strides(run((STEP,), before((2, 32, 4, 4), 8, 1))) == [(32 * 20 + 4, 20, 4, 1)]  # images would meet, too


def test_others_stay_as_they_are() -> None:
    for image, features, window in (
        ((1, 16, 8, 4), 8, 3),  # as many planes as a set holds
        ((1, 20, 7, 5), 8, 3),  # planes that no power of two divides
        ((1, 20, 8, 4), 6, 1),  # each element is read six times
    ):
        program = before(image, features, window)
        assert run((STEP,), program) is program


def test_inputs_and_results_stay_as_they_are() -> None:
    f = FunctionBuilder()
    x, w = f.input("X", 1, 20, 8, 4), f.input("W", 8, 20, 3, 3)
    types = {"X": TensorType(DType.F32, (1, 20, 8, 4)), "W": TensorType(DType.F32, (8, 20, 3, 3))}
    program = run((DeadCode(), Accumulate()), lower(infer(f.build(Y=ops.conv(x, w, padding=1)), types)))
    assert run((STEP,), program) is program


def test_a_reshape_of_a_temporary_keeps_it_as_it_is() -> None:
    f = FunctionBuilder()
    x, w = f.input("X", 1, 20, 8, 4), f.input("W", 8, 20, 3, 3)
    y = x + 1
    types = {"X": TensorType(DType.F32, (1, 20, 8, 4)), "W": TensorType(DType.F32, (8, 20, 3, 3))}
    function = f.build(Y=ops.conv(y, w, padding=1), Z=ops.reshape(y, (4, 160)) * 2)
    program = run((DeadCode(), Accumulate()), lower(infer(function, types)))
    after = run((STEP,), program)
    verify(after)
    assert_same_meaning(program, after, arrays_for(program))


@pytest.mark.parametrize(
    ("dtype", "stored", "tolerance"),
    [
        (DType.F32, np.float32, 1e-5),
        (DType.F64, np.float64, 1e-13),
        (DType.F16, np.float16, 2e-3),
        (DType.BF16, ml_dtypes.bfloat16, 2e-2),
    ],
)
@pytest.mark.parametrize("image", [(1, 40, 32, 32), (3, 24, 64, 32), (8, 17, 64, 64)])
def test_networks_of_large_pictures(image: tuple[int, ...], dtype: DType, stored: Any, tolerance: float) -> None:
    """Two convolutions, a largest value of windows, and pictures beside each other, of planes of 4 KiB and more."""
    channels = image[1]
    f = FunctionBuilder()
    x, w = f.input("X", *image, dtype=dtype), f.input("W", channels, channels, 3, 3, dtype=dtype)
    v = f.input("V", 7, 2 * channels, 1, 1, dtype=dtype)
    hidden = ops.relu(ops.conv(x, w, padding=1))
    y = ops.conv(ops.concatenate([hidden, ops.relu(x)], 1), v)
    function = f.build(Y=y, Z=ops.max_pool(hidden, 2))
    rng = np.random.default_rng(0)
    numbers = [rng.standard_normal(shape) for shape in (image, (channels, channels, 3, 3), (7, 2 * channels, 1, 1))]
    given_x, given_w, given_v = (each.astype(stored) for each in (numbers[0], numbers[1] / 20, numbers[2] / 9))
    found_y, found_z = tileir.jit(function)(given_x, given_w, given_v)
    wide_x, wide_w, wide_v = (each.astype(np.float64) for each in (given_x, given_w, given_v))
    padded = np.pad(wide_x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    h = np.maximum(np.einsum("ncyxij,kcij->nkyx", windows, wide_w, optimize=True), 0)
    wanted_y = np.einsum("ncyx,kc->nkyx", np.concatenate([h, np.maximum(wide_x, 0)], 1), wide_v[:, :, 0, 0])
    n, c, rows, columns = image
    z = h.reshape(n, c, rows // 2, 2, columns // 2, 2).max((3, 5))
    for found, wanted in ((found_y, wanted_y), (found_z, z)):
        error = np.abs(np.asarray(found).astype(np.float64) - wanted).max() / np.abs(wanted).max()
        assert error < tolerance
