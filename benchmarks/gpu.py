"""Memory-bound kernels and contractions on an OpenCL device: medians of device time, caches flushed between runs.

    python benchmarks/gpu.py --device opencl.0 --json result.json

The yardstick is a hand-written copy kernel, four floats for each work item, measured in the same run.
"""

from __future__ import annotations

import argparse
import json
import statistics
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl

import tileir
from tileir.runtime.plans.workspace import holds
from tileir.semtree.launches import executed

COPY = """
__kernel void copy(__global float4* restrict out, __global const float4* restrict in)
{
  out[get_global_id(0)] = in[get_global_id(0)];
}
"""

LARGE = (1 << 26,)
ROWS = (16384, 4096)


@dataclass(frozen=True)
class Workload:
    """``traffic`` counts arrays of the first input's size that must move; ``operations`` those of a contraction."""

    name: str
    text: str
    shapes: tuple[tuple[int, ...], ...]
    traffic: float
    dtype: tileir.DType = tileir.DType.F32
    operations: float = 0
    fast_math: bool = False


def _matmul(kind: str, size: int) -> Workload:
    text = "function (A[M, K], B[K, N]) -> (O) { O[i, j : M, N] = +(A[i, k] * B[k, j]); }"
    dtype = tileir.DType("f32" if kind == "tf32" else kind)
    shapes = ((size, size), (size, size))
    return Workload(f"matmul {kind} {size}", text, shapes, 3, dtype, 2.0 * size**3, kind == "tf32")


def _convolution(kind: str, size: int, channels: int) -> Workload:
    text = """function (A[N, Y, X, C], B[P, Q, C, F]) -> (O) {
        O[n, y, x, f : N, Y - P + 1, X - Q + 1, F] = +(A[n, y + p, x + q, c] * B[p, q, c, f]);
    }"""
    shapes = ((32, size + 2, size + 2, channels), (3, 3, channels, channels))
    operations = 2.0 * 32 * (size * channels * 3) ** 2
    return Workload(f"conv3x3 {kind} 32x{size}x{size}x{channels}", text, shapes, 2, tileir.DType(kind), operations)


WORKLOADS = (
    Workload("scale 2^26", "function (A[N]) -> (O) { O = A * 2.0; }", (LARGE,), 2),
    Workload(
        "tanh(a*b+c)*sigmoid(d) 2^26",
        "function (A[N], B[N], C[N], D[N]) -> (O) { O = tanh(A * B + C) * sigmoid(D); }",
        (LARGE,) * 4,
        5,
    ),
    Workload("sum axis 1", "function (A[M, N]) -> (O) { O[m : M] = +(A[m, n]); }", (ROWS,), 1),
    Workload("sum axis 0", "function (A[M, N]) -> (O) { O[n : N] = +(A[m, n]); }", (ROWS,), 1),
    Workload("max of all", "function (A[M, N]) -> (O) { O[] = >(A[m, n]); }", (ROWS,), 1),
    Workload("transpose 8192", "function (A[M, N]) -> (O) { O[n, m : N, M] = =(A[m, n]); }", ((8192, 8192),), 2),
    Workload(
        "softmax",
        """function (A[M, N]) -> (O) {
            X[m, 0 : M, 1] = >(A[m, n]);
            E = exp(A - X);
            S[m, 0 : M, 1] = +(E[m, n]);
            O = E / S;
        }""",
        (ROWS,),
        2,
    ),
    Workload(
        "layer norm",
        """function (A[M, N], G[N], B[N]) -> (O) {
            S[m, 0 : M, 1] = +(A[m, n]);
            D = A - S / N;
            Q = D * D;
            V[m, 0 : M, 1] = +(Q[m, n]);
            O = D / sqrt(V / N + 0.00001) * G + B;
        }""",
        (ROWS, ROWS[1:], ROWS[1:]),
        2,
    ),
    *(_matmul(kind, size) for kind in ("f16", "bf16", "tf32", "f32") for size in (1024, 2048, 4096)),
    *(_convolution(kind, *sizes) for kind in ("f16", "f32") for sizes in ((56, 64), (28, 128))),
)
"""The tables of others are for the same sizes: f32 arrays of 2^26 elements."""


def copy_rate(device: cl.Device, runs: int) -> float:
    """Return bytes read and written in a second by the yardstick."""
    context = cl.Context([device])
    queue = cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE)
    source, target = (cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * LARGE[0]) for _ in range(2))
    cl.enqueue_fill_buffer(queue, source, np.full(1, 1.5, np.float32), 0, 4 * LARGE[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyopencl warns of whatever the driver says, on success too
        kernel = cl.Kernel(cl.Program(context, COPY).build(), "copy")
    times = []
    for _ in range(runs + 2):
        cl.enqueue_fill_buffer(queue, target, np.zeros(1, np.float32), 0, 4 * LARGE[0])
        event = kernel(queue, (LARGE[0] // 4,), (256,), target, source)
        event.wait()
        times.append((event.profile.end - event.profile.start) * 1e-9)
    return 8 * LARGE[0] / statistics.median(times[2:])


def measure(workload: Workload, device: tileir.DeviceInfo, runs: int) -> dict[str, Any]:
    """Return seconds of the device for one workload, and its error against the same text on the default device."""
    context = tileir.Context(options=tileir.Options(profile=True, fast_math=workload.fast_math))
    executor = context.executor(device)
    generator = np.random.default_rng(0)
    inputs = [generator.standard_normal(s, np.float32).astype(workload.dtype.numpy) for s in workload.shapes]
    compiled = tileir.compile(workload.text, inputs, device=device, context=context)
    program = compiled.sem
    library = context.compiler(device).build(program.kernels)
    kernels = [executor.prepare(library, index) for index in range(len(program.kernels))]
    memory = {b.name: executor.allocate(b.elements * b.dtype.itemsize) for b in program.buffers}
    for name, array in zip(compiled.inputs, inputs, strict=True):
        executor.copy(array.view(np.uint8), memory[name]).wait()
    here, there = (executor.allocate(1 << 28) for _ in range(2))
    times = []
    for _ in range(runs + 2):
        executor.copy(here, there).wait()  # through the caches, which then hold nothing else
        last: list[Any] = []
        total = 0.0
        for launch in executed(program.works, lambda name: holds(executor, memory[name])):
            event = kernels[launch.kernel].run([memory[name] for name in launch.arguments], last)
            event.wait()
            last = [event]
            total += event.duration or float("nan")
        times.append(total)
    output = next(buffer for buffer in program.buffers if buffer.role is tileir.semtree.ir.BufferRole.OUTPUT)
    result = np.empty(output.shape, output.dtype.numpy)
    executor.copy(memory[output.name], result.reshape(-1).view(np.uint8)).wait()
    expected = _expected(workload, inputs)
    result = result[: len(expected)].astype(np.float32) if workload.operations else result
    error = float(np.abs(result - expected).max() / np.abs(expected).max())
    context.close()
    seconds = statistics.median(times[2:])
    nbytes = workload.traffic * inputs[0].nbytes
    return {
        "workload": workload.name,
        "seconds": seconds,
        "rate": nbytes / seconds,
        "operations": workload.operations / seconds,
        "error": error,
        "kernels": len(program.works),
    }


def _expected(workload: Workload, inputs: list[Any]) -> Any:
    a = inputs[0]
    match workload.name.split()[0]:
        case "scale":
            return a * np.float32(2)
        case "transpose":
            return a.T
        case "max":
            return a.max()
        case "sum":
            return a.sum(axis=int(workload.name[-1]), dtype=np.float64)
        case "matmul":
            return a[:8].astype(np.float32) @ inputs[1].astype(np.float32)
        case "conv3x3":
            return _convolved(a[:1].astype(np.float32), inputs[1].astype(np.float32))
        case "softmax":
            exponents = np.exp(a - a.max(axis=1, keepdims=True))
            return exponents / exponents.sum(axis=1, keepdims=True)
        case "layer":
            centred = a - a.mean(axis=1, keepdims=True)
            variance = np.square(centred).mean(axis=1, keepdims=True)
            return centred / np.sqrt(variance + np.float32(0.00001)) * inputs[1] + inputs[2]
        case _:
            return np.tanh(a * inputs[1] + inputs[2]) / (1 + np.exp(-inputs[3]))


def _convolved(images: Any, weights: Any) -> Any:
    height, width = images.shape[1] - 2, images.shape[2] - 2
    parts = [images[:, p : p + height, q : q + width] @ weights[p, q] for p in range(3) for q in range(3)]
    return np.sum(parts, axis=0)


def main() -> None:
    """Measure and print; write JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="opencl.0")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--only", default="", help="part of the names of the workloads to run")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    device = tileir.Context().device(options.device)
    raw = next(d for p in cl.get_platforms() for d in p.get_devices() if d.name.strip() in device.name)
    copy = copy_rate(raw, options.runs)
    print(f"{device.name}: copy {copy / 1e9:.0f} GB/s")
    rows = []
    for workload in WORKLOADS:
        if options.only in workload.name:
            row = measure(workload, device, options.runs)
            rows.append(row)
            print(
                f"{row['workload']:<30}{row['seconds'] * 1e6:10.1f} us {row['rate'] / 1e9:8.0f} GB/s "
                f"{row['rate'] / copy * 100:5.0f}% {row['operations'] / 1e12:7.1f} TFLOP/s  {row['kernels']} kernels  "
                f"error {row['error']:.1e}",
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps({"copy": copy, "workloads": rows}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
