"""Find the look of a picture: the parameters of a formula, from a photograph and an example of what should become.

The formula ends with the squared error, so its gradient says how every parameter changes that: weights of a window, a
colour, gamma, saturation, darker corners. Adam goes down, and what it finds is written into the text of the formula.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from PIL import Image
from rich.progress import track
from skimage import data

import tileir
from tileir_formula.definitions.catalogue import own_functions
from tileir_formula.editing.edits import replaced
from tileir_formula.lower.lowering import Crafted, craft
from tileir_formula.text.parser import parse

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

LOOK = """\
inputs photo
convolve(weights=[0 0 0; 0 1 0; 0 0 0])
gamma(gamma=1.0)
saturation(amount=1.0)
overlay_colour(colour=#808080, amount=0.01)
vignette(amount=0.0)
"""
HIDDEN = {
    "steps[0].arguments.weights": "[0.05 0.1 0.05; 0.1 0.4 0.1; 0.05 0.1 0.05]",
    "steps[1].arguments.gamma": "1.3",
    "steps[2].arguments.amount": "0.6",
    "steps[3].arguments.colour": "#ff9020",
    "steps[3].arguments.amount": "0.15",
    "steps[4].arguments.amount": "0.5",
}
"""Parameters with which the example is made, and which have to be found; other parameters stay."""

ERROR = """\
apart = subtract of $5, wanted
multiply of apart, apart
"""
RATE = 0.02
GOAL = 0.01


def written(text: str, values: dict[str, str]) -> str:
    """Return a formula with other values of parameters, by their paths."""
    for path, value in values.items():
        text = replaced(text, path, value).text
    return text


def made(text: str, photo: Array) -> Array:
    """Return what a formula makes of a photograph."""
    crafted = craft(parse(text), own_functions())
    return np.asarray(tileir.jit(crafted.function)(photo, *crafted.arguments.values()))


def error_of(look: str) -> Crafted:
    """Return the formula of the squared error between what a look makes of the photograph, and what is wanted."""
    text = look.replace("inputs photo", "inputs photo, wanted") + ERROR
    return craft(parse(text), own_functions())


def fitted(crafted: Crafted, photo: Array, wanted: Array, steps: int, device: str | None) -> dict[str, Array]:
    """Return the parameters after some steps of Adam, by their inputs."""
    names = [name for name, path in crafted.paths.items() if path in HIDDEN]
    slope = tileir.jit(tileir.gradient(crafted.function, wrt=names), device)
    values = {name: np.asarray(value, np.float32) for name, value in crafted.arguments.items()}
    means = {name: (np.zeros_like(values[name]), np.zeros_like(values[name])) for name in names}
    for step in track(range(1, steps + 1), "fitting"):
        gradients = slope(photo, wanted, *values.values())
        for name, total in zip(names, gradients, strict=True):
            gradient = total / photo.size
            first, second = means[name]
            first, second = 0.9 * first + 0.1 * gradient, 0.99 * second + 0.01 * gradient**2
            means[name] = first, second
            part = first / (1 - 0.9**step) / (np.sqrt(second / (1 - 0.99**step)) + 1e-8)
            values[name] = np.asarray(values[name] - RATE * (1 - step / (steps + 1)) * part, np.float32)
    return values


def spelt(value: Array) -> str:
    """Return a value as formulas write it: a number, a colour, or the weights of a window."""
    if value.ndim == 0:
        return f"{value:.3f}"
    if value.ndim == 1:
        return "#" + "".join(f"{round(255 * each):02x}" for each in np.clip(value, 0, 1))
    return "[" + "; ".join(" ".join(f"{each:.3f}" for each in row) for row in value) + "]"


def main() -> None:
    """Make an example, find its parameters, and print the formula that has them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=600, help="of Adam (default: 600)")
    parser.add_argument("--quick", action="store_true", help="stop after 30 steps, on a small picture")
    parser.add_argument("--output", type=Path, default=Path("look.png"), help="the picture (default: look.png)")
    parser.add_argument("--device", help="device id, as `tileir devices` prints it")
    options = parser.parse_args()
    photo = np.ascontiguousarray(data.astronaut()[:: 8 if options.quick else 2, :: 8 if options.quick else 2])
    photo = photo.astype(np.float32) / np.float32(255)
    wanted = made(written(LOOK, HIDDEN), photo)

    crafted = error_of(LOOK)
    values = fitted(crafted, photo, wanted, 30 if options.quick else options.steps, options.device)
    found = {path: spelt(values[name]) for name, path in crafted.paths.items() if path in HIDDEN}
    look = written(LOOK, found)
    print(look, end="")
    result = made(look, photo)
    off = float(np.sqrt(np.mean((result - wanted) ** 2)))
    before = float(np.sqrt(np.mean((made(LOOK, photo) - wanted) ** 2)))
    rows = np.concatenate([photo, wanted, result], axis=1)
    Image.fromarray((np.clip(rows, 0, 1) * 255).astype(np.uint8)).save(options.output)
    print(f"root of the mean squared error {before:.3f} before, {off:.4f} after: {options.output}")
    if off > (before if options.quick else GOAL):
        raise SystemExit("the look was not found")


if __name__ == "__main__":
    main()
