"""Borders around tensors, and windows of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from tileir.ops.shared.foundation import (
    Aggregation,
    CombinedElements,
    Dim,
    Index,
    Operand,
    Polynomial,
    Size,
    Tensor,
    aggregate,
    call,
    chosen,
    dim_like,
    dims_of,
    expand,
    for_sums,
    index_of,
    indices_of,
    inside,
    integer_of,
    mistake,
    mistaken,
    rank_of,
)
from tileir.ops.shared.layouts import Axis, joined, read, written
from tileir.ops.shared.windows import Padding, PerAxis, per_axis, sizes_per_axis, windows_of
from tileir.tile.ir import Constraint

Limits: TypeAlias = tuple[Constraint, ...]
Pads: TypeAlias = "Sequence[Size | tuple[Size, Size]] | Size"

MODES: Final = ("constant", "reflect", "symmetric", "edge", "wrap")


def pad(x: Tensor, pads: Pads, *, mode: str = "constant", value: Operand = 0) -> Tensor:
    """Return ``x`` with borders, as NumPy's ``pad``.

    Args:
        x: A tensor.
        pads: For each axis the width before and after, or one width for both; a single number is for all axes.
            Negative widths, with ``"constant"`` only, cut off elements.
        mode: ``"constant"``; ``"edge"``: the outermost element; ``"reflect"``: mirrored at it, which is not
            repeated; ``"symmetric"``: mirrored beyond it; ``"wrap"``: from the other end.
        value: The value of ``"constant"`` borders, in the dtype of ``x``.

    Shapes: each axis grows by its two widths. Dtypes: that of ``x``.

    Raises:
        TileError: TIL217, another mode, or not a pair for each axis. TIL312 when compiling, an axis has no elements
            that its borders could repeat.
    """
    chosen(mode, MODES, "mode")
    widths = _widths(x, pads)
    if mode == "constant":
        return _constant(x, widths, value)
    if all((before.value, behind.value) == (0, 0) for before, behind in widths):
        return x
    result = for_sums(x)  # gradients of repeated elements are added up in it
    for axis, (before, behind) in enumerate(widths):
        if (before.value, behind.value) != (0, 0):
            result = _repeated(result, axis, before, behind, mode)
    return call("as_like", result, x)


def _widths(x: Tensor, pads: Pads) -> list[tuple[Dim, Dim]]:
    groups = list(pads) if isinstance(pads, list | tuple) else [pads] * rank_of(x)
    if len(groups) != rank_of(x):
        raise mistaken(f"each of {rank_of(x)} axes needs its widths, but there are {len(groups)}")
    pairs = [tuple(group) if isinstance(group, list | tuple) else (group, group) for group in groups]
    if any(len(pair) != 2 for pair in pairs):
        raise mistaken("the widths of an axis are two: before and behind it")
    return [(_width(x, before), _width(x, behind)) for before, behind in pairs]


def _width(x: Tensor, width: object) -> Dim:
    return width if isinstance(width, Dim) else dim_like(x, integer_of(width, "a width"))


def _constant(x: Tensor, widths: Sequence[tuple[Dim, Dim]], value: Operand) -> Tensor:
    """Move ``x`` into a tensor of one value; a computed value is chosen by a test of the coordinates."""
    variables, dims = indices_of(x), dims_of(x)
    sizes = [before + dim + behind for dim, (before, behind) in zip(dims, widths, strict=True)]
    moved = [i + before if before.value != 0 else i for i, (before, _) in zip(variables, widths, strict=True)]
    default = None
    if isinstance(value, int | float) and value != 0:
        default = expand(call("as_like", value, x), sizes)
    padded = aggregate(Aggregation.ASSIGN, x[variables], moved, sizes, default=default)
    if isinstance(value, int | float):
        return padded
    borders: list[Tensor] = []
    for axis, (dim, (before, behind)) in enumerate(zip(dims, widths, strict=True)):
        position = call("index", padded, axis)
        if before.value is None or before.value > 0:
            borders.append(position < before)
        if behind.value is None or behind.value > 0:
            borders.append(position >= before + dim)
    filling = call("as_like", value, x)
    for border in borders:
        padded = call("cond", border, filling, padded)
    return padded


def _repeated(x: Tensor, axis: int, before: Dim, behind: Dim, mode: str) -> Tensor:
    """Write one axis with its borders: the middle is the default of one border, and that of the other."""
    variables, dims = indices_of(x), list(dims_of(x))
    size = dims[axis]
    dims[axis] = before + size + behind
    count = index_of(x, "k")

    def written(source: Polynomial | Size, target: Polynomial, limits: Limits, default: Tensor | None) -> Tensor:
        element: CombinedElements = x[tuple(source if a == axis else i for a, i in enumerate(variables))]
        for limit in limits:
            element = element.given(limit)
        output = [target if a == axis else i for a, i in enumerate(variables)]
        return aggregate(Aggregation.ASSIGN, element, output, dims, default=default)

    result = written(variables[axis], variables[axis] + before, (), None)
    for width, leads in ((before, True), (behind, False)):
        if width.value == 0:
            continue
        for distance, place, limits in _distances(variables[axis], count, size, width, mode):
            source = place if leads is (mode != "wrap") else size - 1 - place
            target = before - 1 - distance if leads else before + size + distance
            result = written(source, target, limits, result)
    return result


def _distances(
    position: Index, count: Index, size: Dim, width: Dim, mode: str
) -> Iterator[tuple[Index | Polynomial, Index | Polynomial | Size, Limits]]:
    """Yield the elements that a border repeats: their distance from the middle, the position, and limits.

    Positions count from the end of the axis with the border, or for ``"wrap"`` from the other end. A border that is
    wider than the axis repeats it as often as necessary, every ``period`` elements.
    """
    some = inside(dim_like(size, 0), size)
    if mode == "edge":
        yield count, 0, (count < width + some,)
        return
    period = {"wrap": size, "symmetric": 2 * size, "reflect": 2 * size - 2}[mode].max(1)
    start, times = period * count, count < (width + period - 1) / period + some
    match mode:
        case "wrap":
            yield start + position, position, (times,)
        case "symmetric":
            yield start + position, position, (times,)
            yield start + period - 1 - position, position, (times,)
        case _:
            yield start + position, position + 1, (times,)
            yield start + period - 1 - position, position, (times, position < (size - 1).max(1))


def image_patches(
    x: Tensor,
    size: Sequence[Size] | Size,
    *,
    strides: Sequence[Size] | Size = 1,
    dilations: Sequence[Size] | Size = 1,
    padding: str | Sequence[tuple[Size, Size]] = "valid",
) -> Tensor:
    """Return the windows of images as vectors: ``[N, X, Y, …, C]`` gives ``[N, X', Y', …, size * C]``.

    Args:
        x: Images, with the batch first and the channels last; any number of axes between them.
        size: The size of a window on each of these axes, or one for all.
        strides: The distance between windows.
        dilations: The distance between elements of a window.
        padding: ``"valid"``: windows inside of the image only; ``"same"``: the number of positions divided by the
            stride and rounded up; or the width of the border of zeros before and after each axis.

    Shapes: ``X' = (before + X + behind - dilation * (size - 1) - 1) / stride + 1``. In the last axis the position in
    the window comes first, then the channel. Dtypes: that of ``x``.

    Raises:
        TileError: TIL305, ``x`` has fewer than three axes; TIL217, another padding, or not a positive number for each
            axis.

    Source: PlaidML's ``ImagePatches``, TensorFlow's ``extract_patches``.
    """
    axes = rank_of(x) - 2
    for name, option in (("size", size), ("strides", strides), ("dilations", dilations)):
        numbers = option if isinstance(option, list | tuple) else (option,)
        if any(isinstance(number, int) and number < 1 for number in numbers):
            raise mistaken(f"{name} is from 1 on; it was {option!r}")
    if axes < 1:
        raise mistake("TIL305", f"images have a batch, sizes and channels; this tensor has rank {rank_of(x)}")
    sizes, steps, gaps = (_for_each(x, group, axes) for group in (size, strides, dilations))
    batch, *dims, channels = dims_of(x)
    spans = [gap * (count - 1) + 1 for gap, count in zip(gaps, sizes, strict=True)]
    if padding == "same":
        totals = [
            (((dim + step - 1) / step - 1) * step + span - dim).max(0)
            for dim, step, span in zip(dims, steps, spans, strict=True)
        ]
        borders = [(total / 2, total - total / 2) for total in totals]
    elif isinstance(padding, str):
        chosen(padding, ("valid", "same"), "padding")
        borders = [(dim_like(x, 0), dim_like(x, 0))] * axes
    else:
        borders = [(_width(x, before), _width(x, behind)) for before, behind in padding]
        if len(borders) != axes:
            raise mistaken(f"each of {axes} axes needs a pair of widths, but there are {len(borders)}")
    counts = [
        (before + dim + behind - span) / step + 1
        for dim, step, span, (before, behind) in zip(dims, steps, spans, borders, strict=True)
    ]
    windows = _windows(x, counts, sizes, steps, gaps, [before for before, _ in borders])
    merged = dim_like(x, 1)
    for count in sizes:
        merged = merged * count
    return call("reshape", windows, batch, *counts, merged * channels)


def fold(
    x: Tensor,
    output_size: Sequence[Size],
    kernel_size: PerAxis,
    *,
    stride: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
) -> Tensor:
    """Return images from windows as columns, which are added up where they overlap.

    Shapes: ``x`` is [N, C * k, o], with k elements of a window of ``kernel_size``, the last axis the innermost, and o
    windows in their order; the result is [N, C, output_size…]. For the number of windows and ``padding``, see
    :func:`tileir.ops.shared.windows.windows_of`. Dtype: that of ``x``.

    Raises:
        TileError: TIL305, ``x`` has not three axes; TIL217, an option is invalid; TIL312 when compiling, the number of
            windows differs.

    Source: PyTorch's ``fold``, ONNX' ``Col2Im``.
    """
    if rank_of(x) != 3:
        raise mistake("TIL305", f"windows as columns have three axes, not {rank_of(x)}")
    sizes = [dim_like(x, size) for size in output_size]
    kernels = sizes_per_axis(x, per_axis(kernel_size, len(sizes), "kernel_size"), len(sizes), "kernel_size")
    windows = windows_of(sizes, kernels, stride=stride, padding=padding, dilation=dilation)
    batch, depth, _ = dims_of(x)
    channels = depth
    for kernel in kernels:
        channels = channels / kernel
    n, c = Axis((index_of(x, "n"),), (batch,)), Axis((index_of(x, "c"),), (channels,))
    taps = [Axis((index_of(x, f"k{axis}"),), (kernel,)) for axis, kernel in enumerate(kernels)]
    places = [Axis((index_of(x, f"o{axis}"),), (window.count,)) for axis, window in enumerate(windows)]
    columns = read(x, (n, joined(c, *taps), joined(*places))).given(*(o.place < o.size for o in places[:1]))
    result = [
        Axis((window.element(o.place, tap.place),), (window.size,))
        for window, o, tap in zip(windows, places, taps, strict=True)
    ]
    return written(Aggregation.SUM, columns, (n, c, *result))


def _windows(
    x: Tensor, counts: list[Dim], sizes: list[Dim], steps: list[Dim], gaps: list[Dim], before: list[Dim]
) -> Tensor:
    batch, *_, channels = dims_of(x)
    n, c = index_of(x, "n"), index_of(x, "c")
    places = [index_of(x, f"x{axis}") for axis in range(len(counts))]
    inner = [index_of(x, f"k{axis}") for axis in range(len(counts))]
    source = [
        place * step + k * gap - lead
        for place, step, k, gap, lead in zip(places, steps, inner, gaps, before, strict=True)
    ]
    element: CombinedElements = x[(n, *source, c)]
    output = [n, *places, *inner, c]
    return aggregate(Aggregation.ASSIGN, element, output, [batch, *counts, *sizes, channels])


def _for_each(x: Tensor, value: object, count: int) -> list[Dim]:
    given = list(value) if isinstance(value, list | tuple) else [value] * count
    if len(given) != count:
        raise mistaken(f"each of {count} axes needs a number, but there are {len(given)}")
    return [_width(x, number) for number in given]
