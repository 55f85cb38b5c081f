"""Cases of order."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np

from strategies.operations import Array, Case, integers, sample
from tileir import ops

_X: Final = sample(3, 7, 2)
_INFINITE = np.array([[1, np.inf, np.inf], [-np.inf, 1, np.inf], [np.inf, -np.inf, -np.inf], [np.inf] * 3])
_NAN: Final = np.array([[3, np.nan, -np.inf, 1, np.nan], [np.inf, 2, 2, -np.inf, np.inf]])
_TIED: Final = integers(3, 9, low=0, high=4)


def _order(x: Array, axis: int = -1, *, descending: bool = False) -> Array:
    """Return the stable order of an array; NaN is the greatest."""
    if not descending:
        return np.argsort(x, axis, kind="stable")
    turned = np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
    return np.asarray(x.shape[axis] - 1 - turned)


def _top(x: Array, k: int) -> tuple[Array, Array]:
    places = _order(x, descending=True)[..., :k]
    return np.take_along_axis(x, places, -1), places


CASES: Final = (
    Case("sort", ops.sort, {"X": sample(3, 8)}, lambda x: np.sort(x), lambda _, x: x.sort().values),
    Case(
        "sort_axis_descending",
        lambda x: ops.sort(x, 1, descending=True),
        {"X": _X},
        lambda x: -np.sort(-x, 1),
        lambda _, x: x.sort(1, descending=True).values,
    ),
    Case("argsort", ops.argsort, {"X": _TIED}, _order, dtypes=("f32",)),
    Case(
        "argsort_descending",
        lambda x: ops.argsort(x, descending=True),
        {"X": _TIED},
        partial(_order, descending=True),
        lambda _, x: x.sort(stable=True, descending=True).indices,
    ),
    Case("argsort_of_nan", ops.argsort, {"X": _NAN}, _order, lambda _, x: x.sort(stable=True).indices, wrt=()),
    Case(
        "argsort_of_nan_descending",
        lambda x: ops.argsort(x, 1, descending=True),
        {"X": _NAN},
        partial(_order, descending=True),
        lambda _, x: x.sort(stable=True, descending=True).indices,
        wrt=(),
    ),
    Case(
        "argsort_of_bools",
        lambda x: ops.argsort(x, 0),
        {"X": sample(5, 3) > 0},
        lambda x: _order(x, 0),
        dtypes=("f32",),
    ),
    Case("ranks", ops.ranks, {"X": _TIED}, lambda x: _order(_order(x)), dtypes=("f32",)),
    Case(
        "sort_by_network",
        lambda x: ops.sort(x, 1),
        {"X": _X},
        lambda x: np.sort(x, 1),
        lambda _, x: x.sort(1).values,
    ),
    Case(
        "argsort_by_network",
        lambda x: ops.argsort(x, descending=True),
        {"X": _TIED},
        partial(_order, descending=True),
        dtypes=("f32",),
    ),
    Case(
        "argsort_of_nan_by_network",
        lambda x: ops.argsort(x),
        {"X": _NAN},
        _order,
        wrt=(),
        dtypes=("f32",),
    ),
    Case("sort_of_one_by_network", lambda x: ops.sort(x), {"X": sample(3, 1)}, lambda x: x),
    Case(
        "top_k",
        lambda x: ops.top_k(x, 3),
        {"X": sample(4, 9)},
        lambda x: _top(x, 3),
        lambda _, x: tuple(x.topk(3)),
    ),
    Case(
        "top_k_least",
        lambda x: ops.top_k(x, 2, 1, largest=False),
        {"X": _X},
        lambda x: (np.sort(x, 1)[:, :2], np.argsort(x, 1)[:, :2]),
        lambda _, x: tuple(x.topk(2, 1, largest=False)),
    ),
    Case(
        "kth_value",
        lambda x: ops.kth_value(x, 3, 1),
        {"X": _X},
        lambda x: (np.sort(x, 1)[:, 2], np.argsort(x, 1)[:, 2]),
        lambda _, x: tuple(x.kthvalue(3, 1)),
    ),
    Case(
        "kth_value_keeping_the_axis",
        lambda x: ops.kth_value(x, 7, 1, keepdims=True),
        {"X": _X},
        lambda x: (np.sort(x, 1)[:, 6:], np.argsort(x, 1)[:, 6:]),
    ),
    Case("median", lambda x: ops.median(x, 0), {"X": sample(6, 3)}, lambda x: np.median(x, 0)),
    Case("median_of_infinities", ops.median, {"X": _INFINITE}, lambda x: np.median(x, -1), wrt=()),
    Case(
        "quantile_midpoint_of_infinities",
        lambda x: ops.quantile(x, 0.5, interpolation="midpoint"),
        {"X": _INFINITE},
        lambda x: np.median(x, -1),
        wrt=(),
    ),
    Case("median_of_nan", ops.median, {"X": _NAN[:, [0, 1, 3]]}, lambda x: np.median(x, -1), wrt=()),
    *(
        Case(
            f"quantile_{interpolation}",
            partial(ops.quantile, q=0.3, axis=1, interpolation=interpolation, keepdims=True),
            {"X": _X},
            partial(np.quantile, q=0.3, axis=1, method=interpolation, keepdims=True),
            (lambda how: lambda _, x: x.quantile(0.3, 1, keepdim=True, interpolation=how))(interpolation),
        )
        for interpolation in ("linear", "lower", "higher", "nearest", "midpoint")
    ),
    *(
        Case(
            f"quantile_nearest_of_{count}",
            partial(ops.quantile, q=0.5, interpolation="nearest"),
            {"X": sample(count)},
            partial(np.quantile, q=0.5, method="nearest"),
        )
        for count in (4, 6, 7)
    ),
)
