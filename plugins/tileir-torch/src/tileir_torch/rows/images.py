"""Images in other sizes: upsampling, its gradients, and grids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from tileir import ops
from tileir.tile.builder import Tensor
from tileir_torch.importing import Call
from tileir_torch.rows.arguments import widened
from tileir_torch.rows.table import row

_FEW = 8
"""Maximum number of source elements per result up to which they are taken one by one."""


def _matrix(mode: str, size: int, outputs: int, align: bool | None, scale: float | None, exact: str) -> Any:
    """Return PyTorch's own resampling of an axis as a matrix, [outputs, inputs]."""
    if size == outputs and scale in (None, 1.0):
        return np.eye(size)
    eye = torch.eye(size, dtype=torch.float64).reshape(1, size, size, 1)
    aten = torch.ops.aten
    scales = (scale, None)
    if mode == "nearest":
        function = aten._upsample_nearest_exact2d if exact else aten.upsample_nearest2d
        found = function.default(eye, [outputs, 1], *scales)
    elif mode == "bicubic":
        found = aten.upsample_bicubic2d.default(eye, [outputs, 1], align, *scales)
    else:
        found = aten.upsample_bilinear2d.default(eye, [outputs, 1], align, *scales)
    return found.reshape(size, outputs).T.numpy()


def resampled(call: Call, x: Tensor, matrices: Sequence[Any]) -> Tensor:
    """Return data with the last axes resampled, each by its matrix."""
    y = widened(x)
    for axis, matrix in enumerate(matrices, x.rank - len(matrices)):
        if matrix.shape[0] == matrix.shape[1] and np.array_equal(matrix, np.eye(len(matrix))):
            continue
        count = int((matrix != 0).sum(axis=1).max(initial=1))
        if count > _FEW:
            moved = ops.matmul(ops.moveaxis(y, axis, y.rank - 1), call.tensor(matrix.T.astype(y.dtype.numpy)))
            y = ops.moveaxis(moved, y.rank - 1, axis)
            continue
        places = np.argsort(matrix == 0, axis=1, kind="stable")[:, :count]
        weights = np.take_along_axis(matrix, places, axis=1)
        total: Any = None
        for tap in range(count):
            taken = ops.take(y, call.tensor(places[:, tap].astype(np.int64)), axis)
            if not np.all(weights[:, tap] == 1):
                shape = (-1, *[1] * (x.rank - 1 - axis))
                taken = taken * call.tensor(weights[:, tap].reshape(shape).astype(y.dtype.numpy))
            total = taken if total is None else total + taken
        y = total
    return y


def _mode(call: Call) -> tuple[str, str]:
    target = str(call.node.target)
    mode = "nearest" if "nearest" in target else "bicubic" if "bicubic" in target else "linear"
    return mode, "exact" if "exact" in target else ""


def matrices_of(
    call: Call, sizes: Sequence[Any], outputs: Sequence[Any], align: Any, scales: Sequence[Any]
) -> list[Any]:
    mode, exact = _mode(call)
    return [
        _matrix(mode, int(size), int(output), align, scale, exact)
        for size, output, scale in zip(sizes, outputs, scales, strict=True)
    ]


@row("upsample_nearest1d.vec", "upsample_nearest2d.vec", "upsample_nearest3d.vec", "_upsample_nearest_exact2d.vec")
@row("_upsample_nearest_exact1d.vec", "_upsample_nearest_exact3d.vec")
def upsample_nearest(call: Call, x: Tensor, output_size: Any = None, scales: Any = None) -> Tensor:
    space = x.rank - 2
    return resampled(call, x, matrices_of(call, x.shape[2:], call.sizes[2:], None, scales or [None] * space))


@row("upsample_linear1d.vec", "upsample_bilinear2d.vec", "upsample_trilinear3d.vec", "upsample_bicubic2d.vec")
def upsample_linear(call: Call, x: Tensor, output_size: Any, align_corners: bool, scales: Any = None) -> Tensor:
    space = x.rank - 2
    return resampled(call, x, matrices_of(call, x.shape[2:], call.sizes[2:], align_corners, scales or [None] * space))


@row("upsample_nearest1d.default", "upsample_nearest2d.default", "upsample_nearest3d.default")
@row("_upsample_nearest_exact1d.default", "_upsample_nearest_exact2d.default", "_upsample_nearest_exact3d.default")
def upsample_nearest_to(call: Call, x: Tensor, output_size: Any, *scales: Any) -> Tensor:
    space = x.rank - 2
    return resampled(call, x, matrices_of(call, x.shape[2:], call.sizes[2:], None, (*scales, *[None] * space)[:space]))


@row("upsample_linear1d.default", "upsample_bilinear2d.default", "upsample_trilinear3d.default")
@row("upsample_bicubic2d.default")
def upsample_linear_to(call: Call, x: Tensor, output_size: Any, align_corners: bool, *scales: Any) -> Tensor:
    space = x.rank - 2
    scales = (*scales, *[None] * space)[:space]
    return resampled(call, x, matrices_of(call, x.shape[2:], call.sizes[2:], align_corners, scales))


@row("upsample_nearest2d_backward.default", "upsample_bilinear2d_backward.default")
@row("upsample_bicubic2d_backward.default", "_upsample_nearest_exact2d_backward.default")
def upsample_backward(call: Call, g: Tensor, output_size: Any, input_size: Any, *options: Any) -> Tensor:
    is_nearest = _mode(call)[0] == "nearest"
    align, scales = (None, options) if is_nearest else (options[0], options[1:])
    scales = (*scales, None, None)[:2]
    matrices = matrices_of(call, input_size[2:], output_size, align, scales)
    return resampled(call, g, [matrix.T for matrix in matrices])


@row("grid_sampler_2d.default", "grid_sampler_3d.default")
def grid_sample(call: Call, x: Tensor, grid: Tensor, interpolation: int, padding: int, align_corners: bool) -> Tensor:
    mode, border = ("linear", "nearest", "cubic")[interpolation], ("zeros", "border", "reflection")[padding]
    return ops.grid_sample(widened(x), widened(grid), mode=mode, padding=border, align_corners=align_corners)


@row("col2im.default")
def fold(call: Call, x: Tensor, output_size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Tensor:
    batch = x if x.rank == 3 else ops.expand_dims(x, 0)
    named = {"stride": list(stride), "padding": list(padding), "dilation": list(dilation)}
    found = ops.fold(widened(batch), list(output_size), list(kernel_size), **named)
    return ops.reshape(found, *call.sizes)
