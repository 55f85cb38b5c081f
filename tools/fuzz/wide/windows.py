"""Rows of windows and images: convolutions, pooling, interpolation, grids,."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from fuzz.wide.normalisation import CALM
from fuzz.wide.pointwise import real
from fuzz.wide.row import FLOATS, Arguments, Array, Draw, Row

_FAR: Final = 50_000
"""A number of elements with which the product of a position takes more than 32 bits."""


def convolved(
    x: Array,
    w: Array,
    bias: Array | None = None,
    *,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int = 1,
) -> Array:
    """Return the definition: each result is the sum of one window of what is padded, times the kernels."""
    padded = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)])
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, w.shape[2:], strict=True)]
    counts = [(n - m) // s + 1 for n, m, s in zip(padded.shape[2:], spans, stride, strict=True)]
    result = np.zeros((len(x), len(w), *counts), np.result_type(x, w))
    inputs, outputs = x.shape[1] // groups, len(w) // groups
    for group, place in itertools.product(range(groups), np.ndindex(*counts)):
        window = [slice(p * s, p * s + m, d) for p, s, m, d in zip(place, stride, spans, dilation, strict=True)]
        part = padded[(slice(None), slice(group * inputs, (group + 1) * inputs), *window)].reshape(len(x), -1)
        kernels = w[group * outputs : (group + 1) * outputs].reshape(outputs, -1)
        result[(slice(None), slice(group * outputs, (group + 1) * outputs), *place)] = part @ kernels.T
    return result if bias is None else result + bias.reshape(-1, *(1,) * (x.ndim - 2))


def _spread(shape: Sequence[int], linear: Callable[[Array], Array], y: Array) -> Array:
    """Return the gradient of a linear function by its argument of a shape, where ``y`` arrives."""
    columns = np.eye(math.prod(shape), dtype=np.longdouble).reshape(-1, *shape)
    return np.array([(linear(column) * y).sum() for column in columns]).reshape(shape)


def _slides(draw: Draw, rank: int) -> dict[str, Any]:
    chosen = {"stride": (1, 3), "padding": (0, 2), "dilation": (1, 2)}
    return {name: [draw.integer(*limits) for _ in range(rank)] for name, limits in chosen.items()}


def _sizes(draw: Draw, kernel: Sequence[int], options: dict[str, Any]) -> list[int]:
    spans = (d * (k - 1) + 1 for d, k in zip(options["dilation"], kernel, strict=True))
    return [max(1, span - 2 * p) + draw.integer(0, 4) for span, p in zip(spans, options["padding"], strict=True)]


def _conv(draw: Draw) -> Arguments:
    rank, groups = draw.integer(1, 3), draw.pick((1, 1, 2, 3))
    kernel, options = [draw.integer(1, 3) for _ in range(rank)], _slides(draw, rank)
    channels, features = (groups * draw.integer(1, 2) for _ in range(2))
    x = draw.tensor((draw.integer(1, 2), channels, *_sizes(draw, kernel, options)))
    w = draw.tensor((features, channels // groups, *kernel))
    return [x, w, *([draw.tensor((features,))] if draw.flag() else [])], {**options, "groups": groups}


def _count(n: int, k: int, s: int, p: int, d: int) -> int:
    return (n + 2 * p - d * (k - 1) - 1) // s + 1


def _transposed(draw: Draw) -> Arguments:
    rank, features, channels = draw.integer(1, 2), draw.integer(1, 3), draw.integer(1, 2)
    kernel = [draw.integer(1, 3) for _ in range(rank)]
    options = {
        "stride": [draw.integer(1, 3) for _ in range(rank)],
        "dilation": [draw.integer(1, 2) for _ in range(rank)],
    }
    options["padding"] = [draw.integer(0, d * (k - 1) // 2) for d, k in zip(options["dilation"], kernel, strict=True)]
    y = draw.tensor((1, features, *(draw.integer(1, 3) for _ in range(rank))))
    return [y, draw.tensor((features, channels, *kernel))], options


def _transpose(y: Array, w: Array, stride: Sequence[int], dilation: Sequence[int], padding: Sequence[int]) -> Array:
    sizes = [
        (n - 1) * s + d * (k - 1) + 1 - 2 * p
        for n, k, s, d, p in zip(y.shape[2:], w.shape[2:], stride, dilation, padding, strict=True)
    ]
    slides: dict[str, Any] = {"stride": stride, "dilation": dilation, "padding": padding}
    return _spread((w.shape[1], *sizes), lambda x: convolved(x[None], w, **slides), y)[None]


def _weight_gradient(draw: Draw) -> Arguments:
    rank, channels, features = draw.integer(1, 2), draw.integer(1, 2), draw.integer(1, 2)
    kernel, options = [draw.integer(1, 3) for _ in range(rank)], _slides(draw, rank)
    sizes = _sizes(draw, kernel, options)
    slides = (options["stride"], options["padding"], options["dilation"])
    counts = [_count(n, k, s, p, d) for n, k, s, p, d in zip(sizes, kernel, *slides, strict=True)]
    return [draw.tensor((2, channels, *sizes)), draw.tensor((2, features, *counts)), kernel], options


def _weights(x: Array, dy: Array, kernel: Sequence[int], **slides: Any) -> Array:
    return _spread((dy.shape[1], x.shape[1], *kernel), lambda w: convolved(x, w, **slides), dy)


def _depthwise(draw: Draw) -> Arguments:
    rank, channels, several = draw.integer(1, 2), draw.integer(1, 3), draw.integer(1, 2)
    kernel, options = [draw.integer(1, 3) for _ in range(rank)], _slides(draw, rank)
    x = draw.tensor((1, channels, *_sizes(draw, kernel, options)))
    return [x, draw.tensor((channels, several, *kernel))], options


def _by_channel(x: Array, w: Array, **slides: Any) -> Array:
    return convolved(x, w.reshape(-1, 1, *w.shape[2:]), groups=x.shape[1], **slides)


def _separable(draw: Draw) -> Arguments:
    (x, w), options = _depthwise(draw)
    channels, several = draw.inputs[w[1:]]["shape"][:2]
    return [x, w, draw.tensor((draw.integer(1, 3), channels * several, *(1,) * len(options["stride"])))], options


def _separated(x: Array, w: Array, pointwise: Array, **slides: Any) -> Array:
    ones = [1] * (x.ndim - 2)
    return convolved(_by_channel(x, w, **slides), pointwise, stride=ones, padding=[0] * len(ones), dilation=ones)


def _absolute(oracle: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *a, **o: 2 * np.asarray(oracle(*(abs(x) if isinstance(x, np.ndarray) else x for x in a), **o))


def _pool(counted: bool = False, norm: bool = False) -> Callable[[Draw], Arguments]:
    def draw(draw: Draw) -> Arguments:
        rank = draw.integer(1, 3)
        kernel = [draw.integer(1, 3) for _ in range(rank)]
        options: dict[str, Any] = {
            "stride": [draw.integer(1, 3) for _ in range(rank)],
            "padding": [draw.integer(0, k // 2) for k in kernel],
        }
        gaps = options["dilation"] = [draw.integer(1, 2) if k > 1 else 1 for k in kernel]
        if counted:
            options["count_include_pad"] = draw.flag()
        if draw.flag():
            options["ceil_mode"] = True
        sizes = [d * (k - 1) + 1 + draw.integer(0, 4) for d, k in zip(gaps, kernel, strict=True)]
        return [
            draw.tensor((1, draw.integer(1, 2), *sizes)),
            *([draw.pick((2.0, 1.0))] if norm else []),
            kernel,
        ], options

    return draw


def pooled(reduce: Callable[[Array, int], Any]) -> Callable[..., Array]:
    """Return the elements of each window that exist, reduced; with them goes how many an average counts."""

    def apply(
        x: Array,
        kernel: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int] = (),
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> Array:
        gaps = list(dilation) or [1] * len(kernel)
        counts = []
        for n, k, s, p, d in zip(x.shape[2:], kernel, stride, padding, gaps, strict=True):
            room = n + 2 * p - d * (k - 1) - 1
            whole = -(-room // s) + 1 if ceil_mode else room // s + 1
            counts.append(whole - (ceil_mode and (whole - 1) * s >= n + p))
        found = []
        for place in np.ndindex(*x.shape[:2], *counts):
            taps, size = [], 1
            for o, k, s, p, d, n in zip(place[2:], kernel, stride, padding, gaps, x.shape[2:], strict=True):
                taps.append([i for j in range(k) if 0 <= (i := o * s + j * d - p) < n])
                within = [j for j in range(k) if o * s + j * d - p < n + p]
                size *= len(within if count_include_pad else taps[-1])
            found.append(reduce(x[place[:2]][np.ix_(*taps)], size))
        return np.array(found).reshape(*x.shape[:2], *counts)

    return apply


def _unpool(draw: Draw) -> Arguments:
    shape = draw.full(3, 4)
    kernel = [draw.integer(1, 3) for _ in shape[2:]]
    places = draw.tensor(shape, "wild", draw.pick(("i32", "i64")), below=draw.integer(1, 30))
    return [draw.tensor(shape), places, kernel], {"stride": [draw.integer(1, 3) for _ in kernel]}


def _unpooled(x: Array, places: Array, kernel: Sequence[int], stride: Sequence[int]) -> Array:
    sizes = [(n - 1) * s + k for n, k, s in zip(x.shape[2:], kernel, stride, strict=True)]
    rows = np.zeros((x.shape[0] * x.shape[1], math.prod(sizes)), x.dtype)
    for row, values, numbers in zip(rows, x.reshape(len(rows), -1), places.reshape(len(rows), -1), strict=True):
        for value, number in zip(values, numbers, strict=True):
            if 0 <= number < row.size:
                row[number] = value
    return rows.reshape(*x.shape[:2], *sizes)


def _columns(draw: Draw) -> Arguments:
    rank = draw.integer(1, 2)
    kernel, options = [draw.integer(1, 3) for _ in range(rank)], _slides(draw, rank)
    sizes = _sizes(draw, kernel, options)
    slides = zip(sizes, kernel, options["padding"], options["dilation"], options["stride"], strict=True)
    counts = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, p, d, s in slides]
    depth = draw.integer(1, 2) * math.prod(kernel)
    return [draw.tensor((draw.integer(1, 2), depth, math.prod(counts))), list(sizes), kernel], options


def folded(
    x: Array,
    sizes: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Array:
    """Return windows put back where they come from, added up."""
    slides = list(zip(sizes, kernel, padding, dilation, stride, strict=True))
    counts = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, p, d, s in slides]
    result = np.zeros((len(x), x.shape[1] // math.prod(kernel), *sizes), x.dtype)
    columns = x.reshape(*result.shape[:2], *kernel, *counts)
    for taps, place in itertools.product(np.ndindex(*kernel), np.ndindex(*counts)):
        at = [o * s + k * d - p for o, k, (_, _, p, d, s) in zip(place, taps, slides, strict=True)]
        if all(0 <= i < n for i, n in zip(at, sizes, strict=True)):
            result[(slice(None), slice(None), *at)] += columns[(slice(None), slice(None), *taps, *place)]
    return result


_SUM: Final = pooled(lambda part, _: part.sum())
_AVERAGE: Final = pooled(lambda part, count: real(part).sum() / np.longdouble(count))


def _lp(x: Array, norm: float, kernel: Sequence[int], **options: Any) -> Array:
    return pooled(lambda part, _: (np.abs(real(part)) ** norm).sum() ** (1 / np.longdouble(norm)))(x, kernel, **options)


def _adaptive(draw: Draw) -> Arguments:
    if draw.integer(0, 19) == 19:
        old, new = draw.pick(((_FAR, _FAR), (46_341, 92_682), (_FAR, 46_337), (92_682, 46_341)))
        return [draw.tensor((1, 1, old)), [new]], {}
    rank = draw.integer(1, 2)
    sizes = [draw.integer(1, 9) for _ in range(rank)]
    return [draw.tensor((1, draw.integer(1, 2), *sizes)), [draw.integer(1, 9) for _ in range(rank)]], {}


def _adapted(combine: Callable[[Array, int], Array]) -> Callable[..., Array]:
    def apply(x: Array, sizes: Sequence[int]) -> Array:
        for axis, count in enumerate(sizes, start=2):
            whole = x.shape[axis]
            bounds = [(place * whole // count, -(-(place + 1) * whole // count)) for place in range(count)]
            x = np.stack([combine(x[(slice(None),) * axis + (slice(*bound),)], axis) for bound in bounds], axis)
        return x

    return apply


_CONVOLVED: Final = tuple(
    Row(
        name,
        draw,
        oracle,
        (*FLOATS, "i8", "i32") if name == "conv" else FLOATS,
        terms=_absolute(oracle),
        flavours=(*CALM, "large"),
    )
    for name, draw, oracle in (
        ("conv", _conv, convolved),
        ("conv_transpose", _transposed, _transpose),
        ("conv_weight_gradient", _weight_gradient, _weights),
        ("depthwise_conv", _depthwise, _by_channel),
    )
)
ROWS_WINDOWS: Final = (
    *_CONVOLVED,
    Row(
        "separable_conv",
        _separable,
        _separated,
        ("f32", "f64"),
        terms=lambda *a, **o: 4 * _absolute(_separated)(*a, **o),
        flavours=CALM,
    ),
    Row("max_pool", _pool(), pooled(lambda part, _: part.max()), (*FLOATS, "i8", "i32"), exact=True, tied=True),
    Row("fold", _columns, folded, FLOATS, terms=lambda x, *_, **__: np.asarray(np.abs(x).sum())),
    Row("max_unpool", _unpool, _unpooled, (*FLOATS, "i8", "i32"), exact=True),
    Row("min_pool", _pool(), pooled(lambda part, _: part.min()), (*FLOATS, "i8", "i32"), exact=True, tied=True),
    Row(
        "sum_pool",
        _pool(),
        _SUM,
        (*FLOATS, "i32"),
        terms=lambda x, *a, **o: _SUM(abs(x), *a, **o),
        largest=lambda x, *a, **o: _SUM(abs(x), *a, **o),
    ),
    Row(
        "average_pool",
        _pool(counted=True),
        _AVERAGE,
        (*FLOATS, "i8"),
        terms=lambda x, *a, **o: _AVERAGE(abs(x), *a, **o),
        largest=lambda x, *a, **o: pooled(lambda part, _: real(part).sum())(abs(x), *a, **o),
    ),
    Row("lp_pool", _pool(norm=True), _lp, flavours=CALM[:3], units=32, tied=True),
    Row(
        "global_max_pool",
        lambda d: ([d.tensor((1, *d.full(2, 3)))], {}),
        lambda x: x.max(tuple(range(2, x.ndim)), keepdims=True),
        (*FLOATS, "i8"),
        exact=True,
        tied=True,
    ),
    Row(
        "global_average_pool",
        lambda d: ([d.tensor((1, *d.full(2, 3)))], {}),
        lambda x: real(x).mean(tuple(range(2, x.ndim)), keepdims=True),
        (*FLOATS, "i8"),
        terms=lambda x: abs(real(x)).mean(tuple(range(2, x.ndim)), keepdims=True),
        largest=lambda x: abs(real(x)).sum(tuple(range(2, x.ndim)), keepdims=True),
    ),
    Row(
        "adaptive_average_pool",
        _adaptive,
        _adapted(lambda p, a: real(p).mean(a)),
        (*FLOATS, "i8"),
        flavours=(*CALM, "large"),
        terms=lambda x, s: _adapted(lambda p, a: real(p).mean(a))(abs(x), s),
        largest=lambda x, s: _adapted(lambda p, a: real(p).sum(a))(abs(x), s),
    ),
    Row("adaptive_max_pool", _adaptive, _adapted(lambda p, a: p.max(a)), (*FLOATS, "i8"), exact=True, tied=True),
)
