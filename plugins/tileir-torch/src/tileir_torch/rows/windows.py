"""Patches of images, and gradients of average pooling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from tileir import ops
from tileir.tile.builder import Tensor
from tileir.tile.builder_functions import vjp
from tileir_torch.importing import Call
from tileir_torch.rows.arguments import batched, per_axis, space_of, widened
from tileir_torch.rows.table import row


def _fitted(call: Call, found: Tensor) -> Tensor:
    """Return a result in PyTorch's sizes, which differ by axes of 1 element."""
    return ops.reshape(found, *call.sizes)


def pulled(call: Call, function: Callable[[Tensor], Tensor], arriving: Tensor, sizes: Sequence[int]) -> Tensor:
    """Return the gradient of a linear function, whose argument has these sizes, for the gradient of its result."""
    arriving = widened(arriving)
    zeros = call.full(0, sizes, arriving.dtype)
    found = vjp(function(zeros), arriving, zeros)
    assert isinstance(found, Tensor)
    return found


@row("avg_pool2d_backward.default", "avg_pool3d_backward.default")
def average_pool_backward(
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
    space = space_of(call)
    kernel = per_axis(kernel_size, space)
    window: dict[str, Any] = {
        "stride": per_axis(stride, space) if stride else kernel,
        "padding": per_axis(padding, space),
        "ceil_mode": ceil_mode,
    }

    def pool(zeros: Tensor) -> Tensor:
        if divisor_override:
            return ops.sum_pool(zeros, kernel, **window) / float(divisor_override)
        return ops.average_pool(zeros, kernel, count_include_pad=count_include_pad, **window)

    sizes = [int(size) for size in batched(x, space).shape]
    return _fitted(call, pulled(call, pool, batched(g, space), sizes))


@row("_adaptive_avg_pool2d_backward.default", "_adaptive_avg_pool3d_backward.default")
def adaptive_average_pool_backward(call: Call, g: Tensor, x: Tensor) -> Tensor:
    space = space_of(call)
    g, sizes = batched(g, space), [int(size) for size in batched(x, space).shape]
    outputs = [int(size) for size in g.shape[2:]]
    return _fitted(call, pulled(call, lambda zeros: ops.adaptive_average_pool(zeros, outputs), g, sizes))


@row("im2col.default")
def patches(call: Call, x: Tensor, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Tensor:
    x = batched(x, 2)
    x = ops.pad(x, [(0, 0), (0, 0), *((each, each) for each in per_axis(padding, 2))])
    sizes = [int(size) for size in x.shape[2:]]
    places = []
    for axis, size in enumerate(sizes):
        taps, between, step = (per_axis(each, 2)[axis] for each in (kernel_size, dilation, stride))
        count = (size - between * (taps - 1) - 1) // step + 1
        places.append(np.arange(taps)[:, None] * between + np.arange(count)[None, :] * step)
    numbers = places[0][:, None, :, None] * sizes[1] + places[1][None, :, None, :]
    return _fitted(call, ops.take(ops.reshape(x, *x.shape[:2], prod(sizes)), call.tensor(numbers), 2))
