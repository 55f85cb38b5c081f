"""Gradients of resized or grid-sampled images, and of padding that repeats elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tileir import ops
from tileir.tile.builder import Tensor
from tileir.tile.builder_functions import vjp
from tileir_torch.importing import Call
from tileir_torch.rows.arguments import widened
from tileir_torch.rows.images import matrices_of, resampled
from tileir_torch.rows.table import row
from tileir_torch.rows.windows import pulled


@row("upsample_nearest1d_backward.default", "upsample_nearest3d_backward.default", "upsample_linear1d_backward.default")
@row("upsample_trilinear3d_backward.default", "_upsample_nearest_exact1d_backward.default")
@row("_upsample_nearest_exact3d_backward.default")
def upsample_backward(call: Call, g: Tensor, output_size: Any, input_size: Any, *options: Any) -> Tensor:
    is_nearest = "nearest" in str(call.node.target)
    align, scales = (None, options) if is_nearest else (options[0], options[1:])
    space = len(output_size)
    scales = (*scales, *[None] * space)[:space]
    matrices = matrices_of(call, input_size[2:], output_size, align, scales)
    return resampled(call, g, [matrix.T for matrix in matrices])


def _smoothed(
    call: Call, sizes: Sequence[int], outputs: Sequence[int], align: bool, scales: Sequence[Any]
) -> list[Any]:
    """Return resampling matrices with weights as wide as the enlarged pixels, from PyTorch's own."""
    aten = torch.ops.aten
    is_cubic = "bicubic" in str(call.node.target)
    function = aten._upsample_bicubic2d_aa.default if is_cubic else aten._upsample_bilinear2d_aa.default
    found = []
    for size, output, scale in zip(sizes, outputs, scales, strict=True):
        eye = torch.eye(int(size), dtype=torch.float64)[None, None]  # of one column, PyTorch's own is wrong
        found.append(function(eye, [int(output), int(size)], align, scale, None)[0, 0].numpy())
    return found


@row("_upsample_bilinear2d_aa.default", "_upsample_bicubic2d_aa.default")
def upsample_smoothly(call: Call, x: Tensor, output_size: Any, align: bool, *scales: Any) -> Tensor:
    scales = (*scales, None, None)[:2]
    return resampled(call, x, _smoothed(call, [int(size) for size in x.shape[2:]], call.sizes[2:], align, scales))


@row("_upsample_bilinear2d_aa_backward.default", "_upsample_bicubic2d_aa_backward.default")
def upsample_smoothly_backward(
    call: Call, g: Tensor, output_size: Any, input_size: Any, align: bool, *scales: Any
) -> Tensor:
    scales = (*scales, None, None)[:2]
    return resampled(call, g, [matrix.T for matrix in _smoothed(call, input_size[2:], output_size, align, scales)])


@row("grid_sampler_2d_backward.default", "grid_sampler_3d_backward.default")
def grid_sample_backward(
    call: Call, g: Tensor, x: Tensor, grid: Tensor, interpolation: int, padding: int, align: bool, needed: Any
) -> tuple[Tensor | None, Tensor]:
    mode, border = ("linear", "nearest", "cubic")[interpolation], ("zeros", "border", "reflection")[padding]
    x, grid = widened(x), widened(grid)
    found = vjp(ops.grid_sample(x, grid, mode=mode, padding=border, align_corners=align), widened(g), x, grid)
    assert isinstance(found, tuple)
    return found[0] if needed[0] else None, found[1]


def _pads(pads: Sequence[int], rank: int) -> list[tuple[int, int]]:
    """Return the padding of each axis; PyTorch has pairs from the last axis on."""
    pairs = [(pads[at], pads[at + 1]) for at in range(0, len(pads), 2)]
    return [(0, 0)] * (rank - len(pairs)) + pairs[::-1]


def _pad_backward(call: Call, g: Tensor, x: Tensor, pads: Sequence[int], mode: str) -> Tensor:
    sizes = [int(size) for size in x.shape]
    return pulled(call, lambda zeros: ops.pad(zeros, _pads(pads, x.rank), mode=mode), g, sizes)


@row("reflection_pad1d_backward.default", "reflection_pad2d_backward.default", "reflection_pad3d_backward.default")
def reflection_backward(call: Call, g: Tensor, x: Tensor, pads: Sequence[int]) -> Tensor:
    return _pad_backward(call, g, x, pads, "reflect")


@row("replication_pad1d_backward.default", "replication_pad2d_backward.default", "replication_pad3d_backward.default")
def replication_backward(call: Call, g: Tensor, x: Tensor, pads: Sequence[int]) -> Tensor:
    return _pad_backward(call, g, x, pads, "edge")


@row("channel_shuffle.default", "native_channel_shuffle.default")
def channel_shuffle(call: Call, x: Tensor, groups: int) -> Tensor:
    examples, channels, *rest = (int(size) for size in x.shape)
    parted = ops.reshape(x, examples, groups, channels // groups, *rest)
    return ops.reshape(ops.swapaxes(parted, 1, 2), *call.sizes)
