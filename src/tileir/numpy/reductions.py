"""Reductions, running reductions, sorts and statistics of NumPy, on tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import tileir.ops as ops
from tileir.core import DType
from tileir.numpy.dispatch import element_type, entered, named
from tileir.numpy.elementwise import divide, known_dtype
from tileir.ops.shared.foundation import axes_of, cast_to, floating, mistaken
from tileir.tile.building.tensors import Operand, Tensor

Axis: TypeAlias = "int | Sequence[int] | None"


def _kept(x: Tensor) -> Tensor:
    return x


def summable(x: Tensor) -> Tensor:
    """Return integers of less than 32 bits in 32, so that sums and products of many fit, as the array API has it."""
    kind = known_dtype(x)
    if kind is None or kind.is_float or kind.is_bool or kind.bits >= DType.I32.bits:
        return x
    return cast_to(x, DType.I32 if kind.is_signed else DType.U32)


def _reduction(
    operation: Callable[..., Tensor],
    neutral: Operand | None,
    join: Callable[..., Tensor],
    widened: Callable[[Tensor], Tensor] = _kept,
) -> Any:
    """Return a reduction with NumPy's arguments; ``neutral`` is what elements that are left out count as."""

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
            fill = initial if neutral is None else neutral
            if fill is None:
                raise mistaken("a maximum or minimum of some elements needs initial, which counts as the others")
            x = ops.where(where, x, fill)
        found = operation(x, axis, keepdims=keepdims)
        return found if initial is None else join(found, initial)

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
    ) -> Tensor:
        """Reduce along some axes, by default all."""
        x = a if dtype is None else cast_to(a, element_type(dtype))
        return operation(x, axis, correction=ddof if correction is None else correction, keepdims=keepdims)

    return moment


def _running(operation: Callable[..., Tensor]) -> Any:
    def run(a: Tensor, axis: int | None = None, dtype: Any = None) -> Tensor:
        """Reduce up to each position of an axis; without one, of all elements in order."""
        x = summable(a) if dtype is None else cast_to(a, element_type(dtype))
        return operation(ops.flatten(x) if axis is None else x, -1 if axis is None else axis)

    return run


def _standard_running(operation: Callable[..., Tensor], start: int) -> Any:
    def run(x: Tensor, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Tensor:
        """Reduce up to each position of an axis, maybe from the neutral element on."""
        if axis is None and x.rank != 1:
            raise mistaken("an axis has to be given for tensors of more than one")
        place = axes_of(x, -1 if axis is None else axis)[0]
        values = summable(x) if dtype is None else cast_to(x, element_type(dtype))
        found = operation(values, place)
        return ops.pad(found, [(int(a == place), 0) for a in range(x.rank)], value=start) if include_initial else found

    return run


def _without_nan(name: str, fill: Operand, reduce: Callable[..., Tensor]) -> Any:
    def reduced(a: Tensor, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
        """Reduce the elements that are no NaN."""
        return reduce(ops.where(ops.isnan(a), fill, a), axis, keepdims=keepdims)

    reduced.__name__ = name
    return reduced


@named("mean")
def mean(a: Tensor, axis: Axis = None, dtype: Any = None, *, keepdims: bool = False, where: Operand = True) -> Tensor:
    """Return arithmetic means along some axes, by default all."""
    x = a if dtype is None else cast_to(a, element_type(dtype))
    if where is True:
        return ops.mean(x, axis, keepdims=keepdims)
    chosen = ops.where(where, x, 0)
    count = ops.sum(ops.where(where, ops.ones_like(x), 0), axis, keepdims=keepdims)
    return divide(ops.sum(chosen, axis, keepdims=keepdims), count)


@named("average")
def average(a: Tensor, axis: Axis = None, weights: Tensor | None = None, *, keepdims: bool = False) -> Tensor:
    """Return weighted means along some axes, by default all."""
    if weights is None:
        return ops.mean(a, axis, keepdims=keepdims)
    if weights.rank == 1 < a.rank and isinstance(axis, int):
        place = axes_of(a, axis)[0]
        weights = ops.reshape(weights, *[-1 if each == place else 1 for each in range(a.rank)])
    total = ops.sum(floating(a) * weights, axis, keepdims=keepdims)
    return total / ops.sum(ops.broadcast_to(floating(weights), a.dims), axis, keepdims=keepdims)


@named("nanmean")
def nanmean(a: Tensor, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """Return means of the elements that are no NaN."""
    count = ops.sum(ops.cast(~ops.isnan(a), DType.I32), axis, keepdims=keepdims)
    return ops.sum(ops.where(ops.isnan(a), 0.0, a), axis, keepdims=keepdims) / count


@named("ptp")
def ptp(a: Tensor, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """Return the greatest minus the least element."""
    return ops.max(a, axis, keepdims=keepdims) - ops.min(a, axis, keepdims=keepdims)


@named("median")
def median(a: Tensor, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Return the middle element, or the mean of the two middle ones."""
    return quantile(a, 0.5, axis, keepdims=keepdims)


@named("quantile")
def quantile(a: Tensor, q: Any, axis: int | None = None, *, method: str = "linear", keepdims: bool = False) -> Tensor:
    """Return quantiles along an axis, or of all elements."""
    if isinstance(q, Tensor):
        raise mistaken("quantiles are numbers that are known while the function is built")
    x, place = (ops.flatten(a), 0) if axis is None else (a, axis)
    if isinstance(q, list | tuple):
        return ops.stack([quantile(a, each, axis, method=method, keepdims=keepdims) for each in q])
    found = ops.quantile(floating(x), q, place, interpolation=method)
    if not keepdims:
        return found
    return ops.reshape(found, *[1] * a.rank) if axis is None else ops.expand_dims(found, axis)


@named("percentile")
def percentile(a: Tensor, q: Any, axis: int | None = None, **options: Any) -> Tensor:
    """Return percentiles along an axis, or of all elements."""
    return quantile(a, [each / 100 for each in q] if isinstance(q, list | tuple) else q / 100, axis, **options)


def _place(operation: Callable[..., Tensor]) -> Any:
    def position(a: Tensor, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
        """Return where the first extreme element of an axis stands, or of all elements in order."""
        return operation(a, axis, keepdims=keepdims)

    return position


def _sorted(operation: Callable[..., Tensor]) -> Any:
    def ordered(a: Tensor, axis: int | None = -1, *, descending: bool = False, **_: object) -> Tensor:
        """Sort along an axis, or all elements; equal elements keep their order."""
        return operation(ops.flatten(a) if axis is None else a, -1 if axis is None else axis, descending=descending)

    return ordered


@named("diff")
def diff(a: Tensor, n: int = 1, axis: int = -1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor:
    """Return differences of neighbours, ``n`` times, of what stands before and behind, too."""
    parts = [each for each in (prepend, a, append) if each is not None]
    return ops.diff(ops.concatenate(parts, axis) if len(parts) > 1 else a, n, axis)


@named("searchsorted")
def searchsorted(a: Tensor, v: Tensor, side: str = "left", sorter: Tensor | None = None) -> Tensor:
    """Return where values belong in a vector that is sorted, or that ``sorter`` sorts."""
    return ops.searchsorted(a if sorter is None else ops.take(a, sorter), v, right=side == "right")


@named("digitize")
def digitize(x: Tensor, bins: Tensor, right: bool = False) -> Tensor:
    """Return into which of the ascending intervals values fall."""
    return ops.searchsorted(bins, x, right=not right)


@named("cov")
def cov(m: Tensor, *, rowvar: bool = True, bias: bool = False, ddof: int | None = None) -> Tensor:
    """Return the matrix of covariances of rows, or of columns."""
    x = floating(m if m.rank > 1 else ops.expand_dims(m, 0))
    x = x if rowvar or m.rank < 2 else ops.transpose(x)
    centred = x - ops.mean(x, 1, keepdims=True)
    count = x.dims[1] - (int(not bias) if ddof is None else ddof)
    found = ops.matmul(centred, ops.transpose(centred)) / count
    return found if m.rank > 1 else ops.reshape(found)


@named("corrcoef")
def corrcoef(x: Tensor, *, rowvar: bool = True) -> Tensor:
    """Return the matrix of correlations of rows, or of columns."""
    found = cov(x, rowvar=rowvar)
    if x.rank < 2:
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
        "nansum": _without_nan("nansum", 0, ops.sum),
        "nanprod": _without_nan("nanprod", 1, ops.prod),
        "nanmax": _without_nan("nanmax", float("-inf"), ops.max),
        "nanmin": _without_nan("nanmin", float("inf"), ops.min),
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
