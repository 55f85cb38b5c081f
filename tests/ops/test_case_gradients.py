"""Every case of the library: what goes backward through it against finite differences, in f64 by interpretation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pytest

import tileir
from strategies.operations import Case, all_cases
from tileir.driver.arguments import tensor_type
from tileir.typed.inference import infer
from tileir.typed.interpreter import interpret

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from strategies.operations import Array

CASES: Final = {name: case for name, case in all_cases().items() if case.differentiated}
STEP: Final = 1e-6
TOLERANCE: Final = 1e-6
MOST: Final = 20  # elements of an input that are tried
KINK: Final = 1e-3  # by how much slopes to both sides differ where there is no derivative


def total(case: Case, arriving: Mapping[str, Array]) -> Callable[[Mapping[str, Array]], float]:
    """Return the function whose gradient is asked for: results times what arrives at them, summed up."""
    arrays = case.arrays("f64")
    graph = infer(case.function(), {name: tensor_type(name, array) for name, array in arrays.items()})

    def value(inputs: Mapping[str, Array]) -> float:
        results = interpret(graph, dict(inputs))
        return sum(float((results[f"O{name[1:]}"] * weight).sum()) for name, weight in arriving.items())

    return value


def differences(value: Callable[[Mapping[str, Array]], float], arrays: Mapping[str, Array], name: str) -> Array:
    """Return the slope towards each element of an input, NaN where those to both sides differ, or nobody tried."""
    slopes = np.full(arrays[name].size, np.nan)
    middle = value(arrays)
    for element in np.random.default_rng(0).permutation(slopes.size)[:MOST]:
        sides = []
        for step in (STEP, -STEP):
            moved = arrays[name].copy()
            moved.flat[element] += step
            sides.append(value({**arrays, name: moved}))
        ahead, behind = (sides[0] - middle) / STEP, (middle - sides[1]) / STEP
        if abs(ahead - behind) <= KINK * max(1.0, abs(ahead)):
            slopes[element] = (sides[0] - sides[1]) / (2 * STEP)
    return slopes.reshape(arrays[name].shape)


@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str) -> None:
    case = CASES[name]
    arrays, arriving = case.arrays("f64"), case.arriving("f64")
    found = tileir.evaluate(case.backward(), {**arrays, **arriving})
    gradients = found if isinstance(found, tuple) else (found,)
    value = total(case, arriving)
    for wrt, gradient in zip(case.differentiated, gradients, strict=True):
        assert (gradient.dtype, gradient.shape) == (np.float64, arrays[wrt].shape)
        slopes = differences(value, arrays, wrt)
        smooth = np.isfinite(slopes)
        assert smooth.sum() >= 0.5 * min(smooth.size, MOST)
        scale = max(1.0, float(np.abs(slopes[smooth]).max(initial=0)))
        np.testing.assert_allclose(gradient[smooth], slopes[smooth], rtol=0, atol=case.tolerance * TOLERANCE * scale)
