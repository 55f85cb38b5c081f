"""From a moved slider to the new picture: what the studio's page waits for while a control is dragged, and at its rest.

    python benchmarks/slider.py [--only REGEX] [--sizes 512x512,1920x1080] [--moves 15]

Each row is a formula and one of its parameters, on a photograph in colour of 8 bits. The jobs are those that the page
asks the worker for, in this process, with nothing cached on disk: ``open`` is the first picture; ``begin`` the first
move, with which the parameter becomes an argument of kernels; ``drag`` the median of the moves after it, and ``worst``
the longest of them, where each follows as soon as the one before is seen; ``stop`` is how long one of these goes on for
a program that nobody waits for any more; ``rest`` is the first picture after the release, whose kernels have the value
as a constant. ``open`` and ``rest`` are until there is a new picture, ``opened`` and ``rested`` until there is the one
that remains, of the optimised program.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tileir_formula.definitions.catalogue import default_catalogue
from tileir_formula.lower.applying import apply
from tileir_studio.serve.jobs import answer
from tileir_studio.serve.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PICTURE: Final = "0" * 32
"""The name of the upload."""

CHAIN: Final = (
    "unsharp(sigma=2, amount=1)\ngamma(gamma=1.2)\nsobel\nmedian\nbox(size=5)\nthreshold(level=0.2)\n",
    "gaussian(sigma=1.5)\nsharpen(amount=1)\ngamma(gamma=0.8)\n",
)

COLUMNS: Final = ("open", "opened", "begin", "drag", "worst", "stop", "rest", "rested")
"""Measured quantities."""

SLIDERS: Final[tuple[tuple[str, str, tuple[float, float], bool], ...]] = (
    ("gamma(gamma=1.2)", "steps[0].arguments.gamma", (0.5, 2.5), False),
    ("sharpen(amount=1)", "steps[0].arguments.amount", (0.2, 3), False),
    ("gaussian(sigma=2)", "steps[0].arguments.sigma", (1.8, 2.2), False),
    ("gaussian(sigma=1)", "steps[0].arguments.sigma", (1, 6), False),
    ("box(size=5)", "steps[0].arguments.size", (3, 31), True),
    ("median(size=5)", "steps[0].arguments.size", (3, 5), True),
    ("bilateral(size=5)", "steps[0].arguments.alike", (0.05, 0.4), False),
    ("rotate(angle=30)", "steps[0].arguments.angle", (1, 85), True),
    (CHAIN[0], "steps[0].arguments.amount", (0.2, 3), False),
    (f"invert\n{CHAIN[0]}", "steps[6].arguments.level", (0.05, 0.5), False),
    (CHAIN[1], "steps[2].arguments.gamma", (0.5, 2), False),
)
"""Formulas, paths of parameters, from where to where they are moved, and whether they take odd numbers only."""


def moves(bounds: tuple[float, float], odd: bool, count: int) -> Iterator[float]:
    """Yield places of a slider on its way from one end to the other."""
    for share in np.linspace(0, 1, count):
        place = bounds[0] + share * (bounds[1] - bounds[0])
        yield round(place) // 2 * 2 + 1 if odd else round(place, 3)


def seconds(session: Session, request: dict[str, Any], *, whole: bool) -> tuple[float, float]:
    """Return the times until the page has a new picture, and until it has the one of the optimised program.

    Without ``whole`` the next value comes as soon as there is a picture, as while somebody drags: nobody waits for the
    optimised one then, and the time until the worker is free stands in its place.
    """
    start = time.perf_counter()
    times = []
    session.request, session.given_up = session.request + 1, -1
    for event in answer(session, {"job": "formula.preview", "inputs": {"image": PICTURE}, **request}):
        assert event.name in ("quick", "preview", "stale"), event.view
        times.append(time.perf_counter() - start)
        session.given_up = -1 if whole else session.request
    return times[0], times[-1]


def row(text: str, path: str, places: Sequence[float], folder: Path) -> list[float]:
    """Return the seconds of the first picture, of the first move, of those after it, at worst, and of the rest."""
    session = Session(folder)
    opened = seconds(session, {"text": text}, whole=True)
    times = []
    for place in places:
        times.append(seconds(session, {"text": text, "path": path, "value": str(place)}, whole=False))
        text = apply(text, path, str(place), default_catalogue().functions).edited.text  # by another worker, meanwhile
    begin, *moved = (first for first, _ in times)
    stops = max(free - first for first, free in times)
    rest = seconds(session, {"text": text}, whole=True)
    return [*opened, begin, statistics.median(moved), max(moved), stops, *rest]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--sizes", default="512x512,1920x1080", help="columns by rows, with commas between them")
    parser.add_argument("--moves", type=int, default=15)
    options = parser.parse_args()
    os.environ["TILEIR_CACHE"] = "0"
    cv, data = map(importlib.import_module, ("cv2", "skimage.data"))
    titles = ("formula", "parameter", "size", *(f"{name}, ms" for name in COLUMNS))
    print(f"| {' | '.join(titles)} |")
    print(f"|---|---|---|{'---:|' * len(COLUMNS)}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for size in options.sizes.split(","):
            columns, rows = map(int, size.split("x"))
            with (folder / PICTURE).open("wb") as file:
                np.save(file, cv.resize(data.astronaut(), (columns, rows), interpolation=cv.INTER_CUBIC))
            seconds(Session(folder), {"text": "invert"}, whole=True)
            for text, path, bounds, odd in SLIDERS:
                shown = "; ".join(text.split("\n")).strip("; ")
                if re.search(options.only, shown):
                    times = row(text, path, tuple(moves(bounds, odd, options.moves)), folder)
                    cells = " | ".join(f"{1e3 * each:.1f}" for each in times)
                    print(f"| {shown} | {path.replace('.arguments', '')} | {size} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
