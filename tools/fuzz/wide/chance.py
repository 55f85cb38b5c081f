"""Rows of random numbers: what must hold of them, whatever bits they are made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from fuzz.wide.closeness import wide
from fuzz.wide.row import FLOATS, INTEGERS, Arguments, Array, Draw, Row
from tileir.core import DType, dtype_of

_COUNT: Final = 4096
"""Numbers of a call whose mean and variety are looked at."""

_DEVIATIONS: Final = 7.0
"""By how many deviations a mean may be off: once in 10^11 draws."""


def _state(draw: Draw) -> str:
    return draw.tensor((4,), "words", "u32")


def _sizes(draw: Draw) -> list[int]:
    return list(draw.pick(([_COUNT], [64, 64], [3, 0], [])))


def _sized(*options: Callable[[Draw], dict[str, Any]], dtypes: Sequence[str] = FLOATS) -> Callable[[Draw], Arguments]:
    def draw(draw: Draw) -> Arguments:
        dtype = draw.pick(tuple(dtypes))
        found = {name: value for option in options for name, value in option(draw).items()}
        return [_state(draw), _sizes(draw)], {**found, "dtype": dtype}

    return draw


def _checked(found: Sequence[Array], state: Array, sizes: Sequence[int], dtype: str) -> Array:
    """Return the numbers of a result that has the right form."""
    values, after = found
    assert values.shape == tuple(sizes), f"shape {values.shape}, not {tuple(sizes)}"
    assert dtype_of(values).value == dtype, f"dtype {dtype_of(values).value}, not {dtype}"
    assert (after != state).any() or not values.size, "the state stays the same"
    return wide(values)


def _mean(values: Array, wanted: float, deviation: float, unit: float = 0.0) -> None:
    if values.size < _COUNT:
        return
    off = abs(float(values.mean()) - wanted)
    assert off <= _DEVIATIONS * deviation / math.sqrt(values.size) + unit, f"the mean is {values.mean()}, not {wanted}"


def _varied(values: Array, dtype: str, low: float, high: float) -> None:
    """See that there are about as many distinct numbers as the dtype has between two, or as were drawn."""
    if values.size < _COUNT:
        return
    to = DType(dtype)
    unit = max(math.ulp(max(abs(low), abs(high))) * 2.0 ** (53 - to.format.precision), 2.0**-24 * (high - low))
    there = min(values.size, (high - low) / unit)
    count = len(np.unique(values))
    assert count >= min(0.5 * there, 0.6 * values.size), f"{count} distinct numbers of about {there:.0f}"


def _bounds(draw: Draw) -> dict[str, Any]:
    low, high = draw.pick(((0.0, 1.0), (-1.0, 2.5), (1000.0, 1001.0), (1e6, 1e6 + 1), (-3.0, -2.0)))
    return {"low": low, "high": high}


def _uniform(found: Sequence[Array], state: Array, sizes: Sequence[int], dtype: str, low: float, high: float) -> None:
    values = _checked(found, state, sizes, dtype)
    ends = [float(np.asarray(end).astype(DType(dtype).numpy)) for end in (low, high)]
    if ends[0] >= ends[1] or abs(high) * 2.0 ** -DType(dtype).format.precision > 0.05 * (high - low):
        return  # the dtype has no numbers between the bounds
    assert (values >= low).all(), f"{values.min()} is below {low}"
    assert (values < high).all(), f"{values.max()} is not below {high}"
    _mean(values, (low + high) / 2, (high - low) / math.sqrt(12), abs(high) * 2.0 ** -DType(dtype).format.precision)
    _varied(values, dtype, low, high)


def _moments(draw: Draw) -> dict[str, Any]:
    mean, std = draw.pick(((0.0, 1.0), (3.0, 0.5), (1e6, 1e-3)))
    return {"mean": mean, "std": std}


def _normal(
    found: Sequence[Array],
    state: Array,
    sizes: Sequence[int],
    dtype: str,
    mean: float,
    std: float,
    low: float = -8.5,
    high: float = 8.5,
) -> None:
    values = _checked(found, state, sizes, dtype)
    slack = abs(mean) * 2.0 ** -DType(dtype).format.precision + std * 2.0 ** (2 - DType(dtype).format.precision)
    if slack > std:
        return
    assert (np.abs(values - mean) <= max(abs(low), high) * std + slack).all(), "a number is too far out"
    if low == -8.5:
        _mean(values, mean, std, slack)
        _varied(values, dtype, mean - std, mean + std)


def _cut(draw: Draw) -> dict[str, Any]:
    return {**_moments(draw), **draw.pick(({"low": -2.0, "high": 2.0}, {"low": -1.0, "high": 0.5}))}


def _exponential(found: Sequence[Array], state: Array, sizes: Sequence[int], dtype: str, rate: float) -> None:
    values = _checked(found, state, sizes, dtype)
    assert ((values >= 0) & np.isfinite(values)).all(), "a number is not from 0 on"
    _mean(values, 1 / rate, 1 / rate, 2.0 ** -DType(dtype).format.precision)


def _gumbel(found: Sequence[Array], state: Array, sizes: Sequence[int], dtype: str) -> None:
    values = _checked(found, state, sizes, dtype)
    assert (np.isfinite(values) | (DType(dtype) is DType.F16)).all(), "a number is not finite"
    _mean(values, 0.5772, 1.2825, 2.0 ** (2 - DType(dtype).format.precision))


def _weighed(deviation: Callable[[Sequence[int]], float], *, uniform: bool) -> Callable[..., None]:
    def holds(found: Sequence[Array], state: Array, sizes: Sequence[int], dtype: str) -> None:
        values, std = _checked(found, state, sizes, dtype), deviation(sizes)
        _mean(values, 0, std, std * 2.0 ** -DType(dtype).format.precision)
        if uniform:
            assert (abs(values) <= math.sqrt(3) * std * (1 + 2.0 ** (1 - DType(dtype).format.precision))).all()

    return holds


def _weights(draw: Draw) -> Arguments:
    return [_state(draw), draw.pick(([64, 64], [3, 5, 7]))], {"dtype": draw.pick(FLOATS)}


def _glorot(sizes: Sequence[int]) -> float:
    return math.sqrt(2 / (math.prod(sizes[:-2]) * (sizes[-1] + sizes[-2])))


def _he(sizes: Sequence[int]) -> float:
    return math.sqrt(2 / (math.prod(sizes[:-2]) * sizes[-2]))


def _randint(draw: Draw) -> Arguments:
    dtype = draw.pick(INTEGERS)
    to = DType(dtype)
    bounds = [(0, 1), (0, 7), (to.minimum, to.maximum), (0, min(300, to.maximum)), (max(to.minimum, -5), 9)]
    low, high = draw.pick([(low, high) for low, high in bounds if high - low < 2**48])
    return [_state(draw), _sizes(draw), low, high], {"dtype": dtype}


def _integers(found: Sequence[Array], state: Array, sizes: Sequence[int], low: int, high: int, dtype: str) -> None:
    values = _checked(found, state, sizes, dtype)
    assert ((values >= low) & (values < high)).all(), f"a number is outside of [{low}, {high})"
    _mean(values.astype(np.longdouble), (low + high - 1) / 2, (high - low) / math.sqrt(12))
    assert values.size < _COUNT or len(np.unique(values)) >= min(high - low, 200) * 0.9


def _bernoulli(draw: Draw) -> Arguments:
    return [_state(draw), draw.tensor((_COUNT,), "probability", draw.pick(FLOATS))], {}


def _flipped(found: Sequence[Array], state: Array, p: Array) -> None:
    values, _ = found
    assert values.dtype == bool
    assert values[p == 1].all(), "probability 1 is false"
    assert not values[p == 0].any(), "probability 0 is true"
    _mean(values.astype(np.longdouble), float(p.mean()), 0.5)


def _categorical(draw: Draw) -> Arguments:
    logits = draw.tensor((2, draw.integer(1, 5)), "normal", draw.pick(FLOATS))
    return [_state(draw), logits], {"samples": _COUNT}


def _chosen(found: Sequence[Array], state: Array, logits: Array, samples: int) -> None:
    values, _ = found
    assert values.shape == (samples, len(logits))
    shares = np.exp(logits - logits.max(-1, keepdims=True))
    shares = shares / shares.sum(-1, keepdims=True)
    for place, row in enumerate(shares):
        for choice, share in enumerate(row):
            _mean((values[:, place] == choice).astype(np.longdouble), float(share), 0.5)


def _permuted(found: Sequence[Array], state: Array, count: int) -> None:
    assert (np.sort(found[0]) == np.arange(count)).all(), "these are not all numbers below the count"


def _shuffled(found: Sequence[Array], state: Array, x: Array) -> None:
    assert sorted(map(tuple, found[0].astype(x.dtype).tolist())) == sorted(map(tuple, x.tolist())), "rows are lost"


def _dropout(draw: Draw) -> Arguments:
    return [draw.tensor((_COUNT,), "positive", draw.pick(FLOATS)), _state(draw), draw.pick((0.5, 0.25, 0.0, 0.75))], {}


def _dropped(found: Sequence[Array], x: Array, state: Array, rate: float) -> None:
    values, dtype = wide(found[0]), dtype_of(found[0])
    whole = x / (1 - np.longdouble(rate))
    off = abs(values - whole) <= 2.0 ** (1 - dtype.format.precision) * abs(whole) * 1.01
    assert (off | (values == 0)).all(), "a number is neither 0 nor divided by what stays"
    _mean((values != 0).astype(np.longdouble), 1 - rate, 0.5)


def _split(found: Sequence[Array], state: Array, count: int) -> None:
    assert len(found) == count
    assert len({tuple(each.tolist()) for each in found}) == count, "two states are the same"


def _chance(name: str, draw: Callable[[Draw], Arguments], holds: Callable[..., None]) -> Row:
    return Row(name, draw, lambda *_, **__: (), ("f32",), ("normal",), constant="*", holds=holds)


ROWS_CHANCE: Final = (
    _chance("uniform", _sized(_bounds), _uniform),
    _chance("normal", _sized(_moments), _normal),
    _chance("truncated_normal", _sized(_cut), _normal),
    _chance("exponential", _sized(lambda d: {"rate": d.pick((1, 2.0))}), _exponential),
    _chance("gumbel", _sized(), _gumbel),
    _chance("glorot_normal", _weights, _weighed(_glorot, uniform=False)),
    _chance("glorot_uniform", _weights, _weighed(_glorot, uniform=True)),
    _chance("he_normal", _weights, _weighed(_he, uniform=False)),
    _chance("he_uniform", _weights, _weighed(_he, uniform=True)),
    _chance("randint", _randint, _integers),
    _chance("bernoulli", _bernoulli, _flipped),
    _chance("categorical", _categorical, _chosen),
    _chance("permutation", lambda d: ([_state(d), d.pick((1, 9, 1000, 0))], {}), _permuted),
    _chance(
        "shuffle", lambda d: ([_state(d), d.tensor((d.integer(1, 9), 2), "normal", d.pick(FLOATS))], {}), _shuffled
    ),
    _chance("dropout", _dropout, _dropped),
    _chance("split_state", lambda d: ([_state(d), d.integer(1, 4)], {}), _split),
)
