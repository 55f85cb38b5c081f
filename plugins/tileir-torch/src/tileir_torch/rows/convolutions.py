"""Convolutions and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileir import ops
from tileir.tile.builder import Tensor
from tileir_torch.importing import Call
from tileir_torch.rows.arguments import per_axis
from tileir_torch.rows.table import row


@row("convolution.default", "_convolution.default")
def convolution(
    call: Call,
    x: Tensor,
    w: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    *_: Any,
) -> Tensor:
    space = w.rank - 2
    if x.rank != w.rank:
        raise call.refuse("its data has no axis of examples")
    named = _windows(space, stride, padding, dilation, groups)
    if not transposed:
        return ops.conv(x, w, bias, **named)
    return ops.conv_transpose(x, w, bias, output_size=call.sizes[2:], **named)


def _windows(space: int, stride: Any, padding: Any, dilation: Any, groups: int) -> dict[str, Any]:
    return {
        "stride": per_axis(stride, space),
        "padding": per_axis(padding, space),
        "dilation": per_axis(dilation, space),
        "groups": groups,
    }


@row("conv1d.default", "conv2d.default", "conv3d.default")
def convolution_of_parts(
    call: Call,
    x: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    space = w.rank - 2
    is_alone = x.rank == space + 1
    batch = ops.expand_dims(x, 0) if is_alone else x
    found = ops.conv(batch, w, bias, **_windows(space, stride, padding, dilation, groups))
    return ops.squeeze(found, 0) if is_alone else found


@row("convolution_backward.default")
def convolution_backward(
    call: Call,
    g: Tensor,
    x: Tensor,
    w: Tensor,
    bias_sizes: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    named = _windows(w.rank - 2, stride, padding, dilation, groups)
    wants_x, wants_w, wants_bias = output_mask
    by_x = by_w = by_bias = None
    kernel = tuple(w.shape[2:])
    if wants_x:
        by_x = ops.conv(g, w, **named) if transposed else ops.conv_transpose(g, w, output_size=x.shape[2:], **named)
    if wants_w:
        data, arriving = (g, x) if transposed else (x, g)
        by_w = ops.conv_weight_gradient(data, arriving, kernel, **named)
    if wants_bias:
        by_bias = ops.sum(g, [0, *range(2, g.rank)])
    return by_x, by_w, by_bias
