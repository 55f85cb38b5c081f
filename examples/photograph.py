"""The main job: five Tile programs on a real photograph, each checked against NumPy.

The photograph (public domain, NASA) comes with scikit-image's wheel.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from PIL import Image
from rich.console import Console
from rich.progress import track
from rich.table import Table

import tileir

Array: TypeAlias = np.ndarray[Any, np.dtype[np.float32]]
PROGRAMS = Path(__file__).parent


def gaussian_window(size: int, sigma: float) -> Array:
    """Return a normalised ``size`` x ``size`` Gaussian window in f32."""
    distance = np.arange(size) - (size - 1) / 2
    line = np.exp(-(distance**2) / (2 * sigma**2))
    window: Array = (np.outer(line, line) / line.sum() ** 2).astype(np.float32)
    return window


def windows(image: Array, height: int, width: int) -> Any:
    """Return a view with all windows of the first two axes, window axes last."""
    return sliding_window_view(image, (height, width), axis=(0, 1))


def dilated(image: Array, kernel: Array) -> Any:
    """Return the convolution that dilated_convolution.tile computes, by NumPy."""
    _, height, width, _ = image.shape
    rows, columns = height - 2 * (kernel.shape[0] - 1), width - 3 * (kernel.shape[1] - 1)
    total = np.zeros((1, rows, columns, kernel.shape[3]), np.float64)
    for x, y in np.ndindex(*kernel.shape[:2]):
        total += image[:, 2 * x : 2 * x + rows, 3 * y : 3 * y + columns] @ kernel[x, y].astype(np.float64)
    return total


def pooled(image: Array) -> Any:
    """Return the 2 x 2 maxima of a picture with even sides, by NumPy."""
    height, width, channels = image.shape
    return image.reshape(height // 2, 2, width // 2, 2, channels).max(axis=(1, 3))


def jobs(photograph: Array) -> dict[str, tuple[tuple[Array, ...], Callable[[], Any], float]]:
    """Return, by program, its inputs, the same by NumPy in f64, and its floating-point operations."""
    grey = photograph.mean(axis=2, dtype=np.float32)
    window = gaussian_window(9, 2.0)
    sobel = np.array([[1, 0, -1], [2, 0, -2], [1, 0, -1]], np.float32)
    generator = np.random.default_rng(0)
    kernel = generator.standard_normal((3, 3, 3, 16), np.float32) / np.float32(9)
    batch = photograph[None]
    exact = photograph.astype(np.float64)

    def edges() -> Any:
        around = windows(grey, 3, 3).astype(np.float64)
        return np.hypot((around * sobel).sum((-1, -2)), (around * sobel.T).sum((-1, -2)))

    def blurred() -> Any:
        return np.einsum("yxcij,ij->yxc", windows(photograph, 9, 9).astype(np.float64), window)

    return {
        "gaussian_blur": ((photograph, window), blurred, 2.0 * photograph.size * window.size),
        "sobel_edges": ((grey, sobel, np.ascontiguousarray(sobel.T)), edges, 40.0 * grey.size),
        "dilated_convolution": ((batch, kernel), lambda: dilated(batch, kernel), 2.0 * grey.size * kernel.size),
        "max_pool": ((photograph,), lambda: pooled(photograph), 1.0 * photograph.size),
        "normalise": ((photograph,), lambda: (exact - exact.mean()) / exact.std(), 6.0 * photograph.size),
    }


def fastest(call: Callable[[], object], seconds: float = 0.3) -> float:
    """Return the least time of one call, in seconds, over about ``seconds`` of calls."""
    times: list[float] = []
    stop = time.perf_counter() + seconds
    while not times or time.perf_counter() < stop:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def save(picture: Any, path: Path) -> None:
    """Write an array as a picture, its values stretched to the whole range; feature maps show three features."""
    flat = np.squeeze(np.asarray(picture, np.float64))
    flat = flat[..., :3] if flat.ndim == 3 else flat
    low, high = np.percentile(flat, (1, 99))
    Image.fromarray((np.clip((flat - low) / (high - low), 0, 1) * 255).astype(np.uint8)).save(path)


def main() -> None:
    """Run the programs, print the table, write the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("pictures"), help="folder for the pictures")
    parser.add_argument("--device", default=None, help="device id, as `tileir devices` prints it")
    options = parser.parse_args()
    from skimage import data  # only this program needs it

    photograph = np.ascontiguousarray(data.astronaut(), np.float32) / np.float32(255)
    options.output.mkdir(parents=True, exist_ok=True)
    console = Console()
    table = Table(title=f"Tile programs on a {photograph.shape[1]} x {photograph.shape[0]} photograph")
    for heading in ("program", "largest error", "check", "first ms", "ms", "GFLOP/s"):
        table.add_column(heading, justify="left" if heading in ("program", "check") else "right")
    wrong = []
    for name, (inputs, reference, operations) in track(jobs(photograph).items(), "running", console=console):
        run = tileir.jit((PROGRAMS / f"{name}.tile").read_text(encoding="utf-8"), device=options.device)
        start = time.perf_counter()
        result = run(*inputs)
        first = time.perf_counter() - start
        expected = reference()
        error = float(np.abs(result - expected).max() / np.abs(expected).max())
        if not error < 1e-5:
            wrong.append(name)
        seconds = fastest(lambda run=run, inputs=inputs: run(*inputs))  # type: ignore[misc]
        mark = "[red]wrong" if name in wrong else "[green]equal"
        rate = operations / seconds / 1e9
        table.add_row(name, f"{error:.1e}", mark, f"{first * 1e3:.0f}", f"{seconds * 1e3:.3f}", f"{rate:.1f}")
        save(result, options.output / f"{name}.png")
    console.print(table)
    console.print(f"pictures are in {options.output}")
    if wrong:
        raise SystemExit(f"wrong results: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
