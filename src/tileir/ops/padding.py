"""Borders around tensors, and windows of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tileir.ops.foundation import (
    Aggregation,
    Dim,
    aggregate,
    call,
    chosen,
    dim_like,
    dims_of,
    index_of,
    indices_of,
    inside,
    integer_of,
    mistake,
    mistaken,
    rank_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    from tileir.ops.foundation import Combined, Index, Operand, Polynomial, Size, Tensor

    Pads: TypeAlias = "Sequence[Size | tuple[Size, Size]] | Size"

MODES: Final = ("constant", "reflect", "symmetric", "edge", "wrap")


def pad(x: Tensor, pads: Pads, *, mode: str = "constant", value: Operand = 0) -> Tensor:
    """Return ``x`` with borders, as NumPy's ``pad``.

    Args:
        x: A tensor.
        pads: For each axis the width before and behind, or one width for both; a single number is for all axes.
            Negative widths, with ``"constant"`` only, cut off.
        mode: ``"constant"``; ``"edge"``: the outermost element; ``"reflect"``: mirrored at it, which is not
            repeated; ``"symmetric"``: mirrored behind it; ``"wrap"``: from the other end.
        value: What ``"constant"`` borders hold, in the dtype of ``x``.

    Shapes: each axis grows by its two widths. Dtypes: that of ``x``.

    Raises:
        TileError: TIL217, another mode, or not a pair for each axis. TIL312 when compiling, a border is wider than
            its axis has elements to take (one less for ``"reflect"``; at least one for ``"edge"``).

    """
    chosen(mode, MODES, "mode")
    widths = _widths(x, pads)
    if mode == "constant":
        return _constant(x, widths, value)
    for axis, (before, behind) in enumerate(widths):
        if (before.value, behind.value) != (0, 0):
            x = _mirrored(x, axis, before, behind, mode)
    return x


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
    """Move ``x`` into zeros; another value comes in by a test of the coordinates, so that it may be an infinity."""
    variables, dims = indices_of(x), dims_of(x)
    sizes = [before + dim + behind for dim, (before, behind) in zip(dims, widths, strict=True)]
    moved = [i + before if before.value != 0 else i for i, (before, _) in zip(variables, widths, strict=True)]
    padded = aggregate(Aggregation.ASSIGN, x[variables], moved, sizes)
    if isinstance(value, int | float) and value == 0:
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


def _mirrored(x: Tensor, axis: int, before: Dim, behind: Dim, mode: str) -> Tensor:
    """Write one axis with its borders: the middle is the default of one border, and that of the other."""
    variables, dims = indices_of(x), list(dims_of(x))
    size = dims[axis]
    dims[axis] = before + size + behind
    k = index_of(x, "k")

    def written(source: Polynomial | Size, target: Polynomial, width: Dim | None, default: Tensor | None) -> Tensor:
        element = x[tuple(source if a == axis else i for a, i in enumerate(variables))]
        output = [target if a == axis else i for a, i in enumerate(variables)]
        limited = element if width is None else element.given(k < width)
        return aggregate(Aggregation.ASSIGN, limited, output, dims, default=default)

    result = written(variables[axis], variables[axis] + before, None, None)
    lead, tail = _sources(k, size, mode)
    if before.value != 0:
        result = written(lead, before - 1 - k, _within(before, size, mode), result)
    if behind.value != 0:
        result = written(tail, before + size + k, _within(behind, size, mode), result)
    return result


def _sources(k: Index, size: Dim, mode: str) -> tuple[Polynomial | Size, Polynomial | Size]:
    """Return what stands at distance ``k`` before the first element, and behind the last."""
    match mode:
        case "edge":
            return 0, size - 1
        case "reflect":
            return k + 1, size - 2 - k
        case "symmetric":
            return k, size - 1 - k
        case _:
            return size - 1 - k, k


def _within(width: Dim, size: Dim, mode: str) -> Dim:
    """Return the width of a border, with an assertion that the axis has enough elements for it."""
    if mode == "edge":
        return width + inside(dim_like(size, 0), size)
    return inside(width, size + (0 if mode == "reflect" else 1))


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
        strides: By how much windows are apart.
        dilations: By how much elements of a window are apart.
        padding: ``"valid"``: windows inside of the image only; ``"same"``: as many as positions, divided by the
            stride and rounded up; or the width of the border of zeros before and behind each axis.

    Shapes: ``X' = (before + X + behind - dilation * (size - 1) - 1) / stride + 1``. In the last axis the position in
    the window comes first, then the channel. Dtypes: that of ``x``.

    Raises:
        TileError: TIL305, ``x`` has fewer than three axes; TIL217, another padding, or not a number from 1 on for
            each axis.

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
    element: Combined = x[(n, *source, c)]
    output = [n, *places, *inner, c]
    return aggregate(Aggregation.ASSIGN, element, output, [batch, *counts, *sizes, channels])


def _for_each(x: Tensor, value: object, count: int) -> list[Dim]:
    given = list(value) if isinstance(value, list | tuple) else [value] * count
    if len(given) != count:
        raise mistaken(f"each of {count} axes needs a number, but there are {len(given)}")
    return [_width(x, number) for number in given]
