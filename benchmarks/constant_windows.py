"""From how many terms on a window of constant weights is faster as a loop that looks its weights up.

    python benchmarks/constant_windows.py [--device ID] [--size HEIGHT WIDTH] [--threads N]

runs windows with all terms, and sparse ones, on one picture: with weights as arguments, as constants in loops, and
written out by the pass ``immediates``. Calls of the three alternate, so that what else the machine does meets all; the
least time of each counts. Where the last column passes 1 is what the option ``terms`` of targets should be.
"""

from __future__ import annotations

import argparse
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

import tileir
from tileir.passes.pipelines.resolution import pipeline_for
from tileir.passes.rewrites.immediates import Immediates

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.passes.base import Pass

Array = np.ndarray[Any, np.dtype[Any]]

SOURCE: Final = """function (I[H, W], K[KH, KW]) -> (O) {
    [[finite]] O[y, x : H - KH + 1, W - KW + 1] = +(I[y + j, x + i] * K[j, i]);
}"""
DENSE: Final = ((1, 3), (1, 5), (2, 3), (3, 3), (3, 4), (4, 4), (4, 5), (5, 5), (5, 6), (6, 6), (7, 7))
SPARSE: Final = ((3, 5), (3, 6), (5, 9), (7, 9), (7, 16), (9, 16), (9, 40), (11, 60))
"""Sides of squares, and how many of their weights are not 0."""
ROUNDS: Final = 30


def main() -> None:
    """Print a line for each window."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="llvm.0")
    parser.add_argument("--size", type=int, nargs=2, default=(512, 512), metavar=("HEIGHT", "WIDTH"))
    parser.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args()
    context = tileir.Context(options=tileir.Options(threads=chosen.threads), disk_cache=None)
    picture = np.random.default_rng(0).random(tuple(chosen.size), np.float32)
    print(f"{'window':>8} {'terms':>5} {'argument':>9} {'looked up':>9} {'written':>9}  written/looked up")
    for weights in windows():
        passed, looked_up, written = times(picture, weights, context, chosen.device)
        name = "x".join(map(str, weights.shape))
        micro = "".join(f" {1e6 * seconds:7.0f}us" for seconds in (passed, looked_up, written))
        print(f"{name:>8} {np.count_nonzero(weights):5}{micro}  {written / looked_up:.2f}", flush=True)


def windows() -> list[Array]:
    """Return weights, those with the fewest terms first."""
    rng = np.random.default_rng(1)
    dense = [rng.normal(size=shape).astype(np.float32) for shape in DENSE]
    sparse = []
    for side, terms in SPARSE:
        weights = np.zeros(side * side, np.float32)
        weights[rng.permutation(side * side)[:terms]] = rng.normal(size=terms)
        sparse.append(weights.reshape(side, side))
    return sorted((*dense, *sparse), key=np.count_nonzero)


def times(picture: Array, weights: Array, context: tileir.Context, device: str) -> tuple[float, ...]:
    """Return the least time of a call with the weights as an argument, looked up, and written out."""
    bound = tileir.bind(SOURCE, K=weights)
    target = context.device(device).target
    target = attrs.evolve(target, threads=context.options.threads or target.threads)
    out = np.empty(tuple(np.subtract(picture.shape, weights.shape) + 1), np.float32)
    calls: list[Callable[[], object]] = []
    passed = tileir.compile(SOURCE, [picture, weights], device=device, context=context)
    calls.append(lambda: passed(picture, weights, out=out))
    for terms in (0, weights.size):
        passes = tuple(_with_terms(step, terms) for step in pipeline_for(target))
        executable = tileir.compile(bound, [picture], device=device, context=context, passes=passes)
        calls.append(lambda executable=executable: executable(picture, out=out))  # type: ignore[misc]
    least = [float("inf")] * len(calls)
    for _ in range(ROUNDS):
        for number, call in enumerate(calls):
            start = perf_counter()
            call()
            least[number] = min(least[number], perf_counter() - start)
    return tuple(least)


def _with_terms(step: Pass, terms: int) -> Pass:
    return attrs.evolve(step, terms=terms, sparse=terms) if isinstance(step, Immediates) else step


if __name__ == "__main__":
    main()
