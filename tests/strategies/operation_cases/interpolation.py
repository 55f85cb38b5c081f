"""Cases of interpolation: modes, sizes, scales and numbers of axes."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from strategies.operations import Case, integers, sample
from tileir import ops

if TYPE_CHECKING:
    from strategies.operations import Array

_LINE: Final = {"X": sample(2, 2, 5)}
_PLANE: Final = {"X": sample(1, 2, 5, 4)}
_SPACE: Final = {"X": sample(1, 1, 2, 3, 4)}


def matrix(old: int, new: int, mode: str, step: Fraction, *, corners: bool = False, c: float = -0.75) -> Array:
    """Return the definition along one axis: the weight of each old pixel in each new one."""
    weights = np.zeros((new, old))
    half = Fraction(1, 2)
    for o in range(new):
        place = o * step if corners or mode == "nearest" else (o + half) * step - half
        if mode.startswith("nearest"):
            taps = {(place if mode == "nearest" else place + half) // 1: 1.0}
        else:
            reach = range(2) if mode == "linear" else range(-1, 3)
            taps = {place // 1 + k: weight(abs(float(place - (place // 1 + k))), mode, c) for k in reach}
        for pixel, part in taps.items():
            weights[o, min(max(int(pixel), 0), old - 1)] += part
    return weights


def weight(d: float, mode: str, c: float) -> float:
    if mode == "linear":
        return 1 - d
    return (c + 2) * d**3 - (c + 3) * d**2 + 1 if d <= 1 else c * d**3 - 5 * c * d**2 + 8 * c * d - 4 * c


def resized(x: Array, sizes: tuple[int, ...], mode: str, steps: Any = None, **options: Any) -> Array:
    """Return the product with the matrix of each axis behind the first two."""
    for axis, new in enumerate(sizes, start=2):
        old = x.shape[axis]
        step = Fraction(old, new) if steps is None else steps[axis - 2]
        x = np.moveaxis(np.tensordot(matrix(old, new, mode, step, **options), x, (1, axis)), 0, axis)
    return x


CASES: Final = (
    Case(
        "nearest",
        lambda x: ops.interpolate(x, (8, 3)),
        _PLANE,
        lambda x: resized(x, (8, 3), "nearest"),
        lambda t, x: t.nn.functional.interpolate(x, (8, 3)),
    ),
    Case(
        "nearest_exact",
        lambda x: ops.interpolate(x, (8, 3), mode="nearest_exact"),
        _PLANE,
        lambda x: resized(x, (8, 3), "nearest_exact"),
        lambda t, x: t.nn.functional.interpolate(x, (8, 3), mode="nearest-exact"),
    ),
    Case(
        "nearest_of_integers",
        lambda x: ops.interpolate(x, 7),
        {"X": integers(1, 2, 5)},
        lambda x: resized(x, (7,), "nearest").astype(np.int32),
        dtypes=("f32",),
    ),
    Case(
        "linear_line",
        lambda x: ops.interpolate(x, 8, mode="linear"),
        _LINE,
        lambda x: resized(x, (8,), "linear"),
        lambda t, x: t.nn.functional.interpolate(x, 8, mode="linear"),
    ),
    Case(
        "linear",
        lambda x: ops.interpolate(x, (3, 9), mode="linear"),
        _PLANE,
        lambda x: resized(x, (3, 9), "linear"),
        lambda t, x: t.nn.functional.interpolate(x, (3, 9), mode="bilinear"),
    ),
    Case(
        "linear_space",
        lambda x: ops.interpolate(x, (3, 5, 2), mode="linear"),
        _SPACE,
        lambda x: resized(x, (3, 5, 2), "linear"),
        lambda t, x: t.nn.functional.interpolate(x, (3, 5, 2), mode="trilinear"),
    ),
    Case(
        "linear_corners",
        lambda x: ops.interpolate(x, (8, 7), mode="linear", align_corners=True),
        _PLANE,
        lambda x: resized(x, (8, 7), "linear", (Fraction(4, 7), Fraction(3, 6)), corners=True),
        lambda t, x: t.nn.functional.interpolate(x, (8, 7), mode="bilinear", align_corners=True),
    ),
    Case(
        "linear_corners_of_one_pixel",
        lambda x: ops.interpolate(x, 1, mode="linear", align_corners=True),
        _LINE,
        lambda x: x[..., :1],
        lambda t, x: t.nn.functional.interpolate(x, 1, mode="linear", align_corners=True),
    ),
    Case(
        "linear_scales",
        lambda x: ops.interpolate(x, scale=(1.5, 0.7), mode="linear"),
        _PLANE,
        lambda x: resized(x, (7, 2), "linear", (Fraction(2, 3), Fraction(10, 7))),
        lambda t, x: t.nn.functional.interpolate(x, scale_factor=(1.5, 0.7), mode="bilinear"),
    ),
    Case(
        "linear_of_integers",
        lambda x: ops.interpolate(x, 7, mode="linear"),
        {"X": integers(1, 2, 5)},
        lambda x: resized(x, (7,), "linear"),
        dtypes=("f32",),
    ),
    Case(
        "linear_channels_last",
        lambda x: ops.interpolate(x, scale=2, mode="linear", layout="nxc"),
        {"X": sample(1, 3, 2, 2)},
        lambda x: np.moveaxis(resized(np.moveaxis(x, 3, 1), (6, 4), "linear"), 1, 3),
    ),
    Case(
        "cubic",
        lambda x: ops.interpolate(x, (8, 3), mode="cubic"),
        _PLANE,
        lambda x: resized(x, (8, 3), "cubic"),
        lambda t, x: t.nn.functional.interpolate(x, (8, 3), mode="bicubic"),
    ),
    Case(
        "cubic_of_keys",
        lambda x: ops.interpolate(x, 9, mode="cubic", align_corners=True, coefficient=-0.5),
        _LINE,
        lambda x: resized(x, (9,), "cubic", (Fraction(1, 2),), corners=True, c=-0.5),
    ),
    Case(
        "upsample",
        lambda x: ops.upsample(x, (2, 3)),
        _PLANE,
        lambda x: x.repeat(2, 2).repeat(3, 3),
        lambda t, x: t.nn.functional.interpolate(x, scale_factor=(2, 3)),
    ),
    Case(
        "upsample_channels_last",
        lambda x: ops.upsample(x, 2, layout="nxc"),
        _PLANE,
        lambda x: x.repeat(2, 1).repeat(2, 2),
    ),
)
