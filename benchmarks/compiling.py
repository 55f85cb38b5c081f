"""Compile times: scaling with the program, the first call, the import, and a launch."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

import tileir
from peaks import launcher
from tileir.core.targets.target import Target
from tileir.driver.compiler import compile_stages


def program(statements: int) -> str:
    """Return a Tile text of so many statements: elementwise ones with a contraction now and then."""
    lines = ["function (A[N, M], B[M, M]) -> (T) {", "  T0 = A + 1.0;"]
    for number in range(1, statements - 1):
        before = f"T{number - 1}"
        if number % 10 == 0:
            lines.append(f"  T{number}[i, j : N, M] = +({before}[i, k] * B[k, j]);")
        else:
            lines.append(f"  T{number} = {before} * 0.5 + A;")
    lines.append(f"  T = T{max(0, statements - 2)} + A;")
    return "\n".join((*lines, "}"))


def seconds(call: Callable[[], object]) -> float:
    """Return the time of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def scaling(size: int) -> tuple[float, float]:
    """Return the seconds from text to semtree for ``size`` statements and for twice as many."""
    types = {name: tileir.TensorType(tileir.DType.F32, (8, 8)) for name in "AB"}

    def measure(count: int) -> float:
        text = program(count)
        return min(seconds(lambda: compile_stages(text, types, Target())) for _ in range(2))

    return measure(size), measure(2 * size)


def first_call() -> float:
    """Return the seconds of the first call of a matmul in a fresh process, imports excluded, compile included."""
    code = (
        "import time, numpy as np, tileir\n"
        "a = np.ones((512, 512), np.float32)\n"
        "start = time.perf_counter()\n"
        "tileir.jit('function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }')(a, a)\n"
        "print(time.perf_counter() - start)\n"
    )
    return statistics.median(float(_python(code)) for _ in range(5))


def import_cost() -> tuple[float, float]:
    """Return the seconds of importing NumPy, and of importing tileir after it, each in fresh processes."""
    timed = "import time; start = time.perf_counter(); import {}; print(time.perf_counter() - start)"
    numpy = statistics.median(float(_python(timed.format("numpy"))) for _ in range(7))
    after = statistics.median(float(_python("import numpy; " + timed.format("tileir"))) for _ in range(7))
    return numpy, after


def launch_cost() -> tuple[float, float]:
    """Return the seconds of a launch of an empty kernel on one thread, and split over two."""
    result = []
    for operations in (0, 1 << 30):
        text = f"kernel empty(inout f32 X[16]) grid(2) operations({operations}) {{\n}}\n"
        launch = launcher(text, np.zeros(16, np.float32))
        result.append(statistics.median(seconds(launch) for _ in range(2000)))
    return result[0], result[1]


def small_call() -> float:
    """Return the seconds of a call of a compiled function on arrays of 64 elements."""
    add = tileir.jit("function (A, B) -> (O) { O = A + B; }")
    a, out = np.ones(64, np.float32), np.zeros(64, np.float32)
    add(a, a, out=out)
    return statistics.median(seconds(lambda: add(a, a, out=out)) for _ in range(5000))


def _python(code: str) -> str:
    environment = {**os.environ, "TILEIR_CACHE": "0"}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.strip()
