"""Cases of pooling: dimensions, paddings, and which elements an average counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fuzz.wide.windows import folded
from strategies.operations import Case, integers, sample
from tileir import ops

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from strategies.operations import Array


def pooled(
    reduce: Callable[[Array], Any],
    x: Array,
    kernel: Sequence[int],
    stride: Sequence[int],
    before: Sequence[int],
    counts: Sequence[int],
    dilation: Sequence[int] | None = None,
) -> Array:
    """Return the definition: the elements of each window that exist, of all but the first two axes, reduced."""
    steps = dilation or (1,) * len(kernel)
    result = np.zeros((*x.shape[:2], *counts))
    for place in np.ndindex(*result.shape):
        taps = [
            [p for i in range(k) if 0 <= (p := o * s + i * d - b) < n]
            for o, k, s, d, b, n in zip(place[2:], kernel, stride, steps, before, x.shape[2:], strict=True)
        ]
        result[place] = reduce(x[place[:2]][np.ix_(*taps)])
    return result


def indexed(x: Array, stride: Sequence[int], padding: int, dilation: Sequence[int], ceil_mode: bool) -> Any:
    """Return the maxima of windows of 3 by 2 elements, and their places in the plane."""
    whole = [n + 2 * padding - d * (k - 1) - 1 for n, k, d in zip(x.shape[2:], (3, 2), dilation, strict=True)]
    counts = [(-(-room // s) if ceil_mode else room // s) + 1 for room, s in zip(whole, stride, strict=True)]
    places = np.broadcast_to(np.arange(x[0, 0].size).reshape(x.shape[2:]), x.shape)
    window: Any = ((3, 2), stride, (padding, padding), counts, dilation)
    greatest = pooled(np.max, x, *window)
    found = np.zeros(greatest.shape, np.int64)
    for place in np.ndindex(*x.shape[:2]):
        where = dict(zip(x[place].ravel(), places[place].ravel(), strict=True))
        found[place] = np.vectorize(where.__getitem__)(greatest[place])
    return greatest, found


_LINE: Final = {"X": sample(2, 2, 7)}
_PLANE: Final = {"X": sample(1, 2, 7, 6)}
_POSITIVE: Final = {"X": sample(1, 2, 6, 5, low=0.5)}


def adaptive(combine: Any, x: Array, size: tuple[int, int]) -> Array:
    """Return the reduced windows over axes 1 and 2, of which ``size`` says how many there are."""
    for axis, count in zip((1, 2), size, strict=True):
        whole = x.shape[axis]
        bounds = [(place * whole // count, -(-(place + 1) * whole // count)) for place in range(count)]
        parts = [combine(np.take(x, range(first, last), axis), axis) for first, last in bounds]
        x = np.stack(parts, axis)
    return x


_MAXIMA: Final = (
    Case(
        "max_line",
        lambda x: ops.max_pool(x, 2),
        _LINE,
        lambda x: pooled(np.max, x, [2], [2], [0], [3]),
        lambda t, x: t.nn.functional.max_pool1d(x, 2),
    ),
    Case(
        "max",
        lambda x: ops.max_pool(x, (3, 2), stride=2, padding=1),
        _PLANE,
        lambda x: pooled(np.max, x, [3, 2], [2, 2], [1, 1], [4, 4]),
        lambda t, x: t.nn.functional.max_pool2d(x, (3, 2), 2, 1),
    ),
    Case(
        "max_negative_beside_padding",
        lambda x: ops.max_pool(x, 3, padding="same_upper", stride=1),
        {"X": sample(1, 1, 4, 4, low=-3, high=-1)},
        lambda x: pooled(np.max, x, [3, 3], [1, 1], [1, 1], [4, 4]),
    ),
    Case(
        "max_ceil",
        lambda x: ops.max_pool(x, 2, stride=3, padding=1, ceil_mode=True),
        _PLANE,
        lambda x: pooled(np.max, x, [2, 2], [3, 3], [1, 1], [3, 3]),
        lambda t, x: t.nn.functional.max_pool2d(x, 2, 3, 1, ceil_mode=True),
    ),
    Case(
        "max_dilated",
        lambda x: ops.max_pool(x, 3, stride=1, dilation=2, padding=1),
        _PLANE,
        lambda x: pooled(np.max, x, [3, 3], [1, 1], [1, 1], [5, 4], [2, 2]),
        lambda t, x: t.nn.functional.max_pool2d(x, 3, 1, 1, 2),
    ),
    Case(
        "max_space",
        lambda x: ops.max_pool(x, (2, 3, 2)),
        {"X": sample(1, 2, 4, 3, 5)},
        lambda x: pooled(np.max, x, [2, 3, 2], [2, 3, 2], [0, 0, 0], [2, 1, 2]),
        lambda t, x: t.nn.functional.max_pool3d(x, (2, 3, 2)),
    ),
    Case(
        "max_channels_last",
        lambda x: ops.max_pool(x, 2, layout="nxc"),
        {"X": sample(1, 5, 4, 2)},
        lambda x: np.moveaxis(pooled(np.max, np.moveaxis(x, 3, 1), [2, 2], [2, 2], [0, 0], [2, 2]), 1, 3),
    ),
    Case(
        "max_global",
        ops.global_max_pool,
        _PLANE,
        lambda x: x.max((2, 3), keepdims=True),
        lambda t, x: t.nn.functional.adaptive_max_pool2d(x, 1),
    ),
    Case(
        "max_adaptive",
        lambda x: ops.adaptive_max_pool(x, (1, 2)),
        _PLANE,
        lambda x: pooled(np.max, x, [7, 3], [7, 3], [0, 0], [1, 2]),
        lambda t, x: t.nn.functional.adaptive_max_pool2d(x, (1, 2)),
    ),
    Case(
        "min",
        lambda x: ops.min_pool(x, 3, stride=2, padding=1),
        _PLANE,
        lambda x: pooled(np.min, x, [3, 3], [2, 2], [1, 1], [4, 3]),
        lambda t, x: -t.nn.functional.max_pool2d(-x, 3, 2, 1),
    ),
)


def _average(
    name: str, kernel: int, stride: int, padding: int, *, ceil: bool, counted: bool, counts: list[int]
) -> Case:
    """Return the case of averages of 2 spatial axes; where padding counts, so does what it adds to windows."""
    before = [padding] * 2

    def numpy(x: Array) -> Array:
        wide = np.pad(x, ((0, 0), (0, 0), *((padding, padding),) * 2)) if counted else x
        return pooled(np.mean, wide, [kernel] * 2, [stride] * 2, [0, 0] if counted else before, counts)

    return Case(
        name,
        lambda x: ops.average_pool(
            x, kernel, stride=stride, padding=padding, ceil_mode=ceil, count_include_pad=counted
        ),
        _PLANE,
        numpy,
        lambda t, x: t.nn.functional.avg_pool2d(x, kernel, stride, padding, ceil_mode=ceil, count_include_pad=counted),
    )


_AVERAGES: Final = (
    _average("average", 3, 2, 0, ceil=False, counted=True, counts=[3, 2]),
    _average("average_of_padding", 3, 2, 1, ceil=False, counted=True, counts=[4, 3]),
    _average("average_without_padding", 3, 2, 1, ceil=False, counted=False, counts=[4, 3]),
    _average("average_ceil", 2, 3, 1, ceil=True, counted=True, counts=[3, 3]),
    _average("average_ceil_without_padding", 2, 3, 1, ceil=True, counted=False, counts=[3, 3]),
    _average("average_ceil_unpadded", 3, 2, 0, ceil=True, counted=False, counts=[3, 3]),
    Case(
        "average_same",
        lambda x: ops.average_pool(x, 3, stride=2, padding="same_lower", count_include_pad=False),
        _PLANE,
        lambda x: pooled(np.mean, x, [3, 3], [2, 2], [1, 1], [4, 3]),
    ),
    Case(
        "average_line",
        lambda x: ops.average_pool(x, 3),
        _LINE,
        lambda x: pooled(np.mean, x, [3], [3], [0], [2]),
        lambda t, x: t.nn.functional.avg_pool1d(x, 3),
    ),
    Case(
        "average_space",
        lambda x: ops.average_pool(x, 2, stride=(1, 2, 2)),
        {"X": sample(1, 1, 3, 4, 5)},
        lambda x: pooled(np.mean, x, [2, 2, 2], [1, 2, 2], [0, 0, 0], [2, 2, 2]),
        lambda t, x: t.nn.functional.avg_pool3d(x, 2, (1, 2, 2)),
    ),
    Case(
        "average_of_integers",
        lambda x: ops.average_pool(x, 2, padding=1, count_include_pad=False),
        {"X": integers(1, 2, 4, 5)},
        lambda x: pooled(np.mean, x, [2, 2], [2, 2], [1, 1], [3, 3]),
        dtypes=("f32",),
    ),
    Case(
        "average_global",
        ops.global_average_pool,
        _PLANE,
        lambda x: x.mean((2, 3), keepdims=True),
        lambda t, x: t.nn.functional.adaptive_avg_pool2d(x, 1),
    ),
    Case(
        "average_global_channels_last",
        lambda x: ops.global_average_pool(x, layout="nxc"),
        _PLANE,
        lambda x: x.mean((1, 2), keepdims=True),
    ),
    *(
        Case(
            f"{name}_adaptive_to_{rows}_{columns}",
            lambda x, pool=pool, size=(rows, columns): pool(x, size, layout="nxc"),
            {"X": np.moveaxis(_PLANE["X"], 1, -1)},
            lambda x, combine=combine, size=(rows, columns): adaptive(combine, x, size),
            lambda t, x, torch=torch, size=(rows, columns): getattr(t.nn.functional, torch)(
                x.movedim(-1, 1), size
            ).movedim(1, -1),
        )
        for name, pool, combine, torch in (
            ("average", ops.adaptive_average_pool, np.mean, "adaptive_avg_pool2d"),
            ("max", ops.adaptive_max_pool, np.max, "adaptive_max_pool2d"),
        )
        for rows, columns in ((3, 4), (5, 9))
    ),
    Case(
        "average_adaptive",
        lambda x: ops.adaptive_average_pool(x, (7, 2)),
        _PLANE,
        lambda x: pooled(np.mean, x, [1, 3], [1, 3], [0, 0], [7, 2]),
        lambda t, x: t.nn.functional.adaptive_avg_pool2d(x, (7, 2)),
    ),
)

_INDEXED: Final = (
    *(
        Case(
            f"max_indices_{name}",
            lambda x, options=options: ops.max_pool(x, (3, 2), return_indices=True, **options),
            _PLANE,
            lambda x, options=options: indexed(x, **options),
            lambda t, x, options=options: t.nn.functional.max_pool2d(
                x,
                (3, 2),
                options["stride"],
                options["padding"],
                options["dilation"],
                options["ceil_mode"],
                return_indices=True,
            ),
        )
        for name, options in {
            "dilated": {"stride": (2, 1), "padding": 0, "dilation": (1, 3), "ceil_mode": False},
            "ceil": {"stride": (3, 2), "padding": 1, "dilation": (2, 1), "ceil_mode": True},
        }.items()
    ),
    Case(
        "unpool",
        lambda x: ops.max_unpool(*ops.max_pool(x, 2, return_indices=True), 2, output_size=(7, 6)),
        _PLANE,
        lambda x: np.where(np.isin(x, pooled(np.max, x, [2, 2], [2, 2], [0, 0], [3, 3])), x, 0.0),
        lambda t, x: t.nn.functional.max_unpool2d(
            *t.nn.functional.max_pool2d(x, 2, return_indices=True), 2, output_size=(7, 6)
        ),
    ),
    Case(
        "unpool_overlapping",
        lambda x, i: ops.max_unpool(x, i, 3, stride=2, padding=1),
        {"X": sample(1, 2, 2), "I": np.array([[[1, 0], [2, 2]]], np.int32)},
        lambda x, _: np.array([[[x[0, 0, 1], x[0, 0, 0], 0], [0, 0, x[0, 1, 1]]]]),
    ),
)

_OTHERS: Final = (
    Case(
        "fold",
        lambda x: ops.fold(x, (5, 6), (2, 3), stride=(2, 1), padding=(1, 0), dilation=(1, 2)),
        {"X": sample(2, 12, 6)},
        lambda x: folded(x, (5, 6), (2, 3), (2, 1), (1, 0), (1, 2)),
        lambda t, x: t.nn.functional.fold(x, (5, 6), (2, 3), (1, 2), (1, 0), (2, 1)),
    ),
    Case(
        "average_dilated",
        lambda x: ops.average_pool(x, (3, 2), stride=1, padding=1, dilation=(2, 3), count_include_pad=False),
        _PLANE,
        lambda x: pooled(np.mean, x, [3, 2], [1, 1], [1, 1], [5, 5], [2, 3]),
    ),
    Case(
        "norm_dilated",
        lambda x: ops.lp_pool(x, 2, 2, stride=1, dilation=(2, 3)),
        _POSITIVE,
        lambda x: np.sqrt(pooled(np.sum, x * x, [2, 2], [1, 1], [0, 0], [4, 2], [2, 3])),
    ),
    Case(
        "sum",
        lambda x: ops.sum_pool(x, (2, 3), padding=((1, 0), (0, 2)), dilation=(1, 2)),
        _PLANE,
        lambda x: pooled(np.sum, x, [2, 3], [2, 3], [1, 0], [4, 2], [1, 2]),
    ),
    Case(
        "norm_2",
        lambda x: ops.lp_pool(x, 2, 2),
        _POSITIVE,
        lambda x: np.sqrt(pooled(np.sum, x * x, [2, 2], [2, 2], [0, 0], [3, 2])),
        lambda t, x: t.nn.functional.lp_pool2d(x, 2, 2),
    ),
    Case(
        "norm_3",
        lambda x: ops.lp_pool(x, 3, 2, stride=1),
        _POSITIVE,
        lambda x: pooled(np.sum, x**3, [2, 2], [1, 1], [0, 0], [5, 4]) ** (1 / 3),
        lambda t, x: t.nn.functional.lp_pool2d(x, 3, 2, 1),
    ),
)

CASES: Final = (*_MAXIMA, *_INDEXED, *_AVERAGES, *_OTHERS)
