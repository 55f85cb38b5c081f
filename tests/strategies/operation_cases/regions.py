"""Cases of regions of images, and of windows that are moved."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fuzz.wide.regions import aligned, deformed, pooled
from strategies.operations import Case, sample
from tileir import ops

_IMAGES: Final = {
    "X": sample(2, 2, 5, 6),
    "R": np.array([[0.5, 1, 4, 3.5], [-3, 0, 2, 9], [1, 1, 1.2, 1.3]]),
    "I": np.array([1, 0, 1], np.int32),
}


def _double(x: Any) -> Any:
    return np.asarray(x, np.float64)


def _deform(**options: Any) -> dict[str, Any]:
    return {
        "build": lambda x, w, o, b, m: ops.deform_conv(x, w, o, b, m, **options),
        "numpy": lambda x, w, o, b, m: _double(deformed(x, w, o, b, m, **options)),
    }


CASES: Final = (
    *(
        Case(
            f"align_{mode}_{half}",
            lambda x, r, i, mode=mode, half=half: ops.roi_align(
                x, r, i, (2, 3), samples=2, scale=0.75, mode=mode, half_pixel=half
            ),
            _IMAGES,
            lambda x, r, i, mode=mode, half=half: _double(aligned(x, r, i, (2, 3), 2, 0.75, mode, half)),
            wrt=("X",) if mode == "average" or half else (),  # where samples at an edge tie
            tolerance=10,
        )
        for mode in ("average", "max")
        for half in (True, False)
    ),
    *(
        Case(
            f"align_adaptive_{half}",
            lambda x, r, i, half=half: ops.roi_align(x, r, i, (2, 3), samples=0, scale=2.5, half_pixel=half),
            _IMAGES,
            lambda x, r, i, half=half: _double(aligned(x, r, i, (2, 3), 0, 2.5, "average", half)),
            wrt=("X",),
            tolerance=10,
        )
        for half in (True, False)
    ),
    Case(
        "roi_pool",
        lambda x, r, i: ops.roi_pool(x, r, i, (3, 2), scale=1.25),
        _IMAGES,
        lambda x, r, i: _double(pooled(x, r, i, (3, 2), 1.25)),
        wrt=("X",),
    ),
    Case(
        "deform_conv",
        inputs={
            "X": sample(2, 4, 4, 5),
            "W": sample(2, 2, 2, 3, seed=1),
            "O": sample(2, 24, 2, 2, low=-1.2, high=1.2, seed=2),
            "B": sample(2, seed=3),
            "M": sample(2, 12, 2, 2, seed=4),
        },
        **_deform(stride=2, padding=1, dilation=2, groups=2, offset_groups=2),
        tolerance=10,
    ),
    Case(
        "deform_conv_without_masks",
        lambda x, w, o: ops.deform_conv(x, w, o),
        {"X": sample(1, 2, 3, 3), "W": sample(1, 2, 2, 2, seed=1), "O": sample(1, 8, 2, 2, low=-2, seed=2)},
        lambda x, w, o: _double(deformed(x, w, o)),
        tolerance=10,
    ),
)
