"""What a call costs beside its kernels: arrays of 64 elements, and chains of small kernels.

    python benchmarks/dispatch.py [--json] [DEVICE ...]

Without devices: each one of the back ends llvm and opencl that is there. Times are microseconds, the least of several
rounds, since everything else that the machine does only adds.
"""

from __future__ import annotations

import argparse
import json
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import tileir
from tileir.core.errors import BackendError

if TYPE_CHECKING:
    from collections.abc import Callable

ADD = "function (X[N], Y[N]) -> (Z) { Z = X + Y; }"
LAYERS = 50
ROUNDS = 7


def microseconds(call: Callable[[], object], calls: int) -> float:
    """Return the time of one call."""
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        best = min(best, time.perf_counter() - start)
    return 1e6 * best / calls


def chain(layers: int) -> str:
    """Return a Tile text of so many small products, which no pass fuses."""
    lines = "\n".join(f"T{layer + 1}[i, j : N, N] = +(T{layer}[i, k] * W[k, j]);" for layer in range(layers))
    return f"function (T0[N, N], W[N, N]) -> (T{layers}) {{ {lines} }}"


def measure(device: str) -> dict[str, float]:
    """Return all figures of one device."""
    x, y = np.random.default_rng(0).random((2, 64), np.float32)
    z, square = np.empty_like(x), np.eye(4, dtype=np.float32)
    add = tileir.jit(ADD, device=device)
    direct = add.specialise(x, y)
    one, many = (tileir.jit(chain(layers), device=device).specialise(square, square) for layers in (1, LAYERS))
    calls = 2000 if device.startswith("llvm") else 200
    short, long = (microseconds(partial(run, square, square), calls // 4) for run in (one, many))
    figures = {
        "jit": microseconds(lambda: add(x, y), calls),
        "executable": microseconds(lambda: direct(x, y), calls),
        "executable with out": microseconds(lambda: direct(x, y, out=z), calls),
        "submit and wait": microseconds(lambda: direct.submit(x, y).wait(), calls // 4),
        "further kernel": (long - short) / (LAYERS - 1),
        "temporaries of 50 layers": float(many.memory.temporaries),
        "peak of 50 layers": float(many.memory.peak),
    }
    if device.startswith("opencl"):
        figures["the driver's own call"] = bare_opencl(device, x, y, z)
    return figures


def bare_opencl(device: str, x: Any, y: Any, z: Any) -> float:
    """Return what the same call costs through pyopencl alone: two copies, a launch, a copy back."""
    import pyopencl as cl

    name = tileir.default_context().device(device).name
    found = next(each for platform in cl.get_platforms() for each in platform.get_devices() if each.name in name)
    context = cl.Context([found])
    queue = cl.CommandQueue(context)
    text = "kernel void add(global const float* x, global const float* y, global float* z)"
    text += "{ int i = get_global_id(0); z[i] = x[i] + y[i]; }"
    kernel = cl.Kernel(cl.Program(context, text).build(), "add")
    buffers = [cl.Buffer(context, cl.mem_flags.READ_WRITE, x.nbytes) for _ in range(3)]
    kernel.set_args(*buffers)

    def call() -> None:
        cl.enqueue_copy(queue, buffers[0], x, is_blocking=False)
        cl.enqueue_copy(queue, buffers[1], y, is_blocking=False)
        cl.enqueue_nd_range_kernel(queue, kernel, (64,), None)
        cl.enqueue_copy(queue, z, buffers[2])

    return microseconds(call, 200)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("devices", nargs="*")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    results: dict[str, dict[str, float]] = {}
    for device in arguments.devices or ("llvm", "opencl"):
        try:
            results[device] = measure(device)
        except BackendError as error:
            if arguments.devices:
                raise
            print(f"{device}: {error.diagnostics[0].message}")
    if arguments.json:
        print(json.dumps(results, indent=2))
        return
    names = list(dict.fromkeys(name for figures in results.values() for name in figures))
    print(f"{'':26}" + "".join(f"{device:>12}" for device in results))
    for name in names:
        cells = (f"{figures[name]:12.2f}" if name in figures else " " * 12 for figures in results.values())
        print(f"{name:26}" + "".join(cells))


if __name__ == "__main__":
    main()
