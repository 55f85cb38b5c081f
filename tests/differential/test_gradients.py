"""Gradients of random Tile functions: against finite differences, and by all means of running them.

``--hypothesis-profile=thorough`` checks a thousand functions instead of a few.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies import means
from strategies.differentiable import Place, places
from strategies.effort import examples
from strategies.opencl_device import device as opencl_device
from tileir.tile.differentiation import gradient, jvp, vjp
from tileir.tile.ir import Function
from tileir_testing.gradients import check_gradients

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


@given(place=places())
@examples(50)
def test_gradients_agree_with_finite_differences(place: Place) -> None:
    """Ties are split evenly, as an element that is read at several points ties with itself."""
    check_gradients(place.case.text, place.case.inputs, place.wrt, place.of, ties="even", elements=20)


@given(place=places(statements=3))
@examples(10)
def test_second_derivatives_agree_with_finite_differences(place: Place) -> None:
    check_gradients(place.case.text, place.case.inputs, place.wrt, place.of, ties="even", elements=8, order=2)


@given(place=places())
@examples(25)
def test_forward_mode_is_the_transpose(place: Place) -> None:
    """For any tangent v and cotangent w, ``w · (J v)`` is ``(Jᵀ w) · v``."""
    rng, inputs = np.random.default_rng(0), place.case.inputs
    backward = vjp(place.case.function, place.wrt, place.of, even_ties=True).function
    forward = jvp(place.case.function, place.wrt, place.of, even_ties=True).function
    values = place.case.expected()
    cotangents = [np.asarray(rng.uniform(0.5, 1.5, values[name].shape), values[name].dtype) for name in place.of]
    tangents = [rng.uniform(0.5, 1.5, inputs[name].shape) for name in place.wrt]
    pulled = all_of(tileir.evaluate(backward, (*inputs.values(), *cotangents)))
    pushed = all_of(tileir.evaluate(forward, (*inputs.values(), *tangents)))
    left = [np.sum(w * y) for w, y in zip(cotangents, pushed, strict=True)]
    right = [np.sum(x * v) for x, v in zip(pulled, tangents, strict=True)]
    scale = 1.0 + sum(float(np.sum(np.abs(y))) for y in (*pushed, *pulled))
    exact = all(value.dtype == np.float64 for value in (*values.values(), *pulled))
    assert abs(sum(left) - sum(right)) <= (1e-11 if exact else 1e-4) * scale


def gradients_of(place: Place) -> Function:
    return gradient(place.case.function, place.wrt, place.of, even_ties=True).function


def all_of(results: Array | tuple[Array, ...]) -> tuple[Array, ...]:
    return results if isinstance(results, tuple) else (results,)


def assert_close(place: Place, results: tuple[Array, ...]) -> None:
    """Compare with what the interpreter gives."""
    expected = all_of(tileir.evaluate(gradients_of(place), place.case.inputs))
    for actual, right in zip(results, expected, strict=True):
        scale = float(np.max(np.abs(right), initial=1.0, where=np.isfinite(right)))
        np.testing.assert_allclose(actual, right, rtol=1e-11, atol=1e-12 * scale)


@pytest.mark.parametrize("passes", ["cpu", "gpu", "bold"])
@given(place=places(), target=st.sampled_from(sorted(means.TARGETS)))
@examples(6)
def test_gradients_are_the_same_on_the_processor(place: Place, target: str, passes: str) -> None:
    compiled = means.stages(gradients_of(place), place.case.inputs, target, passes)
    assert_close(place, tuple(means.on_device(compiled, place.case.inputs).values()))


@given(place=places())
@examples(3)
def test_gradients_are_the_same_through_opencl(place: Place) -> None:
    executable = tileir.compile(gradients_of(place), place.case.types, device=opencl_device())
    assert_close(place, all_of(executable(**place.case.inputs)))
