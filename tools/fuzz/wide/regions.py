"""Rows of regions of images, and of windows whose elements lie where tensors say."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from fuzz.wide.normalisation import CALM
from fuzz.wide.row import Arguments, Array, Draw, Row


def pixel(image: Array, y: Any, x: Any) -> list[Any]:
    """Return four pixels around a place times their weights, 0 outside."""
    found = []
    for dy, dx in itertools.product((0, 1), (0, 1)):
        row, column = math.floor(y) + dy, math.floor(x) + dx
        weight = (1 - abs(y - row)) * (1 - abs(x - column))
        inside = 0 <= row < image.shape[-2] and 0 <= column < image.shape[-1]
        found.append(weight * image[..., row, column] if inside else 0 * image[..., 0, 0])
    return found


def aligned(
    x: Array,
    regions: Array,
    images: Array,
    sizes: Sequence[int],
    samples: int,
    scale: float = 1.0,
    mode: str = "average",
    half_pixel: bool = True,
) -> Array:
    """Return the samples of each part of each region, averaged or compared; with 0 as many as a part has pixels."""
    found = np.zeros((len(regions), x.shape[1], *sizes), np.longdouble)
    for number, place in itertools.product(range(len(regions)), np.ndindex(*sizes)):
        x0, y0, x1, y1 = regions[number] * np.longdouble(scale) - (0.5 if half_pixel else 0)
        values = [np.zeros(x.shape[1], np.longdouble)] if mode == "average" else []
        sides = list(zip((y0, x0), (y1, x1), sizes, strict=True))
        steps = [(high - low if half_pixel else max(high - low, 1)) / np.longdouble(n) for low, high, n in sides]
        counts = [samples or max(math.ceil(step), 0) for step in steps]
        for sample in np.ndindex(*counts):
            at = []
            for (low, _, _), step, count, part, inner in zip(sides, steps, counts, place, sample, strict=True):
                at.append(low + (part + (inner + np.longdouble(0.5)) / count) * step)
            image = x[min(max(int(images[number]), 0), len(x) - 1)]
            if any(p < -1 or p > size for p, size in zip(at, x.shape[2:], strict=True)):
                taps = [0 * image[:, 0, 0]]
            else:
                taps = pixel(image, *(min(max(p, 0), size - 1) for p, size in zip(at, x.shape[2:], strict=True)))
            values.append(np.max(taps, axis=0) if mode == "max" else np.sum(taps, axis=0))
        total = np.max(values, 0) if mode == "max" else np.sum(values, 0) / max(math.prod(counts), 1)
        found[(number, slice(None), *place)] = total
    return found


def pooled(x: Array, regions: Array, images: Array, sizes: Sequence[int], scale: float = 1.0) -> Array:
    """Return the greatest pixel of each part of each region."""
    found = np.zeros((len(regions), x.shape[1], *sizes), np.longdouble)
    for number, place in itertools.product(range(len(regions)), np.ndindex(*sizes)):
        corners = [int(math.copysign(math.floor(abs(each) + 0.5), each)) for each in regions[number] * scale]
        cuts = []
        for low, high, count, part, size in zip(corners[1::-1], corners[:1:-1], sizes, place, x.shape[2:], strict=True):
            extent = max(high - low + 1, 1)
            begin, end = part * extent // count + low, -(-(part + 1) * extent // count) + low
            cuts.append(slice(min(max(begin, 0), size), min(max(end, 0), size)))
        pixels = x[min(max(int(images[number]), 0), len(x) - 1)][:, *cuts]
        found[(number, slice(None), *place)] = pixels.max((1, 2)) if pixels.size else 0
    return found


def deformed(
    x: Array,
    w: Array,
    offset: Array,
    bias: Array | None = None,
    mask: Array | None = None,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
    offset_groups: int = 1,
) -> Array:
    """Return the convolution of elements that are moved by offsets."""
    taps, counts = w.shape[2:], offset.shape[2:]
    moves = offset.reshape(len(x), offset_groups, *taps, 2, *counts)
    form = len(x), offset_groups, *taps, *counts
    factors = np.ones(form) if mask is None else mask.reshape(form)
    found = np.zeros((len(x), len(w), *counts), np.longdouble)
    own, each, part = len(w) // groups, x.shape[1] // groups, x.shape[1] // offset_groups
    for n, o, i, j in np.ndindex(*found.shape):
        for c, (a, b) in itertools.product(range(each), np.ndindex(*taps)):
            channel = o // own * each + c
            d = channel // part
            y = i * stride - padding + a * dilation + moves[n, d, a, b, 0, i, j]
            z = j * stride - padding + b * dilation + moves[n, d, a, b, 1, i, j]
            found[n, o, i, j] += sum(pixel(x[n, channel], y, z)) * w[o, c, a, b] * factors[n, d, a, b, i, j]
    return found if bias is None else found + bias[:, None, None]


def _regions(draw: Draw) -> Arguments:
    batch, channels, height, width = (draw.integer(1, 3) for _ in range(4))
    count = draw.integer(1, 3)
    x, regions = draw.tensor((batch, channels, height, width)), draw.tensor((count, 4), "corners", "f32")
    images = draw.tensor((count,), "index", "i32", below=batch)
    mode = draw.pick(("average", "max"))
    options = {"samples": draw.integer(mode == "max", 3), "scale": draw.pick((1.0, 0.5)), "mode": mode}
    sizes = {"tuple": [draw.integer(1, 3), draw.integer(1, 2)]}
    return [x, regions, images, sizes], {**options, "half_pixel": draw.flag()}


def _pooled(draw: Draw) -> Arguments:
    arguments, options = _regions(draw)
    return arguments, {"scale": options["scale"]}


def _deformed(draw: Draw) -> Arguments:
    groups, parts = draw.integer(1, 2), draw.integer(1, 2)
    channels, outputs = groups * parts * draw.integer(1, 2), groups * draw.integer(1, 2)
    options = {"stride": draw.integer(1, 2), "padding": draw.integer(0, 1), "dilation": draw.integer(1, 2)}
    taps = draw.integer(1, 2), draw.integer(1, 2)
    spans = [options["dilation"] * (tap - 1) + 1 for tap in taps]
    sizes = [max(span - 2 * options["padding"], 1) + draw.integer(0, 2) for span in spans]
    counts = [(n + 2 * options["padding"] - m) // options["stride"] + 1 for n, m in zip(sizes, spans, strict=True)]
    x = draw.tensor((1, channels, *sizes), "normal")
    w = draw.tensor((outputs, channels // groups, *taps), "normal")
    arguments = [x, w, draw.tensor((1, parts * math.prod(taps) * 2, *counts), "inside")]
    if draw.flag():
        arguments += [draw.tensor((outputs,), "normal"), draw.tensor((1, parts * math.prod(taps), *counts), "inside")]
    return arguments, {**options, "groups": groups, "offset_groups": parts}


def _weighed(x: Array, w: Array, offset: Array, *_: Any, **__: Any) -> Array:
    return np.asarray(16 * np.max(np.abs(x)) * np.abs(w).sum() * (8 + np.max(np.abs(offset))) + 16)


ROWS_REGIONS: Final = (
    Row(
        "roi_align",
        _regions,
        aligned,
        ("f32", "f64"),
        flavours=CALM[:3],
        constant="B",
        units=32,
        terms=lambda x, *_, **__: np.asarray(64 * np.max(np.abs(x))),
        tied=True,
    ),
    Row(
        "roi_pool",
        _pooled,
        pooled,
        ("f32", "f64"),
        flavours=CALM[:3],
        constant="B",
        units=0,
        terms=lambda x, *_, **__: np.asarray(np.max(np.abs(x))),
        tied=True,
    ),
    Row("deform_conv", _deformed, deformed, ("f32", "f64"), flavours=CALM, constant="C", units=32, terms=_weighed),
)
