"""Every case of the library, differentiated in f64 by interpretation.

What goes backward is held against finite differences, of few elements in a push, and what goes forward against what
goes backward, all elements at once.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import tileir
from strategies.effort import share_of
from strategies.operations import Case, all_cases, sample
from tileir.driver.calls.arguments import tensor_type
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from strategies.operations import Array

CASES: Final = {name: case for name, case in all_cases().items() if case.differentiated}
STEP: Final = 1e-6
TOLERANCE: Final = 1e-6
MOST: Final = max(4, share_of(10))  # elements of an input that are tried
KINK: Final = 1e-3  # by how much slopes to both sides differ where there is no derivative


def weighted(case: Case, arriving: Mapping[str, Array]) -> Callable[[Mapping[str, Array]], Array]:
    """Return the function whose sum is differentiated: results times what arrives at them, one after another."""
    arrays = case.arrays("f64")
    graph = infer(case.function(), {name: tensor_type(name, array) for name, array in arrays.items()})

    def value(inputs: Mapping[str, Array]) -> Array:
        results = interpret(graph, dict(inputs))
        return np.concatenate([(results[f"O{name[1:]}"] * weight).ravel() for name, weight in arriving.items()])

    return value


def differences(value: Callable[[Mapping[str, Array]], Array], arrays: Mapping[str, Array], name: str) -> Array:
    """Return the slope towards each element of an input, NaN where those to both sides differ, or nobody tried.

    Results are subtracted before they are summed up: a large one would hide how small ones change.
    """
    slopes = np.full(arrays[name].size, np.nan)
    middle = value(arrays)
    for element in np.random.default_rng(0).permutation(slopes.size)[:MOST]:
        sides = []
        for step in (STEP, -STEP):
            moved = arrays[name].copy()
            moved.flat[element] += step
            sides.append(value({**arrays, name: moved}))
        ahead, behind = (float(change.sum()) / STEP for change in (sides[0] - middle, middle - sides[1]))
        if abs(ahead - behind) <= KINK * max(1.0, abs(ahead)):
            slopes[element] = (ahead + behind) / 2
    return slopes.reshape(arrays[name].shape)


@functools.cache  # both tests ask
def gradients_of(name: str) -> tuple[Array, ...]:
    """Return what arrives at each input that is differentiated, in f64."""
    case = CASES[name]
    return tuple_of(tileir.evaluate(case.backward(), {**case.arrays("f64"), **case.arriving("f64")}))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str) -> None:
    case = CASES[name]
    arrays, arriving = case.arrays("f64"), case.arriving("f64")
    value = weighted(case, arriving)
    for wrt, gradient in zip(case.differentiated, gradients_of(name), strict=True):
        assert (gradient.dtype, gradient.shape) == (arrays[wrt].dtype, arrays[wrt].shape)
        slopes = differences(value, arrays, wrt)
        smooth = np.isfinite(slopes)
        assert smooth.sum() >= 0.5 * min(smooth.size, MOST)
        scale = max(1.0, float(np.abs(slopes[smooth]).max(initial=0)))
        np.testing.assert_allclose(gradient[smooth], slopes[smooth], rtol=0, atol=case.tolerance * TOLERANCE * scale)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", CASES)
def test_forward_mode_is_the_transpose_of_reverse_mode(name: str) -> None:
    case = CASES[name]
    arrays, arriving = case.arrays("f64"), case.arriving("f64")
    tangents = {f"V{wrt}": sample(*arrays[wrt].shape, low=-1, high=1, seed=5) for wrt in case.differentiated}
    moved = tuple_of(tileir.evaluate(case.forward(), {**arrays, **tangents}))
    terms = [np.asarray(w * t) for w, t in zip(arriving.values(), moved, strict=True)]
    others = [np.asarray(g * v) for g, v in zip(gradients_of(name), tangents.values(), strict=True)]
    scale = max(1.0, *(float(abs(part).sum()) for part in (*terms, *others)))
    assert abs(sum(part.sum() for part in terms) - sum(part.sum() for part in others)) <= 1e-10 * scale


def tuple_of(results: Any) -> tuple[Array, ...]:
    """Return the results of a function, of which there may be one."""
    return results if isinstance(results, tuple) else (results,)
