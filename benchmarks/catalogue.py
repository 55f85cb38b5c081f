"""Functions of the catalogue of formulas on a photograph, beside OpenCV, SciPy or scikit-image, whichever is faster.

    python benchmarks/catalogue.py [--threads 2] [--only REGEX] [--rounds 5] [--size 512x512]

The photograph is in colour, f32, of 512 by 512 pixels, or resampled to what --size says. Parameters are constants, as
``tileir.craft`` has them while no control is dragged. Each row has the best times of all rounds, in which both sides
take turns, the time of the first call, which compiles, and how many times as long the peer takes.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import time
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

import tileir
from pictures import measured
from tileir_formula.definitions.catalogue import own_functions
from tileir_formula.lower.lowering import craft
from tileir_formula.text.parser import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Array: TypeAlias = np.ndarray[Any, np.dtype[np.float32]]
    Filter: TypeAlias = Callable[[Array], Any]

RATES: Final = np.array([[1, 2, 1], [2, 4, 2], [1, 2, 1]], np.float32)


def windows(cv: Any, nd: Any) -> Mapping[str, Filter]:
    """Return the peers of functions that look at windows."""
    square, plus = np.ones((5, 5), np.uint8), np.array([[0, -1, 0], [-1, 5, -1], [0, -1, 0]], np.float32)

    def sobel(x: Array) -> Any:
        return cv.magnitude(*(cv.Sobel(x, cv.CV_32F, *axes).reshape(len(x), -1) for axes in ((1, 0), (0, 1))))

    return {
        "convolve(weights=[1 2 1; 2 4 2; 1 2 1])": lambda x: cv.filter2D(x, -1, RATES),
        "box(size=5)": lambda x: cv.blur(x, (5, 5)),
        "box(size=25)": lambda x: cv.blur(x, (25, 25)),
        "gaussian(sigma=2)": lambda x: cv.GaussianBlur(x, (17, 17), 2),
        "gaussian(sigma=8)": lambda x: cv.GaussianBlur(x, (65, 65), 8),
        "unsharp(sigma=2)": lambda x: cv.addWeighted(x, 2, cv.GaussianBlur(x, (17, 17), 2), -1, 0),
        "sharpen(amount=1)": lambda x: cv.filter2D(x, -1, plus),
        "laplacian": lambda x: cv.Laplacian(x, cv.CV_32F),
        "laplacian_of_gaussian": lambda x: nd.gaussian_laplace(x, 2, axes=(0, 1)),
        "sobel": sobel,
        "scharr(show=across)": lambda x: cv.Scharr(x, cv.CV_32F, 1, 0),
        "median": lambda x: cv.medianBlur(x, 3),
        "median(size=5)": lambda x: cv.medianBlur(x, 5),
        "median(size=7)": lambda x: nd.median_filter(x, (7, 7, 1)),
        "dilate(size=5)": lambda x: cv.dilate(x, square),
        "erode(size=15)": lambda x: cv.erode(x, np.ones((15, 15), np.uint8)),
        "open(size=5)": lambda x: cv.morphologyEx(x, cv.MORPH_OPEN, square),
        "morphological_gradient(size=5)": lambda x: cv.morphologyEx(x, cv.MORPH_GRADIENT, square),
        "bilateral(size=5)": lambda x: cv.bilateralFilter(x, 5, 0.1, 2),
        "threshold_local(size=15)": lambda x: np.where(x > cv.blur(x, (15, 15)), np.float32(1), np.float32(0)),
    }


def points(cv: Any, exposure: Any) -> Mapping[str, Filter]:
    """Return the peers of functions of single pixels, of colours and of histograms."""
    conversions = {
        "luminance(standard=bt601)": cv.COLOR_RGB2GRAY,
        "to_hsv": cv.COLOR_RGB2HSV,
        "from_hsv": cv.COLOR_HSV2RGB,
        "to_ycbcr": cv.COLOR_RGB2YCrCb,
        "to_lab": cv.COLOR_RGB2Lab,
        "from_lab": cv.COLOR_Lab2RGB,
    }

    def conversion(code: int) -> Filter:
        return lambda x: cv.cvtColor(x, code)

    return {
        "invert": lambda x: 1 - x,
        "gamma": lambda x: cv.pow(x, 2.2),
        "curve": lambda x: np.interp(x, [0, 0.25, 0.5, 0.75, 1], [0, 0.2, 0.5, 0.8, 1]),
        "threshold": lambda x: cv.threshold(x, 0.5, 1, cv.THRESH_BINARY),
        "noise": lambda x: x + np.random.default_rng(0).standard_normal(x.shape, np.float32) * np.float32(0.1),
        "stretch": lambda x: cv.normalize(x, None, 0, 1, cv.NORM_MINMAX),
        "equalise": lambda x: exposure.equalize_hist(x.reshape(len(x), -1)),
        "mix": lambda x: cv.transform(x, RATES),
        **{text: conversion(code) for text, code in conversions.items()},
    }


def places(cv: Any, columns: int, rows: int) -> Mapping[str, Filter]:
    """Return the peers of functions that move pixels."""
    middle = cv.getRotationMatrix2D(((columns - 1) / 2, (rows - 1) / 2), 30, 1)
    shear = np.array([[1, 0.2, 0], [0, 1, 0], [0, 0, 1]])
    down, across = np.indices((rows, columns), np.float32)

    def resized(percent: int, how: int) -> Filter:
        size = (columns * percent // 100, rows * percent // 100)
        return lambda x: cv.resize(x, size, interpolation=how)

    return {
        "resize": resized(50, cv.INTER_LINEAR),
        "resize(percent=200)": resized(200, cv.INTER_LINEAR),
        "resize(percent=200, method=cubic)": resized(200, cv.INTER_CUBIC),
        "pool(kind=mean)": resized(50, cv.INTER_AREA),
        "rotate": lambda x: cv.warpAffine(x, middle, (columns, rows)),
        "warp": lambda x: cv.warpPerspective(x, shear, (columns, rows)),
        "lens": lambda x: cv.remap(x, across, down, cv.INTER_LINEAR),
        "flip": lambda x: cv.flip(x, 1),
        "transpose": cv.transpose,
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", default="512x512", help="columns by rows")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", str(options.threads))
    cv, nd, exposure, data = map(importlib.import_module, ("cv2", "scipy.ndimage", "skimage.exposure", "skimage.data"))
    cv.setNumThreads(options.threads)
    columns, rows = map(int, options.size.split("x"))
    photograph: Array = (np.asarray(data.astronaut()) / 255).astype(np.float32)
    photograph = cv.resize(photograph, (columns, rows), interpolation=cv.INTER_CUBIC) if columns != 512 else photograph
    peers = {**windows(cv, nd), **points(cv, exposure), **places(cv, columns, rows)}
    print("| function | first call, s | tileir, ms | peer, ms | peer / tileir |\n|---|---:|---:|---:|---:|")
    for text in (text for text in peers if re.search(options.only, text)):
        crafted = craft(parse(text), own_functions())
        run = tileir.jit(tileir.bind(crafted.function, crafted.arguments))
        start = time.perf_counter()
        run(photograph)
        first = time.perf_counter() - start
        calls: dict[str, Any] = {"tileir": run, "peer": peers[text]}
        times = measured(calls, photograph, options.rounds)
        ours, theirs = times["tileir"] * 1e3, times["peer"] * 1e3
        print(f"| {text} | {first:.2f} | {ours:.3f} | {theirs:.3f} | {theirs / ours:.2f} |", flush=True)


if __name__ == "__main__":
    main()
