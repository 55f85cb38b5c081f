"""Photographs with one, three and four channels, from 0 to 1, and filters run on them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from skimage import data

from tileir import evaluate
from tileir_formula.definitions.catalogue import own_functions
from tileir_formula.lower.lowering import craft
from tileir_formula.text.parser import parse

Picture = npt.NDArray[Any]

MODES = {"clamp": "nearest", "mirror": "mirror", "wrap": "wrap", "constant": "constant"}
"""SciPy's names of the boundary modes."""


@cache
def photograph(channels: int) -> Picture:
    """Return 25 by 31 pixels of a photograph: a cameraman, or an astronaut, with an alpha channel if there are 4."""
    if channels == 1:
        return np.asarray(data.camera()[100:125, 200:231, None] / np.float32(255), np.float32)
    colours = np.asarray(data.astronaut()[20:45, 210:241] / np.float32(255), np.float32)
    alpha = np.linspace(0, 1, colours[..., :1].size, dtype=np.float32).reshape(colours[..., :1].shape)
    return colours if channels == 3 else np.concatenate([colours, alpha], 2)


def filtered(text: str, *pictures: Picture, pixels: str = "f32") -> Any:
    """Return what a formula makes of pictures, by the interpreter."""
    crafted = craft(parse(text), own_functions(), pixels=pixels)
    return evaluate(crafted.function, [*pictures, *crafted.arguments.values()])
