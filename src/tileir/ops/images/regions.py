"""Regions of images, and windows at positions given by tensors, with linear interpolation between pixels.

Images are [N, C, H, W], positions (y, x) in pixels.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Final

from tileir.ops.arithmetic import reductions
from tileir.ops.arithmetic.einstein import contract
from tileir.ops.arrays.indexing import gather_nd, take
from tileir.ops.arrays.joining import stack
from tileir.ops.arrays.shaping import moveaxis, unsqueeze
from tileir.ops.arrays.slicing import select
from tileir.ops.shared.foundation import (
    Dim,
    Size,
    Tensor,
    broadcast_dims,
    cast_to,
    chosen,
    dim_like,
    dims_of,
    expand,
    full,
    integer_of,
    mistake,
    mistaken,
    narrowed,
    promoted,
    rank_of,
    real,
    wide_together,
)
from tileir.ops.shared.windows import Padding, PerAxis, Window, is_integer, windows_of
from tileir.tile import builder_functions as tf

_RANK: Final = 4


def roi_align(
    x: Tensor,
    regions: Tensor,
    images: Tensor,
    output_size: tuple[Size, Size],
    *,
    samples: int,
    scale: float = 1.0,
    mode: str = "average",
    half_pixel: bool = True,
) -> Tensor:
    """Return regions of images in one size: the mean, or the maximum, of samples of each of its parts.

    Shapes: ``x`` is [N, C, H, W], ``regions`` [R, 4], their corners (x0, y0, x1, y1), which are multiplied by
    ``scale``; ``images`` [R], the number of the image of each; the result is [R, C, h, w]. Each of h * w parts has
    ``samples`` times ``samples`` equidistant samples of four pixels each, which "max" compares one by one; with
    ``samples=0``, for the mean only, the number along each axis is that of the part's pixels, rounded up. With
    ``half_pixel`` the middle of the first pixel lies at 1/2, otherwise at 0, and regions are at least one pixel large.
    A sample more than a pixel outside of an image is 0. Dtype: that of ``x``; integers give f32. Regions have no
    gradient.

    Raises:
        TileError: TIL305, a rank differs; TIL217, ``samples`` is below 0, or there is no such mode.

    Source: He et al., "Mask R-CNN", 2017; ONNX' ``RoiAlign``, torchvision's ``roi_align``.
    """
    chosen(mode, ("average", "max"), "mode")
    if integer_of(samples, "samples") < (mode == "max"):
        raise mistaken(f"samples are 1 or more, or 0 for the mean of as many as a part has pixels, not {samples}")
    _check_ranks(x, regions, images)
    count = dims_of(regions)[0]
    pixels, corners = wide_together(x, regions)
    bounds = [select(corners, 1, place) * scale - (0.5 if half_pixel else 0) for place in range(4)]
    tall, broad = (dim_like(x, size) for size in output_size)
    if not samples:
        weights = [
            (_weights(bounds[1], bounds[3], tall, dims_of(x)[2], half_pixel), [*"ray"]),
            (_weights(bounds[0], bounds[2], broad, dims_of(x)[3], half_pixel), [*"rbx"]),
        ]
        return narrowed(contract([(take(pixels, images), [*"rcyx"]), *weights], [*"rcab"], set()), x)
    lines = (
        tf.reshape(_samples(bounds[1], bounds[3], tall, samples, half_pixel), count, tall, samples, 1, 1),
        tf.reshape(_samples(bounds[0], bounds[2], broad, samples, half_pixel), count, 1, 1, broad, samples),
    )
    return narrowed(_sampled(pixels, images, lines, mode), x)


def roi_pool(
    x: Tensor, regions: Tensor, images: Tensor, output_size: tuple[Size, Size], *, scale: float = 1.0
) -> Tensor:
    """Return regions of images in one size: the maximum of the pixels of each of their parts.

    Shapes: those of :func:`roi_align`. Corners times ``scale`` are rounded to pixels, halves away from 0, and belong to
    the region, which has at least one pixel; a pixel that two parts share belongs to both. Parts outside of the image
    are 0. Dtype: that of ``x``; integers give f32. Regions have no gradient.

    Raises:
        TileError: TIL305, a rank differs.

    Source: Girshick, "Fast R-CNN", 2015; ONNX' ``MaxRoiPool``, torchvision's ``roi_pool``.
    """
    _check_ranks(x, regions, images)
    pixels, corners = wide_together(x, regions)
    moved = corners * scale
    rounded = tf.where(moved < 0, 0 - tf.floor(0.5 - moved), tf.floor(moved + 0.5))
    found = take(pixels, images)
    empty: list[Tensor] = []
    for axis, size in zip((3, 2), reversed(output_size), strict=True):
        first, last = (select(rounded, 1, place) for place in (3 - axis, 5 - axis))
        inside = _parts(first, last, dim_like(x, size), dims_of(x)[axis])
        count, parts, extent = dims_of(inside)
        form: list[Size] = [count, 1, *([1] * (axis - 2)), parts, *([1] * (3 - axis)), extent]
        parted = tf.where(tf.reshape(inside, *form), unsqueeze(moveaxis(found, axis, -1), axis), -math.inf)
        found = reductions.max(parted, -1)
        empty.append(tf.reshape(tf.logical_not(reductions.any(inside, 2)), *form[:-1]))
    return narrowed(tf.where(tf.logical_or(*empty), 0, found), x)


def deform_conv(
    x: Tensor,
    w: Tensor,
    offset: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    stride: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
    offset_groups: int = 1,
) -> Tensor:
    """Return a deformable convolution: :func:`tileir.ops.conv` with its taps moved by an offset for each result.

    Shapes: ``x`` is [N, C, H, W], ``w`` [K, C / groups, h, w], ``bias`` [K], the result [N, K, H', W']; ``offset`` is
    [N, D * h * w * 2, H', W'], for each of D ``offset_groups`` of channels and each tap its distances in y and x;
    ``mask``, [N, D * h * w, H', W'], multiplies the elements. Between pixels, elements are interpolated linearly, and 0
    outside. Dtypes promote.

    Raises:
        TileError: TIL305, a rank differs; TIL217, an option is invalid; when compiling, TIL310 if sizes do not agree.

    Source: Dai et al., "Deformable convolutional networks", 2017; ONNX' ``DeformConv``, torchvision's
    ``deform_conv2d``.
    """
    if any(rank_of(each) != _RANK for each in (x, w, offset)) or (mask is not None and rank_of(mask) != _RANK):
        raise mistake("TIL305", f"images, kernels, offsets and masks have {_RANK} axes each")
    if not is_integer(groups, 1) or not is_integer(offset_groups, 1):
        raise mistaken("numbers of groups are integers from 1 on")
    batch, channels, *sizes = dims_of(x)
    outputs, own, *taps = dims_of(w)
    windows = windows_of(sizes, taps, stride=stride, padding=padding, dilation=dilation)
    counts = [window.count for window in windows]
    form = [batch, dim_like(x, offset_groups), *taps, *counts]
    pixels, kernels, moves, *masks = wide_together(x, w, offset, *(() if mask is None else (mask,)))
    places = _moved(windows, tf.reshape(moves, *form[:4], 2, *counts))
    parts = tf.reshape(pixels, batch, offset_groups, channels / offset_groups, *sizes)
    pixels = moveaxis(parts, 2, -1)
    total = None
    for corner in _corners(places):
        points = stack([cast_to(at, "i32") for at, _ in corner], -1)
        taken = gather_nd(pixels, points, depth=2, batch_dims=2, mode="fill")
        weight = corner[0][1] * corner[1][1]
        term = taken * tf.reshape(tf.as_like(weight, taken), *form, 1)
        total = term if total is None else total + term
    assert total is not None  # there are four corners
    for each in masks:
        total = total * tf.reshape(each, *form, 1)
    inner = channels / groups
    sampled = tf.reshape(moveaxis(total, -1, 2), batch, groups, inner, *taps, *counts)
    kernels = tf.reshape(kernels, groups, outputs / groups, own, *taps)
    found = contract([(sampled, [*"ngcijyx"]), (kernels, [*"gkcij"])], [*"ngkyx"], set())
    found = tf.reshape(found, batch, outputs, *counts)
    if bias is not None:
        found = found + tf.reshape(bias, outputs, 1, 1)
    return promoted(found, x, w, *(() if bias is None else (bias,)))


def _check_ranks(x: Tensor, regions: Tensor, images: Tensor) -> None:
    ranks = [rank_of(each) for each in (x, regions, images)]
    if ranks != [_RANK, 2, 1]:
        raise mistake("TIL305", f"images have {_RANK} axes, regions two, and their numbers one; not {ranks}")


def _parts(first: Tensor, last: Tensor, parts: Dim, size: Size) -> Tensor:
    """Return whether pixels along one axis belong to parts of regions: [R, parts, size]."""
    (count,) = dims_of(first)
    begin, step = (tf.reshape(each, count, 1, 1) for each in (first, tf.max(last - first + 1, 1) / real(parts)))
    grid = full(first, [1, parts, size], 0)
    part, pixel = (tf.as_like(tf.index(grid, axis), first) for axis in (1, 2))
    behind = tf.ceil((part + 1) * step) + begin
    return tf.logical_and(pixel >= tf.floor(part * step) + begin, pixel < behind)


def _weights(low: Tensor, high: Tensor, parts: Dim, size: Dim, half_pixel: bool) -> Tensor:
    """Return the weights of pixels along one axis in the mean of each part's samples: [R, parts, size].

    A part has a sample for each pixel of its width, rounded up. Within the image there are at most two for each of its
    pixels, which are visited beginning with the first one.
    """
    (count,) = dims_of(low)
    step = (high - low if half_pixel else tf.max(high - low, 1)) / real(parts)
    begin, width, number = (tf.reshape(each, count, 1, 1, 1) for each in (low, step, tf.max(tf.ceil(step), 0)))
    grid = full(low, [1, parts, size, 2 * size + 5], 0)
    part, pixel, turn = (tf.as_like(tf.index(grid, axis), low) for axis in (1, 2, 3))
    begin = begin + part * width
    sample = tf.max(tf.floor((-1 - begin) * number / width - 0.5), 0) + turn
    place = begin + (sample + 0.5) * width / number
    inside = tf.logical_and(sample < number, tf.logical_and(place >= -1, place <= size))
    distance = tf.abs(tf.min(tf.max(place, 0), size - 1) - pixel)
    total = reductions.sum(tf.where(inside, tf.max(1 - distance, 0), 0), 3)
    return total / tf.reshape(tf.max(number, 1), count, 1, 1)


def _samples(low: Tensor, high: Tensor, parts: Dim, samples: int, half_pixel: bool) -> Tensor:
    """Return the positions of samples along one axis, [R, parts, samples], between the bounds of each region."""
    (count,) = dims_of(low)
    whole = high - low if half_pixel else tf.max(high - low, 1)
    grid = full(low, [1, parts, samples], 0)
    part, sample = (tf.as_like(tf.index(grid, axis), low) for axis in (1, 2))
    step = tf.reshape(whole / real(parts), count, 1, 1)
    return tf.reshape(low, count, 1, 1) + (part + (sample + 0.5) / samples) * step


def _sampled(pixels: Tensor, images: Tensor, lines: Sequence[Tensor], mode: str) -> Tensor:
    """Return the mean or the maximum of samples: [R, C, h, w], at positions [R, h, s, 1, 1] and [R, 1, 1, w, s]."""
    number, shape = tf.reshape(images, *dims_of(images), 1, 1, 1, 1), broadcast_dims(*lines)
    ends = dims_of(pixels)[2:]
    gone = [tf.logical_or(place < -1, place > size) for place, size in zip(lines, ends, strict=True)]
    outside = tf.logical_or(*gone)
    places = [tf.min(tf.max(place, 0), size - 1) for place, size in zip(lines, ends, strict=True)]
    pixels = moveaxis(pixels, 1, -1)
    terms = []
    for corner in _corners(places):
        points = [expand(cast_to(each, "i32"), shape) for each in (number, *(at for at, _ in corner))]
        weight = tf.where(outside, 0, corner[0][1] * corner[1][1])
        taken = gather_nd(pixels, stack(points, -1), depth=3)
        terms.append(taken * tf.reshape(tf.as_like(weight, taken), *shape, 1))
    combine = tf.max if mode == "max" else lambda one, other: one + other
    total = terms[0]
    for term in terms[1:]:
        total = combine(total, term)
    if mode == "max":  # samples beyond a border meet at one pixel, whose slope counts once
        found = tf.reduce("argmax", tf.reduce("argmax", total, 4)[0], 2)[0]
    else:
        found = reductions.mean(total, (2, 4))
    return moveaxis(found, -1, 1)


def _moved(windows: Sequence[Window], offset: Tensor) -> list[Tensor]:
    """Return the positions of the taps of windows on each axis, clamped to where all elements are 0."""
    _, _, *taps, _, tall, broad = dims_of(offset)
    grid = full(offset, [1, 1, *taps, tall, broad], 0)
    places = []
    for axis, window in enumerate(windows):
        tap, result = tf.index(grid, 2 + axis), tf.index(grid, 4 + axis)
        base = result * window.stride + tap * window.dilation - window.before
        place, end = base + select(offset, 4, axis), window.size + 1
        places.append(tf.where(place < -2, -2, tf.where(place > end, end, place)))
    return places


def _corners(places: Sequence[Tensor]) -> list[tuple[tuple[Tensor, Tensor], ...]]:
    """Return the pixels around positions, one for each axis of each, with their weights along it."""
    sides = []
    for place in places:
        low = tf.floor(place)
        sides.append(((low, 1 - (place - low)), (low + 1, place - low)))
    return list(itertools.product(*sides))
