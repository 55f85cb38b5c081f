"""Tolerances of results: units in the last place, and roundings of what cancels.

f16 and bf16 may be one unit off, since they are rounded once from f32, and besides by 4 roundings of f32 of what
cancels: of the terms that a row tells, and of what a relative change of the inputs changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from fuzz.area import Array
from tileir.core import DType, dtype_of

ROUNDINGS: Final = 4.0
"""By how many roundings of the sum of the terms a result may be off."""

_SUBNORMAL_TERMS: Final = 256

_STEP: Final = 2.0**-24
"""The relative change of the inputs that tells how a result depends on them."""


def wide(array: Array) -> Array:
    """Return an array for an oracle: floats in extended precision, integers in 64 bits that wrap alike."""
    dtype = dtype_of(array)
    if dtype.is_float:
        return array.astype(np.float64).astype(np.longdouble)
    return array if dtype.is_bool else array.astype(np.uint64 if dtype is DType.U64 else np.int64)


def results_of(found: Any) -> tuple[Array, ...]:
    """Return one result or several as a tuple of arrays."""
    return tuple(map(np.asarray, found if isinstance(found, tuple | list) else (found,)))


def sensitivity(
    oracle: Callable[[Sequence[Array]], Sequence[Array]],
    inputs: Sequence[Array],
    *,
    trials: int = 2,
    step: float = _STEP,
) -> list[Array]:
    """Return how much results change, relative to a relative change of the inputs by random signs.

    A difference of two elements does not change where their signs are equal, as half of the trials let them be; and the
    quotient of a difference by itself changes no more by a large step than by a small one.
    """
    generator = np.random.default_rng(1)
    usual = oracle(inputs)
    most = [np.zeros(result.shape, np.longdouble) for result in usual]
    for _ in range(trials):
        moved = [
            array * (1 + step * generator.choice((-1, 1), array.shape)) if array.dtype == np.longdouble else array
            for array in inputs
        ]
        for place, (one, other) in enumerate(zip(oracle(moved), usual, strict=True)):
            if other.dtype == np.longdouble:
                # Infinities do not move, and the difference of two is none.
                finite = np.isfinite(one) & np.isfinite(other)
                change = np.where(finite, one, 0) - np.where(finite, other, 0)
                most[place] = np.maximum(most[place], np.abs(change))
    return [each / np.longdouble(step / 2) for each in most]


def overflowing(dtype: DType, largest: Array) -> Array:
    """Return where magnitudes on the way to a result are beyond the largest number of what it is computed in."""
    return np.asarray(~(largest < np.longdouble(_computed_in(dtype).format.largest)))


def least_normal(dtype: DType) -> Any:
    """Return the least normal number of what a dtype is computed in."""
    made = _computed_in(dtype).format
    return np.ldexp(np.longdouble(made.smallest_subnormal), made.fraction_bits)


def rounding(dtype: DType) -> float:
    """Return about how much a number of what a dtype is computed in changes where it is rounded, relative to it."""
    return float(2.0 ** (1 - _computed_in(dtype).format.precision))


def _computed_in(dtype: DType) -> DType:
    return DType.F32 if dtype.is_narrow else dtype


def unit(dtype: DType, values: Array) -> Array:
    """Return the unit in the last place of a dtype at each value."""
    exponents = np.frexp(np.where(np.isfinite(values), values, 0))[1] - dtype.format.precision
    least = np.longdouble(dtype.format.smallest_subnormal)
    return np.where(values == 0, least, np.maximum(np.ldexp(np.longdouble(1), exponents), least))


def compare(
    told: str,
    found: Array,
    wanted: Array,
    *,
    units: float,
    terms: Array | float,
    exact: Array | bool,
    overflows: Array | bool = False,
    slack: Array | float = 0.0,
) -> None:
    """Raise an AssertionError for the first element that is not what it should be.

    Args:
        told: What the message begins with.
        found: Our result.
        wanted: The right one.
        units: By how many units in the last place f32 and f64 may be off.
        terms: The sum of the magnitudes of what is added up.
        exact: Whether the right result is a number of the dtype, and has to be met.
        overflows: Where sums on the way may overflow: in place of a number infinity is right as well, and NaN in
            place of both.
        slack: By how much more the result may be off.

    """
    dtype = dtype_of(found)
    if found.shape != wanted.shape:
        raise AssertionError(f"{told} has shape {found.shape}, not {wanted.shape}")
    if dtype.is_float != (wanted.dtype.kind == "f") or dtype.is_bool != (wanted.dtype.kind == "b"):
        raise AssertionError(f"{told} has dtype {dtype.value} in place of {wanted.dtype.name}")
    if dtype.is_float:
        most = 1.0 if dtype.is_narrow else units
        number = wide(found)
        lost = (np.isnan(number) & ~np.isnan(wanted)) | (np.isinf(number) & np.isfinite(wanted))
        wrong = _apart(dtype, number, wanted, most, terms, exact, slack) & ~(overflows & lost)
    elif wanted.dtype == object:
        wrong = np.asarray(found.astype(object) != wanted)
    else:
        wrong = found != wanted.astype(found.dtype)
    if wrong.any():
        place = tuple(map(int, np.argwhere(wrong)[0]))
        right = np.asarray(wanted[place]).astype(np.float64 if dtype.is_float else wanted.dtype)
        raise AssertionError(f"{told} is {found[place]} at {list(place)}, not {right}; {wrong.sum()} of {wrong.size}")


def _apart(
    dtype: DType,
    found: Array,
    wanted: Array,
    units: float,
    terms: Array | float,
    exact: Array | bool,
    slack: Array | float,
) -> Array:
    with np.errstate(all="ignore"):
        rounded = wide(wanted.astype(dtype.numpy))
        alike = (found == rounded) | (np.isnan(found) & np.isnan(rounded))
        epsilon = np.longdouble(2.0 ** (1 - (24 if dtype.is_narrow else dtype.format.precision)))
        allowed = units * unit(dtype, wanted) + ROUNDINGS * epsilon * terms + slack
        if not dtype.is_narrow:  # whose terms may each be rounded below the least normal number
            allowed = allowed + _SUBNORMAL_TERMS * np.longdouble(dtype.format.smallest_subnormal)
        near = np.abs(found - wanted) <= allowed
        largest = np.longdouble(dtype.format.largest)
        # Beyond the largest number there is infinity, or NaN where the dtype has none.
        over = (
            ~np.isfinite(found) & (np.isnan(found) != dtype.format.infinities) & (np.abs(wanted) + allowed >= largest)
        )
        over &= (np.sign(found) == np.sign(wanted)) | np.isnan(found)
        return np.asarray(~(alike | (~np.asarray(exact) & (near | over))))
