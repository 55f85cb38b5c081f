"""Formulas of several steps as one program, beside a program for each step and calls of OpenCV in a row.

    python benchmarks/fusing_steps.py [--threads 2] [--only REGEX] [--sizes 512x512,2560x1600] [--rounds 7]

A program for each step is what the feeder of a system without fusion runs: every step reads whole pictures and writes
one. Both compute the same on a photograph in colour, f32, with constant parameters. A row has the kernels of both, the
least times of all rounds, how many times as long the steps one by one and OpenCV take, and the
greatest difference between the first two.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

import tileir
from pictures import measured
from tileir_formula.definitions.catalogue import own_functions
from tileir_formula.lower.lowering import craft
from tileir_formula.text.parser import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Array: TypeAlias = np.ndarray[Any, np.dtype[np.float32]]
    Filter: TypeAlias = Callable[[Array], Array]
    Step: TypeAlias = tuple[str, str, tuple[str, ...]]

LAPLACE: Final = "convolve(weights=[0 0.2 0; 0.2 0.2 0.2; 0 0.2 0])"
FORMULAS: Final[Mapping[str, Sequence[Step]]] = {
    "develop": (
        ("a", "exposure(stops=0.5)", ("image",)),
        ("b", "contrast(amount=1.2)", ("a",)),
        ("c", "saturation(amount=1.3)", ("b",)),
        ("d", "gamma(gamma=0.9)", ("c",)),
        ("e", "invert", ("d",)),
        ("f", "threshold(level=0.4)", ("e",)),
    ),
    "edges": (
        ("a", "contrast(amount=1.2)", ("image",)),
        ("b", "gaussian(sigma=1)", ("a",)),
        ("c", "convolve(weights=[-1 0 1; -2 0 2; -1 0 1])", ("b",)),
        ("d", "convolve(weights=[-1 -2 -1; 0 0 0; 1 2 1])", ("b",)),
        ("e", "magnitude", ("c", "d")),
        ("f", "invert", ("e",)),
        ("g", "threshold(level=0.5)", ("f",)),
    ),
    "clarity": (
        ("a", "gaussian(sigma=2)", ("image",)),
        ("b", "subtract", ("image", "a")),
        ("c", "exposure(stops=0.5)", ("b",)),
        ("d", "add", ("image", "c")),
        ("e", "contrast(amount=1.1)", ("d",)),
        ("f", "invert", ("e",)),
    ),
    "smooth": tuple((f"s{i}", LAPLACE, (f"s{i - 1}" if i else "image",)) for i in range(8)),
}


def opencv(cv: Any) -> Mapping[str, Filter]:
    """Return the formulas by calls of OpenCV in a row."""
    across = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]], np.float32)
    cross = np.array([[0, 0.2, 0], [0.2, 0.2, 0.2], [0, 0.2, 0]], np.float32)

    def contrasted(x: Any, amount: float) -> Any:
        return cv.addWeighted(x, amount, x, 0, 0.5 - 0.5 * amount)

    def inverted(x: Any) -> Any:
        return cv.addWeighted(x, -1, x, 0, 1)

    def edges(x: Array) -> Any:
        x = cv.GaussianBlur(contrasted(x, 1.2), (9, 9), 1)
        slopes = (cv.filter2D(x, -1, weights).reshape(len(x), -1) for weights in (across, across.T.copy()))
        return cv.threshold(inverted(cv.magnitude(*slopes)), 0.5, 1, cv.THRESH_BINARY)[1]

    def clarity(x: Array) -> Any:
        detail = cv.multiply(cv.subtract(x, cv.GaussianBlur(x, (17, 17), 2)), 2**0.5)
        return inverted(contrasted(cv.add(x, detail), 1.1))

    def smooth(x: Any) -> Any:
        for _ in range(8):
            x = cv.filter2D(x, -1, cross)
        return x

    return {"edges": edges, "clarity": clarity, "smooth": smooth}


def compiled(steps: Sequence[Step], inputs: Sequence[str], picture: Array) -> tileir.Executable:
    """Return steps as one program of pictures like ``picture``."""
    lines = [f"{name} = {function} of {', '.join(sources)}" for name, function, sources in steps]
    crafted = craft(parse("\n".join((f"inputs {', '.join(inputs)}", *lines))), own_functions())
    return tileir.compile(tileir.bind(crafted.function, crafted.arguments), [picture] * len(inputs))


def one_by_one(steps: Sequence[Step], picture: Array) -> tuple[Sequence[tileir.Executable], Filter]:
    """Return a program for each step, and the call of one after the other."""
    programs = [compiled([step], list(dict.fromkeys(step[2])), picture) for step in steps]

    def run(x: Array) -> Array:
        values = {"image": x}
        for (name, _, sources), program in zip(steps, programs, strict=True):
            values[name] = program(*(values[source] for source in dict.fromkeys(sources)))
        return values[steps[-1][0]]

    return programs, run


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--sizes", default="512x512,2560x1600", help="columns by rows")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", str(options.threads))
    cv, data = map(importlib.import_module, ("cv2", "skimage.data"))
    cv.setNumThreads(options.threads)
    print("| formula | steps | picture | kernels | fused, ms | one by one, ms | ratio | OpenCV / fused | difference |")
    print("|---|---:|---|---:|---:|---:|---:|---:|---:|")
    for name in (name for name in FORMULAS if re.search(options.only, name)):
        for size in options.sizes.split(","):
            columns, rows = map(int, size.split("x"))
            photograph = np.asarray(data.astronaut(), np.float32) / np.float32(255)
            picture = cv.resize(photograph, (columns, rows), interpolation=cv.INTER_LINEAR)
            print(row(name, picture, opencv(cv).get(name), options.rounds), flush=True)


def row(name: str, picture: Array, peer: Filter | None, rounds: int) -> str:
    """Return one row of the table."""
    steps = FORMULAS[name]
    fused = compiled(steps, ["image"], picture)
    programs, apart = one_by_one(steps, picture)
    filters: dict[str, Filter] = {"fused": fused, "apart": apart}
    if peer:
        filters["OpenCV"] = peer
    times = measured(filters, picture, rounds)
    counts = [sum(len(program.scheduled.main.blocks) for program in group) for group in ([fused], programs)]
    difference = float(np.abs(fused(picture) - apart(picture)).max())
    beside = f"{times['OpenCV'] / times['fused']:.2f}" if peer else ""
    return (
        f"| {name} | {len(steps)} | {picture.shape[1]}x{picture.shape[0]}x3 | {counts[0]}, {counts[1]} |"
        f" {times['fused'] * 1e3:.3f} | {times['apart'] * 1e3:.3f} | {times['apart'] / times['fused']:.2f} |"
        f" {beside} | {difference:.1e} |"
    )


if __name__ == "__main__":
    main()
