"""Convolutions of any number of dimensions, transposed convolutions, and gradients of their kernels.

Each is one contraction. Points whose element lies in the padding are passed over, so zero padding costs nothing. If
channels are in groups, and the innermost axis is spatial and has a stride, transposed convolutions and gradients of
kernels sort its elements by their residues, with zeros for the padding of that axis: an infinite weight or gradient
that meets it gives NaN there. There is no transform for small kernels (Winograd): it rounds more, and only the direct
form is optimised.

``layout`` names the axes of data and results: ``n`` the batch, which may be missing, ``c`` the channels, ``x`` all
spatial axes. ``kernel_layout`` names those of kernels: ``c`` the channels of the data, ``k`` those of the result, ``x``
the spatial axes, ``g`` groups. ``"ncx"`` with ``"kcx"`` is PyTorch's, ``"nxc"`` with ``"xck"`` is TensorFlow's and
PlaidML's; any other order is possible, too.

In groups, each part of the channels has its own kernels. With a ``g`` in the kernel layout these are an axis, and ``k``
or ``c`` may be missing: ``"xg"`` is a depthwise kernel. Otherwise ``groups`` is their number, and they are parts of the
axis ``k`` of the kernels (PyTorch, PlaidML's in_K), or of ``c`` with ``groups_in="c"`` (in_C).

Sizes that have to agree are compared when the program is compiled (TIL312). Sources: Dumoulin and Visin, "A guide to
convolution arithmetic for deep learning", 2016; PlaidML's ``convolution``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tileir.core.nodes import attrs
from tileir.ops.shared.foundation import (
    Aggregation,
    Dim,
    Polynomial,
    Tensor,
    chosen,
    dim_like,
    dims_of,
    for_sums,
    index_of,
    mistaken,
    promoted,
)
from tileir.ops.shared.layouts import Axis, Layout, beside, layout_of, read, written
from tileir.ops.shared.windows import (
    Padding,
    PerAxis,
    Sizes,
    Window,
    is_integer,
    sizes_per_axis,
    transposed_windows_of,
    windows_of,
)
from tileir.tile.building.recording import mistake


def conv(
    x: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    *,
    stride: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    data_dilation: PerAxis = 1,
    ceil_mode: bool = False,
    groups: int = 1,
    layout: str = "ncx",
    kernel_layout: str = "kcx",
    groups_in: str = "k",
) -> Tensor:
    """Return the convolution (that is, the cross-correlation) of ``x`` with the kernels ``w``.

    ``O[n, k, o] = bias[k] + sum(X[n, c, (stride * o + dilation * i - before) / data_dilation] * W[k, c, i])`` over c
    and i, where o and i stand for one index for each spatial axis, and anything that is no element of ``x`` is 0. For
    the number of o and ``padding``, see :func:`tileir.ops.shared.windows.windows_of`.

    Shapes: layouts and groups as above; ``bias`` has rank 1. Dtypes promote as in ``X * W``.

    Raises:
        TileError: TIL217, an option or layout is invalid; TIL305, a rank differs.
    """
    data, kernel = layout_of(x, layout, "ncx", "cx"), _kernel_layout(w, kernel_layout)
    _same_space(data, kernel)
    windows = windows_of(
        data.sizes(x, "x"),
        kernel.sizes(w, "x"),
        stride=stride,
        padding=padding,
        dilation=dilation,
        data_dilation=data_dilation,
        ceil_mode=ceil_mode,
    )
    channels = _channels_of(w, kernel, groups, groups_in)
    axes = _geometry(data, kernel, channels, data.sizes(x, "n"), windows, divides=False)
    arriving = x if bias is None else for_sums(x)
    result = written(Aggregation.SUM, read(arriving, axes.data) * read(w, axes.kernel), axes.result)
    return result if bias is None else promoted(result + beside(bias, data), x, w, bias)


def conv_transpose(
    y: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    *,
    stride: PerAxis = 1,
    padding: Padding = 0,
    output_padding: PerAxis = 0,
    output_size: Sizes | None = None,
    dilation: PerAxis = 1,
    groups: int = 1,
    layout: str = "ncx",
    kernel_layout: str = "kcx",
    groups_in: str = "k",
) -> Tensor:
    """Return the transposed convolution of ``y``: the gradient of :func:`conv` by its data for the cotangent ``y``.

    ``O[n, c, stride * o + dilation * i - before] += Y[n, k, o] * W[k, c, i]``; elements that nothing reaches are 0. The
    letters are those of the convolution: the channels of ``y`` are ``k``, those of the result ``c``, and ``"kcx"`` is
    PyTorch's layout here, too (there: in, out).

    Each spatial axis has ``output_size`` elements; by default ``(y - 1) * stride + m - before - after +
    output_padding`` with ``m = dilation * (kernel - 1) + 1``, or ``y * stride`` if ``padding`` is one of the rules that
    need no numbers.

    Raises:
        TileError: TIL217, an option or layout is invalid, or both sizes are given; TIL305, a rank differs.
    """
    data, kernel = layout_of(y, layout, "ncx", "cx"), _kernel_layout(w, kernel_layout)
    _same_space(data, kernel)
    windows = transposed_windows_of(
        data.sizes(y, "x"),
        kernel.sizes(w, "x"),
        stride=stride,
        padding=padding,
        dilation=dilation,
        output_padding=output_padding,
        sizes=None if output_size is None else sizes_per_axis(y, output_size, data.space, "output_size"),
    )
    channels = _channels_of(w, kernel, groups, groups_in)
    axes = _geometry(data, kernel, channels, data.sizes(y, "n"), windows)
    arriving = y if bias is None else for_sums(y)
    result = axes.united(written(Aggregation.SUM, read(arriving, axes.result) * read(w, axes.kernel), axes.data))
    return result if bias is None else promoted(result + beside(bias, data), y, w, bias)


def conv_weight_gradient(
    x: Tensor,
    dy: Tensor,
    kernel_size: Sizes,
    *,
    stride: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    data_dilation: PerAxis = 1,
    ceil_mode: bool = False,
    groups: int = 1,
    layout: str = "ncx",
    kernel_layout: str = "kcx",
    groups_in: str = "k",
) -> Tensor:
    """Return the gradient of :func:`conv` by its kernels, of the given size, for the cotangent ``dy`` of its result.

    ``O[k, c, i] = sum(X[n, c, (stride * o + dilation * i - before) / data_dilation] * DY[n, k, o])`` over n and o;
    options as for the convolution. ``groups`` counts for kernel layouts with ``g``, too.

    Raises:
        TileError: TIL217, an option or layout is invalid; TIL305, a rank differs.
    """
    data = layout_of(x, layout, "ncx", "cx")
    _same_space(data, layout_of(dy, layout, "ncx", "cx"))
    kernel = Layout(_checked_kernel_layout(kernel_layout).replace("x", "x" * data.space))
    windows = windows_of(
        data.sizes(x, "x"),
        sizes_per_axis(x, kernel_size, data.space, "kernel_size"),
        stride=stride,
        padding=padding,
        dilation=dilation,
        data_dilation=data_dilation,
        ceil_mode=ceil_mode,
    )
    (inputs,), (outputs,) = data.sizes(x, "c"), data.sizes(dy, "c")
    parts = {"g": dim_like(x, _number_of_groups(groups)), "c": inputs // groups, "k": outputs // groups}
    joined = "g" if "g" in kernel.letters else chosen(groups_in, ("k", "c"), "groups_in")
    absent = [letter for letter in parts if letter not in kernel.letters and (letter != "g" or groups == 1)]
    channels = _divided(x, {letter: size for letter, size in parts.items() if letter not in absent}, joined)
    axes = _geometry(data, kernel, channels, data.sizes(x, "n"), windows)
    return written(Aggregation.SUM, read(axes.divided(x), axes.data) * read(dy, axes.result), axes.kernel)


def depthwise_conv(
    x: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    *,
    stride: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    layout: str = "ncx",
    kernel_layout: str = "gkx",
) -> Tensor:
    """Return the convolution of each channel with its own kernels, whose number is the size of axis ``k``.

    ``O[n, g * K + k, o] = bias[g * K + k] + sum(X[n, g, stride * o + dilation * i - before] * W[g, k, i])`` over i.
    Other kernel layouts are ``"xgk"`` (TensorFlow's), and ``"gx"`` and ``"xg"`` for one kernel each.

    Raises:
        TileError: TIL217, an option or layout is invalid; TIL305, a rank differs.
    """
    if "g" not in kernel_layout or "c" in kernel_layout:
        raise mistaken(f"the layout of a depthwise kernel has 'g' and no 'c', as in 'gkx'; not {kernel_layout!r}")
    return conv(
        x, w, bias, stride=stride, padding=padding, dilation=dilation, layout=layout, kernel_layout=kernel_layout
    )


def separable_conv(
    x: Tensor,
    depthwise: Tensor,
    pointwise: Tensor,
    bias: Tensor | None = None,
    *,
    stride: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    layout: str = "ncx",
    kernel_layout: str = "gkx",
    pointwise_layout: str = "kcx",
) -> Tensor:
    """Return a depthwise convolution followed by one with kernels of size 1, which mixes the channels.

    Options are those of :func:`depthwise_conv`; ``pointwise`` and ``bias`` are as for :func:`conv`. Source: Chollet,
    "Xception: Deep learning with depthwise separable convolutions", 2017.

    Raises:
        TileError: TIL217, an option or layout is invalid; TIL305, a rank differs.
    """
    middle = depthwise_conv(
        x, depthwise, stride=stride, padding=padding, dilation=dilation, layout=layout, kernel_layout=kernel_layout
    )
    return conv(middle, pointwise, bias, layout=layout, kernel_layout=pointwise_layout)


@attrs.frozen(repr=False)
class _Channels:
    """The axes of channels of data and results, and those of the kernels by letter."""

    data: Axis
    result: Axis
    kernel: Mapping[str, Axis]


@attrs.frozen(repr=False)
class _Geometry:
    """All axes of a convolution's data, kernels and result, in the order of their layouts.

    If channels are in groups, and the innermost axis of the data is spatial and has a stride, transposed convolutions
    and gradients of kernels split it: its positions ``stride * q + r``, padding included, are read and written as two
    axes, r and q, so that neighbours in memory are neighbours in the result. ``strided`` is the window of that axis.
    """

    data: tuple[Axis, ...]
    kernel: tuple[Axis, ...]
    result: tuple[Axis, ...]
    strided: Window | None

    def divided(self, x: Tensor) -> Tensor:
        """Return the data in the form in which it is read."""
        if self.strided is None:
            return x
        outer, whole, parts = self._innermost(x, self.strided)
        value = x[(*(axis.place for axis in outer), whole)].given(parts[0].place < self.strided.stride)
        return written(Aggregation.ASSIGN, value, (*outer, *parts))

    def united(self, x: Tensor) -> Tensor:
        """Return a result that was written in that form as data."""
        if self.strided is None:
            return x
        outer, whole, parts = self._innermost(x, self.strided)
        return written(Aggregation.ASSIGN, read(x, (*outer, *parts)), (*outer, Axis((whole,), (self.strided.size,))))

    def _innermost(self, x: Tensor, window: Window) -> tuple[list[Axis], Polynomial, tuple[Axis, ...]]:
        """Return the outer axes, the position on the unsplit innermost axis, and its parts."""
        *outer, rest, quotient = self.data
        sizes = dims_of(x)[: len(outer)]
        axes = [Axis((index_of(x, f"x{axis}"),), (size,)) for axis, size in enumerate(sizes)]
        r, q = index_of(x, "r"), index_of(x, "q")
        return axes, q * window.stride + r - window.before, (Axis((r,), rest.sizes), Axis((q,), quotient.sizes))


def _geometry(
    data: Layout,
    kernel: Layout,
    channels: _Channels,
    batch: Sequence[Dim],
    windows: Sequence[Window],
    *,
    divides: bool = True,
) -> _Geometry:
    """Return the axes to read and write; the data's axes are those of the gradient in a transposed convolution.

    ``divides`` permits splitting the innermost axis.
    """
    numbered = tuple(enumerate(windows))
    output = [index_of(window.count, f"o{axis}") for axis, window in numbered]
    tap: list[Polynomial] = [index_of(window.count, f"i{axis}") for axis, window in numbered]
    joint = tuple(Axis((index_of(size, "n"),), (size,)) for size in batch)
    elements = [Axis((w.element(output[axis], tap[axis]),), (w.size,)) for axis, w in numbered]
    last = windows[-1]
    apart = not {"k", "c"} <= set(channels.kernel) or "g" in channels.kernel  # otherwise vectors run over the channels
    undilated = last.dilation == last.data_dilation == 1
    divides = divides and apart and data.letters[-1] == "x" and last.stride > 1 and undilated
    if divides:
        rest, times = index_of(last.count, "r"), index_of(last.count, "t")
        reach = last.count + (last.kernel + (last.stride - 1)) // last.stride - 1
        tap[-1] = times * last.stride + rest
        elements[-1:] = [Axis((rest,), (dim_like(reach, last.stride),)), Axis((output[-1] + times,), (reach,))]
    counts = [Axis((output[axis],), (w.count,)) for axis, w in numbered]
    taps = [Axis((tap[axis],), (w.kernel,)) for axis, w in numbered]
    return _Geometry(
        data.arranged({"n": joint, "c": (channels.data,), "x": elements}),
        kernel.arranged({**{letter: (axis,) for letter, axis in channels.kernel.items()}, "x": taps}),
        data.arranged({"n": joint, "c": (channels.result,), "x": counts}),
        last if divides else None,
    )


def _channels_of(w: Tensor, kernel: Layout, groups: int, groups_in: str) -> _Channels:
    """Return the division of the channels into groups, by the kernels and options."""
    sizes = {letter: kernel.sizes(w, letter)[0] for letter in "gkc" if letter in kernel.letters}
    joined = chosen(groups_in, ("k", "c"), "groups_in")
    if "g" in sizes:
        if groups != 1:
            raise mistaken("with 'g' in the kernel layout that axis says how many groups there are; leave groups out")
        joined = "g"
    elif _number_of_groups(groups) > 1:
        sizes["g"] = dim_like(w, groups)
        sizes[joined] = sizes[joined] // groups
    return _divided(w, sizes, joined)


def _divided(x: Tensor, sizes: Mapping[str, Dim], joined: str) -> _Channels:
    """Return the axes of channels from the sizes of a group, of its outputs and inputs, any of which may be missing.

    ``joined`` is the axis of the kernels that contains the groups, or "g".
    """
    single = {letter: Axis((index_of(x, letter),), (size,)) for letter, size in sizes.items()}

    def grouped(letter: str) -> Axis:
        parts = [single[name] for name in ("g", letter) if name in single]
        return Axis(tuple(part.places[0] for part in parts), tuple(part.sizes[0] for part in parts))

    kernel = {letter: grouped(letter) if letter == joined != "g" else axis for letter, axis in single.items()}
    return _Channels(grouped("c"), grouped("k"), kernel)


def _number_of_groups(groups: int) -> int:
    if not is_integer(groups, 1):
        raise mistaken(f"groups is an integer from 1 on; it was {groups!r}")
    return groups


def _checked_kernel_layout(layout: str) -> str:
    letters = set(layout)
    if not letters <= set("gkcx") or not ({"k", "c"} <= letters or "g" in letters):
        raise mistaken(f"a kernel layout has the letters 'k' and 'c', or 'g', and 'x'; not {layout!r}")
    return layout


def _kernel_layout(w: Tensor, layout: str) -> Layout:
    return layout_of(w, _checked_kernel_layout(layout), "gkcx", "x")


def _same_space(left: Layout, right: Layout) -> None:
    if left.space != right.space:
        raise mistake(
            "TIL305", f"the tensors have {left.space} and {right.space} spatial axes by their layouts and ranks"
        )
