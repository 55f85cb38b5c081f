"""Random numbers of many distributions, drawn from an explicit state.

A state is u32[4], as :func:`random_state` makes it; each function returns its numbers and the next state. Equal states
give equal numbers: integers and choices to the bit on every device, floats within the rounding of formulas on uniform
numbers. These have 24 bits, or the precision of a narrower dtype, and 48 if the dtype has 64 bits, which takes two
draws. No gradient goes to the state; ``sizes`` are dimensions and integers.

The generator is Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tileir.core.dtype import DType
from tileir.ops.arithmetic.reductions import argmax
from tileir.ops.arrays.indexing import take
from tileir.ops.arrays.sorting import argsort
from tileir.ops.shared.foundation import (
    Size,
    Tensor,
    axes_of,
    axis_of,
    cast_to,
    dim_like,
    dims_of,
    dtype_of,
    full,
    integer_of,
    mistaken,
    narrowed,
    rank_of,
    wide,
)
from tileir.tile import builder_functions as tf

_BITS: Final = 24  # of a uniform number
_FEW: Final = 256  # greatest number of integers that are drawn evenly enough from 24 bits
_MOST: Final = 1 << 32  # and from 48


def random_state(seed: int = 0) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Return the array of a state: ``seed``, from 0 to 2^64 - 1, is its key, and its counter begins at 0.

    Raises:
        TileError: TIL217, the seed is no integer of this range.
    """
    key = integer_of(seed, "a seed")
    if not 0 <= key < 1 << 64:
        raise mistaken(f"a seed is from 0 to 2**64 - 1, not {key}")
    return np.array([key & 0xFFFFFFFF, key >> 32, 0, 0], np.uint32)


def split_state(state: Tensor, count: int) -> tuple[Tensor, ...]:
    """Return ``count`` states whose numbers are independent of one another, and of those of the state itself.

    Their keys are drawn from the state, as in JAX's ``split``; the state must not be used any more.

    Raises:
        TileError: TIL217, the count is no positive integer.
    """
    number = integer_of(count, "a number of states")
    if number < 1:
        raise mistaken(f"a number of states is positive, not {number}")
    words, _ = _bits(state, [number, 4, 2], "u32")
    high, low = (take(words, tf.cast(full(state, (), part), "i32"), 2) for part in (0, 1))
    mixed = (high << (32 - _BITS)) ^ (low >> (2 * _BITS - 32))
    keys = tf.where(tf.index(mixed, 1) < 2, mixed, tf.cast(full(state, (), 0), "u32"))
    return tuple(take(keys, full(state, (), place)) for place in range(number))


def uniform(
    state: Tensor,
    sizes: Sequence[Size],
    *,
    low: Tensor | float = 0,
    high: Tensor | float = 1,
    dtype: DType | str = "f32",
) -> tuple[Tensor, Tensor]:
    """Return uniformly distributed numbers from ``low`` on and below ``high``, and the next state.

    ``low + (high - low) * u`` with ``u`` in {0, 2^-b, …, 1 - 2^-b} for b bits. Rounding may reach a ``high`` that is a
    tensor.
    """
    values, after = _uniform(state, sizes, dtype)
    if _is(low, 0) and _is(high, 1):
        return cast_to(values, dtype), after
    values = cast_to(low + (high - low) * values, dtype)
    last = _below(high, low, dtype) if isinstance(low, int | float) and isinstance(high, int | float) else None
    return values if last is None else tf.min(values, last), after


def normal(
    state: Tensor,
    sizes: Sequence[Size],
    *,
    mean: Tensor | float = 0,
    std: Tensor | float = 1,
    dtype: DType | str = "f32",
) -> tuple[Tensor, Tensor]:
    """Return numbers of the normal distribution, and the next state.

    ``mean + std * sqrt(2) * erfinv(x)`` for 2^24 equidistant ``x`` in (-1, 1), so none is beyond 5.4 deviations; in f64
    for 2^48 of them, and none beyond 8.

    Source: the inverse error function of Giles, "Approximating the erfinv function" (2010), in single precision, and in
    f64 two further steps of Halley's method.
    """
    values, after = _uniform(state, sizes, _computed(dtype))
    places = (2 * values - 1) + 2.0 ** -_bits_of(dtype)
    return cast_to(_moved(_erfinv(places, dtype) * math.sqrt(2), mean, std), dtype), after


def truncated_normal(
    state: Tensor,
    sizes: Sequence[Size],
    *,
    mean: Tensor | float = 0,
    std: Tensor | float = 1,
    low: float = -2,
    high: float = 2,
    dtype: DType | str = "f32",
) -> tuple[Tensor, Tensor]:
    """Return numbers of the normal distribution between two bounds, counted in deviations, and the next state.

    Raises:
        TileError: TIL217, ``low`` is not below ``high``.

    Source: the inverse of the distribution function, as in JAX's ``truncated_normal``.
    """
    if not low < high:
        raise mistaken(f"low is below high, but {low} is not below {high}")
    first, last = (math.erf(bound / math.sqrt(2)) for bound in (low, high))
    inner = 1 - 2.0 ** -_bits_of(dtype)
    values, after = _uniform(state, sizes, _computed(dtype))
    places = tf.max(tf.min(values * (last - first) + first, inner), -inner)
    deviations = _erfinv(places, dtype) * math.sqrt(2)
    for bound, limited in ((low, tf.max), (high, tf.min)):
        deviations = limited(deviations, bound) if math.isfinite(bound) else deviations
    return cast_to(_moved(deviations, mean, std), dtype), after


def exponential(
    state: Tensor, sizes: Sequence[Size], *, rate: Tensor | float = 1, dtype: DType | str = "f32"
) -> tuple[Tensor, Tensor]:
    """Return numbers of the exponential distribution, ``-log(1 - u) / rate``, and the next state.

    Raises:
        TileError: TIL217, the rate is a number that is not above 0.

    """
    if isinstance(rate, int | float) and not rate > 0:
        raise mistaken(f"a rate is above 0, not {rate}")
    values, after = _uniform(state, sizes, _computed(dtype))
    numbers = -tf.log(1 - values)
    return cast_to(numbers if _is(rate, 1) else numbers / rate, dtype), after


def gumbel(state: Tensor, sizes: Sequence[Size], *, dtype: DType | str = "f32") -> tuple[Tensor, Tensor]:
    """Return numbers of the standard Gumbel distribution, ``-log(-log(1 - u))``, and the next state."""
    values, after = _uniform(state, sizes, _computed(dtype))
    return cast_to(-tf.log(tf.max(-tf.log(1 - values), 2.0 ** -(_bits_of(dtype) + 1))), dtype), after


def bernoulli(state: Tensor, p: Tensor | float, sizes: Sequence[Size] | None = None) -> tuple[Tensor, Tensor]:
    """Return bools that are true with probability ``p``, and the next state; by default in the shape of ``p``.

    Raises:
        TileError: TIL217, ``p`` is a number that is not in [0, 1].

    """
    if isinstance(p, int | float) and not 0 <= p <= 1:
        raise mistaken(f"a probability is from 0 to 1, not {p}")
    values, after = tf.prng(state, *(dims_of(p) if sizes is None else sizes))
    return values < p, after


def randint(
    state: Tensor, sizes: Sequence[Size], low: Size, high: Size, *, dtype: DType | str = "i32"
) -> tuple[Tensor, Tensor]:
    """Return uniformly distributed integers from ``low`` on and below ``high``, and the next state.

    They are ``low + floor(b * (high - low) / 2^n)`` of n random bits, 24 for up to 256 integers and 48 otherwise, so
    that the relative error of probabilities is at most 2^-16.

    Raises:
        TileError: TIL217, there are no integers between the bounds, more than 2^32, or one that the dtype cannot hold;
            TIL206, there is no such dtype.
    """
    first, end = dim_like(state, low), dim_like(state, high)
    element = dtype_of(dtype)
    for bound in (first.value, None if end.value is None else end.value - 1):
        if element.is_integer and bound is not None and not element.minimum <= bound <= element.maximum:
            raise mistaken(f"{element.value} holds integers from {element.minimum} to {element.maximum}, not {bound}")
    count = end - first
    if count.value is not None and not 0 < count.value <= _MOST:
        raise mistaken(f"there are from 1 to 2**32 integers to draw, not {count.value}")
    if count.value is not None and count.value <= _FEW:
        bits, after = _bits(state, sizes, "u32")
        numbers = bits * count >> _BITS
    else:
        upper, between = _bits(state, sizes, "u64")
        lower, after = _bits(between, sizes, "u64")
        numbers = upper * count + (lower * count >> _BITS) >> _BITS
    return cast_to(numbers, dtype) + first, after


def categorical(state: Tensor, logits: Tensor, *, axis: int = -1, samples: Size | None = None) -> tuple[Tensor, Tensor]:
    """Return positions along ``axis``, each with probability ``softmax(logits)``, and the next state.

    ``samples`` adds a leading axis of this size; samples are drawn with replacement.

    Raises:
        TileError: TIL314, there is no such axis.

    Source: the Gumbel-max trick, as in JAX's ``categorical``.
    """
    place = axis_of(logits, axis) - rank_of(logits)
    front = () if samples is None else (samples,)
    noise, after = gumbel(state, [*front, *dims_of(logits)])
    return argmax(logits + noise, place), after


def permutation(state: Tensor, count: Size) -> tuple[Tensor, Tensor]:
    """Return the integers below ``count`` in random order, and the next state.

    They are sorted by keys of 48 random bits.
    """
    upper, between = _bits(state, [count], "u64")
    lower, after = _bits(between, [count], "u64")
    return argsort((upper << _BITS) | lower), after


def shuffle(state: Tensor, x: Tensor, *, axis: int = 0) -> tuple[Tensor, Tensor]:
    """Return the slices of ``x`` along ``axis`` in random order, and the next state.

    Raises:
        TileError: TIL314, there is no such axis.

    """
    place = axis_of(x, axis)
    order, after = permutation(state, dims_of(x)[place])
    return take(x, order, place), after


def dropout(
    x: Tensor,
    state: Tensor,
    rate: float = 0.5,
    *,
    axes: int | Sequence[int] | None = None,
    training: bool = True,
) -> tuple[Tensor, Tensor]:
    """Return ``x`` with elements set to 0 at random, the others divided by ``1 - rate``, and the next state.

    Elements are dropped independently along ``axes``, by default all, and together along the others. The gradient goes
    to the remaining elements. If ``training`` is false, ``x`` and the state are returned as they are.

    Raises:
        TileError: TIL217, the rate is not in [0, 1]; TIL314, there is no such axis.

    Source: Srivastava et al., "Dropout: a simple way to prevent neural networks from overfitting" (2014), as in
    PyTorch's ``dropout``.
    """
    if not 0 <= rate <= 1:
        raise mistaken(f"a rate is from 0 to 1, not {rate}")
    single = axes_of(x, axes)
    if not training:
        return x, state
    sizes = [dim if axis in single else 1 for axis, dim in enumerate(dims_of(x))]
    stays, after = bernoulli(state, 1 - rate, sizes)
    return tf.where(stays, x if rate == 1 else narrowed(wide(x) * (1 / (1 - rate)), x), 0), after


def _bits(state: Tensor, sizes: Sequence[Size], dtype: str) -> tuple[Tensor, Tensor]:
    """Return integers of 24 random bits, and the next state."""
    values, after = tf.prng(state, *sizes)
    return cast_to(values * 2.0**_BITS, dtype), after


def _computed(dtype: DType | str) -> DType:
    return DType.F64 if dtype_of(dtype).bits == DType.F64.bits else DType.F32


def _bits_of(dtype: DType | str) -> int:
    return 2 * _BITS if _computed(dtype) is DType.F64 else _BITS


def _uniform(state: Tensor, sizes: Sequence[Size], dtype: DType | str) -> tuple[Tensor, Tensor]:
    """Return uniformly distributed numbers in [0, 1) that a type holds exactly, and the next state."""
    values, after = tf.prng(state, *sizes)
    if _computed(dtype) is DType.F64:
        lower, after = tf.prng(after, *sizes)
        return cast_to(values, "f64") + cast_to(lower, "f64") * 2.0**-_BITS, after
    element = dtype_of(dtype)
    if element.is_float and element.format.precision < _BITS:
        steps = 2.0**element.format.precision
        values = tf.floor(values * steps) * (1 / steps)
    return values, after


def _below(high: float, low: float, dtype: DType | str) -> float | None:
    """Return the greatest number of a type below ``high``; None if that is below ``low``."""
    element = dtype_of(dtype)
    if not element.is_float or element.is_storage:
        return None
    kind = element.numpy.type
    last = float(np.nextafter(kind(high), kind(low)))
    return last if low < last else None


def _is(value: Tensor | float, number: float) -> bool:
    return isinstance(value, int | float) and value == number


def _moved(values: Tensor, mean: Tensor | float, std: Tensor | float) -> Tensor:
    scaled = values if _is(std, 1) else values * std
    return scaled if _is(mean, 0) else scaled + mean


def _erfinv(x: Tensor, dtype: DType | str) -> Tensor:
    """Return the inverse error function for x in (-1, 1), in f32 or f64, by :func:`_computed`."""
    w = -tf.log((1 - x) * (1 + x))
    result = x * tf.where(w < 5, _polynomial(_CENTRAL, w - 2.5), _polynomial(_TAIL, tf.sqrt(w) - 3))
    for _ in range(2 if _computed(dtype) is DType.F64 else 0):
        step = (tf.erf(result) - x) * tf.exp(result * result) * (math.sqrt(math.pi) / 2)
        result = result - step / (1 + result * step)
    return result


def _polynomial(coefficients: Sequence[float], x: Tensor) -> Tensor:
    result = x * coefficients[0] + coefficients[1]
    for coefficient in coefficients[2:]:
        result = result * x + coefficient
    return result


_CENTRAL: Final = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 2.1858087e-04, -1.25372503e-03, -4.17768164e-03,
    0.246640727, 1.50140941,
)  # fmt: skip
_TAIL: Final = (
    -2.00214257e-04, 1.00950558e-04, 1.34934322e-03, -3.67342844e-03, 5.73950773e-03, -7.6224613e-03, 9.43887047e-03,
    1.00167406, 2.83297682,
)  # fmt: skip
