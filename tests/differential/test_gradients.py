"""Gradients of random Tile functions: against finite differences, and by all means of running them.

``--hypothesis-profile=thorough`` checks a thousand functions instead of a few.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tileir
from strategies import means
from strategies.differentiable import Place, places
from strategies.effort import examples
from strategies.opencl_device import device as opencl_device
from tileir.testing.gradients import check_gradients
from tileir.tile.differentiation import gradient
from tileir.tile.ir import Function


@given(place=places())
@examples(50)
def test_gradients_agree_with_finite_differences(place: Place) -> None:
    """Ties are split evenly, as an element that is read at several points ties with itself."""
    check_gradients(place.case.text, place.case.inputs, place.wrt, place.of, ties="even", elements=20)


@given(place=places(statements=3))
@examples(10)
def test_second_derivatives_agree_with_finite_differences(place: Place) -> None:
    check_gradients(place.case.text, place.case.inputs, place.wrt, place.of, ties="even", elements=8, order=2)


def gradients_of(place: Place) -> Function:
    return gradient(place.case.function, place.wrt, place.of, even_ties=True).function


def assert_close(place: Place, results: tuple[np.ndarray[tuple[int, ...], np.dtype[np.float64]], ...]) -> None:
    """Compare with what the interpreter gives."""
    expected = tileir.evaluate(gradients_of(place), place.case.inputs)
    expected = expected if isinstance(expected, tuple) else (expected,)
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
    results = executable(**place.case.inputs)
    assert_close(place, results if isinstance(results, tuple) else (results,))
