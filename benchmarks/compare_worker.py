"""One side of the comparison of two checkouts: the tileir that it imports is the one that it measures.

Usage: python compare_worker.py FOLDER, with requests as in ``workers.serve``: {"build": NAME} compiles a workload and
saves its result in FOLDER; {"run": SECONDS} times its calls; {"compile": NAME} is the seconds of a compilation that
finds nothing in a cache; {"call": KIND} the seconds of one small call.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

import compiling
import tileir
from suite import WORKLOADS
from workers import serve, timed

CHAIN: Final = "chain of 400 statements"
CALLS: Final = ("jit on 64 elements", "executable on 64 elements", "executable with out=")

_WORKLOADS: Final = {workload.name: workload for workload in WORKLOADS}
_ADD: Final = "function (X[N], Y[N]) -> (Z) { Z = X + Y; }"


def _cold() -> tileir.Context:
    """Return a context that has compiled nothing, but whose back end is loaded."""
    context = tileir.Context(disk_cache=None)
    tileir.compile(_ADD, [(1,), (1,)], context=context)
    return context


def _compile_seconds(name: str) -> float:
    context = _cold()
    arguments: Any = {"A": (8, 8), "B": (8, 8)} if name == CHAIN else _WORKLOADS[name].inputs()
    text = compiling.program(400) if name == CHAIN else _WORKLOADS[name].text
    start = time.perf_counter()
    tileir.compile(text, arguments, context=context)
    return time.perf_counter() - start


def _small_call(kind: str) -> float:
    """Return the median of the seconds of a call, each of them the mean of a hundred."""
    x, out = np.ones(64, np.float32), np.empty(64, np.float32)
    function = tileir.jit(_ADD)
    function(x, x)
    executable = tileir.compile(_ADD, [x, x])
    call: Callable[[], object]
    if kind == CALLS[0]:
        call = lambda: function(x, x)  # noqa: E731
    elif kind == CALLS[1]:
        call = lambda: executable(x, x)  # noqa: E731
    else:
        call = lambda: executable(x, x, out=out)  # noqa: E731

    def hundred() -> None:
        for _ in range(100):
            call()

    return statistics.median(timed(hundred, 0.2)) / 100


def main() -> None:
    """Answer requests until standard input ends."""
    folder = Path(sys.argv[1])
    call: Callable[[], object] | None = None

    def answer(request: dict[str, Any]) -> object:
        nonlocal call
        match request:
            case {"build": name}:
                workload = _WORKLOADS[name]
                inputs, out = workload.inputs(), np.zeros(workload.shape, workload.dtype)
                executable = tileir.compile(workload.text, inputs, context=_cold())
                arguments = tuple(inputs[name] for name in executable.inputs)
                call = lambda: executable(*arguments, out=out)  # noqa: E731
                call()
                np.save(folder / "result.npy", out)
                return None
            case {"run": seconds}:
                assert call is not None, "build comes first"
                return statistics.median(timed(call, seconds))
            case {"compile": name}:
                return _compile_seconds(name)
            case {"call": kind}:
                return _small_call(kind)
        raise SystemExit(f"nothing answers {request}")

    serve(answer)


if __name__ == "__main__":
    main()
