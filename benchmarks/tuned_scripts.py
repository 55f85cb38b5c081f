"""Scripts that a search finds beside the schedules of the target: eleven kernels, from empty scripts.

``taskset -c 0 python benchmarks/tuned_scripts.py`` tunes each kernel by :func:`tileir.tune` with ``scripts``, and then
times the best scripts and the usual pipeline in turns, by the processor time of one thread: the least of all turns
counts, as what else runs on a machine only adds to it. It prints both, their ratio, how many trials the search had and
how many seconds it took; last, how many kernels come within a tenth, and how many are faster.
"""

from __future__ import annotations

import json
import math
import re
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
import click
import numpy as np

import tileir
from tileir.passes.pipelines.catalog import load_pipeline
from tileir.passes.pipelines.pipeline import to_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir.driver.executable import Executable
    from tileir_performance.tuning.search import Tuned

_PRODUCT: Final = "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }"

KERNELS: Final[Mapping[str, tuple[str, Mapping[str, tuple[int, ...]]]]] = {
    "product 256": (_PRODUCT, {"A": (256, 256), "B": (256, 256)}),
    "product 512": (_PRODUCT, {"A": (512, 512), "B": (512, 512)}),
    "batched product": (
        "function (A[N, I, K], B[N, K, J]) -> (C) { C[n, i, j : N, I, J] = +(A[n, i, k] * B[n, k, j]); }",
        {"A": (64, 32, 32), "B": (64, 32, 32)},
    ),
    "convolution 3x3": (
        "function (A[N, H, W, C], K[I, J, C, F]) -> (O) {"
        " O[n, y, x, f : N, H - 2, W - 2, F] = +(A[n, y + i, x + j, c] * K[i, j, c, f]); }",
        {"A": (1, 30, 30, 64), "K": (3, 3, 64, 64)},
    ),
    "depthwise 3x3": (
        "function (A[N, H, W, C], K[I, J, C]) -> (O) {"
        " O[n, y, x, c : N, H - 2, W - 2, C] = +(A[n, y + i, x + j, c] * K[i, j, c]); }",
        {"A": (1, 58, 58, 64), "K": (3, 3, 64)},
    ),
    "softmax": (
        "function (A[M, K]) -> (C) { X[i, 0 : M, 1] = >(A[i, k]); E = exp(A - X);"
        " S[i, 0 : M, 1] = +(E[i, k]); C = E / S; }",
        {"A": (256, 500)},
    ),
    "layer norm": (
        "function (A[M, K], G[K], B[K]) -> (C) { S[i, 0 : M, 1] = +(A[i, k]); D = A - S / K;"
        " Q = D * D; V[i, 0 : M, 1] = +(Q[i, k]); C = D / sqrt(V / K + 0.00001) * G + B; }",
        {"A": (256, 500), "G": (500,), "B": (500,)},
    ),
    "column sums": ("function (A[M, K]) -> (S) { S[k : K] = +(A[i, k]); }", {"A": (512, 500)}),
    "transpose": ("function (A[M, N]) -> (C) { C[j, i : N, M] = =(A[i, j]); }", {"A": (256, 500)}),
    "stencil, 5 points": (
        "function (A[M, N]) -> (C) { T[i, j : M - 2, N - 2] = =(A[i + 1, j + 1]);"
        " U[i, j : M - 2, N - 2] = =(A[i, j + 1]); D[i, j : M - 2, N - 2] = =(A[i + 2, j + 1]);"
        " L[i, j : M - 2, N - 2] = =(A[i + 1, j]); R[i, j : M - 2, N - 2] = =(A[i + 1, j + 2]);"
        " C = T + 0.1 * (U + D + L + R - 4.0 * T); }",
        {"A": (258, 502)},
    ),
    "running sum": ("function (A[M, N]) -> (C) { C[i, j : M, N] = +(A[i, j - k]), k < N; }", {"A": (256, 500)}),
}
"""Name, text and shapes of f32."""

FINALISTS: Final = 4
"""Number of fastest scripts that are timed again, before the best of them is compared with the default schedule."""

SHARE: Final = 1.1
"""Time of a script over the default schedule's up to which it counts as near it."""


@attrs.frozen
class Figures:
    """Seconds of the usual schedule and of the best script, infinity without one, and what the search took."""

    name: str
    usual: float
    script: float
    trials: int
    failed: int
    text: str
    searched: float


def measure(name: str, context: tileir.Context, trials: int, time_limit: float, seed: int, rounds: int) -> Figures:
    """Return the figures of a kernel."""
    text, shapes = KERNELS[name]
    start = time.monotonic()
    found = tileir.tune(text, dict(shapes), context=context, time_limit=time_limit, top=trials, scripts=True, seed=seed)
    searched = time.monotonic() - start
    pipelines = [load_pipeline(each) for each in (found.trials[0].passes, *best_scripts(found))]
    usual, *scripts = (tileir.compile(text, dict(shapes), context=context, passes=each) for each in pipelines)
    if not scripts:  # nobody can draw scripts for the kernel, or time ran out
        (usual_seconds,) = in_turns([usual], shapes, rounds)
        return Figures(name, usual_seconds, math.inf, len(found.trials) - 1, len(found.trials) - 1, "", searched)
    first = in_turns(scripts, shapes, rounds)
    best = first.index(min(first))
    usual_seconds, seconds = in_turns([usual, scripts[best]], shapes, rounds)
    texts = [to_text((step,)) for step in pipelines[1 + best] if step.name == "script"]
    failed = sum(1 for trial in found.trials if trial.fault)
    return Figures(name, usual_seconds, seconds, len(found.trials) - 1, failed, "\n".join(texts), searched)


def best_scripts(found: Tuned) -> list[str]:
    """Return the fastest pipelines with a script among the trials, as JSON."""
    timed = [trial for trial in found.trials[1:] if trial.seconds is not None]
    return [trial.passes for trial in sorted(timed, key=lambda trial: trial.seconds or 0.0)[:FINALISTS]]


def in_turns(executables: list[Executable], shapes: Mapping[str, tuple[int, ...]], rounds: int) -> list[float]:
    """Return the least processor time of a call of each; they run in turns, a fiftieth of a second each."""
    random = np.random.default_rng(0)
    inputs = [random.standard_normal(shape).astype(np.float32) for shape in shapes.values()]
    results: list[Any] = [executable(*inputs) for executable in executables]
    times: list[list[float]] = [[] for _ in executables]
    counts = [max(1, int(0.02 / _processor_time(executable, inputs, results[0], 3))) for executable in executables]
    for _ in range(rounds):
        for executable, count, held in zip(executables, counts, times, strict=True):
            held.append(_processor_time(executable, inputs, results[0], count))
    return [min(held) for held in times]


def _processor_time(executable: Executable, inputs: list[Any], out: Any, count: int) -> float:
    start = time.process_time()
    for _ in range(count):
        executable(*inputs, out=out)
    return (time.process_time() - start) / count


@click.command()
@click.option("--only", default="", help="Only kernels whose names match this expression.")
@click.option("--trials", default=200, show_default=True, help="Pipelines to time for each kernel.")
@click.option("--time-limit", default=600.0, show_default=True, help="Seconds for each kernel.")
@click.option("--seed", default=0, show_default=True, help="Where drawing begins.")
@click.option("--rounds", default=41, show_default=True, help="Turns of the last comparison.")
@click.option("--texts", is_flag=True, help="Print the scripts as well.")
@click.option("--json", "path", type=click.Path(dir_okay=False, path_type=Path), help="Write all figures here.")
def main(only: str, trials: int, time_limit: float, seed: int, rounds: int, texts: bool, path: Path | None) -> None:
    """Print the table and how many kernels come near the usual schedule, or are faster."""
    rows: list[Figures] = []
    columns = f"{'kernel':22} {'usual':>10} {'script':>10} {'ratio':>6} {'trials':>6} {'search':>7}"
    print(f"{columns}  milliseconds of processor time")
    for name in KERNELS:
        if not re.search(only, name):
            continue
        with tempfile.TemporaryDirectory() as folder:
            context = tileir.Context(disk_cache=tileir.DiskCache(folder))
            row = measure(name, context, trials, time_limit, seed, rounds)
            context.close()
        rows.append(row)
        times = f"{1e3 * row.usual:10.4f} {1e3 * row.script:10.4f} {row.usual / row.script:6.2f}"
        print(f"{name:22} {times} {row.trials:6} {row.searched:6.0f}s" + f"\n{row.text}" * texts, flush=True)
    if not rows:
        raise click.BadParameter("no kernel has such a name", param_hint="--only")
    near = sum(row.script <= SHARE * row.usual for row in rows)
    faster = sum(row.script < row.usual for row in rows)
    print(f"of {len(rows)}: {near} take at most {SHARE} of the usual time, {faster} less than that")
    if path is not None:
        path.write_text(json.dumps([attrs.asdict(row) for row in rows], indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
