"""Reductions to states of several scalars: each combine, along each axis and all, around the sizes of vectors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from tileir.core.combines import Combine
from tileir.testing.programs.case import Conformance, halves

Array = np.ndarray[Any, np.dtype[Any]]

_SIZES: Final = (1, 2, 7, 8, 17, 130)
_DTYPES: Final = ("f2", "f4", "f8", "i1", "i4", "u1", "i8", "?")
_AXES: Final = ((), (0,), (1,), (0, 1))
_SPECIAL: Final = (np.nan, np.inf, -np.inf, 4.0, -4.0)


def _elements(dtype: str, *shape: int) -> Array:
    """Return elements with many ties, and among floats a few infinities and NaN."""
    rng = np.random.default_rng(shape)
    few = rng.integers(0, 5, shape)
    if np.dtype(dtype).kind == "f":
        return np.where(rng.integers(0, 40, shape) == 0, rng.choice(_SPECIAL, shape), few - 2.5).astype(dtype)
    return (few > 3 if dtype == "?" else few).astype(dtype)


def _expected(combine: Combine, elements: Array) -> tuple[Array, Array] | tuple[Array, Array, Array]:
    """Return the parts of the state of elements along the first axis."""
    if combine.is_extremum:
        last = combine in (Combine.LAST_ARGMAX, Combine.LAST_ARGMIN)
        find = np.argmax if combine in (Combine.ARGMAX, Combine.LAST_ARGMAX) else np.argmin
        place = len(elements) - 1 - find(elements[::-1], 0) if last else find(elements, 0)
        return np.take_along_axis(elements, place[None], 0)[0], place.astype(np.int32)
    wide = elements.astype(np.float64)
    if combine is Combine.MOMENTS:
        mean = wide.mean(0)
        parts = np.full(mean.shape, float(len(wide))), mean, ((wide - mean) ** 2).sum(0)
        return parts[0].astype(elements.dtype), mean.astype(elements.dtype), parts[2].astype(elements.dtype)
    most = wide.max(0)
    return most.astype(elements.dtype), np.exp(wide - most).sum(0).astype(elements.dtype)


def _case(name: str, combine: Combine, data: Array, axes: tuple[int, ...]) -> Conformance:
    reduced = axes or tuple(range(data.ndim))
    first = np.moveaxis(data, reduced, range(len(reduced)))
    expected = _expected(combine, first.reshape(-1, *first.shape[len(reduced) :]))
    outputs = [f"O{part}" for part in range(len(expected))]
    reads = " ".join(f"{output} = element(S, {part});" for part, output in enumerate(outputs))
    called = f"reduce_{combine.value}({', '.join(('X', *map(str, axes)))})"
    text = f"function (X[N, M]) -> ({', '.join(outputs)}) {{ S = {called}; {reads} }}"
    tolerance = 0.0 if combine.is_extremum else 1e-5
    return Conformance(name, text, {"X": data}, dict(zip(outputs, expected, strict=True)), tolerance)


def _states() -> Iterator[Conformance]:
    for combine in Combine:
        for number, size in enumerate(_SIZES):
            axes = _AXES[(number + 2) % len(_AXES)]
            name = f"{combine.value}_of_{size}"
            if combine.is_extremum:
                yield _case(name, combine, _elements("f4", 3, size), axes)
            else:
                yield _case(name, combine, halves("f4", 3, size, seed=number), axes)
    for dtype in _DTYPES:
        yield _case(f"first_greatest_{np.dtype(dtype).name}", Combine.ARGMAX, _elements(dtype, 5, 37), (1,))
        yield _case(f"last_least_{np.dtype(dtype).name}", Combine.LAST_ARGMIN, _elements(dtype, 37, 5), (0,))
    for combine in (Combine.MOMENTS, Combine.LOGSUMEXP):
        yield _case(f"{combine.value}_float64", combine, halves("f8", 5, 37), (1,))


STATES: Final = (*_states(),)
