"""Pipelines of pictures on tileir and on Halide with its autoschedulers, in one process and in turns.

    pip install halide
    python benchmarks/halide_pictures.py [--threads 2] [--only REGEX] [--sizes 512x512,2560x1600] [--channels 1,3]
        [--schedulers Adams2019,Mullapudi2016]

The pipelines are those of ``pictures.py``, with the edges of each intermediate picture repeated, and weights that both
compilers know. Halide's schedules come from Adams2019 and Mullapudi2016 (Adams et al., "Learning to optimize Halide
with tree search and random programs", 2019; Mullapudi et al., "Automatically scheduling Halide image processing
pipelines", 2016), told of the number of threads and the size of the picture. Halide gets the channels of colour
pictures one after the other, which its schedulers are made for; tileir has them interleaved. Two more pipelines are
those of ``bilateral_grid.py`` and ``camera_pipe.py``. A row has the least times of all rounds, of one thread those of
the processor, how many times as long the better schedule of Halide takes, and the greatest difference between the
outputs; that of ``chain`` is large where a value lies next to its threshold. A schedule that stops with an error, as
some do that read beyond the picture, has no time.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs
import numpy as np

import bilateral_grid
import camera_pipe
import tileir
from pictures import FILTERS, WEIGHTS, compiled, measured

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Array: TypeAlias = np.ndarray[Any, Any]
    Filter: TypeAlias = Callable[[Array], Array]

PHOTOGRAPHS: Final[Mapping[str, Any]] = {"bilateral grid": bilateral_grid, "camera pipe": camera_pipe}
IN_COLOUR: Final = frozenset({"bilateral grid"})
"""Those of pictures in grey or in colour; the raw values of a sensor are neither."""

SCHEDULERS: Final = ("Adams2019", "Mullapudi2016")


@attrs.frozen
class Halide:
    """The pipelines in Halide's language, for pictures of one shape.

    Attributes:
        api: The module ``halide``.
        shape: [rows, columns], or [channels, rows, columns].

    """

    api: Any
    shape: tuple[int, ...]

    def variables(self) -> tuple[Any, ...]:
        """Return the variables of a picture, innermost first: column, row, and channel if there is one."""
        return tuple(self.api.Var(name) for name in ("x", "y", "c")[: len(self.shape)])

    def padded(self, source: Any) -> Any:
        """Return a picture whose edges are repeated."""
        return self.api.BoundaryConditions.repeat_edge(source, [(0, size) for size in reversed(self.shape)])

    def point(self, name: str, expression: Callable[..., Any], *sources: Any) -> Any:
        """Return the picture of an expression of the elements of others."""
        result, place = self.api.Func(name), self.variables()
        result[place] = expression(*(source[place] for source in sources))
        return result

    def window(self, source: Any, weights: str) -> Any:
        """Return the sums over a window of weights, 0 left out."""
        kernel, picture = WEIGHTS[weights], self.padded(source)
        x, y, *channel = self.variables()
        down, across = (size // 2 for size in kernel.shape)
        terms = [
            picture[(x + (j - across), y + (i - down), *channel)] * self.api.f32(float(weight))
            for (i, j), weight in np.ndenumerate(kernel)
            if weight
        ]
        result = self.api.Func(f"window_{weights}")
        result[(x, y, *channel)] = sum(terms[1:], terms[0])
        return result

    def gauss(self, x: Any) -> Any:
        return self.window(self.window(x, "GV"), "GH")

    def unsharp(self, x: Any) -> Any:
        return self.point("unsharp", lambda a, b: a + (a - b) * 1.5, x, self.gauss(x))

    def harris(self, x: Any) -> Any:
        a, b = self.window(x, "SX"), self.window(x, "SY")
        products = [self.point("product", lambda p, q: p * q, *pair) for pair in ((a, a), (a, b), (b, b))]
        sums = [self.window(product, "BOX") for product in products]
        return self.point("harris", lambda p, q, r: p * r - q * q - self.api.f32(0.04) * (p + r) * (p + r), *sums)

    def diffusion(self, x: Any) -> Any:
        for _ in range(10):
            x = self.point("diffused", lambda a, b: a + self.api.f32(0.2) * b, x, self.window(x, "LAPLACE"))
        return x

    def sobel(self, x: Any) -> Any:
        slopes = (self.window(x, "SX"), self.window(x, "SY"))
        return self.point("sobel", lambda a, b: self.api.sqrt(a * a + b * b), *slopes)

    def chain(self, x: Any) -> Any:
        x = self.window(self.point("first", lambda a: a * self.api.f32(1.1) - self.api.f32(0.05), x), "K3")
        x = self.window(self.point("second", lambda a: a * a * 0.5 + a * 0.5, x), "K3")
        x = self.window(self.point("third", lambda a: a * 2.0 - 1.0, x), "SX")
        return self.point("last", lambda a: self.api.select(a > self.api.f32(0.1), a, 0.0), x)

    def resized(self, source: Any, axis: int, sizes: list[int], *, finer: bool) -> Any:
        """Return the picture with twice as many elements along an axis, columns first, or with half of them.

        ``sizes`` are those of the source, and become those of the result.
        """
        picture = self.api.BoundaryConditions.repeat_edge(source, [(0, size) for size in sizes])
        place = self.variables()
        along, seen, result = place[axis], list(place), self.api.Func("up" if finer else "down")
        terms = []
        for step in range(2 if finer else 4):
            seen[axis] = (along + 1) / 2 - 1 + step if finer else 2 * along - 1 + step
            first, second = (float(each) for each in WEIGHTS["UP"][:, step % 2])
            weight = self.api.select(along % 2 == 0, self.api.f32(first), self.api.f32(second))
            terms.append(picture[tuple(seen)] * (weight if finer else self.api.f32(float(WEIGHTS["DOWN"][step]))))
        result[place] = sum(terms[1:], terms[0])
        sizes[axis] = 2 * sizes[axis] if finer else sizes[axis] // 2
        return result

    def pyramid(self, x: Any) -> Any:
        sizes = list(reversed(self.shape))

        def both(x: Any, sizes: list[int], *, finer: bool) -> Any:
            return self.resized(self.resized(x, 1, sizes, finer=finer), 0, sizes, finer=finer)

        levels, shapes = [x], [list(sizes)]
        for _ in range(3):
            levels.append(both(levels[-1], sizes, finer=False))
            shapes.append(list(sizes))
        result = levels[-1]
        for level in (2, 1, 0):
            larger = both(result, list(shapes[level + 1]), finer=True)
            smooth = both(levels[level + 1], list(shapes[level + 1]), finer=True)
            result = self.point("detail", lambda a, b, c: a + (b - c) * 1.5, larger, levels[level], smooth)
        return result


def scheduled(
    api: Any, pipeline: Callable[[Any], Any], scheduler: str, threads: int, picture: Array, like: Array
) -> Filter:
    """Return a pipeline, scheduled and compiled, that filters ``picture`` whatever it is called with.

    ``like`` has the shape and dtype of the result.
    """
    source = api.ImageParam(api.UInt(16) if picture.dtype == np.uint16 else api.Float(32), picture.ndim, "I")
    _bound(source, picture.shape)
    result = pipeline(source)
    for buffer, shape in ((source, picture.shape), (result, like.shape)):
        buffer.set_estimates([(0, size) for size in reversed(shape)])
    _bound(result.output_buffer(), like.shape)
    target = api.get_host_target().with_feature(api.TargetFeature.NoAsserts)
    options = {"parallelism": str(threads)}
    if scheduler == "Mullapudi2016":
        options |= {"last_level_cache_size": str(1 << 20), "balance": "40"}
    whole = api.Pipeline(result)
    whole.apply_autoscheduler(target, api.AutoschedulerParams(scheduler, options))
    call = whole.compile_to_callable([source], target)
    out = np.zeros_like(like) if like.dtype.kind == "u" else np.full_like(like, np.nan)
    read, written = api.Buffer(picture), api.Buffer(out)

    def run(_: Array) -> Array:
        call(read, written)
        return out

    return run


def _bound(buffer: Any, shape: tuple[int, ...]) -> None:
    stride = 1
    for axis, size in enumerate(reversed(shape)):
        buffer.dim(axis).set_bounds(0, size).set_stride(stride)
        stride *= size


def loaded(threads: int) -> Any:
    """Return Halide with its autoschedulers."""
    os.environ["HL_NUM_THREADS"] = str(threads)
    api: Any = importlib.import_module("halide")
    for scheduler in SCHEDULERS:
        api.load_plugin(str(Path(api.__file__).parent / "lib64" / f"libautoschedule_{scheduler.lower()}.so"))
    return api


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--sizes", default="512x512,2560x1600", help="widths and heights")
    parser.add_argument("--channels", default="1,3")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--schedulers", default=",".join(SCHEDULERS))
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", str(options.threads))
    api = loaded(options.threads)
    schedulers = options.schedulers.split(",")
    print("| pipeline | picture | tileir, ms | " + ", ms | ".join(schedulers) + ", ms | better / tileir | difference |")
    print("|---|---|---:|" + "---:|" * (len(schedulers) + 2))
    sizes = [tuple(map(int, size.split("x"))) for size in options.sizes.split(",")]
    for name in (name for name in FILTERS if hasattr(Halide, name) and re.search(options.only, name)):
        for channels in map(int, options.channels.split(",")):
            for width, height in sizes:
                shape = (height, width) if channels == 1 else (height, width, channels)
                picture = np.random.default_rng(1).random(shape, np.float32)
                print(filtered(api, name, picture, options), flush=True)
    for name in (name for name in PHOTOGRAPHS if re.search(options.only, name)):
        for channels in map(int, options.channels.split(",") if name in IN_COLOUR else ["1"]):
            for width, height in sizes:
                print(photograph(api, name, (width, height, channels), options), flush=True)


def filtered(api: Any, name: str, picture: Array, options: argparse.Namespace) -> str:
    """Return the row of a filter."""
    planes = np.ascontiguousarray(np.moveaxis(picture, 2, 0)) if picture.ndim == 3 else picture
    executable, _ = compiled(name, picture, options.threads)
    own = into(executable, picture)
    expected = np.moveaxis(own(picture), 2, 0) if picture.ndim == 3 else own(picture)
    pipeline = getattr(Halide(api, planes.shape), name)
    theirs = {
        scheduler: scheduled(api, pipeline, scheduler, options.threads, planes, np.ascontiguousarray(expected))
        for scheduler in options.schedulers.split(",")
    }
    shape = (picture.shape[1], picture.shape[0], *picture.shape[2:])
    return row((name, shape), picture, own, theirs, expected, options)


def photograph(api: Any, name: str, size: tuple[int, int, int], options: argparse.Namespace) -> str:
    """Return the row of a pipeline of photographs: Halide gets planes, as of other pictures in colour."""
    module, colour = PHOTOGRAPHS[name], size[2:] if size[2] > 1 else ()
    picture = module.picture(*size[:2], *colour)
    context = tileir.Context(options=tileir.Options(threads=options.threads))
    own = into(tileir.compile(module.function(*colour), [picture], context=context), picture)
    planes = np.ascontiguousarray(np.moveaxis(picture, 2, 0)) if colour else picture
    result = np.asarray(own(picture))
    expected = np.ascontiguousarray(np.moveaxis(result, 2, 0)) if colour else result
    theirs = {
        scheduler: scheduled(
            api, lambda source: module.halide(api, source), scheduler, options.threads, planes, expected
        )
        for scheduler in options.schedulers.split(",")
    }
    return row((name, (*size[:2], *colour)), picture, own, theirs, expected, options)


def into(executable: tileir.Executable, picture: Array) -> Filter:
    """Return a filter that writes where it wrote before, as those of Halide do: to get new memory takes as long."""
    out = np.asarray(executable(picture))
    return lambda x: np.asarray(executable(x, out=out))


def row(
    head: tuple[str, tuple[int, ...]],
    picture: Array,
    own: Filter,
    theirs: Mapping[str, Filter],
    expected: Array,
    options: argparse.Namespace,
) -> str:
    """Return one row of the table, of which ``head`` has the name and the sizes."""
    filters: Mapping[str, Filter] = {"tileir": own, **theirs}
    times = measured(filters, picture, options.rounds, options.threads)
    differences = {
        scheduler: float(np.abs(call(picture).astype(np.float32) - expected.astype(np.float32)).max())
        for scheduler, call in theirs.items()
    }
    works = [scheduler for scheduler in theirs if not np.isnan(differences[scheduler])]
    cells = " | ".join(f"{times[name] * 1e3:.3f}" if name in ("tileir", *works) else "" for name in filters)
    ratio = f"{min(times[scheduler] for scheduler in works) / times['tileir']:.2f}" if works else ""
    difference = f"{max(differences[scheduler] for scheduler in works):.1e}" if works else ""
    return f"| {head[0]} | {'x'.join(map(str, head[1]))} | {cells} | {ratio} | {difference} |"


if __name__ == "__main__":
    main()
