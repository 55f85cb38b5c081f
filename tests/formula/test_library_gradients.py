"""Functions of the catalogue have the gradients that finite differences tell, by pictures and by parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tileir import FunctionBuilder
from tileir_formula.definitions.catalogue import own_functions
from tileir_formula.definitions.functions import parameter_name
from tileir_formula.ir import Step
from tileir_formula.text.parser import parse
from tileir_testing.gradients import check_gradients

if TYPE_CHECKING:
    import numpy.typing as npt

    from tileir.ops.shared.foundation import Dim, Tensor
    from tileir.tile.ir import Function

SMOOTH = (
    "convolve(weights=[1 2 3; 4 5 6])", "selective", "box", "gaussian", "sharpen", "sobel", "laplacian_of_gaussian",
    "corners", "guided", "median", "dilate", "bilateral", "diffuse", "gamma", "levels", "curve", "sigmoid", "tonemap",
    "vignette", "noise", "stretch", "luminance", "hue", "to_lab", "from_lab", "white_balance", "resize", "pool",
    "rotate(angle=27, zoom=2)", "warp(matrix=[0.6 0.13 1.1; 0.07 0.7 0.9; 0.001 0 1])", "lens(strength=0.31, zoom=2)",
    "turn", "magnitude", "soft_light",
)  # fmt: skip
FAR_APART = ("dilate", "hue", "median")
"""Functions that choose between values, which are so far apart that small differences choose the same."""
WARPS = ("rotate", "warp", "lens")
"""Functions that look between pixels, of a picture that has no kinks there."""


def picture(text: str, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    if text.startswith(WARPS):
        row, column, channel = np.indices((10, 12, 3))
        return np.asarray(0.03 * row + 0.02 * column * (channel + 1) - 0.002 * row * column + 0.1)
    spread = rng.permutation(np.linspace(0.1, 0.9, 360)).reshape(10, 12, 3)
    return np.asarray(spread * (100 if text in FAR_APART else 1))


def in_doubles(text: str) -> tuple[Function, dict[str, Any]]:
    """Return the function of a step without the conversions to f32 that formulas make, and what it is called with."""
    step = parse(text).steps[0]
    assert isinstance(step, Step)
    function = own_functions()[step.function]
    builder = FunctionBuilder()
    values = function.operands(step.arguments)
    operands: list[Tensor | Dim | float] = []
    arrays: dict[str, Any] = {}
    rng = np.random.default_rng(6)
    for each in function.body.inputs:
        value = values.get(parameter_name(function, each.name))
        if value is None:
            operands.append(builder.input(each.name, *(f"{each.name}{axis}" for axis in range(3))))
            arrays[each.name] = picture(text, rng)
        elif parameter_name(function, each.name) in function.fixed:
            assert isinstance(value, int | float)
            operands.append(value)
        elif isinstance(value, int):
            operands.append(builder.integer(each.name))
            arrays[each.name] = value
        elif isinstance(value, float):
            operands.append(builder.scalar(each.name))
            arrays[each.name] = np.float64(value)
        else:
            operands.append(builder.input(each.name, *(f"{each.name}{axis}" for axis in range(value.ndim))))
            arrays[each.name] = value.astype(np.float64)
    return builder.build(Result=function.applied(operands, function.boundary)), arrays


@pytest.mark.sampled(2)
@pytest.mark.parametrize("text", SMOOTH)
def test_gradients(text: str) -> None:
    function, arrays = in_doubles(text)
    check_gradients(function, arrays, ties="even", elements=12)
