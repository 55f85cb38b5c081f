"""Make the pictures of the gallery by running the examples; each picture lies beside this file.

    pip install '.[llvm,cli,image]' matplotlib scikit-image scikit-learn && python docs/gallery/make.py

The photograph (public domain, NASA) comes with scikit-image's wheel.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from skimage import data

import tileir

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"
WIDTH = 400
"""Of each picture, in pixels."""
OVERVIEW = ("photograph", "cartoon", "old_photograph", "tilt_shift")
"""Panels of the picture on the first page."""


def keep(picture: Image.Image, name: str) -> None:
    """Write a picture at the width of the gallery."""
    height = round(picture.height * WIDTH / picture.width)
    picture.convert("RGB").resize((WIDTH, height), Image.Resampling.LANCZOS).save(HERE / f"{name}.jpg", quality=85)


def make_formulas(photograph: np.ndarray[Any, np.dtype[Any]]) -> None:
    """Apply each formula among the examples to the photograph."""
    for path in sorted(EXAMPLES.glob("*.formula")):
        keep(Image.fromarray(tileir.craft(path)(photograph)), path.stem)


def make_programs(folder: Path) -> None:
    """Run the examples that draw pictures."""
    pictures = {name: str(folder / f"{name}.png") for name in ("heat_equation", "train_digits", "fit_filter")}
    for name, options in (
        ("photograph", ["--output", str(folder)]),
        ("heat_equation", ["--output", pictures["heat_equation"]]),
        ("train_digits", ["--quick", "--output", pictures["train_digits"]]),
        ("fit_filter", ["--output", pictures["fit_filter"]]),
    ):
        command = [sys.executable, str(EXAMPLES / f"{name}.py"), *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    for path in sorted(folder.glob("*.png")):
        keep(Image.open(path), path.stem)


def main() -> None:
    """Make all pictures."""
    photograph = data.astronaut()
    keep(Image.fromarray(photograph), "photograph")
    make_formulas(photograph)
    with tempfile.TemporaryDirectory() as folder:
        make_programs(Path(folder))
    panels = [Image.open(HERE / f"{name}.jpg").resize((240, 240)) for name in OVERVIEW]
    overview = Image.new("RGB", (240 * len(panels), 240))
    for place, panel in enumerate(panels):
        overview.paste(panel, (240 * place, 0))
    overview.save(HERE / "overview.jpg", quality=85)


if __name__ == "__main__":
    main()
