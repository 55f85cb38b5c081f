"""Formulas and pictures that are taken away: several results, several inputs, all kinds of pixels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

import tileir
from tileir_studio.design.bench import Assignment as Assignment

if TYPE_CHECKING:
    Array = np.ndarray[Any, np.dtype[Any]]

RANDOM: Final = np.random.default_rng(7)
COLOUR: Final = RANDOM.integers(0, 256, (37, 53, 3), np.uint8)
GREY: Final = RANDOM.integers(0, 256, (41, 30), np.uint8)
DEEP: Final = RANDOM.integers(0, 65536, (23, 31, 3), np.uint16)
FLOATS: Final = RANDOM.random((19, 26, 3), np.float32)

FORMULAS: Final = {
    "one": "gaussian(sigma=1.3)\n",
    "edges": "a = sobel\nb = gaussian of image\nmagnitude of a, b\n",
    "several": "a = box(size=5)\nb = median of image\nresults a, b\n",
    "two": "inputs image, other\nblend(amount=0.3) of image, other\nunsharp\n",
    "merged": "inputs image, other\ngaussian of other\nadd of $1, image where output within 10% of pixel\n",
    "repeated": "repeat 12 {\n  diffuse\n}\n",
    "many": "\n".join(["gaussian", "erode", "sobel", "dilate", "median", "box(size=9)", "sharpen", "equalise"]) + "\n",
    "conditioned": "sharpen where region(3, 4, 10, 12)\nthreshold(level=0.4)\n",
    "strange": "// */ ends no comment ??/ \\\n// ü\nbox\n",
}
PICTURES: Final = {"colour": COLOUR, "grey": GREY, "deep": DEEP, "floats": FLOATS}


def assignment(text: str, picture: Array, device: str | None = None) -> Assignment:
    """Return a formula on a picture, and on it upside down where it reads two."""
    formula = tileir.craft(text, device=device)
    return Assignment(formula, (picture, picture[::-1].copy())[: len(formula.formula.inputs)])


def results_of(given: Assignment, device: str | None = None) -> list[Array]:
    results = tileir.craft(given.formula.text, device=device)(*given.pictures)
    return list(results) if isinstance(results, tuple) else [results]


def check_equal(found: list[Array], expected: list[Array]) -> None:
    for each, wanted in zip(found, expected, strict=True):
        shown = each if each.ndim == wanted.ndim else each[..., 0]
        assert (shown.dtype, shown.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_array_equal(shown, wanted)


def check_near(found: list[Array], expected: list[Array]) -> None:
    """Find integers at most one apart, where the last digits of floats decide, and floats as far as sums may be."""
    for each, wanted in zip(found, expected, strict=True):
        near = 1 if wanted.dtype.kind == "u" else 2e-6
        assert np.abs(each.reshape(wanted.shape).astype(np.float64) - wanted).max() <= near
