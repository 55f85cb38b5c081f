"""A formula and a picture to begin with: edges of all directions, gradients, fine lines, noise, and colours."""

from __future__ import annotations

import io
from typing import Any, Final

import numpy as np

FORMULA: Final = """\
// Edges of a picture, softened
across = convolve(weights=[-1 0 1; -2 0 2; -1 0 1]) of image
down = convolve(weights=[-1 -2 -1; 0 0 0; 1 2 1]) of image
edges = magnitude of across, down
gaussian(sigma=1.2) of edges
"""
"""The first formula of the designer."""

_SIDE: Final = 512
_NOISE: Final = 0.04


def sample_picture() -> bytes:
    """Return the sample as a PNG, equal in every call."""
    from PIL import Image  # the server needs it for this alone

    file = io.BytesIO()
    Image.fromarray(_levels()).save(file, format="PNG", compress_level=1)
    return file.getvalue()


def _levels() -> np.ndarray[Any, np.dtype[np.uint8]]:
    y, x = np.mgrid[0:_SIDE, 0:_SIDE].astype(np.float64) / _SIDE
    picture = np.stack([0.35 + 0.4 * x, 0.45 + 0.3 * y, 0.75 - 0.35 * x * y], axis=-1)
    discs = (
        (0.3, 0.3, 0.19, (0.92, 0.42, 0.18)),
        (0.68, 0.36, 0.13, (0.97, 0.86, 0.4)),
        (0.42, 0.7, 0.1, (0.1, 0.3, 0.5)),
    )
    for top, left, radius, colour in discs:
        away = np.hypot(y - top, x - left)
        picture[away < radius] = np.asarray(colour) * (1.1 - 0.5 * away[away < radius, None] / radius)
    chirp = (y > 0.84) & (x > 0.05) & (x < 0.95)  # lines that become finer from left to right
    picture[chirp] = (0.5 + 0.45 * np.cos(220 * x[chirp] ** 2))[:, None]
    star = (np.hypot(y - 0.22, x - 0.78) < 0.15) & (np.cos(18 * np.arctan2(y - 0.22, x - 0.78)) > 0)
    picture[star] = (0.12, 0.13, 0.16)
    noisy = (y > 0.56) & (y < 0.78) & (x > 0.7) & (x < 0.94)
    picture[noisy] = 0.5
    picture += np.where(noisy, 0.25, _NOISE / 2)[..., None] * np.random.default_rng(0).standard_normal(picture.shape)
    levels: np.ndarray[Any, np.dtype[np.uint8]] = np.rint(np.clip(picture, 0, 1) * 255).astype(np.uint8)
    return levels
