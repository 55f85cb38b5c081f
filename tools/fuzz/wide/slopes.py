"""Gradients of an oracle by differences in extended precision, with how far these are to be trusted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np

from fuzz.area import Array
from tileir.core import attrs

Oracle = Callable[[Sequence[Array]], Sequence[Array]]

_STEP: Final = 2.0**-18
_KINK: Final = 1e-3
_DOUBTFUL: Final = 0.25
_GROWTH: Final = 1.2


@attrs.frozen(eq=False)
class Slope:
    """A gradient by differences.

    Attributes:
        value: The gradient.
        terms: The sum of the magnitudes of what was added up.
        steepness: That sum where each weight is 1.
        doubt: By how much the value may be off.
        smooth: Where there is one, since both sides agree, or it is finite on both and multiplied by 0.

    """

    value: Array
    terms: Array
    steepness: Array
    doubt: Array
    smooth: Array


def slope(oracle: Oracle, inputs: Sequence[Array], place: int, weights: Sequence[Array], *, pointwise: bool) -> Slope:
    """Return the gradient of the sum of all results times weights, by one of the inputs.

    Args:
        oracle: Gives the results.
        inputs: What it takes.
        place: Which of them the gradient is by.
        weights: One for each result.
        pointwise: Whether results depend on elements at the same place alone, so that all may be moved at once.

    """
    usual = oracle(inputs)
    array = inputs[place]
    found = [np.zeros(array.shape, np.longdouble) for _ in range(4)]
    smooth = np.ones(array.shape, bool)
    with np.errstate(all="ignore"):
        for chosen in _moved(array, pointwise=pointwise):
            step = np.where(chosen, np.maximum(np.abs(array), np.longdouble(2.0**-6)) * _STEP, 0)
            smooth &= ~(chosen & (array != 0) & (np.abs(array) < 4 * step))  # 0, which may be a pole, is too near

            def at(factor: float, step: Array = step) -> Sequence[Array]:
                return oracle([*inputs[:place], array + factor * step, *inputs[place + 1 :]])

            sides = (at(1), at(-1), at(0.5), at(-0.5))
            size = step if pointwise else step.sum()
            parts = [_parts(each, weight, size) for *each, weight in zip(usual, *sides, weights, strict=True)]
            for total, *several in zip((*found, smooth), *parts, strict=True):
                for part in several:
                    reduced = _reduced(part, array.shape) if pointwise else part.sum()
                    if total.dtype == bool:
                        total &= np.where(chosen, reduced == 0, True)
                    else:
                        total += np.where(chosen, reduced, 0)
    value, terms, steepness, doubt = found
    # Where steps of two sizes disagree, the function changes on a smaller scale than both.
    return Slope(value, terms, steepness, doubt, smooth & np.isfinite(value) & (doubt <= _DOUBTFUL * terms))


def _moved(array: Array, *, pointwise: bool) -> Iterator[Array]:
    if pointwise:
        yield np.ones(array.shape, bool)
        return
    for place in np.ndindex(array.shape):
        one = np.zeros(array.shape, bool)
        one[place] = True
        yield one


def _parts(results: Sequence[Array], weight: Array, size: Array) -> tuple[Array, ...]:
    """Return what each result adds to a gradient, its magnitude, that without a weight, its error, and kinks as 1."""
    middle, above, below, near_above, near_below = results
    coarse, fine = (above - below) / (2 * size), (near_above - near_below) / size
    right, left = (above - middle) / size, (middle - below) / size
    best = (4 * fine - coarse) / 3
    noise = np.abs(middle) / np.longdouble(2) ** 62 / size
    kinked = ~(np.abs(right - left) <= _KINK * (np.abs(right) + np.abs(left)) + 2 * noise)
    # An infinite slope times 0 is NaN: where slopes on a side grow with each smaller step, nothing can be said.
    bounded = np.abs(near_above - middle) * 2 / size <= _GROWTH * np.abs(right) + 4 * noise
    bounded &= np.abs(middle - near_below) * 2 / size <= _GROWTH * np.abs(left) + 4 * noise
    kinked &= (weight != 0) | ~bounded
    best, doubt = (np.where(weight == 0, 0, each) for each in (best, np.abs(fine - coarse) + noise))
    magnitudes = np.abs(best * weight), np.abs(best), doubt * np.abs(weight)
    return best * weight, *magnitudes, kinked.astype(np.longdouble)


def _reduced(part: Array, shape: tuple[int, ...]) -> Array:
    """Return the sum over the axes along which an input was broadcast."""
    part = part.sum(tuple(range(part.ndim - len(shape))))
    return np.asarray(part.sum(tuple(a for a, size in enumerate(shape) if size == 1 != part.shape[a]), keepdims=True))
