"""Pooling: windows that slide over the spatial axes, each reduced to one value.

Padding never takes part: a maximum ignores it, and an average counts it only on request. ``layout`` names the axes, as
in :mod:`tileir.ops.networks.convolution`: ``x`` all spatial axes, and ``n`` the batch and ``c`` the channels, either of
which may be missing. For the number of windows and ``padding``, see :func:`tileir.ops.shared.windows.windows_of`;
explicit padding is smaller than the window.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterable, Sequence
from typing import Literal, TypeVar, overload

from tileir.ops.arithmetic.reductions import magnitude, power, root
from tileir.ops.arrays.scattering import scatter_along_axis
from tileir.ops.shared.foundation import (
    Aggregation,
    Constraint,
    Dim,
    Tensor,
    aggregate,
    call,
    dims_of,
    full,
    index_of,
    indices_of,
    mistaken,
    narrowed,
    position,
    real,
    wide,
)
from tileir.ops.shared.layouts import Axis, Layout, layout_of, read, written
from tileir.ops.shared.positions import row_numbers
from tileir.ops.shared.windows import (
    Padding,
    PerAxis,
    Sizes,
    Window,
    explicit_padding,
    per_axis,
    sizes_per_axis,
    transposed_windows_of,
    windows_of,
)
from tileir.tile.builder_functions import where

T = TypeVar("T", Dim, Tensor)


@overload
def max_pool(
    x: Tensor,
    kernel_size: PerAxis,
    *,
    stride: PerAxis | None = None,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
    layout: str = "ncx",
) -> Tensor: ...
@overload
def max_pool(
    x: Tensor,
    kernel_size: PerAxis,
    *,
    stride: PerAxis | None = None,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    ceil_mode: bool = False,
    return_indices: Literal[True],
    layout: str = "ncx",
) -> tuple[Tensor, Tensor]: ...
def max_pool(
    x: Tensor,
    kernel_size: PerAxis,
    *,
    stride: PerAxis | None = None,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    layout: str = "ncx",
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the greatest element of each window: ``O[n, c, o] = max(X[n, c, stride * o + dilation * i - before])``.

    ``stride`` is by default the size of the window. NaN wins. Dtype: that of ``x``. All tied elements get the whole
    gradient unless ties are split evenly. With ``return_indices`` the positions of the maxima follow, as
    :func:`max_unpool` takes them: row-major numbers along all spatial axes, the least of equal ones; i32, or i64 from
    2^31 elements on. There a NaN counts as infinity.

    Raises:
        TileError: TIL217, an option or layout is invalid; TIL305, there are too few axes.
    """
    form = layout_of(x, layout, "ncx", "x")
    windows = _windows(x, form, kernel_size, stride, padding, dilation, ceil_mode)
    greatest = _pooled(Aggregation.MAX, x, form, windows)
    return (greatest, _places(x, greatest, form, windows)) if return_indices else greatest


def min_pool(
    x: Tensor,
    kernel_size: PerAxis,
    *,
    stride: PerAxis | None = None,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    ceil_mode: bool = False,
    layout: str = "ncx",
) -> Tensor:
    """Return the least element of each window; options, dtypes and errors as for :func:`max_pool`."""
    return _pool(Aggregation.MIN, x, kernel_size, stride, padding, dilation, ceil_mode, layout)


def sum_pool(
    x: Tensor,
    kernel_size: PerAxis,
    *,
    stride: PerAxis | None = None,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    ceil_mode: bool = False,
    layout: str = "ncx",
) -> Tensor:
    """Return the sum of each window; options and errors as for :func:`max_pool`. A bool ``x`` gives i32."""
    return _pool(Aggregation.SUM, x, kernel_size, stride, padding, dilation, ceil_mode, layout)


def average_pool(
    x: Tensor,
    kernel_size: PerAxis,
    *,
    stride: PerAxis | None = None,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    layout: str = "ncx",
) -> Tensor:
    """Return the sum of each window divided by the number of its elements; options as for :func:`max_pool`.

    With ``count_include_pad`` the padding counts, too, but not elements beyond it, which a window can reach in ceil
    mode. Dtype: that of ``x``; integers give f32.

    Raises:
        TileError: TIL217, an option or layout is invalid; TIL305, there are too few axes.
    """
    form = layout_of(x, layout, "ncx", "x")
    windows = _windows(x, form, kernel_size, stride, padding, dilation, ceil_mode)
    total = _pooled(Aggregation.SUM, wide(x), form, windows)
    pads = explicit_padding(padding, len(windows))
    inside = count_include_pad if pads is None else count_include_pad or not any(map(any, pads))
    if inside and (pads is None or not ceil_mode):
        return narrowed(total / real(_product(window.kernel for window in windows)), x)
    ends = [pair[1] for pair in pads] if count_include_pad and pads is not None else [0] * len(windows)
    elements = [
        _counted(total, axis, window, end, skip_start=not inside)
        for axis, window, end in zip(form.axes("x"), windows, ends, strict=True)
    ]
    return narrowed(total / _product(elements), x)


def lp_pool(
    x: Tensor,
    norm: float,
    kernel_size: PerAxis,
    *,
    stride: PerAxis | None = None,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    ceil_mode: bool = False,
    layout: str = "ncx",
) -> Tensor:
    """Return the norm of each window, ``sum(|X|**norm)**(1 / norm)``; options as for :func:`max_pool`.

    Dtype: that of ``x``; integers give f32. The gradient of a window of zeros is 0.

    Raises:
        TileError: TIL217, an option or layout is invalid; TIL305, there are too few axes.
    """
    if not norm > 0:
        raise mistaken(f"the norm is above 0; it was {norm!r}")
    wider = wide(x)
    powers = wider * wider if norm == 2 else power(magnitude(wider), float(norm))
    total = _pool(Aggregation.SUM, powers, kernel_size, stride, padding, dilation, ceil_mode, layout)
    return narrowed(root(total) if norm == 2 else power(total, 1.0 / norm), x)


def max_unpool(
    x: Tensor,
    indices: Tensor,
    kernel_size: PerAxis,
    *,
    stride: PerAxis | None = None,
    padding: Padding = 0,
    output_size: Sizes | None = None,
) -> Tensor:
    """Return zeros with the maxima of :func:`max_pool` at their original positions; of several at one, the last counts.

    ``x`` and ``indices`` are [N, C, o...]. The spatial sizes of the result are ``output_size``, or those with o windows
    without dilation: ``(o - 1) * stride + kernel_size - before - after``. Indices outside of them are left out. Dtype:
    that of ``x``, whose gradient is gathered.

    Raises:
        TileError: TIL217, an option is invalid; TIL305, there are too few axes; TIL312 when compiling, the number of
            indices differs.

    Source: PyTorch's ``max_unpool2d``, ONNX' ``MaxUnpool``.
    """
    form = layout_of(x, "ncx", "ncx", "ncx")
    kernels = sizes_per_axis(x, per_axis(kernel_size, form.space, "kernel_size"), form.space, "kernel_size")
    windows = transposed_windows_of(
        form.sizes(x, "x"),
        kernels,
        stride=kernel_size if stride is None else stride,
        padding=padding,
        dilation=1,
        output_padding=0,
        sizes=None if output_size is None else sizes_per_axis(x, output_size, form.space, "output_size"),
    )
    batch, channels = dims_of(x)[:2]
    sizes = [window.size for window in windows]
    rows = [batch, channels, _product(form.sizes(x, "x"))]
    zeros = call("as_like", full(x, [*rows[:2], _product(sizes)], 0), x)
    values, places = (call("reshape", each, *rows) for each in (x, indices))
    return call(
        "reshape", scatter_along_axis(zeros, places, values, 2, mode="set", bounds="drop"), batch, channels, *sizes
    )


def global_max_pool(x: Tensor, *, layout: str = "ncx") -> Tensor:
    """Return the greatest element of each channel; the spatial axes stay, with size 1. Errors: TIL217, the layout."""
    return _whole(Aggregation.MAX, x, layout_of(x, layout, "ncx", "x"))


def global_average_pool(x: Tensor, *, layout: str = "ncx") -> Tensor:
    """Return the mean of each channel; the spatial axes stay, with size 1. Integers give f32.

    Raises:
        TileError: TIL217, the layout is invalid; TIL305, there are too few axes.
    """
    form = layout_of(x, layout, "ncx", "x")
    return narrowed(_whole(Aggregation.SUM, wide(x), form) / real(_product(form.sizes(x, "x"))), x)


def adaptive_average_pool(x: Tensor, output_size: Sizes, *, layout: str = "ncx") -> Tensor:
    """Return the means of ``output_size`` windows on each spatial axis. Integers give f32.

    Window o of M on an axis of N elements has those from ``floor(o * N / M)`` to before ``ceil((o + 1) * N / M)``, as
    in PyTorch: if N is no multiple of M, they differ in size and may overlap.

    Raises:
        TileError: TIL217, the layout or the number of sizes is invalid; TIL305, there are too few axes.
    """
    form = layout_of(x, layout, "ncx", "x")
    total, counts = _adaptive(Aggregation.SUM, wide(x), output_size, form)
    elements = []
    for axis, count in counts.items():
        size = dims_of(x)[axis]
        place = position(total, axis, (size + 1) * count)
        elements.append(((place + 1) * size + (count - 1)) / count - place * size / count)
    return narrowed(total / _product(elements) if elements else total, x)


def adaptive_max_pool(x: Tensor, output_size: Sizes, *, layout: str = "ncx") -> Tensor:
    """Return the maxima of windows; sizes and errors as for :func:`adaptive_average_pool`."""
    return _adaptive(Aggregation.MAX, x, output_size, layout_of(x, layout, "ncx", "x"))[0]


def _windows(
    x: Tensor,
    form: Layout,
    kernel_size: PerAxis,
    stride: PerAxis | None,
    padding: Padding,
    dilation: PerAxis,
    ceil_mode: bool,
) -> tuple[Window, ...]:
    kernels = per_axis(kernel_size, form.space, "kernel_size")
    dilations = per_axis(dilation, form.space, "dilation")
    pads = explicit_padding(padding, form.space) or ((0, 0),) * form.space
    for kernel, between, pair in zip(kernels, dilations, pads, strict=True):
        if max(pair) > between * (kernel - 1):
            raise mistaken(f"padding is smaller than the window, which has {between * (kernel - 1) + 1} elements")
    return windows_of(
        form.sizes(x, "x"),
        sizes_per_axis(x, kernels, form.space, "kernel_size"),
        stride=kernels if stride is None else stride,
        padding=padding,
        dilation=dilations,
        ceil_mode=ceil_mode,
    )


def _pool(
    aggregation: Aggregation,
    x: Tensor,
    kernel_size: PerAxis,
    stride: PerAxis | None,
    padding: Padding,
    dilation: PerAxis,
    ceil_mode: bool,
    layout: str,
) -> Tensor:
    form = layout_of(x, layout, "ncx", "x")
    return _pooled(aggregation, x, form, _windows(x, form, kernel_size, stride, padding, dilation, ceil_mode))


def _pooled(aggregation: Aggregation, x: Tensor, form: Layout, windows: Sequence[Window]) -> Tensor:
    """Reduce each window."""
    source, result, constraints = _slid(x, form, windows)
    return written(aggregation, read(x, source).given(*constraints), result)


def _places(x: Tensor, greatest: Tensor, form: Layout, windows: Sequence[Window]) -> Tensor:
    """Return the position of the first greatest element of each window: the end less the greatest distance to it."""
    source, result, constraints = _slid(x, form, windows)
    elements, maxima = (call("cond", each != each, call("as_like", math.inf, each), each) for each in (x, greatest))
    sizes = form.sizes(x, "x")
    last = _product(sizes) - 1
    from_end = last - row_numbers(call("reshape", full(x, sizes, 0), last + 1), sizes, 0)
    own = from_end[tuple(source[axis].place for axis in form.axes("x"))]
    found = where(read(elements, source) == read(maxima, result), own)
    return last - written(Aggregation.MAX, found.given(*constraints), result)


def _slid(x: Tensor, form: Layout, windows: Sequence[Window]) -> tuple[list[Axis], list[Axis], tuple[Constraint, ...]]:
    """Return the accesses of the taps of windows, those of the results, and constraints on the taps."""
    sizes, output, taps = list(dims_of(x)), indices_of(x, "o"), indices_of(x, "i")
    source = [Axis((place,), (size,)) for place, size in zip(output, sizes, strict=True)]
    result = list(source)
    spatial = form.axes("x")
    for axis, window in zip(spatial, windows, strict=True):
        source[axis] = Axis((window.element(output[axis], taps[axis]),), (window.size,))
        result[axis] = Axis((output[axis],), (window.count,))
    return source, result, tuple(taps[axis] < w.kernel for axis, w in zip(spatial, windows, strict=True))


def _whole(aggregation: Aggregation, x: Tensor, form: Layout) -> Tensor:
    indices, spatial = indices_of(x), form.axes("x")
    kept = [0 if axis in spatial else index for axis, index in enumerate(indices)]
    sizes = [1 if axis in spatial else size for axis, size in enumerate(dims_of(x))]
    return aggregate(aggregation, x[indices], kept, sizes)


def _adaptive(aggregation: Aggregation, x: Tensor, output_size: Sizes, form: Layout) -> tuple[Tensor, dict[int, Dim]]:
    """Return the reduced windows, and their number on each spatial axis.

    Element i, of width M, and window o, of width N, share a part of ``N * M``.
    """
    spatial = form.axes("x")
    counts = dict(zip(spatial, sizes_per_axis(x, output_size, len(spatial), "output_size"), strict=True))
    sizes, element, output = list(dims_of(x)), indices_of(x), list(indices_of(x))
    common = []
    for axis, count in counts.items():
        size, output[axis] = sizes[axis], index_of(x, f"o{axis}")
        common.append(element[axis] * count - output[axis] * size + (count - 1) < size + (count - 1))
        sizes[axis] = count
    return aggregate(aggregation, x[element].given(*common), output, sizes), counts


def _counted(total: Tensor, axis: int, window: Window, after: int, *, skip_start: bool) -> Tensor:
    """Return the number of elements in the window of each result on one axis, including up to ``after`` of padding."""
    step = window.dilation
    reach = (window.count + 1) * window.stride + window.kernel * step
    start = position(total, axis, reach) * window.stride - window.before
    if step == 1:
        end = call("min", start + window.kernel, window.size + after)
        return end - (call("max", start, 0) if skip_start else start)
    end = call("min", (window.size + after - start + (step - 1)) / step, window.kernel)
    taps = end - (call("max", 0 - start, 0) + (step - 1)) / step if skip_start else end
    return call("max", taps, 1)  # if all taps are outside of the elements, the dividend is 0, too


def _product(factors: Iterable[T]) -> T:
    return functools.reduce(operator.mul, factors)
