"""Networks that say something of each part of an image: where things are, and what pixels belong to."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from models.builder import Builder, Network


def unet(batch: int, width: int = 32, levels: int = 4, pixels: int = 256) -> Network:
    """Return a network that marks cells: Ronneberger et al., "U-Net", 2015, with padding and norms, half as wide."""
    b = Builder()
    x, channels, skipped = b.image(batch, 3, pixels, pixels), 3, []
    for level in range(levels + 1):
        x = _twice(b, x, channels, width << level)
        channels = width << level
        if level < levels:
            skipped.append(x)
            x = b.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    for beside in reversed(skipped):
        half = channels // 2
        w = b.weight(channels, half, 2, 2, fan_in=channels)
        x = b.op("ConvTranspose", x, w, b.filled(half, 0), strides=[2, 2], kernel_shape=[2, 2])
        x = _twice(b, b.op("Concat", beside, x, axis=1), channels, half)
        channels = half
    return b.network(b.biased(x, channels, 2, 1))


def _twice(b: Builder, x: str, inputs: int, outputs: int) -> str:
    """Convolve, normalise and rectify two times."""
    return b.op("Relu", b.conv(b.op("Relu", b.conv(x, inputs, outputs, 3)), outputs, outputs, 3))


def detector(
    batch: int,
    widths: Sequence[int] = (16, 32, 64, 128, 256),
    depths: Sequence[int] = (1, 2, 2, 1),
    pixels: int = 640,
    classes: int = 80,
) -> Network:
    """Return a detector of things without the suppression of boxes, as YOLOv8n of Ultralytics (2023) is exported.

    Its result is [batch, 4 + classes, cells]: middles and sizes of boxes in pixels, and scores.
    """
    b = Builder()
    x = _block(b, b.image(batch, 3, pixels, pixels), 3, widths[0], 3, 2)
    found = []
    for (inputs, outputs), depth in zip(pairwise(widths), depths, strict=True):
        x = _stage(b, _block(b, x, inputs, outputs, 3, 2), outputs, outputs, depth, adds=True)
        found.append(x)
    fine, middle, coarse = *found[1:3], _pooled(b, found[3], widths[4])
    _, _, small, medium, large = widths
    up = _stage(b, b.op("Concat", _doubled(b, coarse), middle, axis=1), large + medium, medium, depths[0])
    top = _stage(b, b.op("Concat", _doubled(b, up), fine, axis=1), medium + small, small, depths[0])
    down = b.op("Concat", _block(b, top, small, small, 3, 2), up, axis=1)
    down = _stage(b, down, small + medium, medium, depths[0])
    last = b.op("Concat", _block(b, down, medium, medium, 3, 2), coarse, axis=1)
    last = _stage(b, last, medium + large, large, depths[0])
    levels = [(top, small, 8), (down, medium, 16), (last, large, 32)]
    return b.network(_boxes(b, levels, batch, pixels, classes))


def _block(b: Builder, x: str, inputs: int, outputs: int, kernel: int = 1, stride: int = 1) -> str:
    return b.swish(b.conv(x, inputs, outputs, kernel, stride))


def _stage(b: Builder, x: str, inputs: int, outputs: int, depth: int, *, adds: bool = False) -> str:
    """Convolve half of the channels some times, and keep what each time gives."""
    half = outputs // 2
    parts = b.split(_block(b, x, inputs, outputs), [half, half], 1)
    for _ in range(depth):
        y = _block(b, _block(b, parts[-1], half, half, 3), half, half, 3)
        parts.append(b.op("Add", parts[-1], y) if adds else y)
    return _block(b, b.op("Concat", *parts, axis=1), (2 + depth) * half, outputs)


def _pooled(b: Builder, x: str, size: int) -> str:
    """Take maxima of wider and wider surroundings."""
    parts = [_block(b, x, size, size // 2)]
    for _ in range(3):
        parts.append(b.op("MaxPool", parts[-1], kernel_shape=[5, 5], strides=[1, 1], pads=[2] * 4))
    return _block(b, b.op("Concat", *parts, axis=1), 2 * size, size)


def _doubled(b: Builder, x: str) -> str:
    options = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return b.op("Resize", x, "", b.constant(np.array([1, 1, 2, 2], np.float32)), **options)


def _boxes(b: Builder, levels: Sequence[tuple[str, int, int]], batch: int, pixels: int, classes: int) -> str:
    """Return boxes, whose sides are expected values of 16 distances, and scores."""
    first = levels[0][1]
    wide, deep, rows = max(16, first // 4, 64), max(first, min(classes, 100)), []
    for x, channels, _ in levels:
        sides = _block(b, _block(b, x, channels, wide, 3), wide, wide, 3)
        scores = _block(b, _block(b, x, channels, deep, 3), deep, deep, 3)
        both = b.op("Concat", b.biased(sides, wide, 64, 1), b.biased(scores, deep, classes, 1), axis=1)
        rows.append(b.reshape(both, batch, 64 + classes, -1))
    sides, scores = b.split(b.op("Concat", *rows, axis=2), [64, classes], 1)
    spread = b.op("Transpose", b.reshape(sides, batch, 4, 16, -1), perm=[0, 2, 1, 3])
    kernel = b.constant(np.arange(16, dtype=np.float32).reshape(1, 16, 1, 1))
    ends = b.reshape(b.op("Conv", b.op("Softmax", spread, axis=1), kernel), batch, 4, -1)
    before, behind = b.split(ends, [2, 2], 1)
    strides = [np.full((pixels // stride) ** 2, stride, np.float32) for _, _, stride in levels]
    cells = [np.indices((pixels // stride,) * 2)[::-1].reshape(2, -1) + 0.5 for _, _, stride in levels]
    anchors = b.constant(np.concatenate(cells, 1).astype(np.float32)[None])
    low, high = b.op("Sub", anchors, before), b.op("Add", anchors, behind)
    middle = b.op("Div", b.op("Add", low, high), b.constant(2.0))
    boxes = b.op("Concat", middle, b.op("Sub", high, low), axis=1)
    boxes = b.op("Mul", boxes, b.constant(np.concatenate(strides).reshape(1, 1, -1)))
    return b.op("Concat", boxes, b.op("Sigmoid", scores), axis=1)
