"""Operators over windows that slide: convolutions and pooling."""

from __future__ import annotations

from collections.abc import Sequence

from tileir import ops
from tileir.tile.builder import Tensor
from tileir_onnx.importing import Call
from tileir_onnx.rows.table import row


@row("Conv")
def conv(
    call: Call,
    x: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    axes = x.rank - 2
    padding = _padding(call, auto_pad, pads, axes)
    return ops.conv(x, w, bias, stride=strides or 1, padding=padding, dilation=dilations or 1, groups=group)


def _padding(call: Call, auto_pad: str, pads: Sequence[int] | None, axes: int) -> list[tuple[int, int]] | str:
    """Return the padding of each axis, before and behind."""
    if auto_pad == "VALID" or (auto_pad == "NOTSET" and pads is None):
        return [(0, 0)] * axes
    if auto_pad != "NOTSET":
        raise call.fault(f"auto_pad={auto_pad!r} is not served yet")
    assert pads is not None
    return list(zip(pads[:axes], pads[axes:], strict=True))
