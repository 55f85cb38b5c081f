"""Windows that slide over axes: their number, and the element of each of their taps.

With the effective size ``n = data_dilation * (size - 1) + 1`` of an axis and the effective size ``m = dilation *
(kernel - 1) + 1`` of a window, there are ``(n + before + after - m) // stride + 1`` windows, and tap ``i`` of window
``o`` meets element ``(stride * o + dilation * i - before) / data_dilation``; if that is no element, the tap does not
take part. The rules are those of PlaidML, and in ceil mode PyTorch's: a window that would begin in the padding at the
end is left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, TypeAlias

from tileir.core.nodes import attrs
from tileir.ops.shared.foundation import Dim, Polynomial, Tensor, dim_like, mistaken

PerAxis: TypeAlias = "int | Sequence[int]"
Sizes: TypeAlias = "Dim | int | Sequence[Dim | int]"
Padding: TypeAlias = "str | int | Sequence[int | tuple[int, int]]"

_SAME: Final = ("same", "same_upper", "same_lower")


@attrs.frozen
class Window:
    """Movement of a window over one axis.

    Attributes:
        size: The number of elements of the axis.
        kernel: The number of taps of the window.
        stride: The distance between windows.
        dilation: The distance between taps.
        data_dilation: The distance between elements, with zeros in between.
        before: The number of elements of padding before the first one.
        count: The number of windows.
    """

    size: Dim
    kernel: Dim
    stride: int
    dilation: int
    data_dilation: int
    before: Dim
    count: Dim

    def element(self, window: Polynomial, tap: Polynomial) -> Polynomial:
        """Return the element that a tap of a window meets; one beyond all if no tap ever meets an element."""
        common = math.gcd(self.stride, self.dilation, self.data_dilation)
        if self.before.value is not None and self.before.value % common:
            return window + tap + self.size
        place = _times(window, self.stride) + _times(tap, self.dilation)
        if self.before.value != 0:
            place = place - self.before
        return place if self.data_dilation == 1 else place / self.data_dilation


def _times(index: Polynomial, factor: int) -> Polynomial:
    return index if factor == 1 else index * factor


def per_axis(value: PerAxis, axes: int, name: str, least: int = 1) -> tuple[int, ...]:
    """Return one integer for each axis, from one for all or a sequence of them.

    Raises:
        TileError: TIL217, their number is not that of the axes, or one is no integer from ``least`` on.
    """
    values = (value,) * axes if isinstance(value, int) else tuple(value)
    if len(values) != axes or not all(is_integer(number, least) for number in values):
        raise mistaken(f"{name} is an integer from {least} on, or {axes} of them; it was {value!r}")
    return values


def is_integer(value: object, least: int) -> bool:
    """Tell whether a value is an integer from ``least`` on."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def sizes_per_axis(x: Tensor, value: Sizes, axes: int, name: str) -> tuple[Dim, ...]:
    """Return one size for each axis, from one for all or a sequence of them.

    Raises:
        TileError: TIL217, their number is not that of the axes.
    """
    values = (value,) * axes if isinstance(value, Dim | int) else tuple(value)
    if len(values) != axes:
        raise mistaken(f"{name} is one size, or {axes} of them; it was {value!r}")
    return tuple(dim_like(x, size) for size in values)


def windows_of(
    sizes: Sequence[Dim],
    kernels: Sequence[Dim],
    *,
    stride: PerAxis,
    padding: Padding,
    dilation: PerAxis = 1,
    data_dilation: PerAxis = 1,
    ceil_mode: bool = False,
) -> tuple[Window, ...]:
    """Return the windows that slide over axes of the given sizes.

    ``padding`` is a number, or one for each axis, or one pair (before, after) for each axis; or ``"valid"`` for no
    padding; or ``"same_upper"`` (also ``"same"``) or ``"same_lower"`` for ``ceil(n / stride)`` windows, with an odd
    element of padding after or before the elements. ``ceil_mode`` rounds the number of windows up.

    Raises:
        TileError: TIL217, an option is invalid.
    """
    axes = len(sizes)
    rule, pads = _padding(padding, axes)
    steps = zip(
        per_axis(stride, axes, "stride"),
        per_axis(dilation, axes, "dilation"),
        per_axis(data_dilation, axes, "data_dilation"),
        strict=True,
    )
    return tuple(
        _window(size, kernel, step, rule, pad, ceil_mode)
        for size, kernel, step, pad in zip(sizes, kernels, steps, pads, strict=True)
    )


def _window(
    size: Dim, width: Dim, step: tuple[int, int, int], rule: str, pad: tuple[int, int], ceil_mode: bool
) -> Window:
    stride, dilation, data_dilation = step
    elements = size if data_dilation == 1 else (size - 1) * data_dilation + 1
    taps = width if dilation == 1 else (width - 1) * dilation + 1
    if rule == "explicit":
        before = dim_like(size, pad[0])
        room = elements + sum(pad) - taps
        count = (room + stride) // stride
        if ceil_mode:
            count = ((room + (2 * stride - 1)) // stride).min((elements + (pad[0] + stride - 1)) // stride)
    else:
        count = (elements + (stride - 1)) // stride
        before = same_padding(elements, taps, stride, count, rule)
    return Window(size, width, stride, dilation, data_dilation, before, count)


def same_padding(elements: Dim, taps: Dim, stride: int, count: Dim, rule: str) -> Dim:
    """Return the padding before the first element with which ``count`` windows are centred."""
    missing = ((count - 1) * stride + taps - elements).max(0)
    return (missing + 1) // 2 if rule == "same_lower" else missing // 2


def transposed_windows_of(
    counts: Sequence[Dim],
    kernels: Sequence[Dim],
    *,
    stride: PerAxis,
    padding: Padding,
    dilation: PerAxis,
    output_padding: PerAxis,
    sizes: Sequence[Dim] | None,
) -> tuple[Window, ...]:
    """Return ``counts`` windows over axes of the given sizes, or those that follow from options.

    Raises:
        TileError: TIL217, an option is invalid, or both sizes are given.
    """
    axes = len(counts)
    rule, pads = _padding(padding, axes)
    more = per_axis(output_padding, axes, "output_padding", least=0)
    if sizes is not None and any(more):
        raise mistaken("output_size says how many elements there are; leave output_padding out")
    steps = zip(per_axis(stride, axes, "stride"), per_axis(dilation, axes, "dilation"), strict=True)
    windows = []
    for axis, (step, between) in enumerate(steps):
        count, kernel, (before, after) = counts[axis], kernels[axis], pads[axis]
        taps = kernel if between == 1 else (kernel - 1) * between + 1
        free = (count - 1) * step + taps + (more[axis] - before - after) if rule == "explicit" else count * step
        size = free if sizes is None else sizes[axis]
        first = dim_like(size, before) if rule == "explicit" else same_padding(size, taps, step, count, rule)
        windows.append(Window(size, kernel, step, between, 1, first, count))
    return tuple(windows)


def _padding(padding: Padding, axes: int) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Return the rule for padding, and the padding before and after each axis if that is explicit."""
    if isinstance(padding, str):
        if padding in _SAME:
            return padding, ((0, 0),) * axes
        if padding == "valid":
            return "explicit", ((0, 0),) * axes
        raise mistaken(f"padding is 'valid', 'same_upper', 'same_lower' or numbers; it was {padding!r}")
    pads = (padding,) * axes if isinstance(padding, int) else tuple(padding)
    pairs = tuple((pad, pad) if isinstance(pad, int) else tuple(pad) for pad in pads)
    if len(pairs) != axes or any(len(pair) != 2 or not all(is_integer(p, 0) for p in pair) for pair in pairs):
        raise mistaken(f"padding is a number from 0 on, or {axes} of them or of pairs; it was {padding!r}")
    return "explicit", tuple((pair[0], pair[1]) for pair in pairs)


def explicit_padding(padding: Padding, axes: int) -> tuple[tuple[int, int], ...] | None:
    """Return the padding before and after each axis, or None if it follows from sizes.

    Raises:
        TileError: TIL217, the padding is invalid.
    """
    rule, pads = _padding(padding, axes)
    return pads if rule == "explicit" else None
