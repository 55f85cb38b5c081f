"""Rows of tensors of other sizes, by the conventions of ONNX."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from fuzz.wide.normalisation import CALM
from fuzz.wide.row import FLOATS, Arguments, Array, Draw, Row

_ROUNDINGS: Final = {
    "round_prefer_floor": lambda p: math.ceil(p - 0.5),
    "round_prefer_ceil": lambda p: math.floor(p + 0.5),
    "floor": math.floor,
    "ceil": math.ceil,
    "simple": math.trunc,
}


def place_of(o: int, old: int, new: int, scale: float, coordinates: str, region: tuple[float, float]) -> float:
    """Return where a result lies on an axis."""
    width = scale * old
    match coordinates:
        case "asymmetric":
            return o / scale
        case "align_corners":
            return 0.0 if width == 1 else o * (old - 1) / (width - 1)
        case "tf_crop_and_resize":
            span = (region[1] - region[0]) * (old - 1)
            return (span / 2 if width == 1 else o * span / (width - 1)) + region[0] * (old - 1)
        case "half_pixel_symmetric":
            return old / 2 * (1 - new / width) + ((o + 0.5) / scale - 0.5)
        case "pytorch_half_pixel" if width == 1:
            return -0.5
        case _:
            return (o + 0.5) / scale - 0.5


def _weight(distance: float, mode: str, c: float) -> float:
    d = abs(distance)
    if mode == "linear":
        return max(1 - d, 0)
    if d <= 1:
        return (c + 2) * d**3 - (c + 3) * d**2 + 1
    return c * d**3 - 5 * c * d**2 + 8 * c * d - 4 * c if d < 2 else 0.0


def row_of(
    place: float, old: int, scale: float, mode: str, nearest: str, c: float, antialias: bool, exclude: bool
) -> Array:
    """Return the weights of all elements of an axis for a result at this place."""
    row = np.zeros(old)
    if mode == "nearest":
        row[min(max(_ROUNDINGS[nearest](place), 0), old - 1)] = 1
        return row
    squeeze = min(scale, 1) if antialias else 1
    reach = math.ceil((1 if mode == "linear" else 2) / squeeze) + 1
    for tap in range(math.floor(place) - reach, math.floor(place) + reach + 1):
        if 0 <= tap < old or not exclude:
            row[min(max(tap, 0), old - 1)] += _weight((tap - place) * squeeze, mode, c)
    return row / (row.sum() or 1) if antialias or exclude else row


def resized(
    x: Array,
    sizes: Sequence[int] | None = None,
    *,
    scales: Sequence[float] | None = None,
    axes: Sequence[int] | None = None,
    mode: str = "nearest",
    coordinates: str = "half_pixel",
    nearest: str = "round_prefer_floor",
    coefficient: float = -0.75,
    antialias: bool = False,
    exclude_outside: bool = False,
    roi: Sequence[float] = (),
    extrapolation_value: float = 0.0,
) -> Array:
    """Return the definition: along each axis, the products of its elements and a row of weights for each result."""
    places = list(range(x.ndim)) if axes is None else list(axes)
    for number, axis in enumerate(places):
        old = x.shape[axis]
        scale = sizes[number] / old if sizes is not None else (scales or ())[number]
        new = sizes[number] if sizes is not None else math.floor(scale * old + 1e-6)
        region = (roi[number], roi[number + len(places)]) if roi else (0.0, 1.0)
        if scale == 1 and not roi:
            continue
        at = [place_of(o, old, new, scale, coordinates, region) for o in range(new)]
        rows = [row_of(p, old, scale, mode, nearest, coefficient, antialias, exclude_outside) for p in at]
        matrix = np.array(rows).reshape(new, old)
        if mode == "nearest":
            x = np.take(x, matrix.argmax(1), axis)
        else:
            x = np.moveaxis(np.tensordot(matrix.astype(x.dtype), x, (1, axis)), 0, axis)
        if roi:
            outside = np.array([not 0 <= p <= old - 1 for p in at])
            shape = [-1 if each == axis else 1 for each in range(x.ndim)]
            x = np.where(outside.reshape(shape), np.asarray(extrapolation_value, x.dtype), x)
    return x


def _resize(draw: Draw) -> Arguments:
    rank = draw.integer(1, 3)
    shape = tuple(draw.integer(1, 6) for _ in range(rank))
    axes = sorted({draw.integer(0, rank - 1) for _ in range(draw.integer(1, 2))})
    mode = draw.pick(("nearest", "linear", "cubic"))
    options: dict[str, Any] = {
        "axes": axes,
        "mode": mode,
        "coordinates": draw.pick(
            ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")
        ),
    }
    if mode == "nearest":
        options["nearest"] = draw.pick(("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"))
    else:
        options |= {"antialias": draw.flag(), "exclude_outside": draw.flag()}
    if draw.integer(0, 4) == 4:
        starts = [draw.pick((0.0, 0.25, -0.25)) for _ in axes]
        options |= {"coordinates": "tf_crop_and_resize", "roi": [*starts, *(start + 0.75 for start in starts)]}
        options["extrapolation_value"] = 2.0
    x = draw.tensor(shape)
    if draw.flag():
        return [x, [draw.integer(1, 9) for _ in axes]], options
    return [x], {**options, "scales": [draw.pick((0.5, 1.0, 2.0, 1.5, 0.75, 3.0)) for _ in axes]}


def _greatest(x: Array, *_: Any, **__: Any) -> Array:
    return np.asarray(32 * np.max(np.where(np.isfinite(x), abs(x), 0), initial=0))


ROWS_RESIZING: Final = (Row("resize", _resize, resized, FLOATS, flavours=CALM, terms=_greatest, tied=True),)
