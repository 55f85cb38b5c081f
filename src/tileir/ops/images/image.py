"""Images: blocks of pixels as channels and back, and crops.

``layout`` names the axes, as in :mod:`tileir.ops.networks.convolution`: ``n`` the batch, which may be missing, ``c``
the channels, ``x`` all spatial axes, of which there may be any number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tileir.ops.shared.foundation import (
    Aggregation,
    Dim,
    Polynomial,
    Tensor,
    aggregate,
    chosen,
    dim_like,
    dims_of,
    index_of,
    indices_of,
)
from tileir.ops.shared.layouts import Axis, Layout, joined, layout_of, read, written
from tileir.ops.shared.windows import PerAxis, Sizes, per_axis, sizes_per_axis

_ORDERS: Final = ("block_first", "channel_first")


def space_to_depth(x: Tensor, block: PerAxis, *, order: str = "block_first", layout: str = "ncx") -> Tensor:
    """Return each block of pixels as one pixel with more channels.

    Spatial axes become ``block`` times smaller, and the number of channels grows accordingly. Their order is (block,
    channel) if ``order`` is "block_first" (TensorFlow's, ONNX's DCR, PlaidML's ``reorg_yolo``), (channel, block) if it
    is "channel_first" (PyTorch's ``pixel_unshuffle``, ONNX's CRD). Dtype: that of ``x``.

    When compiling, TIL312 if a size is no multiple of the block.

    Raises:
        TileError: TIL217, an option or layout is invalid; TIL305, there are too few axes.
    """
    form = layout_of(x, layout, "ncx", "cx")
    sizes = per_axis(block, form.space, "block")
    (channels,), space = form.sizes(x, "c"), form.sizes(x, "x")
    blocks = [dim_like(x, size) for size in sizes]
    counts = [size // part for size, part in zip(space, blocks, strict=True)]
    deep, wide = _axes(x, form, channels, counts, blocks, order)
    return written(Aggregation.ASSIGN, read(x, wide), deep)


def depth_to_space(x: Tensor, block: PerAxis, *, order: str = "block_first", layout: str = "ncx") -> Tensor:
    """Return each pixel as a block of pixels with fewer channels: the inverse of :func:`space_to_depth`; same options.

    With "channel_first" it is PyTorch's ``pixel_shuffle``. Source: Shi et al., "Real-time single image and video
    super-resolution using an efficient sub-pixel convolutional neural network", 2016.

    Raises:
        TileError: TIL217, an option or layout is invalid; TIL305, there are too few axes; when compiling, TIL312 if the
            number of channels is no multiple of the elements of a block.
    """
    form = layout_of(x, layout, "ncx", "cx")
    blocks = [dim_like(x, size) for size in per_axis(block, form.space, "block")]
    (channels,), counts = form.sizes(x, "c"), form.sizes(x, "x")
    for size in blocks:
        channels = channels // size
    deep, wide = _axes(x, form, channels, counts, blocks, order)
    return written(Aggregation.ASSIGN, read(x, deep), wide)


def reorg_yolo(x: Tensor, stride: PerAxis, *, decrease: bool = True, layout: str = "ncx") -> Tensor:
    """Return fewer channels of larger images if ``decrease``, else more of smaller ones; PlaidML's ``reorg_yolo``.

    These are :func:`depth_to_space` and :func:`space_to_depth` with the block first; errors are theirs.
    """
    return depth_to_space(x, stride, layout=layout) if decrease else space_to_depth(x, stride, layout=layout)


def crop(x: Tensor, start: Sizes, size: Sizes, *, layout: str = "ncx") -> Tensor:
    """Return the part of ``size`` from ``start`` on of each spatial axis: ``O[n, c, i] = X[n, c, start + i]``.

    Elements outside of ``x`` are 0. Dtype: that of ``x``.

    Raises:
        TileError: TIL217, the layout or a number of sizes is invalid; TIL305, there are too few axes.
    """
    form = layout_of(x, layout, "ncx", "x")
    starts, counts = (sizes_per_axis(x, value, form.space, name) for value, name in ((start, "start"), (size, "size")))
    indices, sizes = indices_of(x), list(dims_of(x))
    source: list[Polynomial] = list(indices)
    for axis, first, count in zip(form.axes("x"), starts, counts, strict=True):
        source[axis] = indices[axis] + first
        sizes[axis] = count
    return aggregate(Aggregation.ASSIGN, x[tuple(source)], indices, sizes)


def _axes(
    x: Tensor, form: Layout, channels: Dim, counts: Sequence[Dim], blocks: Sequence[Dim], order: str
) -> tuple[tuple[Axis, ...], tuple[Axis, ...]]:
    """Return the axes of the tensor with more channels, and of the one with more pixels."""
    first = chosen(order, _ORDERS, "order") == "block_first"
    batch = [Axis((index_of(x, "n"),), (size,)) for size in form.sizes(x, "n")]
    pixels = [Axis((index_of(x, f"x{axis}"),), (size,)) for axis, size in enumerate(counts)]
    parts = [Axis((index_of(x, f"b{axis}"),), (size,)) for axis, size in enumerate(blocks)]
    channel = Axis((index_of(x, "c"),), (channels,))
    deep = joined(*parts, channel) if first else joined(channel, *parts)
    space = [joined(pixel, part) for pixel, part in zip(pixels, parts, strict=True)]
    return (
        form.arranged({"n": batch, "c": (deep,), "x": pixels}),
        form.arranged({"n": batch, "c": (channel,), "x": space}),
    )
