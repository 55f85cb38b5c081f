"""Filters of pictures on tileir, OpenCV, SciPy and scikit-image, in one process and in turns.

    python benchmarks/pictures.py [--threads 2] [--only REGEX] [--sizes 512x512,2560x1600] [--channels 1,3] [--rounds 7]

Pictures are f32 with edges repeated, weights are constants. Each library gets a few calls in a row before the next one
has its turn, since the threads of one that wait for more work disturb the first call of another. A row shows the number
of kernels, the bytes that these move at least, the best time of all rounds, how many times as long the fastest library
takes, and the greatest difference to it. Libraries that are not installed, or lack a filter, are left out.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import time
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs
import numpy as np

import tileir
from tileir import ops

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tileir.tile.builder import Tensor

    Array: TypeAlias = np.ndarray[Any, np.dtype[np.float32]]
    Filter: TypeAlias = Callable[[Array], Array]

CALLS: Final = 5
"""Calls in a row."""


def _weights() -> Mapping[str, Array]:
    column = np.exp(-0.5 * (np.arange(-8, 9, dtype=np.float32) / 2) ** 2)
    column /= column.sum()
    random = np.random.default_rng(0)
    across = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]], np.float32)
    return {
        "SX": across,
        "SY": across.T.copy(),
        "GV": column.reshape(17, 1),
        "GH": column.reshape(1, 17),
        "K3": random.random((3, 3), np.float32) / 5,
        "K5": random.random((5, 5), np.float32) / 12,
        "BOX": np.full((3, 3), 1 / 9, np.float32),
        "DOWN": np.array([1, 3, 3, 1], np.float32) / 8,
        "UP": np.array([[1, 3], [3, 1]], np.float32) / 4,
        "LAPLACE": np.array([[0, 1, 0], [1, -4, 1], [0, 1, 0]], np.float32),
    }


WEIGHTS: Final = _weights()


@attrs.define
class Recorder:
    """Records one filter as a function whose windows are arguments."""

    channels: int
    function: tileir.FunctionBuilder = attrs.field(factory=tileir.FunctionBuilder, init=False)
    picture: Tensor = attrs.field(init=False)
    windows: dict[str, Tensor] = attrs.field(factory=dict, init=False)
    _count: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self.picture = self.function.input("I", *(("H", "W", "C") if self.channels > 1 else ("H", "W")))

    def window(self, x: Tensor, name: str) -> Tensor:
        """Return the sum over a window of weights."""
        height, width = WEIGHTS[name].shape
        result, place, element, (i, j) = self._placed(x, height, width)
        result[place] += element * self._weights(name)[i, j]
        return result

    def resized(self, x: Tensor, axis: int, *, finer: bool) -> Tensor:
        """Return the picture with twice as many elements along an axis, or with half of them."""
        padded = ops.pad(x, [(1, 1) if number == axis else (0, 0) for number in range(len(x.dims))], mode="edge")
        sizes: list[Any] = list(x.dims)
        sizes[axis] = 2 * sizes[axis] if finer else sizes[axis] / 2
        self._count += 1
        result = self.function.tensor(f"R{self._count}", *sizes)
        *names, i, p = self.function.indices("y x c"[: 2 * len(x.dims) - 1] + " i p")
        place: list[Any] = list(names)
        seen = list(place)
        if finer:
            seen[axis], place[axis] = place[axis] + p + i, 2 * place[axis] + p
            result[tuple(place)] += padded[tuple(seen)] * self._weights("UP")[p, i]
        else:
            seen[axis] = 2 * place[axis] + i
            result[tuple(place)] += padded[tuple(seen)] * self._weights("DOWN")[i]
        return result

    def _weights(self, name: str) -> Tensor:
        if name not in self.windows:
            self.windows[name] = self.function.input(name, *(f"{name}{axis}" for axis in range(WEIGHTS[name].ndim)))
        return self.windows[name]

    def rank(self, x: Tensor, *, greatest: bool) -> Tensor:
        """Return the greatest or least of each window of 3 x 3."""
        result, place, element, (i, j) = self._placed(x, 3, 3)
        limited = element.given(i < 3).given(j < 3)
        if greatest:
            result[place] >= limited  # noqa: B015 (writes a contraction)
        else:
            result[place] <= limited  # noqa: B015
        return result

    def _placed(self, x: Tensor, height: int, width: int) -> tuple[Tensor, Any, Any, Any]:
        margins = [(height // 2, height // 2), (width // 2, width // 2), (0, 0)][: len(x.dims)]
        padded = ops.pad(x, margins, mode="edge")
        y, x_, c, i, j = self.function.indices("y x c i j")
        self._count += 1
        result = self.function.tensor(f"W{self._count}", *x.dims)
        place, seen = ((y, x_, c), (y + i, x_ + j, c)) if self.channels > 1 else ((y, x_), (y + i, x_ + j))
        return result, place, padded[seen], (i, j)


def magnitude(r: Recorder, x: Tensor) -> Tensor:
    a, b = r.window(x, "SX"), r.window(x, "SY")
    return ops.sqrt(a * a + b * b)


def gauss(r: Recorder, x: Tensor) -> Tensor:
    return r.window(r.window(x, "GV"), "GH")


def harris(r: Recorder, x: Tensor) -> Tensor:
    a, b = r.window(x, "SX"), r.window(x, "SY")
    aa, ab, bb = (r.window(product, "BOX") for product in (a * a, a * b, b * b))
    return aa * bb - ab * ab - 0.04 * (aa + bb) * (aa + bb)


def diffusion(r: Recorder, x: Tensor) -> Tensor:
    for _ in range(10):
        x = x + 0.2 * r.window(x, "LAPLACE")
    return x


def chain(r: Recorder, x: Tensor) -> Tensor:
    x = r.window(x * 1.1 - 0.05, "K3")
    x = r.window(x * x * 0.5 + x * 0.5, "K3")
    x = r.window(x * 2.0 - 1.0, "SX")
    return ops.where(x > 0.1, x, x * 0.0)


def pyramid(r: Recorder, x: Tensor) -> Tensor:
    """Return a picture with more contrast in the details of three levels, as in a Laplacian pyramid."""

    def down(x: Tensor) -> Tensor:
        return r.resized(r.resized(x, 0, finer=False), 1, finer=False)

    def up(x: Tensor) -> Tensor:
        return r.resized(r.resized(x, 0, finer=True), 1, finer=True)

    levels = [x]
    for _ in range(3):
        levels.append(down(levels[-1]))
    result = levels[-1]
    for fine, coarse in zip(levels[-2::-1], levels[:0:-1], strict=True):
        result = up(result) + (fine - up(coarse)) * 1.5
    return result


FILTERS: Final[Mapping[str, Callable[[Recorder, Tensor], Tensor]]] = {
    "sobel": magnitude,
    "gauss": gauss,
    "weights 3x3": lambda r, x: r.window(x, "K3"),
    "weights 5x5": lambda r, x: r.window(x, "K5"),
    "unsharp": lambda r, x: x + (x - gauss(r, x)) * 1.5,
    "harris": harris,
    "erode": lambda r, x: r.rank(x, greatest=False),
    "dilate": lambda r, x: r.rank(x, greatest=True),
    "diffusion": diffusion,
    "chain": chain,
    "pyramid": pyramid,
}


def opencv(threads: int) -> Mapping[str, Filter]:
    """Return the filters by calls of OpenCV in a row."""
    cv: Any = importlib.import_module("cv2")
    cv.setNumThreads(threads)
    edge, square = {"borderType": cv.BORDER_REPLICATE}, np.ones((3, 3), np.uint8)

    def window(x: Array, name: str) -> Any:
        return cv.filter2D(x, -1, WEIGHTS[name], **edge)

    def slopes(x: Array) -> tuple[Any, Any]:
        return cv.Sobel(x, cv.CV_32F, 1, 0, ksize=3, **edge), cv.Sobel(x, cv.CV_32F, 0, 1, ksize=3, **edge)

    def blurred(x: Array) -> Any:
        return cv.GaussianBlur(x, (17, 17), 2.0, **edge)

    def corners(x: Array) -> Any:
        a, b = slopes(x)
        products = (cv.multiply(a, a), cv.multiply(a, b), cv.multiply(b, b))
        aa, ab, bb = (cv.blur(product, (3, 3), **edge) for product in products)
        both = cv.add(aa, bb)
        rest = cv.subtract(cv.multiply(aa, bb), cv.multiply(ab, ab))
        return cv.subtract(rest, cv.multiply(both, both, scale=0.04))

    def diffused(x: Array) -> Any:
        for _ in range(10):
            x = cv.addWeighted(x, 1.0, window(x, "LAPLACE"), 0.2, 0)
        return x

    def chained(x: Array) -> Any:
        x = window(cv.addWeighted(x, 1.1, x, 0, -0.05), "K3")
        x = window(cv.addWeighted(cv.multiply(x, x), 0.5, x, 0.5, 0), "K3")
        x = window(cv.addWeighted(x, 2.0, x, 0, -1.0), "SX")
        return cv.threshold(x, 0.1, 0, cv.THRESH_TOZERO)[1]

    return {
        "sobel": lambda x: cv.magnitude(*slopes(x)),
        "gauss": blurred,
        "weights 3x3": lambda x: window(x, "K3"),
        "weights 5x5": lambda x: window(x, "K5"),
        "unsharp": lambda x: cv.addWeighted(x, 2.5, blurred(x), -1.5, 0),
        "harris": corners,
        "erode": lambda x: cv.erode(x, square, **edge),
        "dilate": lambda x: cv.dilate(x, square, **edge),
        "diffusion": diffused,
        "chain": chained,
    }


def scipy(_: int) -> Mapping[str, Filter]:
    """Return the filters that SciPy has."""
    nd: Any = importlib.import_module("scipy.ndimage")

    def kernel(x: Array, name: str) -> Any:
        weights = WEIGHTS[name] if x.ndim == 2 else WEIGHTS[name][..., None]
        return nd.correlate(x, weights, mode="nearest")

    def sigma(x: Array) -> tuple[float, ...]:
        return (2.0, 2.0, 0.0)[: x.ndim]

    def size(x: Array) -> tuple[int, ...]:
        return (3, 3, 1)[: x.ndim]

    return {
        "sobel": lambda x: np.hypot(kernel(x, "SX"), kernel(x, "SY")),
        "gauss": lambda x: nd.gaussian_filter(x, sigma(x), mode="nearest", truncate=4.0),
        "weights 3x3": lambda x: kernel(x, "K3"),
        "weights 5x5": lambda x: kernel(x, "K5"),
        "erode": lambda x: nd.minimum_filter(x, size(x), mode="nearest"),
        "dilate": lambda x: nd.maximum_filter(x, size(x), mode="nearest"),
    }


def skimage(_: int) -> Mapping[str, Filter]:
    """Return the filters that scikit-image has."""
    filters: Any = importlib.import_module("skimage.filters")

    def axis(x: Array) -> int | None:
        return None if x.ndim == 2 else 2

    def unsharp(x: Array) -> Any:
        return filters.unsharp_mask(x, 2.0, 1.5, preserve_range=True, channel_axis=axis(x))

    return {
        "gauss": lambda x: filters.gaussian(x, 2.0, mode="nearest", preserve_range=True, channel_axis=axis(x)),
        "unsharp": unsharp,
    }


PEERS: Final = {"OpenCV": opencv, "SciPy": scipy, "scikit-image": skimage}


def libraries(threads: int) -> dict[str, Mapping[str, Filter]]:
    """Return the filters of each library that is installed."""
    found: dict[str, Mapping[str, Filter]] = {}
    for name, make in PEERS.items():
        try:
            found[name] = make(threads)
        except ImportError:
            print(f"{name} is not installed")
    return found


def compiled(name: str, picture: Array, threads: int) -> tuple[tileir.Executable, Filter]:
    """Return a filter as tileir compiles it."""
    recorder = Recorder(1 if picture.ndim == 2 else picture.shape[2])
    function = recorder.function.build(O=FILTERS[name](recorder, recorder.picture))
    bound = tileir.bind(function, {window: WEIGHTS[window] for window in recorder.windows})
    context = tileir.Context(options=tileir.Options(threads=threads))
    executable = tileir.compile(bound, [picture], context=context)
    return executable, lambda x: np.asarray(executable(x))


def traffic(executable: tileir.Executable) -> int:
    """Return the bytes of all tensors that kernels read or write, each once for each kernel."""
    main = executable.scheduled.main
    sizes = {r.name: r.shape.span * r.shape.dtype.itemsize for r in main.refinements}
    whole = [k for k in main.blocks if "border" not in k.tags]
    return sum(sizes[name] for kernel in whole for name in {r.source for r in kernel.refinements if r.source})


def measured(filters: Mapping[str, Filter], picture: Array, rounds: int, threads: int = 2) -> dict[str, float]:
    """Return the least time of a call of each library, in seconds: of one thread that of the processor."""
    clock = time.process_time if threads == 1 else time.perf_counter
    best = dict.fromkeys(filters, float("inf"))
    for _ in range(rounds):
        for name, call in filters.items():
            for _ in range(CALLS):
                start = clock()
                call(picture)
                best[name] = min(best[name], clock() - start)
    return best


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--sizes", default="512x512,2560x1600", help="widths and heights")
    parser.add_argument("--channels", default="1,3")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", str(options.threads))
    found = libraries(options.threads)
    names = list(found)
    print(f"| filter | picture | kernels | MB | tileir | {' | '.join(names)} | best / tileir | difference |")
    print("|---|---|---:|---:|---:|" + "---:|" * (len(names) + 2))
    for name in (name for name in FILTERS if re.search(options.only, name)):
        for channels in map(int, options.channels.split(",")):
            for size in options.sizes.split(","):
                width, height = map(int, size.split("x"))
                shape = (height, width) if channels == 1 else (height, width, channels)
                print(row(name, np.random.default_rng(1).random(shape, np.float32), found, options), flush=True)


def row(name: str, picture: Array, found: Mapping[str, Mapping[str, Filter]], options: argparse.Namespace) -> str:
    """Return one row of the table."""
    executable, own = compiled(name, picture, options.threads)
    filters = {"tileir": own, **{peer: calls[name] for peer, calls in found.items() if name in calls}}
    times = measured(filters, picture, options.rounds, options.threads)
    mine = times.pop("tileir")
    cells = [f"{times[peer] * 1e3:.3f}" if peer in times else "" for peer in found]
    ratio, difference = "", ""
    if times:
        fastest = min(times, key=times.__getitem__)
        ratio = f"{times[fastest] / mine:.2f}"
        difference = f"{np.abs(own(picture) - filters[fastest](picture)).max():.1e}"
    shape = "x".join(map(str, (picture.shape[1], picture.shape[0], *picture.shape[2:])))
    kernels, megabytes = len(executable.scheduled.main.blocks), traffic(executable) / 1e6
    return (
        f"| {name} | {shape} | {kernels} | {megabytes:.1f} | {mine * 1e3:.3f} ms |"
        f" {' | '.join(cells)} | {ratio} | {difference} |"
    )


if __name__ == "__main__":
    main()
