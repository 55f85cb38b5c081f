"""Gradients of convolutions, and the bottleneck of a residual network, for cards and for PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from card_workload import Shapes, Size, Workload
from tileir import DType, ops
from tileir.tile.builder_functions import vjp

Layer = tuple[int, int, int, int, int, int]
"""Pictures, pixels along an edge, channels, features, pixels of the window along an edge, and the stride."""

_LAYERS: tuple[Layer, ...] = ((32, 56, 64, 64, 3, 1), (32, 14, 256, 256, 3, 1), (32, 56, 128, 128, 3, 2))

_LAYOUTS = {"nhwc": {"layout": "nxc", "kernel_layout": "kxc"}, "nchw": {}}


def gradients(size: Size) -> Iterator[Workload]:
    """Return the gradients of convolutions by their input and by their weights."""
    for layout in _LAYOUTS:
        for dtype in (DType.F16, DType.BF16, DType.F32):
            for layer in _LAYERS if dtype is not DType.BF16 else _LAYERS[:1]:
                for by in ("input", "weights"):
                    yield _gradient(size, dtype, layout, layer, by)


def _shapes(size: Size, layout: str, layer: Layer) -> Shapes:
    """Return the shapes of pictures, of weights and of results."""
    batch, edge, channels, features, window, stride = layer
    batch, edge, channels, features = (size(n) for n in (batch, edge, channels, features))
    out = (edge + window // 2 * 2 - window) // stride + 1
    axes = ((batch, channels, edge, edge), (features, channels, window, window), (batch, features, out, out))
    return axes if layout == "nchw" else tuple((first, *pixels, second) for first, second, *pixels in axes)


def _gradient(size: Size, dtype: DType, layout: str, layer: Layer, by: str) -> Workload:
    """Return one gradient of a convolution: by weights, shapes are those of pictures and of cotangents."""
    window, stride = layer[-2:]
    pictures, weights, results = _shapes(size, layout, layer)
    how: dict[str, Any] = {"stride": stride, "padding": window // 2, **_LAYOUTS[layout]}

    def program(first: Any, cotangent: Any) -> Any:
        if by == "input":
            other = ops.zeros(first, pictures, dtype=dtype)
            return vjp(ops.conv(other, first, **how), cotangent, other)
        other = ops.zeros(first, weights, dtype=dtype)
        return vjp(ops.conv(first, other, **how), cotangent, other)

    def peer(torch: Any, first: Any, cotangent: Any) -> Any:
        back = torch.ops.aten.convolution_backward
        first, cotangent = (_channels_first(layout, each) for each in (first, cotangent))
        shape = pictures if by == "input" else weights
        shape = shape if layout == "nchw" else (shape[0], shape[-1], *shape[1:-1])
        form = torch.channels_last if layout == "nhwc" else torch.contiguous_format
        other = torch.empty(shape, dtype=first.dtype, device=first.device, memory_format=form)
        picture, weight = (other, first) if by == "input" else (first, other)
        steps, pads = [stride] * 2, [window // 2] * 2
        mask = [by == "input", by == "weights", False]
        found = back(cotangent, picture, weight, None, steps, pads, [1, 1], False, [0, 0], 1, mask)[by == "weights"]
        return found.permute(0, 2, 3, 1) if layout == "nhwc" else found

    operations = 2.0 * _product(results) * weights[1 if layout == "nchw" else -1] * window * window
    name = f"conv{window}x{window}" + (f"/{stride}" if stride > 1 else "") + f" {layout}, gradient by {by}"
    given = weights if by == "input" else pictures
    return Workload("gradients", name, (given, results), dtype, program, peer, operations)


def _channels_first(layout: str, tensor: Any) -> Any:
    return tensor if layout == "nchw" else tensor.permute(0, 3, 1, 2)


def _product(sizes: tuple[int, ...]) -> int:
    result = 1
    for each in sizes:
        result *= each
    return result


def bottlenecks(size: Size) -> Iterator[Workload]:
    """Return the bottleneck of a residual network, with scales and biases of normalisations that are folded."""
    batch, edge, wide, narrow = size(32), size(56), size(256), size(64)
    shapes = (
        (batch, edge, edge, wide), (narrow, 1, 1, wide), (narrow, 3, 3, narrow), (wide, 1, 1, narrow),
        (narrow,), (narrow,), (wide,),
    )  # fmt: skip
    points = 2.0 * batch * edge * edge
    operations = points * (2 * wide * narrow + 9 * narrow * narrow)
    for dtype in (DType.F16, DType.F32):
        yield Workload("networks", "bottleneck", shapes, dtype, _bottleneck, _bottleneck_peer, operations, fused=True)


def _bottleneck(x: Any, one: Any, two: Any, three: Any, *biases: Any) -> Any:
    def conv(value: Any, weights: Any, padding: int = 0) -> Any:
        return ops.conv(value, weights, padding=padding, layout="nxc", kernel_layout="kxc")

    inner = ops.relu(conv(x, one) + biases[0])
    inner = ops.relu(conv(inner, two, 1) + biases[1])
    return ops.relu(conv(inner, three) + biases[2] + x)


def _bottleneck_peer(torch: Any, x: Any, one: Any, two: Any, three: Any, *biases: Any) -> Any:
    def conv(value: Any, weights: Any, bias: Any, padding: int = 0) -> Any:
        return torch.nn.functional.conv2d(value, weights.permute(0, 3, 1, 2), bias, padding=padding)

    pictures = x.permute(0, 3, 1, 2)
    inner = torch.relu(conv(pictures, one, biases[0]))
    inner = torch.relu(conv(inner, two, biases[1], 1))
    return torch.relu(conv(inner, three, biases[2]) + pictures).permute(0, 2, 3, 1)
