"""Pooling and its gradients."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod
from typing import Any

import numpy as np

from tileir import DType, ops
from tileir.tile.builder import Tensor
from tileir.tile.builder_functions import where
from tileir_torch.importing import Call
from tileir_torch.rows.arguments import batched, per_axis, space_of, widened
from tileir_torch.rows.table import row


@row("max_pool2d_with_indices.default", "max_pool3d_with_indices.default")
def max_pool_with_indices(
    call: Call,
    x: Tensor,
    kernel_size: Any,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> tuple[Tensor, Tensor]:
    space = space_of(call)
    kernel = per_axis(kernel_size, space)
    found, places = ops.max_pool(
        batched(x, space),
        kernel,
        stride=per_axis(stride, space) if stride else kernel,
        padding=per_axis(padding, space),
        dilation=per_axis(dilation, space),
        ceil_mode=ceil_mode,
        return_indices=True,
    )
    return ops.reshape(found, *call.sizes), ops.reshape(places, *call.sizes)


@row("max_pool2d.default", "max_pool3d.default", "max_pool1d.default")
def max_pool(call: Call, x: Tensor, *arguments: Any) -> Tensor:
    space = space_of(call)
    names = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")
    given = dict(zip(names, arguments, strict=False))
    kernel = per_axis(given["kernel_size"], space)
    found = ops.max_pool(
        batched(x, space),
        kernel,
        stride=per_axis(given["stride"], space) if given.get("stride") else kernel,
        padding=per_axis(given.get("padding", 0), space),
        dilation=per_axis(given.get("dilation", 1), space),
        ceil_mode=given.get("ceil_mode", False),
    )
    return ops.reshape(found, *call.sizes)


@row("max_pool2d_with_indices_backward.default", "max_pool3d_with_indices_backward.default")
def max_pool_backward(
    call: Call,
    g: Tensor,
    x: Tensor,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    indices: Tensor,
) -> Tensor:
    """Add to each element the gradients of those windows around it whose maximum it was."""
    space = space_of(call)
    kernel, before, apart = (per_axis(each, space) for each in (kernel_size, padding, dilation))
    steps = per_axis(stride, space) if stride else kernel
    sizes = [int(size) for size in x.shape[x.rank - space :]]
    flat = prod(int(size) for size in x.shape[: x.rank - space])
    build = call.importer.builder
    numbers = call.tensor(np.arange(prod(sizes), dtype=np.int64).reshape(sizes))
    line, *indexes = build.indices(
        " ".join(["n", *(f"o{at}" for at in range(space)), *(f"i{at}" for at in range(space))])
    )
    window, inside = indexes[:space], indexes[space:]
    rows = zip(steps, window, apart, inside, before, strict=True)
    places = [step * o + gap * i - pad for step, o, gap, i, pad in rows]
    arriving, where_from = (ops.reshape(each, flat, *g.shape[g.rank - space :]) for each in (widened(g), indices))
    chosen = where(where_from[line, *window] == numbers[tuple(places)], arriving[line, *window])
    added = build.tensor(f"added_{call.node.name}", flat, *sizes)
    added[line, *places] += chosen.given(*(i < count for i, count in zip(inside, kernel, strict=True)))
    return ops.reshape(added, *x.shape)


@row("avg_pool1d.default", "avg_pool2d.default", "avg_pool3d.default")
def average_pool(
    call: Call,
    x: Tensor,
    kernel_size: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    space = space_of(call)
    kernel = per_axis(kernel_size, space)
    named: dict[str, Any] = {
        "stride": per_axis(stride, space) if stride else kernel,
        "padding": per_axis(padding, space),
        "ceil_mode": ceil_mode,
    }
    batch = batched(widened(x), space)
    if divisor_override:
        found = ops.sum_pool(batch, kernel, **named) / float(divisor_override)
    else:
        found = ops.average_pool(batch, kernel, count_include_pad=count_include_pad, **named)
    return ops.reshape(found, *call.sizes)


@row("_adaptive_avg_pool2d.default", "_adaptive_avg_pool3d.default", "adaptive_avg_pool2d.default")
@row("adaptive_avg_pool1d.default", "adaptive_avg_pool3d.default")
def adaptive_average_pool(call: Call, x: Tensor, output_size: Sequence[int]) -> Tensor:
    space = space_of(call)
    sizes = per_axis(output_size, space)
    if all(size == 1 for size in sizes):
        axes = list(range(x.rank - space, x.rank))
        return ops.sum(widened(x), axes, keepdims=True) / float(prod(int(x.shape[axis]) for axis in axes))
    return ops.reshape(ops.adaptive_average_pool(batched(widened(x), space), sizes), *call.sizes)


def _window(size: int, count: int) -> np.ndarray[Any, Any]:
    """Return the elements of each window, with the last one repeated in shorter windows."""
    starts = [at * size // count for at in range(count)]
    ends = [-(-(at + 1) * size // count) for at in range(count)]
    width = max((end - start for start, end in zip(starts, ends, strict=True)), default=1)
    return np.array(
        [np.minimum(np.arange(start, start + width), end - 1) for start, end in zip(starts, ends, strict=True)]
    )


@row("adaptive_max_pool2d.default", "adaptive_max_pool3d.default")
def adaptive_max_pool(call: Call, x: Tensor, output_size: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Return the maximum of each window, and its number in the image."""
    space, outputs = len(output_size), [int(size) for size in output_size]
    sizes = [int(size) for size in x.shape[-space:]]
    if all(output and size % output == 0 for size, output in zip(sizes, outputs, strict=True)):
        kernel = tuple(size // output for size, output in zip(sizes, outputs, strict=True))
        return max_pool_with_indices(call, x, kernel, kernel)
    x = batched(x, space)
    if not prod(call.sizes):
        return call.full(0, call.sizes, x.dtype), call.full(0, call.sizes, DType.I64)
    numbers = np.zeros([1] * (2 * space), np.int64)
    for axis, (size, count) in enumerate(zip(sizes, outputs, strict=True)):
        window = _window(size, count)
        shape = [count if at == axis else window.shape[1] if at == axis + space else 1 for at in range(2 * space)]
        numbers = numbers * size + window.reshape(shape)
    numbers = numbers.reshape(*outputs, -1)
    taken = ops.take(ops.reshape(x, *x.shape[:2], prod(sizes)), call.tensor(numbers), 2)
    keys = ops.where(taken != taken, call.tensor(np.array(inf, x.dtype.numpy)), taken)
    first = ops.argmax(keys, -1, keepdims=True)
    table = ops.broadcast_to(call.tensor(numbers[None, None]), *taken.shape)
    places = ops.squeeze(ops.take_along_axis(table, first, -1), [-1])
    return ops.reshape(ops.max(taken, [taken.rank - 1]), *call.sizes), ops.reshape(places, *call.sizes)


@row("adaptive_max_pool2d_backward.default", "adaptive_max_pool3d_backward.default")
def adaptive_max_pool_backward(call: Call, g: Tensor, x: Tensor, indices: Tensor) -> Tensor:
    space = space_of(call)
    lead = [int(size) for size in x.shape[: x.rank - space]]
    count, places = prod(int(size) for size in x.shape[-space:]), prod(int(size) for size in g.shape[-space:])
    flat = prod(lead)
    rows = call.tensor((np.arange(flat, dtype=np.int64) * count)[:, None])
    positions = ops.reshape(ops.cast(indices, DType.I64), flat, places) + rows
    zeros = call.full(0, (flat * count,), widened(g).dtype)
    added = ops.scatter(zeros, ops.reshape(positions, flat * places), ops.reshape(widened(g), flat * places))
    return ops.reshape(added, *x.shape)


@row("max_unpool2d.default", "max_unpool3d.default")
def max_unpool(call: Call, x: Tensor, indices: Tensor, *_: Any) -> Tensor:
    space = space_of(call)
    flat, places = prod(int(size) for size in x.shape[: x.rank - space]), prod(int(s) for s in x.shape[-space:])
    count = prod(call.sizes[-space:])
    rows = call.tensor((np.arange(flat, dtype=np.int64) * count)[:, None])
    positions = ops.reshape(ops.cast(indices, DType.I64), flat, places) + rows
    zeros = call.full(0, (flat * count,), x.dtype)
    found = ops.scatter(zeros, ops.reshape(positions, flat * places), ops.reshape(x, flat * places), mode="set")
    return ops.reshape(found, *call.sizes)
