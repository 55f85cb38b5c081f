"""Reductions, running reductions, sorts and statistics of NumPy, on tensors."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

import tileir.ops as ops
from tileir.core import DType
from tileir.numpy.dispatch import element_type, entered, like_array, named
from tileir.numpy.elementwise import known_dtype
from tileir.numpy.indexing import indexed
from tileir.ops.shared.foundation import axes_of, cast_to, floating, mistaken, promoted, wide
from tileir.tile.building.tensors import Operand, Tensor, call

Axis: TypeAlias = "int | Sequence[int] | None"


def _kept(x: Tensor) -> Tensor:
    return x


def summable(x: Tensor) -> Tensor:
    """Return integers below 32 bits in 32 bits, so that sums and products of many fit, as in the array API."""
    kind = known_dtype(x)
    if kind is None or kind.is_float or kind.is_bool or kind.bits >= DType.I32.bits:
        return x
    return cast_to(x, DType.I32 if kind.is_signed else DType.U32)


def _initial(value: Operand, x: Tensor) -> Operand:
    """Return the first operand of a reduction in its dtype, as in NumPy."""
    kind = known_dtype(x)
    if kind is None or kind.is_float or (isinstance(value, int | np.integer) and not kind.is_bool):
        return value
    return cast_to(value if isinstance(value, Tensor) else ops.full(x, (), value), kind)


def _reduction(
    operation: Callable[..., Tensor],
    neutral: Operand | None,
    join: Callable[..., Tensor],
    widened: Callable[[Tensor], Tensor] = _kept,
) -> Any:
    """Return a reduction with NumPy's arguments; ``neutral`` stands for masked elements."""

    def reduce(
        a: Tensor,
        axis: Axis = None,
        dtype: Any = None,
        *,
        keepdims: bool = False,
        initial: Operand | None = None,
        where: Operand = True,
    ) -> Tensor:
        """Reduce along some axes, by default all."""
        x = widened(a) if dtype is None else cast_to(a, element_type(dtype))
        if where is not True:
            fill = neutral if neutral is not None or initial is None else _initial(initial, x)
            if fill is None:
                raise mistaken("a maximum or minimum of some elements needs initial, which counts as the others")
            x = ops.where(where, x, fill)
        found = operation(x, axis, keepdims=keepdims)
        return found if initial is None else join(found, _initial(initial, found))

    return reduce


def _moment(operation: Callable[..., Tensor]) -> Any:
    def moment(
        a: Tensor,
        axis: Axis = None,
        dtype: Any = None,
        *,
        ddof: float = 0,
        correction: float | None = None,
        keepdims: bool = False,
        where: Operand = True,
    ) -> Tensor:
        """Reduce along some axes, by default all."""
        x = a if dtype is None else cast_to(a, element_type(dtype))
        less = ddof if correction is None else correction
        if where is True:
            return operation(x, axis, correction=less, keepdims=keepdims)
        squares = ops.square(x - mean(x, axis, keepdims=True, where=where))
        variance = mean(squares, axis, keepdims=keepdims, where=where, less=less)
        return ops.sqrt(variance) if operation is ops.std else variance

    return moment


def _running(operation: Callable[..., Tensor]) -> Any:
    def run(a: Tensor, axis: int | None = None, dtype: Any = None) -> Tensor:
        """Reduce up to each position of an axis; without one, of all elements in order."""
        x = summable(a) if dtype is None else cast_to(a, element_type(dtype))
        return operation(ops.flatten(x) if axis is None else x, -1 if axis is None else axis)

    return run


def _standard_running(operation: Callable[..., Tensor], start: int) -> Any:
    def run(x: Tensor, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Tensor:
        """Reduce up to each position of an axis, optionally beginning with the neutral element."""
        if axis is None and x.rank != 1:
            raise mistaken("an axis has to be given for tensors of more than one")
        place = axes_of(x, -1 if axis is None else axis)[0]
        values = summable(x) if dtype is None else cast_to(x, element_type(dtype))
        found = operation(values, place)
        return ops.pad(found, [(int(a == place), 0) for a in range(x.rank)], value=start) if include_initial else found

    return run


def _is_exact(x: Tensor) -> bool:
    kind = known_dtype(x)
    return kind is not None and not kind.is_float


def _without_nan(reduce: Callable[..., Tensor], fill: Operand) -> Any:
    def reduced(a: Tensor, axis: Axis = None, **options: Any) -> Tensor:
        """Reduce the elements that are not NaN."""
        return reduce(a if _is_exact(a) else ops.where(ops.isnan(a), fill, a), axis, **options)

    return reduced


def _extreme(reduce: Callable[..., Tensor], fill: Operand) -> Any:
    def reduced(a: Tensor, axis: Axis = None, **options: Any) -> Tensor:
        """Return the extreme of the elements that are not NaN, or NaN without any."""
        found = _without_nan(reduce, fill)(a, axis, **options)
        return found if _is_exact(a) else ops.where(ops.all(ops.isnan(a), axis, **options), float("nan"), found)

    return reduced


def _where_numbers(reduce: Callable[..., Tensor]) -> Any:
    def reduced(a: Tensor, axis: Axis = None, **options: Any) -> Tensor:
        """Reduce the elements that are not NaN."""
        return reduce(a, axis, where=~ops.isnan(a), **options)

    return reduced


@named("mean")
def mean(
    a: Tensor,
    axis: Axis = None,
    dtype: Any = None,
    *,
    keepdims: bool = False,
    where: Operand = True,
    less: float = 0,
) -> Tensor:
    """Return arithmetic means along some axes, by default all."""
    x = a if dtype is None else cast_to(a, element_type(dtype))
    if where is True:
        return ops.mean(x, axis, keepdims=keepdims)
    values = wide(x)
    count = ops.sum(ops.where(where, ops.ones_like(values), 0), axis, keepdims=keepdims)
    total = ops.sum(ops.where(where, values, 0), axis, keepdims=keepdims)
    return promoted(total / ops.maximum(count - less, 0), floating(x))


@named("average")
def average(a: Tensor, axis: Axis = None, weights: Tensor | None = None, *, keepdims: bool = False) -> Tensor:
    """Return weighted means along some axes, by default all."""
    if weights is None:
        return ops.mean(a, axis, keepdims=keepdims)
    if weights.rank == 1 < a.rank and isinstance(axis, int):
        place = axes_of(a, axis)[0]
        weights = ops.reshape(weights, *[-1 if each == place else 1 for each in range(a.rank)])
    total = ops.sum(floating(a) * weights, axis, keepdims=keepdims)
    return total / ops.sum(ops.broadcast_to(call("as_like", weights, total), a.dims), axis, keepdims=keepdims)


@named("ptp")
def ptp(a: Tensor, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """Return the greatest minus the least element."""
    return ops.max(a, axis, keepdims=keepdims) - ops.min(a, axis, keepdims=keepdims)


@named("median")
def median(a: Tensor, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """Return the middle element, or the mean of the two middle ones."""
    return quantile(a, 0.5, axis, keepdims=keepdims)


@named("quantile", tensors=1)
def quantile(
    a: Tensor, q: Any, axis: Axis = None, *, method: str = "linear", keepdims: bool = False, skips_nan: bool = False
) -> Tensor:
    """Return quantiles along some axes, by default of all elements."""
    if isinstance(q, Tensor):
        raise mistaken("quantiles are numbers that are known while the function is built")
    if np.ndim(q):
        return ops.stack([quantile(a, p, axis, method=method, keepdims=keepdims, skips_nan=skips_nan) for p in q])
    gone = axes_of(a, axis)
    x, place = floating(_on_one_axis(a, gone)), gone[0] if len(gone) == 1 else -1
    found = ops.quantile(x, float(q), place, interpolation=method, skips_nan=skips_nan)
    return ops.reshape(found, *(1 if place in gone else dim for place, dim in enumerate(a.dims))) if keepdims else found


def _on_one_axis(x: Tensor, axes: Sequence[int]) -> Tensor:
    """Return a tensor with the elements of these axes on its last axis; with a single one, it stays where it is."""
    if len(axes) == 1:
        return x
    others = [place for place in range(x.rank) if place not in axes]
    count = math.prod((x.dims[place] for place in axes), start=1)
    return ops.reshape(ops.transpose(x, [*others, *axes]), *(x.dims[place] for place in others), count)


@named("percentile", tensors=1)
def percentile(a: Tensor, q: Any, axis: Axis = None, **options: Any) -> Tensor:
    """Return percentiles along some axes, by default of all elements."""
    return quantile(a, q if isinstance(q, Tensor) else np.asarray(q) / 100, axis, **options)


@named("unwrap")
def unwrap(p: Tensor, discont: float | None = None, axis: int = -1, *, period: float = 2 * math.pi) -> Tensor:
    """Return angles plus multiples of a period, by which neighbours differ by at most half of it."""
    is_whole, place = isinstance(period, int) and _is_exact(p), axes_of(p, axis)[0]
    x, half = (p, period // 2) if is_whole else (floating(p), period / 2)
    steps = ops.diff(x, 1, place)
    short = ops.remainder(steps + half, period) - half
    if not is_whole or period % 2 == 0:  # half a period in either direction
        short = ops.where(ops.logical_and(ops.equal(short, -half), steps > 0), half, short)
    is_jump = ops.abs(steps) >= (period / 2 if discont is None else discont)
    shifts = ops.cumsum(ops.where(is_jump, short - steps, 0), place)
    return x + ops.pad(shifts, [(int(axis == place), 0) for axis in range(x.rank)])


@named("histogram", tensors=1)
def histogram(
    a: Tensor,
    bins: Any = 10,
    range: Any = None,  # noqa: A002  NumPy's name
    density: bool | None = None,
    weights: Any = None,
) -> tuple[Tensor, Tensor]:
    """Return the numbers of elements in intervals, of which the last one is closed, and the ends of these."""
    x = ops.flatten(floating(a))
    if isinstance(bins, str):
        raise mistaken(f"the number of bins of {bins!r} depends on values; give their number or their ends")
    if bins < 1 if isinstance(bins, int) else isinstance(bins, list) and bins != sorted(bins):
        raise mistaken(f"bins are a positive number, or ends in ascending order, not {bins}")
    if isinstance(bins, int):
        low, high = range if range is not None else (ops.min(x, empty=0), ops.max(x, empty=1))
        low, high = (call("as_like", each, x) for each in (low, high))
        flat = ops.equal(low, high)
        low, high = ops.where(flat, low - 0.5, low), ops.where(flat, high + 0.5, high)
        steps = call("as_like", ops.arange(x, bins + 1), x)
        edges = ops.where(ops.equal(steps, bins), high, low + steps * ((high - low) / bins))
    else:
        edges = call("as_like", like_array(x, bins), x)
    count, first, last = edges.dims[0] - 1, indexed(edges, 0), indexed(edges, -1)
    number = ops.where(ops.equal(x, last), count - 1, ops.searchsorted(edges, x, right=True) - 1)
    inside = ops.logical_and(x >= first, x <= last)
    each = 1 if weights is None else ops.flatten(like_array(x, weights))
    zeros = ops.zeros_like(ops.arange(x, count))
    zeros = zeros if weights is None else call("as_like", zeros, each)
    found = ops.scatter(zeros, ops.where(inside, number, 0), ops.where(inside, each, 0))
    return (found / (ops.diff(edges) * ops.sum(found)) if density else found), edges


@named("lexsort", tensors=1)
def lexsort(keys: Any, axis: int = -1) -> Tensor:
    """Return the order of elements by several keys, of which the last one counts most."""
    first, *others = ops.unstack(keys, int(keys.dims[0])) if isinstance(keys, Tensor) else keys
    order = ops.argsort(first, axis)
    for key in others:
        order = ops.take_along_axis(order, ops.argsort(ops.take_along_axis(key, order, axis), axis), axis)
    return order


def _place(operation: Callable[..., Tensor]) -> Any:
    def position(a: Tensor, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
        """Return the position of the first extreme element of an axis, or of all elements in order."""
        return operation(a, axis, keepdims=keepdims)

    return position


def _sorted(operation: Callable[..., Tensor]) -> Any:
    def ordered(a: Tensor, axis: int | None = -1, *, descending: bool = False, **_: object) -> Tensor:
        """Sort along an axis, or all elements; equal elements keep their order."""
        return operation(ops.flatten(a) if axis is None else a, -1 if axis is None else axis, descending=descending)

    return ordered


@named("diff")
def diff(a: Tensor, n: int = 1, axis: int = -1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor:
    """Return differences of neighbours, ``n`` times, including elements before and after."""
    parts = [each for each in (prepend, a, append) if each is not None]
    whole = ops.concatenate(parts, axis) if len(parts) > 1 else a
    if known_dtype(whole) is not DType.BOOL:
        return ops.diff(whole, n, axis)
    return cast_to(ops.diff(cast_to(whole, DType.U32), n, axis) & 1, DType.BOOL)


@named("searchsorted")
def searchsorted(a: Tensor, v: Tensor, side: str = "left", sorter: Tensor | None = None) -> Tensor:
    """Return the positions of values in a vector that is sorted, or that ``sorter`` sorts."""
    return ops.searchsorted(a if sorter is None else ops.take(a, sorter), v, right=side == "right")


@named("digitize")
def digitize(x: Tensor, bins: Tensor, right: bool = False) -> Tensor:
    """Return the numbers of the ascending intervals that contain values."""
    return ops.searchsorted(bins, x, right=not right)


@named("cov")
def cov(m: Tensor, y: Tensor | None = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None) -> Tensor:
    """Return the matrix of covariances of rows, or of columns; of those of ``y``, too."""
    rows = [
        each if each.rank > 1 and rowvar else ops.transpose(each) if each.rank > 1 else ops.expand_dims(each, 0)
        for each in (m, y)
        if each is not None
    ]
    x = floating(rows[0] if len(rows) == 1 else ops.concatenate(rows, 0))
    centred = x - ops.mean(x, 1, keepdims=True)
    count = (x.dims[1] - (int(not bias) if ddof is None else ddof)).max(0)
    found = ops.matmul(centred, ops.transpose(centred)) / count
    return ops.reshape(found) if x.dims[0].known_for_arrays() == 1 else found


@named("corrcoef")
def corrcoef(x: Tensor, y: Tensor | None = None, rowvar: bool = True) -> Tensor:
    """Return the matrix of correlations of rows, or of columns; of those of ``y``, too."""
    found = cov(x, y, rowvar)
    if not found.rank:
        return found / found
    deviation = ops.sqrt(ops.diagonal(found))
    return found / ops.outer(deviation, deviation)


entered(
    {
        "sum": _reduction(ops.sum, 0, lambda x, y: x + y, summable),
        "prod": _reduction(ops.prod, 1, lambda x, y: x * y, summable),
        "max amax": _reduction(ops.max, None, ops.maximum),
        "min amin": _reduction(ops.min, None, ops.minimum),
        "all": _reduction(ops.all, True, ops.logical_and),
        "any": _reduction(ops.any, False, ops.logical_or),
        "count_nonzero": lambda x, axis=None, *, keepdims=False: ops.count_nonzero(x, axis, keepdims=keepdims),
        "var": _moment(ops.var),
        "std": _moment(ops.std),
        "nansum": _without_nan(ops.sum, 0),
        "nanprod": _without_nan(ops.prod, 1),
        "nanmax": _extreme(ops.max, float("-inf")),
        "nanmin": _extreme(ops.min, float("inf")),
        "nanargmax": _without_nan(ops.argmax, float("-inf")),
        "nanargmin": _without_nan(ops.argmin, float("inf")),
        "nancumsum": _without_nan(_running(ops.cumsum), 0),
        "nancumprod": _without_nan(_running(ops.cumprod), 1),
        "nanmean": _where_numbers(mean),
        "nanmedian": lambda a, axis=None, *, keepdims=False: quantile(a, 0.5, axis, keepdims=keepdims, skips_nan=True),
        "nanvar": _where_numbers(_moment(ops.var)),
        "nanstd": _where_numbers(_moment(ops.std)),
        "argmax": _place(ops.argmax),
        "argmin": _place(ops.argmin),
        "cumsum": _running(ops.cumsum),
        "cumprod": _running(ops.cumprod),
        "maximum.accumulate": lambda x, axis=0: ops.cummax(x, axis)[0],
        "minimum.accumulate": lambda x, axis=0: ops.cummin(x, axis)[0],
        "cumulative_sum": _standard_running(ops.cumsum, 0),
        "cumulative_prod": _standard_running(ops.cumprod, 1),
        "sort": _sorted(ops.sort),
        "argsort": _sorted(ops.argsort),
    }
)

entered(
    {
        "nanquantile": functools.partial(quantile, skips_nan=True),
        "nanpercentile": functools.partial(percentile, skips_nan=True),
    },
    tensors=1,
)
