"""Overhead of a call: arrays of 64 elements, and chains of small kernels.

    python benchmarks/dispatch.py [--json] [DEVICE ...]

Without devices: each one of the back ends llvm, opencl and cuda that is there. Times are microseconds, the least of
several rounds, since everything else that the machine does only adds. Calls on arrays of a card return before they are
done: rounds are short, so that its queue is never full, and the end of each is waited for outside of the time.
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


def microseconds(call: Callable[[], object], calls: int, end: Callable[[], object] = lambda: None) -> float:
    """Return the time of one call; ``end`` waits for what they have begun."""
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        best = min(best, time.perf_counter() - start)
        end()
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
    return figures | measure_there(device, x, y)


def measure_there(device: str, x: Any, y: Any) -> dict[str, float]:
    """Return the figures of calls on arrays of the device, and of a step whose state is there."""
    a, b, room = (tileir.to_device(array, device) for array in (x, y, x))
    square = tileir.to_device(np.eye(4, dtype=np.float32), device)
    add, many = tileir.jit(ADD, device), tileir.jit(chain(LAYERS), device)
    step = tileir.stepper("function (W, X) -> (V) { V = W + X; }", {"W": "V"}, {"W": a}, device)
    latest: list[Any] = [add(a, b)]
    calls: dict[str, Callable[[], object]] = {
        "device arrays": lambda: latest.__setitem__(0, add(a, b)),
        "device arrays with out": lambda: latest.__setitem__(0, add(a, b, out=room)),
        "device arrays, submit": lambda: latest.__setitem__(0, add.submit(a, b)),
        "device arrays, 50 layers": lambda: latest.__setitem__(0, many(square, square)),
        "step": lambda: latest.__setitem__(0, step(b)),
    }
    if device.startswith("cuda"):
        calls |= calls_of_torch(add)

    def end() -> None:
        add.submit(a, b).wait()

    figures = {}
    for name, call in calls.items():
        for _ in range(5):
            call()
        figures[name] = microseconds(call, 100, end)
    return figures


def calls_of_torch(add: Any) -> dict[str, Callable[[], object]]:
    """Return calls on tensors of PyTorch, and its own addition; none without PyTorch."""
    try:
        import torch
    except ImportError:
        return {}
    one, other, room = (torch.rand(64, device="cuda") for _ in range(3))
    return {
        "tensors of PyTorch": lambda: add(one, other),
        "tensors of PyTorch with out": lambda: add(one, other, out=room),
        "PyTorch's own addition": lambda: torch.add(one, other),
    }


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
    for device in arguments.devices or ("llvm", "opencl", "cuda"):
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
    print(f"{'':28}" + "".join(f"{device:>12}" for device in results))
    for name in names:
        cells = (f"{figures[name]:12.2f}" if name in figures else " " * 12 for figures in results.values())
        print(f"{name:28}" + "".join(cells))


if __name__ == "__main__":
    main()
