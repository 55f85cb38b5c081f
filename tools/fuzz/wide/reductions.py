"""Rows of operations along axes: reductions, running ones, softmax, order."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from fuzz.wide.closeness import compare
from fuzz.wide.pointwise import real
from fuzz.wide.row import ALL, FLAVOURS, FLOATS, INTEGERS, Arguments, Array, Draw, Row

Axes = int | Sequence[int] | None


def over(axes: Axes) -> Any:
    """Return axes as NumPy takes them."""
    return tuple(axes) if isinstance(axes, list) else axes


def total(x: Array, axes: Axes = None, keepdims: bool = False) -> Array:
    """Return a sum; that of bool counts."""
    return np.asarray((x.astype(np.int64) if x.dtype == bool else x).sum(over(axes), keepdims=keepdims))


def mean(x: Array, axes: Axes = None, keepdims: bool = False) -> Array:
    """Return the mean, as a float."""
    return np.asarray(real(x).sum(over(axes), keepdims=keepdims) / _count(x, axes))


def variance(x: Array, axes: Axes = None, correction: float = 0, keepdims: bool = False) -> Array:
    """Return the mean of the squared distances from the mean."""
    centred = real(x) - mean(x, axes, True)
    count = np.longdouble(_count(x, axes))
    return np.asarray((centred * centred).sum(over(axes), keepdims=keepdims) / np.maximum(count - correction, -np.inf))


def logsumexp(x: Array, axes: Axes = None, keepdims: bool = False) -> Array:
    """Return the logarithm of a sum of exponentials."""
    most = real(x).max(over(axes), keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(most), most, 0)
    found = np.log(np.exp(x - shift).sum(over(axes), keepdims=True)) + shift
    return found if keepdims else np.asarray(found).reshape(np.sum(np.zeros(x.shape), over(axes)).shape)


def softmax(x: Array, axis: Axes = -1) -> Array:
    """Return exponentials divided by their sum."""
    powers = np.exp(real(x) - real(x).max(over(axis), keepdims=True, initial=-np.inf))
    return powers / powers.sum(over(axis), keepdims=True)


def log_softmax(x: Array, axis: Axes = -1) -> Array:
    """Return the logarithm of the softmax."""
    shifted = real(x) - real(x).max(over(axis), keepdims=True, initial=-np.inf)
    return shifted - np.log(np.exp(shifted).sum(over(axis), keepdims=True))


def norm(x: Array, axes: Axes = None, order: float = 2, keepdims: bool = False) -> Array:
    """Return the vector norm of an order."""
    size, axes = np.abs(real(x)), over(axes)
    if order == 0:
        return np.asarray((x != 0).sum(axes, keepdims=keepdims).astype(np.longdouble))
    if np.isinf(order):
        return np.asarray((size.max if order > 0 else size.min)(axes, keepdims=keepdims))
    return np.asarray((size**order).sum(axes, keepdims=keepdims) ** (1 / np.longdouble(order)))


def running(function: Any, first: float) -> Callable[..., Array]:
    """Return a running sum or product with its options."""

    def apply(x: Array, axis: int = -1, exclusive: bool = False, reverse: bool = False) -> Array:
        x = np.flip(x, axis) if reverse else x
        found = function(x.astype(np.int64) if x.dtype == bool else x, axis)
        if exclusive:
            start = np.full_like(np.take(found, [0], axis), first) if x.shape[axis] else found
            found = np.concatenate([start, found[_but_last(x.ndim, axis)]], axis)
        return np.asarray(np.flip(found, axis) if reverse else found)

    return apply


def extremes(better: Callable[[Any, Any], Any]) -> Callable[..., tuple[Array, Array]]:
    """Return running extrema and where they stand, of equal ones the nearest; NaN wins."""

    def apply(x: Array, axis: int = -1, reverse: bool = False) -> tuple[Array, Array]:
        values, places = np.array(x), np.zeros(x.shape, np.int64)
        moved, where = np.moveaxis(values, axis, 0), np.moveaxis(places, axis, 0)
        steps = range(len(moved))[::-1] if reverse else range(len(moved))
        for number, step in enumerate(steps):
            where[step] = step
            if number:
                before = steps[number - 1]
                new, old = moved[step], moved[before]
                keep = ~np.asarray((new == old) | better(new, old) | np.isnan(new)) | (np.isnan(old) & ~np.isnan(new))
                moved[step] = np.where(keep, old, new)
                where[step] = np.where(keep, where[before], step)
        return values, places

    return apply


def position(best: Any) -> Callable[..., Array]:
    """Return where the greatest or least element stands."""

    def apply(x: Array, axis: int | None = None, keepdims: bool = False, ties: str = "first") -> Array:
        if ties == "first":
            return np.asarray(best(x, axis, keepdims=keepdims))
        count = x.size if axis is None else x.shape[axis]
        turned = np.flip(x) if axis is None else np.flip(x, axis)
        return np.asarray(count - 1 - best(turned, axis, keepdims=keepdims))

    return apply


def ordered(x: Array, axis: int = -1, descending: bool = False) -> Array:
    """Return the stable order along an axis, in which NaN is the last, or the first one descending."""
    if not descending:
        return _order(x, axis)
    return x.shape[axis] - 1 - np.flip(_order(np.flip(x, axis), axis), axis)


def _order(x: Array, axis: int) -> Array:
    """Return the stable order along an axis; NumPy sorts arrays of 32 axes at most."""
    last = np.moveaxis(x, axis, -1)
    rows = last.reshape(math.prod(last.shape[:-1]), last.shape[-1])
    return np.moveaxis(np.argsort(rows, -1, kind="stable").reshape(last.shape), -1, axis)


def sorted_along(x: Array, axis: int = -1, descending: bool = False) -> Array:
    """Return elements in order."""
    return np.take_along_axis(x, ordered(x, axis, descending), axis)


def greatest(x: Array, k: int, axis: int = -1, largest: bool = True) -> tuple[Array, Array]:
    """Return the k first in order, and where they stand."""
    if not 0 < k <= x.shape[axis]:
        raise ValueError
    places = np.take(ordered(x, axis, largest), range(k), axis)
    return np.take_along_axis(x, places, axis), places


def kth(x: Array, k: int, axis: int = -1, keepdims: bool = False) -> tuple[Array, Array]:
    """Return the k-th in order, and where it stands."""
    if not 0 < k <= x.shape[axis]:
        raise ValueError
    places = np.take(ordered(x, axis), [k - 1], axis)
    values = np.take_along_axis(x, places, axis)
    return (values, places) if keepdims else (values.squeeze(axis), places.squeeze(axis))


def quantile(x: Array, q: float, axis: int = -1, interpolation: str = "linear", keepdims: bool = False) -> Array:
    """Return a quantile; NaN where an element is."""
    if not x.shape[axis]:
        raise ValueError
    values, place = sorted_along(real(x), axis), q * (x.shape[axis] - 1)
    low, high = (np.take(values, [int(f(place))], axis) for f in (np.floor, np.ceil))
    part = np.longdouble(place) - np.floor(place)
    match interpolation:
        case "lower" | "higher":
            found = low if interpolation == "lower" else high
        case "nearest":
            found = np.take(values, [int(np.round(place))], axis)
        case "midpoint":
            found = (low + high) / 2
        case _:
            found = np.where(low == high, low, (1 - part) * low + part * high) if part else low
    found = np.where(np.isnan(values).any(axis, keepdims=True), np.nan, found)
    return found if keepdims else found.squeeze(axis)


def _count(x: Array, axes: Axes) -> int:
    axes = over(axes)
    some = range(x.ndim) if axes is None else (axes,) if isinstance(axes, int) else axes
    return int(np.prod([x.shape[axis] for axis in some], dtype=np.int64))


def _but_last(rank: int, axis: int) -> tuple[slice, ...]:
    keys = [slice(None)] * rank
    keys[axis] = slice(0, -1)
    return tuple(keys)


def _reduced(draw: Draw) -> Arguments:
    shape = draw.long() if draw.integer(0, 9) else draw.shape()
    arguments = [draw.tensor(shape)] + ([draw.axes(shape)] if draw.flag() else [])
    return arguments, {"keepdims": True} if draw.flag() else {}


def _filled(draw: Draw) -> Arguments:
    shape = (66_000,) if draw.dtype in ("f16", "bf16") and draw.integer(0, 19) == 19 else draw.full(1, 4)
    return [draw.tensor(shape), draw.axes(shape)], {"keepdims": draw.flag()}


def _varying(draw: Draw) -> Arguments:
    shape = tuple(size + 1 for size in draw.full(1, 3))
    return [draw.tensor(shape), draw.axes(shape)], {"keepdims": draw.flag(), "correction": draw.pick((0, 1))}


def _normed(draw: Draw) -> Arguments:
    arguments, options = _filled(draw)
    return arguments, {
        **options,
        "order": draw.pick((2, 1, *((3, 0.5) if draw.dtype == "f16" else ()), 0, float("inf"), float("-inf"))),
    }


def _along(draw: Draw) -> Arguments:
    shape = draw.long()
    return [draw.tensor(shape), draw.axis(shape)], {}


def _running(draw: Draw) -> Arguments:
    shape = draw.shape(1)
    return [draw.tensor(shape), draw.axis(shape)], {"exclusive": draw.flag(), "reverse": draw.flag()}


def _extreme(draw: Draw) -> Arguments:
    shape = draw.full(1, 3)
    return [draw.tensor(shape), draw.axis(shape)], {"reverse": draw.flag()}


def _placed(draw: Draw) -> Arguments:
    shape = draw.full(1, 3)
    axis = draw.axis(shape) if draw.flag() else None
    return [draw.tensor(shape), axis], {"ties": draw.pick(("first", "last")), "keepdims": draw.flag()}


def _one_axis(draw: Draw) -> Arguments:
    shape = draw.full(1, 3)
    return [draw.tensor(shape), draw.axis(shape)], {}


def _over_some(draw: Draw) -> Arguments:
    shape = draw.full(1, 3)
    return [draw.tensor(shape), draw.axes(shape)], {}


def _kept(draw: Draw) -> Arguments:
    shape = draw.full(1, 3)
    return [draw.tensor(shape), draw.axis(shape)], {"keepdims": draw.flag()}


def _in_order(draw: Draw) -> Arguments:
    shape = draw.shape(1)
    return [draw.tensor(shape), draw.axis(shape)], {"descending": draw.flag()}


def _of_k(**options: Any) -> Callable[[Draw], Arguments]:
    def draw(draw: Draw) -> Arguments:
        shape = draw.full(1, 3)
        axis = draw.axis(shape)
        chosen = {name: draw.flag() for name in options}
        return [draw.tensor(shape), draw.integer(1, shape[axis]), axis], chosen

    return draw


def _quantile(draw: Draw) -> Arguments:
    shape = draw.full(1, 3)
    manner = draw.pick(("linear", "lower", "higher", "nearest", "midpoint"))
    options = {"interpolation": manner, "keepdims": draw.flag()}
    return [draw.tensor(shape), draw.pick((0.5, 0.25, 0, 1, 0.75)), draw.axis(shape)], options


def _magnitudes(x: Array, axes: Axes = None, keepdims: bool = False, **_: Any) -> Array:
    return np.asarray(np.abs(real(x)).sum(over(axes), keepdims=keepdims))


def _running_magnitudes(x: Array, axis: int, **options: bool) -> Array:
    return running(np.cumsum, 0)(np.abs(x), axis, **options)


def _squares(x: Array, axes: Axes = None, keepdims: bool = False, **_: Any) -> Array:
    return 4 * _magnitudes(real(x) * real(x), axes, keepdims)


def _mean_terms(x: Array, axes: Axes = None, keepdims: bool = False, **_: Any) -> Array:
    return _magnitudes(x, axes, keepdims) / max(1, _count(x, axes))


def _spread(x: Array, axes: Axes = None, correction: float = 0, keepdims: bool = False) -> Array:
    """Return terms of a deviation: the mean, and integers, are rounded before differences from it are taken."""
    most = np.max(np.where(np.isfinite(x), np.abs(real(x)), 0), initial=0)
    return 4 * np.sqrt(variance(x, axes, correction, keepdims)) + most


def _holds_quantile(
    found: Sequence[Array],
    x: Array,
    q: float,
    axis: int = -1,
    interpolation: str = "linear",
    keepdims: bool = False,
) -> None:
    """Check for a quantile: elements exactly, and what is between two of them with one rounding of each."""
    low, high = (quantile(x, q, axis, manner, keepdims) for manner in ("lower", "higher"))
    with np.errstate(invalid="ignore"):  # the mean of two infinities
        wanted = quantile(x, q, axis, interpolation, keepdims)
    exact = (low == high) | (interpolation in ("lower", "higher", "nearest"))
    terms = sum(np.where(np.isfinite(each), np.abs(each), 0) for each in (low, high)) / 2
    compare("it", found[0], wanted, units=1, terms=terms, exact=exact)


def _shifted(x: Array, axes: Axes = -1, **_: Any) -> Array:
    return 2 * np.max(np.where(np.isfinite(x), np.abs(real(x)), 0), initial=0) + np.log(np.longdouble(x.size + 2))


SQUARED: Final = tuple(flavour for flavour in FLAVOURS if flavour != "tiny")
"""Values whose squares are no zeros."""

_SUMMED: Final = (*FLOATS, "bool", *INTEGERS)
ROWS_ALONG: Final = (
    Row("sum", _reduced, total, _SUMMED, terms=_magnitudes, largest=_magnitudes),
    Row("mean", _filled, mean, ALL[:4] + INTEGERS, terms=_mean_terms, largest=_magnitudes),
    Row(
        "prod",
        _filled,
        lambda x, axes=None, keepdims=False: np.asarray(
            (x.astype(np.int64) if x.dtype == bool else x).prod(over(axes), keepdims=keepdims)
        ),
        _SUMMED,
        units=16,
        flavours=("normal", "ties", "zeros"),
    ),
    Row(
        "max",
        _filled,
        lambda x, axes=None, keepdims=False: x.max(over(axes), keepdims=keepdims),
        ALL,
        exact=True,
        tied=True,
    ),
    Row(
        "min",
        _filled,
        lambda x, axes=None, keepdims=False: x.min(over(axes), keepdims=keepdims),
        ALL,
        exact=True,
        tied=True,
    ),
    Row("all", _reduced, lambda x, axes=None, **o: (x != 0).all(over(axes), **o), ALL, exact=True),
    Row("any", _reduced, lambda x, axes=None, **o: (x != 0).any(over(axes), **o), ALL, exact=True),
    Row(
        "count_nonzero",
        _reduced,
        lambda x, axes=None, keepdims=False: np.count_nonzero(x, over(axes), keepdims=keepdims),
        ALL,
        exact=True,
    ),
    *(
        Row(
            name,
            _varying,
            variance,
            (*ALL[:4], "i8", "i32"),
            terms=lambda *a, **o: _spread(*a, **o) * (np.sqrt(variance(*a, **o)) + 2.0**-23 * _spread(*a, **o)),
            largest=_squares,
        )
        for name in ("var", "variance")
    ),
    Row(
        "std",
        _varying,
        lambda *a, **o: np.sqrt(variance(*a, **o)),
        (*ALL[:4], "i8", "i32"),
        flavours=SQUARED,
        terms=_spread,
        largest=_squares,
    ),
    Row("norm", _normed, norm, tied=True, units=64, flavours=(*FLAVOURS[:3], "large")),
    Row("logsumexp", _filled, logsumexp, (*ALL[:4], "i8"), terms=_shifted),
    Row("softmax", _along, softmax, units=32, terms=lambda x, axis: 4 * softmax(x, axis)),
    Row("log_softmax", _along, log_softmax, terms=_shifted),
    Row("logcumsumexp", _one_axis, lambda x, axis: np.logaddexp.accumulate(real(x), axis), terms=_shifted),
    Row(
        "cumsum",
        _running,
        running(np.cumsum, 0),
        _SUMMED,
        terms=_running_magnitudes,
        largest=_running_magnitudes,
    ),
    Row("cumprod", _running, running(np.cumprod, 1), FLOATS + INTEGERS, units=32, flavours=("normal", "ties", "zeros")),
    Row("cummax", _extreme, extremes(lambda a, b: a > b), FLOATS + INTEGERS, exact=True, tied=True),
    Row("cummin", _extreme, extremes(lambda a, b: a < b), FLOATS + INTEGERS, exact=True, tied=True),
    Row("argmax", _placed, position(np.argmax), ALL, exact=True),
    Row("argmin", _placed, position(np.argmin), ALL, exact=True),
    Row(
        "is_max", _over_some, lambda x, axes=None: x == x.max(over(axes), keepdims=True), ALL[:4] + INTEGERS, exact=True
    ),
    Row(
        "hardmax",
        _one_axis,
        lambda x, axis: (
            np.argmax(x, axis, keepdims=True)
            == np.arange(x.shape[axis]).reshape([-1 if a == axis % x.ndim else 1 for a in range(x.ndim)])
        ).astype(x.dtype),
        FLOATS,
        exact=True,
    ),
    Row("argsort", _in_order, ordered, FLOATS + INTEGERS, exact=True),
    Row("sort", _in_order, sorted_along, FLOATS + INTEGERS, exact=True, tied=True),
    Row(
        "ranks",
        _in_order,
        lambda x, axis, descending: _order(ordered(x, axis, descending), axis),
        FLOATS + INTEGERS,
        exact=True,
    ),
    Row("top_k", _of_k(largest=True), greatest, FLOATS + INTEGERS, exact=True, tied=True),
    Row("kth_value", _of_k(keepdims=True), kth, FLOATS + INTEGERS, exact=True, tied=True),
    Row(
        "median",
        _kept,
        lambda x, axis, keepdims: quantile(x, 0.5, axis, keepdims=keepdims),
        (*FLOATS, "i8", "i32"),
        tied=True,
        holds=lambda found, x, axis, keepdims: _holds_quantile(found, x, 0.5, axis, keepdims=keepdims),
    ),
    Row("quantile", _quantile, quantile, (*FLOATS, "i8", "i32"), tied=True, holds=_holds_quantile),
)
