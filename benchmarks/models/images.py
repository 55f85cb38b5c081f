"""Networks that classify images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from models.builder import Builder, Network

_MOBILE: Final = (  # kernel, expansion, channels, squeeze and excite, activation, stride
    (3, 16, 16, False, "Relu", 1),
    (3, 64, 24, False, "Relu", 2),
    (3, 72, 24, False, "Relu", 1),
    (5, 72, 40, True, "Relu", 2),
    (5, 120, 40, True, "Relu", 1),
    (5, 120, 40, True, "Relu", 1),
    (3, 240, 80, False, "HardSwish", 2),
    (3, 200, 80, False, "HardSwish", 1),
    (3, 184, 80, False, "HardSwish", 1),
    (3, 184, 80, False, "HardSwish", 1),
    (3, 480, 112, True, "HardSwish", 1),
    (3, 672, 112, True, "HardSwish", 1),
    (5, 672, 160, True, "HardSwish", 2),
    (5, 960, 160, True, "HardSwish", 1),
    (5, 960, 160, True, "HardSwish", 1),
)

_EFFICIENT: Final = (  # expansion, channels, blocks, stride of the first one, kernel
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)

_RESIDUAL: Final = ((64, 3), (128, 4), (256, 6), (512, 3))  # channels, blocks


def resnet(batch: int, stages: Sequence[tuple[int, int]] = _RESIDUAL, pixels: int = 224) -> Network:
    """Return a residual network of 50 layers: He et al., "Deep residual learning", 2016; strides at 3 x 3."""
    b, channels = Builder(), stages[0][0]
    x = b.op("Relu", b.conv(b.image(batch, 3, pixels, pixels), 3, channels, 7, 2))
    x = b.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for stage, (middle, blocks) in enumerate(stages):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            y = b.op("Relu", b.conv(x, channels, middle, 1))
            y = b.conv(b.op("Relu", b.conv(y, middle, middle, 3, stride)), middle, 4 * middle, 1)
            x = b.op("Relu", b.op("Add", y, x if block else b.conv(x, channels, 4 * middle, 1, stride)))
            channels = 4 * middle
    mean = b.op("Flatten", b.op("GlobalAveragePool", x))
    return b.network(b.op("Gemm", mean, b.weight(1000, channels, fan_in=channels), b.filled(1000, 0), transB=1))


def mobilenet(batch: int, blocks: int = len(_MOBILE), pixels: int = 224) -> Network:
    """Return the large network of Howard et al., "Searching for MobileNetV3", 2019, or its first blocks."""
    b, channels = Builder(), 16
    x = b.op("HardSwish", b.conv(b.image(batch, 3, pixels, pixels), 3, channels, 3, 2))
    for kernel, middle, outputs, excites, activation, stride in _MOBILE[:blocks]:
        y = x if middle == channels else b.op(activation, b.conv(x, channels, middle, 1))
        y = b.op(activation, b.conv(y, middle, middle, kernel, stride, middle))
        if excites:
            few = (middle // 4 + 4) // 8 * 8
            gate = b.op("Relu", b.biased(b.op("GlobalAveragePool", y), middle, few, 1))
            gate = b.op("HardSigmoid", b.biased(gate, few, middle, 1), alpha=1 / 6, beta=0.5)
            y = b.op("Mul", y, gate)
        y = b.conv(y, middle, outputs, 1)
        x = b.op("Add", x, y) if stride == 1 and channels == outputs else y
        channels = outputs
    x = b.op("HardSwish", b.conv(x, channels, channels * 6, 1))
    x = b.op("HardSwish", b.linear(b.op("Flatten", b.op("GlobalAveragePool", x)), channels * 6, 1280))
    return b.network(b.linear(x, 1280, 1000))


def efficientnet(batch: int, stages: int = len(_EFFICIENT), pixels: int = 224) -> Network:
    """Return the network B0 of Tan and Le, "EfficientNet", 2019, or its first stages."""
    b, channels = Builder(), 32
    x = b.swish(b.conv(b.image(batch, 3, pixels, pixels), 3, channels, 3, 2))
    for expansion, outputs, blocks, first, kernel in _EFFICIENT[:stages]:
        for block in range(blocks):
            middle, stride, few = channels * expansion, 1 if block else first, channels // 4
            y = x if expansion == 1 else b.swish(b.conv(x, channels, middle, 1))
            y = b.swish(b.conv(y, middle, middle, kernel, stride, middle))
            gate = b.swish(b.biased(b.op("GlobalAveragePool", y), middle, few, 1))
            y = b.op("Mul", y, b.op("Sigmoid", b.biased(gate, few, middle, 1)))
            y = b.conv(y, middle, outputs, 1)
            x = b.op("Add", x, y) if block else y
            channels = outputs
    x = b.op("GlobalAveragePool", b.swish(b.conv(x, channels, 4 * channels, 1)))
    return b.network(b.linear(b.op("Flatten", x), 4 * channels, 1000))


def vit(batch: int, layers: int = 12, size: int = 768, heads: int = 12, pixels: int = 224, patch: int = 16) -> Network:
    """Return a vision transformer: Dosovitskiy et al., "An image is worth 16x16 words", 2021."""
    b = Builder()
    patches = b.biased(b.image(batch, 3, pixels, pixels), 3, size, patch, patch)
    x = b.op("Transpose", b.reshape(patches, 0, size, -1), perm=[0, 2, 1])
    first = b.constant(np.broadcast_to(b.random.standard_normal(size).astype(np.float32), (batch, 1, size)).copy())
    rows = (pixels // patch) ** 2 + 1
    x = b.op("Add", b.op("Concat", first, x, axis=1), b.weight(1, rows, size, gain=0.02))
    for _ in range(layers):
        x = b.op("Add", x, b.attention(b.norm(x, size, 1e-6), rows, size, heads))
        x = b.op("Add", x, b.feed_forward(b.norm(x, size, 1e-6), size))
    x = b.op("Gather", b.norm(x, size, 1e-6), b.constant(np.array(0)), axis=1)
    return b.network(b.linear(x, size, 1000))


def convnext(
    batch: int,
    depths: Sequence[int] = (3, 3, 9, 3),
    widths: Sequence[int] = (96, 192, 384, 768),
    pixels: int = 224,
) -> Network:
    """Return the network T of Liu et al., "A ConvNet for the 2020s", 2022."""
    b = Builder()
    x = _channels_normed(b, b.biased(b.image(batch, 3, pixels, pixels), 3, widths[0], 4, 4), widths[0])
    for stage, (depth, width) in enumerate(zip(depths, widths, strict=True)):
        if stage:
            x = b.biased(_channels_normed(b, x, widths[stage - 1]), widths[stage - 1], width, 2, 2)
        for _ in range(depth):
            y = b.op("Transpose", b.biased(x, width, width, 7, 1, 3, width), perm=[0, 2, 3, 1])
            y = b.feed_forward(b.norm(y, width, 1e-6), width)
            y = b.op("Transpose", b.op("Mul", y, b.filled(width, 0.1)), perm=[0, 3, 1, 2])
            x = b.op("Add", x, y)
    mean = b.op("Flatten", b.op("GlobalAveragePool", x))
    return b.network(b.linear(b.norm(mean, widths[-1], 1e-6), widths[-1], 1000))


def _channels_normed(b: Builder, x: str, size: int) -> str:
    """Normalise the channels of each pixel."""
    y = b.norm(b.op("Transpose", x, perm=[0, 2, 3, 1]), size, 1e-6)
    return b.op("Transpose", y, perm=[0, 3, 1, 2])
