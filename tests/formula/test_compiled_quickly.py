"""Programs that are compiled quickly against the interpreter: formulas of all kinds that the catalogue has."""

from __future__ import annotations

import numpy as np
import pytest

import tileir
from tileir.runtime.interface import Options
from tileir_formula.running.crafting import craft

PICTURE = np.random.default_rng(9).integers(0, 256, (37, 41, 3), np.uint8)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "text",
    [
        "gaussian(sigma=2)",
        "gaussian(sigma=6)",
        "box(size=31)",
        "median(size=5)",
        "bilateral(size=5)",
        "rotate(angle=30)",
        "equalise",
        "a = gaussian\nb = sobel of image\nresults a, b\n",
        "unsharp(sigma=2, amount=1)\ngamma(gamma=1.2)\nsobel\nmedian\nbox(size=5)\nthreshold(level=0.2)\n",
    ],
)
def test_they_compute_what_the_interpreter_does(text: str) -> None:
    crafted = craft(text)
    program = crafted.tile(["u8"]).function
    values = [PICTURE, *crafted.tile(["u8"]).arguments.values()]
    found = tileir.jit(program, options=Options(quick=True))(*values)
    wanted = tileir.evaluate(program, values)
    for one, other in zip(*(each if isinstance(each, tuple) else (each,) for each in (found, wanted)), strict=True):
        assert np.abs(one.astype(int) - other.astype(int)).max() <= 1
