"""Memory and start times of programs with large constants on LLVM: what weights cost beside the array that they are.

    python benchmarks/constants.py [--mebibytes 64 512]

Weights are an array of NumPy, which is copied, or a file that is mapped to be read, which is not. A row has what a
process with one product of them and a vector has of anonymous memory beside the array, and how long it takes from the
array to the first result: with an empty cache, and with what that left there. Each runs in a process of its own.

A second table has calls with weights that are made of constants, beside calls with the same weights as they are.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import tileir
from tileir import ops
from tileir.tile.builder import Tensor

COLUMNS = 1024


def anonymous() -> float:
    """Return the anonymous memory of this process in MiB."""
    gc.collect()
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon"))


def measure(path: str, *, mapped: bool) -> tuple[float, float]:
    """Return the MiB and the seconds of a product with the weights in a file."""
    weights = np.memmap(path, np.float32, "r") if mapped else np.fromfile(path, np.float32)
    weights = weights.reshape(-1, COLUMNS)
    vector = np.ones(COLUMNS, np.float32)
    tileir.evaluate("function (X[N]) -> (O) { O = X + 1; }", [vector])
    before, start = anonymous(), time.perf_counter()
    f = tileir.FunctionBuilder()
    executable = tileir.compile(f.build(O=ops.matmul(f.constant(weights), f.input("X", "N"))), [vector])
    np.testing.assert_allclose(executable(vector), weights @ vector, rtol=1e-3)
    return anonymous() - before, time.perf_counter() - start


def derived(size: int = 1024, rows: int = 64, calls: int = 200) -> None:
    """Print how long products with weights take that are computed from constants, in turns with plain ones."""
    random = np.random.default_rng(0)
    one, two = random.random((2, size, size), np.float32)
    x = random.random((rows, size), np.float32)
    made: dict[str, Callable[[tileir.FunctionBuilder], Tensor]] = {
        "scaled": lambda f: f.constant(one) * 3.0 - 1.0,
        "dequantised": lambda f: ops.cast(f.constant((one * 100).astype(np.int8)), "f32") * 0.01,
        "product of two": lambda f: ops.matmul(f.constant(one), f.constant(two)),
    }
    print("\n| weights | as they are, us | made of constants, us | ratio |")
    print("|---|---:|---:|---:|")
    for told, make in made.items():
        f = tileir.FunctionBuilder()
        weights = tileir.evaluate(f.build(W=make(f)), [])
        seconds: list[list[float]] = [[], []]
        f = tileir.FunctionBuilder()
        plain = tileir.compile(f.build(Y=ops.matmul(f.input("X", rows, size), f.constant(weights))), [x])
        f = tileir.FunctionBuilder()
        computed = tileir.compile(f.build(Y=ops.matmul(f.input("X", rows, size), make(f))), [x])
        for _ in range(calls):
            for executable, times in zip((plain, computed), seconds, strict=True):
                start = time.perf_counter()
                executable(x)
                times.append(time.perf_counter() - start)
        ours, theirs = (1e6 * min(times) for times in reversed(seconds))
        print(f"| {told} | {theirs:.0f} | {ours:.0f} | {ours / theirs:.2f} |", flush=True)


def main() -> None:
    """Print the tables, or measure in this process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mebibytes", type=int, nargs="+", default=[64, 512])
    parser.add_argument("--file", help=argparse.SUPPRESS)
    parser.add_argument("--mapped", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.file:
        print(json.dumps(measure(options.file, mapped=options.mapped)))
        return
    print("| weights, MiB | from | memory beside them, MiB | cold, s | warm, s |")
    print("|---:|---|---:|---:|---:|")
    for mebibytes in options.mebibytes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "weights")
            np.random.default_rng(0).random((mebibytes << 18) // COLUMNS * COLUMNS, np.float32).tofile(path)
            for told in ("array", "mapped file"):
                command = [sys.executable, __file__, "--file", str(path), *(["--mapped"] if "file" in told else [])]
                environment = {**os.environ, "TILEIR_CACHE_DIR": str(Path(folder, told))}
                runs = [json.loads(subprocess.check_output(command, env=environment)) for _ in range(2)]
                (memory, cold), (_, warm) = runs
                print(f"| {mebibytes} | {told} | {memory:.0f} | {cold:.2f} | {warm:.2f} |", flush=True)
    derived()


if __name__ == "__main__":
    main()
