"""Time that the disk cache saves a second process, and its cost in the first.

``python benchmarks/disk_cache.py`` compiles a chain of contractions of different shapes with elementwise tails, which
no fusion joins, in fresh processes: without a cache, with an empty one, and with a filled one. Imports and the start of
the device are not counted, and told apart.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, TypeAlias

import click

BAR: Final = 0.10
"""The part of the cold time that a warm start may take."""

TAILS: Final = ("tanh({0}) * 0.5 + {0}", "sigmoid({0}) - 0.25", "{0} < 0 ? {0} * 0.1 : {0}", "exp(-{0} * {0})")

Times: TypeAlias = dict[str, float]

CHILD: Final = """
import json, sys, time
start = time.perf_counter()
import numpy, orjson, tileir
from tileir.driver.executable import compile
context = tileir.Context()
device = context.device()
context.compiler(device), context.executor(device)
imported = time.perf_counter()
text, shapes = json.load(sys.stdin)
executable = compile(text, shapes, context=context)
ready = time.perf_counter()
arrays = [numpy.ones(shapes[name], numpy.float32) for name in executable.inputs]
called = time.perf_counter()
executable(*arrays)
done = time.perf_counter()
print(json.dumps({
    "imports": imported - start, "ready": ready - imported, "first call": done - called,
    "kernels": len(executable.sem.kernels),
}))
"""


def chain(layers: int) -> tuple[str, dict[str, list[int]]]:
    """Return a Tile text of so many contractions, each with a tail, and the shapes of its inputs."""
    sizes = [24 + (7 * number) % 61 for number in range(layers + 1)]
    weights = ", ".join(f"W{number}[K{number}, K{number + 1}]" for number in range(layers))
    lines = [f"function (E0[M, K0], {weights}) -> (E{layers}) {{"]
    for number in range(layers):
        after = number + 1
        lines.append(f"    C{number}[i, j : M, K{after}] = +(E{number}[i, k] * W{number}[k, j]);")
        lines.append(f"    E{after} = {TAILS[number % len(TAILS)].format(f'C{number}')};")
    shapes = {f"W{number}": [sizes[number], sizes[number + 1]] for number in range(layers)}
    return "\n".join((*lines, "}")), {"E0": [16, sizes[0]], **shapes}


def measure(layers: int, directory: Path | None) -> Times:
    """Return the times of one fresh process, in seconds."""
    environment = {**os.environ, "TILEIR_CACHE": "0" if directory is None else "1"}
    if directory is not None:
        environment["TILEIR_CACHE_DIR"] = str(directory)
    program = json.dumps(chain(layers))
    command = [sys.executable, "-c", CHILD]
    done = subprocess.run(command, input=program, capture_output=True, text=True, check=True, env=environment)
    times: Times = json.loads(done.stdout)
    return times


def medians(runs: list[Times]) -> Times:
    """Return the median of each time."""
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


@click.command()
@click.option("--layers", default=30, show_default=True, help="Contractions with their tails.")
@click.option("--cold", default=3, show_default=True, help="Processes without a filled cache, of each kind.")
@click.option("--warm", default=7, show_default=True, help="Processes with one.")
def main(layers: int, cold: int, warm: int) -> None:
    """Print the times of cold and warm starts, and their ratio beside the bar."""
    with tempfile.TemporaryDirectory() as folder:
        places = [Path(folder) / str(number) for number in range(cold)]
        without, empty = [], []
        for place in places:  # interleaved, so that a busy machine slows both
            without.append(measure(layers, None))
            empty.append(measure(layers, place))
        rows = {
            "no cache": medians(without),
            "empty cache": medians(empty),
            "filled cache": medians([measure(layers, places[0]) for _ in range(warm)]),
        }
        stored = sum(path.stat().st_size for path in places[0].iterdir())
    print(f"{rows['no cache']['kernels']:.0f} kernels, {stored / 1e6:.2f} MB stored")
    for name, row in rows.items():
        times = ", ".join(f"{key} {1e3 * row[key]:8.1f} ms" for key in ("imports", "ready", "first call"))
        print(f"{name:>12}: {times}")
    ratio = rows["filled cache"]["ready"] / rows["no cache"]["ready"]
    print(f"filled / no cache: {ratio:.1%} (bar {BAR:.0%}), {'met' if ratio <= BAR else 'missed'}")
    print(f"cost of storing: {rows['empty cache']['ready'] / rows['no cache']['ready'] - 1:+.1%}")


if __name__ == "__main__":
    main()
