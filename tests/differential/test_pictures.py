"""Chains of stencils over padded pictures, of every dtype that pictures have, on all back ends and by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies import means
from strategies.effort import examples
from strategies.families import Written, written
from strategies.opencl_device import device
from strategies.pictures import MODES
from strategies.tile import assert_equal
from tileir import ops
from tileir.tile.text.parser import parse

DTYPES = (np.float32, np.float64, np.int32, np.int16, np.uint8)


def as_dtype(case: Written, dtype: type[np.generic]) -> dict[str, np.ndarray[Any, Any]]:
    return {name: np.abs(array).astype(dtype) for name, array in case.arrays().items()}


@given(
    case=written("pictures", "channels"),
    dtype=st.sampled_from(DTYPES),
    target=st.sampled_from(sorted(means.TARGETS)),
    passes=st.sampled_from(("cpu", "small", "gpu")),
)
@examples(80)
def test_every_dtype_agrees(case: Written, dtype: type[np.generic], target: str, passes: str) -> None:
    """Integers agree exactly, and wrap alike; floats but for the rounding of large sums."""
    inputs = as_dtype(case, dtype)
    compiled = means.stages(parse(case.text), inputs, target, passes)
    expected = means.by_stripe_interpreter(compiled, inputs, scheduled=False)
    close = 1e-4 if np.issubdtype(dtype, np.floating) else 0
    for name, found in means.on_device(compiled, inputs).items():
        scale = max(1, float(np.abs(expected[name]).max())) if close else 1
        np.testing.assert_allclose(found, expected[name], rtol=close, atol=close * scale)


@given(case=written("pictures", "channels"))
@examples(20)
def test_opencl_agrees(case: Written) -> None:
    inputs = case.arrays()
    expected = means.by_stripe_interpreter(means.stages(parse(case.text), inputs), inputs, scheduled=False)
    found = tileir.jit(parse(case.text), device=device().id)(*inputs.values())
    results = found if isinstance(found, tuple) else (found,)
    assert_equal({name: np.asarray(value) for name, value in zip(expected, results, strict=True)}, expected)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", [(1, 1), (2, 70), (70, 2), (67, 81), (40, 50, 3)])
def test_a_sobel_magnitude_is_that_of_numpy(mode: Any, shape: tuple[int, ...]) -> None:
    function = tileir.FunctionBuilder()
    names = ("H", "W", "C")[: len(shape)]
    picture = function.input("I", *names)
    across, down = function.input("KX", "P", "Q"), function.input("KY", "P", "Q")
    margins = [(1, 1), (1, 1), (0, 0)][: len(shape)]
    padded = ops.pad(picture, margins, mode=mode)
    y, x, c, i, j = function.indices("y x c i j")
    place, seen = ((y, x, c), (y + i, x + j, c)) if len(shape) == 3 else ((y, x), (y + i, x + j))
    slopes = []
    for name, window in (("GX", across), ("GY", down)):
        slope = function.tensor(name, *picture.dims)
        slope[place] += padded[seen] * window[i, j]
        slopes.append(slope)
    sobel = function.build(ops.sqrt(slopes[0] * slopes[0] + slopes[1] * slopes[1]))
    values = np.random.default_rng(0).random(shape, np.float32)
    weights = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]], np.float32)
    executable = tileir.compile(sobel, [values, weights, weights.T.copy()])
    around = np.pad(values, margins, mode)
    windows = np.lib.stride_tricks.sliding_window_view(around, (3, 3), axis=(0, 1))
    a, b = (np.einsum("...ij,ij->...", windows, kernel) for kernel in (weights, weights.T))
    found = executable(values, weights, weights.T.copy())
    np.testing.assert_allclose(found, np.hypot(a, b), rtol=1e-4, atol=1e-5)
    if min(shape[:2]) > 32:
        inside, border = executable.scheduled.main.blocks  # one kernel inside, and one for the border
        assert ("border" in inside.tags, "border" in border.tags) == (False, True)
