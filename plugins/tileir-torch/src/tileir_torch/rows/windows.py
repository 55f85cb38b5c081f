"""Patches of images, and gradients of pooling in three dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from tileir import ops
from tileir.tile.builder import Tensor
from tileir.tile.builder_functions import vjp
from tileir_torch.importing import Call
from tileir_torch.rows.arguments import per_axis, widened
from tileir_torch.rows.table import row


def _batched(x: Tensor, space: int) -> Tensor:
    """Return data with an axis of examples, of which there may be none."""
    return x if x.rank == space + 2 else ops.expand_dims(x, 0)


def _fitted(call: Call, found: Tensor) -> Tensor:
    """Return a result in the sizes that PyTorch gives it, which differ by axes of 1 element."""
    return ops.reshape(found, *call.sizes)


def pulled(call: Call, function: Callable[[Tensor], Tensor], arriving: Tensor, sizes: Sequence[int]) -> Tensor:
    """Return the gradient of a linear function, whose argument has these sizes, for what arrives at its result."""
    arriving = widened(arriving)
    zeros = call.full(0, sizes, arriving.dtype)
    found = vjp(function(zeros), arriving, zeros)
    assert isinstance(found, Tensor)
    return found


@row("avg_pool3d_backward.default")
def average_pool3d_backward(
    call: Call,
    g: Tensor,
    x: Tensor,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Tensor:
    kernel = per_axis(kernel_size, 3)
    window: dict[str, Any] = {
        "stride": per_axis(stride, 3) if stride else kernel,
        "padding": per_axis(padding, 3),
        "ceil_mode": ceil_mode,
    }

    def pool(zeros: Tensor) -> Tensor:
        if divisor_override:
            return ops.sum_pool(zeros, kernel, **window) / float(divisor_override)
        return ops.average_pool(zeros, kernel, count_include_pad=count_include_pad, **window)

    sizes = [int(size) for size in _batched(x, 3).shape]
    return _fitted(call, pulled(call, pool, _batched(g, 3), sizes))


@row("_adaptive_avg_pool3d_backward.default")
def adaptive_average_pool3d_backward(call: Call, g: Tensor, x: Tensor) -> Tensor:
    g, sizes = _batched(g, 3), [int(size) for size in _batched(x, 3).shape]
    outputs = [int(size) for size in g.shape[2:]]
    return _fitted(call, pulled(call, lambda zeros: ops.adaptive_average_pool(zeros, outputs), g, sizes))


@row("im2col.default")
def patches(call: Call, x: Tensor, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Tensor:
    x = _batched(x, 2)
    x = ops.pad(x, [(0, 0), (0, 0), *((each, each) for each in per_axis(padding, 2))])
    sizes = [int(size) for size in x.shape[2:]]
    places = []
    for axis, size in enumerate(sizes):
        taps, between, step = (per_axis(each, 2)[axis] for each in (kernel_size, dilation, stride))
        count = (size - between * (taps - 1) - 1) // step + 1
        places.append(np.arange(taps)[:, None] * between + np.arange(count)[None, :] * step)
    numbers = places[0][:, None, :, None] * sizes[1] + places[1][None, :, None, :]
    return _fitted(call, ops.take(ops.reshape(x, *x.shape[:2], prod(sizes)), call.tensor(numbers), 2))
