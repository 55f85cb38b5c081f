"""Operators over sliding windows: convolutions and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod
from operator import add
from typing import Any, TypeAlias

from tileir import ops
from tileir.tile.builder import Dim, Tensor
from tileir_onnx.graph import Array
from tileir_onnx.importing import Call
from tileir_onnx.rows.arguments import padding_of, sizes as sizes_of
from tileir_onnx.rows.table import row

Numbers: TypeAlias = "Sequence[int] | None"


def _known(call: Call, size: Any) -> int:
    """Return a size as an integer; raise TIL605 if it is symbolic."""
    if isinstance(size, Dim):
        raise call.fault("sizes follow from those of its input, which must be known: call the model with arrays")
    return int(size)


@row("Conv")
def conv(
    call: Call,
    x: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Numbers = None,
    group: int = 1,
    kernel_shape: Numbers = None,
    pads: Numbers = None,
    strides: Numbers = None,
) -> Tensor:
    padding = padding_of(auto_pad, pads, x.rank - 2)
    return ops.conv(x, w, bias, stride=strides or 1, padding=padding, dilation=dilations or 1, groups=group)


@row("ConvTranspose")
def conv_transpose(
    call: Call,
    x: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Numbers = None,
    group: int = 1,
    kernel_shape: Numbers = None,
    output_padding: Numbers = None,
    output_shape: Numbers = None,
    pads: Numbers = None,
    strides: Numbers = None,
) -> Tensor:
    space = x.rank - 2
    more: Sequence[int] = output_padding or [0] * space
    options: dict[str, Any] = {"output_padding": more}
    padding = padding_of(auto_pad, pads, space)
    if output_shape is not None:
        wanted = output_shape[-space:]
        padding = _padding_to(call, x, w, wanted, auto_pad, more, strides or [1] * space, dilations or [1] * space)
        options = {"output_size": wanted}
    return ops.conv_transpose(
        x, w, bias, stride=strides or 1, padding=padding, dilation=dilations or 1, groups=group, **options
    )


def _padding_to(
    call: Call,
    x: Tensor,
    w: Tensor,
    wanted: Sequence[int],
    auto_pad: str,
    more: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> list[tuple[int, int]]:
    """Return the padding with which a transposed convolution has the requested sizes."""
    pads = []
    for axis, size in enumerate(wanted):
        count, taps = _known(call, x.shape[axis + 2]), _known(call, w.shape[axis + 2])
        total = max(strides[axis] * (count - 1) + more[axis] + (taps - 1) * dilations[axis] + 1 - size, 0)
        before = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
        pads.append((before, total - before))
    return pads


@row("MaxPool")
def max_pool(
    call: Call,
    x: Tensor,
    *,
    kernel_shape: Sequence[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Numbers = None,
    pads: Numbers = None,
    storage_order: int = 0,
    strides: Numbers = None,
) -> tuple[Tensor, ...]:
    window = _window(x, auto_pad, ceil_mode, dilations, pads, strides)
    if len(call.outputs) == 1:
        return (ops.max_pool(x, kernel_shape, **window),)
    y, places = ops.max_pool(x, kernel_shape, return_indices=True, **window)
    places = ops.cast(places, "i64")
    batch, channels, *sizes = x.shape
    if storage_order:  # from row-major to column-major numbers of a matrix
        coordinates = [places // prod(sizes[axis + 1 :]) % sizes[axis] for axis in range(len(sizes))]
        places = reduce(add, (each * prod(sizes[:axis]) for axis, each in enumerate(coordinates)))
    images = ops.reshape(ops.arange(x, batch * channels), batch, channels, *[1] * len(sizes))
    return y, places + ops.cast(images, "i64") * prod(sizes)


@row("MaxUnpool", known=("output_shape",))
def max_unpool(
    call: Call,
    x: Tensor,
    indices: Tensor,
    output_shape: Array | None = None,
    *,
    kernel_shape: Sequence[int],
    pads: Numbers = None,
    strides: Numbers = None,
) -> Tensor:
    space = x.rank - 2
    steps, padding = strides or [1] * space, padding_of("NOTSET", pads, space)
    sizes = [
        (x.shape[axis + 2] - 1) * steps[axis] + kernel_shape[axis] - sum(map(int, padding[axis]))
        for axis in range(space)
    ]
    places = indices % prod(sizes)  # within an image
    y = ops.max_unpool(x, places, kernel_shape, stride=steps, padding=padding)
    if output_shape is None:
        return y
    wider = [(0, _known(call, size) - _known(call, own)) for size, own in zip(output_shape[2:], sizes, strict=True)]
    return ops.pad(y, [(0, 0), (0, 0), *wider])


@row("AveragePool")
def average_pool(
    call: Call,
    x: Tensor,
    *,
    kernel_shape: Sequence[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: Numbers = None,
    pads: Numbers = None,
    strides: Numbers = None,
) -> Tensor:
    window = _window(x, auto_pad, ceil_mode, dilations, pads, strides)
    return ops.average_pool(x, kernel_shape, count_include_pad=bool(count_include_pad), **window)


@row("LpPool")
def lp_pool(
    call: Call,
    x: Tensor,
    *,
    kernel_shape: Sequence[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Numbers = None,
    p: float = 2,
    pads: Numbers = None,
    strides: Numbers = None,
) -> Tensor:
    return ops.lp_pool(x, p, kernel_shape, **_window(x, auto_pad, ceil_mode, dilations, pads, strides))


def _window(
    x: Tensor, auto_pad: str, ceil_mode: int, dilations: Numbers, pads: Numbers, strides: Numbers
) -> dict[str, Any]:
    """Return the window options of pooling."""
    padding = padding_of(auto_pad, pads, x.rank - 2)
    return {
        "stride": strides or 1,
        "padding": padding,
        "dilation": dilations or 1,
        "ceil_mode": bool(ceil_mode) and auto_pad == "NOTSET",
    }


@row("GlobalAveragePool")
def global_average_pool(call: Call, x: Tensor) -> Tensor:
    return ops.global_average_pool(x)


@row("GlobalMaxPool")
def global_max_pool(call: Call, x: Tensor) -> Tensor:
    return ops.global_max_pool(x)


@row("GlobalLpPool")
def global_lp_pool(call: Call, x: Tensor, *, p: float = 2) -> Tensor:
    return ops.norm(x, tuple(range(2, x.rank)), order=p, keepdims=True)


@row("Col2Im", since=18, known=("image_shape", "block_shape"))
def col2im(
    call: Call,
    x: Tensor,
    image_shape: Array,
    block_shape: Array,
    *,
    dilations: Numbers = None,
    pads: Numbers = None,
    strides: Numbers = None,
) -> Tensor:
    sizes = sizes_of(image_shape)
    padding = padding_of("NOTSET", pads, len(sizes))
    kernel = [int(each) for each in block_shape]
    return ops.fold(x, sizes, kernel, stride=strides or 1, padding=padding, dilation=dilations or 1)


@row("DeformConv", since=19)
def deform_conv(
    call: Call,
    x: Tensor,
    w: Tensor,
    offset: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    dilations: Numbers = None,
    group: int = 1,
    kernel_shape: Numbers = None,
    offset_group: int = 1,
    pads: Numbers = None,
    strides: Numbers = None,
) -> Tensor:
    return ops.deform_conv(
        x,
        w,
        offset,
        bias,
        mask,
        stride=strides or 1,
        padding=padding_of("NOTSET", pads, x.rank - 2),
        dilation=dilations or 1,
        groups=group,
        offset_groups=offset_group,
    )


@row("RoiAlign", since=10)
def roi_align(
    call: Call,
    x: Tensor,
    rois: Tensor,
    images: Tensor,
    *,
    coordinate_transformation_mode: str | None = None,
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Tensor:
    given = coordinate_transformation_mode or ("half_pixel" if call.version >= 16 else "output_half_pixel")
    return ops.roi_align(
        x,
        rois,
        images,
        (output_height, output_width),
        samples=sampling_ratio,
        scale=spatial_scale,
        mode="average" if mode == "avg" else mode,
        half_pixel=given == "half_pixel",
    )


@row("MaxRoiPool")
def max_roi_pool(
    call: Call, x: Tensor, rois: Tensor, *, pooled_shape: Sequence[int], spatial_scale: float = 1.0
) -> Tensor:
    images, regions = ops.select(rois, 1, 0), ops.slice(rois, slice(None), slice(1, None))
    height, width = pooled_shape
    return ops.roi_pool(x, regions, ops.cast(images, "i32"), (height, width), scale=spatial_scale)
