"""Rows of images: interpolation, grids, boxes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Final

import numpy as np

from fuzz.wide.normalisation import CALM
from fuzz.wide.row import FLOATS, Arguments, Array, Draw, Row


def weights_between(old: int, new: int, mode: str, step: Fraction, *, corners: bool, c: float = -0.75) -> Array:
    """Return, for each new pixel, its old ones and their weights."""
    half = Fraction(1, 2)
    matrix = np.zeros((new, old), np.longdouble)
    for o in range(new):
        place = o * step if corners or mode == "nearest" else (o + half) * step - half
        if mode.startswith("nearest"):
            taps = {(place if mode == "nearest" else place + half) // 1: np.longdouble(1)}
        else:
            reach = range(2) if mode == "linear" else range(-1, 3)
            taps = {place // 1 + k: _weight(place - (place // 1 + k), mode, c) for k in reach}
        for pixel, part in taps.items():
            matrix[o, min(max(int(pixel), 0), old - 1)] += part
    return matrix


def _weight(distance: Fraction, mode: str, c: float) -> Any:
    d = np.longdouble(abs(distance).numerator) / np.longdouble(abs(distance).denominator)
    if mode == "linear":
        return 1 - d
    return (c + 2) * d**3 - (c + 3) * d**2 + 1 if d <= 1 else c * d**3 - 5 * c * d**2 + 8 * c * d - 4 * c


def _interpolate(draw: Draw) -> Arguments:
    rank = draw.integer(1, 2)
    mode = draw.pick(("nearest", "nearest_exact", "linear", "cubic"))
    options: dict[str, Any] = {"mode": mode}
    if mode in ("linear", "cubic") and draw.flag():
        options["align_corners"] = True
    shape = (1, draw.integer(1, 2), *(draw.integer(1, 7) for _ in range(rank)))
    return [draw.tensor(shape), [draw.integer(1, 12) for _ in range(rank)]], options


def _interpolated(x: Array, sizes: Sequence[int], mode: str, align_corners: bool = False) -> Array:
    for axis, new in enumerate(sizes, start=2):
        old = x.shape[axis]
        step = Fraction(old - 1, max(1, new - 1)) if align_corners else Fraction(old, new)
        matrix = weights_between(old, new, mode, step, corners=align_corners)
        if mode.startswith("nearest"):
            x = np.take(x, matrix.argmax(1), axis)
        else:
            x = np.moveaxis(np.tensordot(matrix, x, (1, axis)), 0, axis)
    return x


def _upsample(draw: Draw) -> Arguments:
    rank = draw.integer(1, 2)
    return [draw.tensor((1, *draw.full(rank + 1, rank + 1))), [draw.integer(1, 3) for _ in range(rank)]], {}


def _upsampled(x: Array, factors: Sequence[int]) -> Array:
    for axis, factor in enumerate(factors, start=2):
        x = np.repeat(x, factor, axis)
    return x


def _sampled(draw: Draw) -> Arguments:
    rank = draw.integer(1, 2)
    batch = draw.integer(1, 2)
    x = draw.tensor((batch, draw.integer(1, 2), *(draw.integer(1, 5) for _ in range(rank))))
    grid = draw.tensor((batch, *(draw.integer(1, 3) for _ in range(rank)), rank), "normal")
    options = {
        "mode": draw.pick(("linear", "nearest", "cubic")),
        "padding": draw.pick(("zeros", "border", "reflection")),
    }
    return [x, grid], {**options, "align_corners": draw.flag()}


def _grid_sampled(x: Array, grid: Array, mode: str, padding: str, align_corners: bool) -> Array:
    result = np.zeros((*x.shape[:2], *grid.shape[1:-1]), np.longdouble)
    for place in np.ndindex(grid.shape[:-1]):
        near = cubic_neighbours if mode == "cubic" else _neighbours
        parts = [
            near(g, size, mode, padding, align_corners) for g, size in zip(grid[place][::-1], x.shape[2:], strict=True)
        ]
        for corner in itertools.product(*parts):
            element = tuple(p for p, _ in corner)
            if all(0 <= p < size for p, size in zip(element, x.shape[2:], strict=True)):
                weight = np.prod([w for _, w in corner], dtype=np.longdouble)
                result[(place[0], slice(None), *place[1:])] += weight * x[(place[0], slice(None), *element)]
    return result


def _neighbours(g: Any, size: int, mode: str, padding: str, align: bool) -> list[tuple[int, Any]]:
    p = (g + 1) / 2 * (size - 1) if align else ((g + 1) * size - 1) / 2
    if padding == "reflection":
        low, high = (
            (np.longdouble(0), np.longdouble(size - 1)) if align else (np.longdouble(-0.5), np.longdouble(size - 0.5))
        )
        while low < high and not low <= p <= high:
            p = 2 * low - p if p < low else 2 * high - p
        p = p if low < high else low
    if padding != "zeros":
        p = min(max(p, np.longdouble(0)), np.longdouble(size - 1))
    if mode == "nearest":
        return [(round(float(p)), np.longdouble(1))]
    first = math.floor(p)
    return [(first, 1 - (p - first)), (first + 1, p - first)]


def cubic_neighbours(g: Any, size: int, _: str, padding: str, align: bool) -> list[tuple[int, Any]]:
    """Return the places of four elements around a coordinate, and their weights."""
    p = (g + 1) / 2 * (size - 1) if align else ((g + 1) * size - 1) / 2
    first = math.floor(p)
    found = []
    for tap in range(first - 1, first + 3):
        center = np.longdouble(2 * tap) / max(size - 1, 1) - 1 if align else np.longdouble(2 * tap + 1) / size - 1
        place = tap if padding == "zeros" else round(float(_neighbours(center, size, "nearest", padding, align)[0][0]))
        found.append((place, _weight(Fraction(float(p - tap)), "cubic", -0.75)))
    return found


def _affine(draw: Draw) -> Arguments:
    rank = draw.integer(1, 3)
    sizes = [draw.integer(1, 4) for _ in range(rank)]
    return [draw.tensor((draw.integer(1, 2), rank, rank + 1)), sizes], {"align_corners": draw.flag()}


def _affine_points(matrix: Array, sizes: Sequence[int], align_corners: bool) -> Array:
    lines = []
    for size in sizes:
        at = np.arange(size).astype(np.longdouble)
        lines.append(
            (2 * at / max(1, size - 1) - 1 if size > 1 else 0 * at) if align_corners else (2 * at + 1) / size - 1
        )
    points = np.stack([*np.meshgrid(*lines, indexing="ij")[::-1], np.ones(sizes, np.longdouble)], -1)
    return np.einsum("nde,...e->n...d", matrix, points)


def _boxes(draw: Draw) -> Arguments:
    return [draw.tensor((draw.integer(0, 5), 4), "corners") for _ in range(2)], {}


def iou(a: Array, b: Array) -> Array:
    """Return the overlap of boxes, which have a lower and an upper corner in any order."""
    a, b = (np.concatenate([np.minimum(x[:, :2], x[:, 2:]), np.maximum(x[:, :2], x[:, 2:])], 1) for x in (a, b))
    low, high = np.maximum(a[:, None, :2], b[None, :, :2]), np.minimum(a[:, None, 2:], b[None, :, 2:])
    both = np.clip(high - low, 0, None).prod(-1)
    areas = np.add.outer(*((x[:, 2:] - x[:, :2]).prod(-1) for x in (a, b))) - both
    return np.where(areas > 0, both / np.where(areas > 0, areas, 1), np.longdouble(0))


def _nms(draw: Draw) -> Arguments:
    count = draw.integer(0, 7)
    arguments = [draw.tensor((count, 4), "corners"), draw.tensor((count,), "ties")]
    return [*arguments, draw.integer(1, 4)], {"least_score": draw.pick((None, 0))}


def _kept(boxes: Array, scores: Array, most: int, least_score: float | None) -> tuple[Array, Array]:
    kept: list[int] = []
    overlaps = iou(boxes, boxes)
    for place in np.argsort(-scores, kind="stable"):
        enough = least_score is None or scores[place] > least_score
        if enough and all(overlaps[place, other] <= 0.5 for other in kept):
            kept.append(int(place))
    kept = kept[:most]
    return np.array(kept + [-1] * (most - len(kept)), np.int64), np.array(len(kept))


def _suppressed(draw: Draw) -> Arguments:
    batch, classes, count = draw.integer(1, 2), draw.integer(1, 3), draw.integer(1, 6)
    boxes, scores = draw.tensor((batch, count, 4), "corners"), draw.tensor((batch, classes, count), "ties")
    options = {"overlap": draw.pick((0.5, 0.0)), "least_score": draw.pick((None, 0))}
    return [boxes, scores, draw.integer(1, 8)], options


def suppressed(
    boxes: Array, scores: Array, most: int, overlap: float, least_score: float | None = None
) -> tuple[Array, Array]:
    """Return which boxes stay in each class of each image."""
    found = []
    for image, group in np.ndindex(*scores.shape[:2]):
        overlaps, kept = iou(boxes[image], boxes[image]), list[int]()
        for place in np.argsort(-scores[image, group], kind="stable"):
            enough = least_score is None or scores[image, group, place] > least_score
            if enough and len(kept) < most and all(overlaps[place, other] <= overlap for other in kept):
                kept.append(int(place))
        found += [(image, group, place) for place in kept]
    bound = scores.shape[0] * scores.shape[1] * min(most, scores.shape[2])
    rows = np.array(found + [(-1, -1, -1)] * (bound - len(found)), np.int64)
    return rows.reshape(bound, 3), np.array(len(found))


def _most(x: Array, *rest: Any, **_: Any) -> Array:
    grid = rest[0] if rest and isinstance(rest[0], np.ndarray) else np.zeros(1)
    return np.asarray(
        16 * np.max(np.where(np.isfinite(x), abs(x), 0), initial=0) * (1 + np.max(abs(grid), initial=0) * 8)
    )


ROWS_IMAGES: Final = (
    Row("interpolate", _interpolate, _interpolated, flavours=CALM, terms=_most),
    Row("upsample", _upsample, _upsampled, (*FLOATS, "i8"), exact=True),
    Row("grid_sample", _sampled, _grid_sampled, ("f32", "f64"), flavours=CALM[:3], terms=_most, units=32, constant="B"),
    Row("affine_grid", _affine, _affine_points, flavours=CALM, terms=_most),
    Row("iou", _boxes, iou, units=16, constant="*", terms=lambda a, b: 16 + 0 * iou(a, b)),
    Row("non_max_suppression", _suppressed, suppressed, ("f32", "f64"), constant="*", exact=True, shared=True),
    Row("nms", _nms, _kept, ("f32", "f64"), constant="*", exact=True, shared=True),
)
