"""Cases of tensors of other sizes: each convention for places, and each kind of weights."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fuzz.wide.resizing import resized
from strategies.operations import Array, Case, integers, sample
from tileir import ops

_X: Final = {"X": sample(2, 5, 4)}


def _case(name: str, *sizes: Any, torch: Any = None, **options: Any) -> Case:
    def build(x: Any) -> Any:
        return ops.resize(x, *sizes, **options)

    def numpy(x: Array) -> Any:
        return resized(x, *sizes, **options)

    return Case(name, build, _X, numpy, torch)


def _smooth(mode: str, size: tuple[int, int]) -> Any:
    return lambda t, x: t.nn.functional.interpolate(x[None], size, mode=mode, antialias=True)[0]


CASES: Final = (
    *(
        _case(f"{mode}_{coordinates}", scales=(0.6, 1.7), axes=(1, 2), mode=mode, coordinates=coordinates)
        for mode in ("linear", "nearest")
        for coordinates in ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")
    ),
    *(
        _case(f"nearest_{nearest}", (4, 8), axes=(-1, 1), coordinates="asymmetric", nearest=nearest)
        for nearest in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    ),
    _case("cubic", (2, 3, 9), mode="cubic"),
    _case("cubic_inside", (2, 3, 9), mode="cubic", exclude_outside=True, coefficient=-0.5),
    _case("linear_of_one", (1, 1), axes=(1, 2), mode="linear", coordinates="pytorch_half_pixel"),
    *(
        _case(
            f"smooth_{mode}",
            (3, 2),
            axes=(1, 2),
            mode=mode,
            antialias=True,
            exclude_outside=True,
            coefficient=-0.5,
            torch=_smooth(name, (3, 2)),
        )
        for mode, name in (("linear", "bilinear"), ("cubic", "bicubic"))
    ),
    _case("smooth_edges", scales=(0.4, 2.5), axes=(1, 2), mode="cubic", antialias=True),
    _case(
        "region",
        (3, 6),
        axes=(1, 2),
        mode="linear",
        coordinates="tf_crop_and_resize",
        roi=(0.25, -0.5, 1.25, 0.75),
        extrapolation_value=7.0,
    ),
    Case(
        "region_of_a_tensor",
        lambda x, r: ops.resize(x, (3, 1), axes=(1, 2), mode="linear", coordinates="tf_crop_and_resize", roi=r),
        {**_X, "R": np.array([0.25, 0.125, 0.75, 0.5])},
        lambda x, r: resized(
            x, (3, 1), axes=(1, 2), mode="linear", coordinates="tf_crop_and_resize", roi=[float(b) for b in r]
        ),
        wrt=("X",),
    ),
    Case(
        "least_scale",
        lambda x: ops.resize(x, (7, 5), axes=(1, 2), mode="linear", policy="not_larger"),
        _X,
        lambda x: resized(x, scales=(1.25, 1.25), axes=(1, 2), mode="linear")[:, :6],
    ),
    Case(
        "greatest_scale",
        lambda x: ops.resize(x, (10, 5), axes=(1, 2), policy="not_smaller"),
        {"X": integers(2, 5, 4)},
        lambda x: x.repeat(2, 1).repeat(2, 2),
        dtypes=("f32",),
    ),
)
