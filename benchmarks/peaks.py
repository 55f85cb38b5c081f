"""Peak rates of the machine, measured by our own kernels: fused multiply-adds, and streaming memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tileir
from tileir.semtree.text.parser import parse_kernel

_STEPS = 200_000
_CHAINS = 12


def best(call: Callable[[], object], seconds: float = 0.5) -> float:
    """Return the least time of one call, in seconds."""
    call()
    times: list[float] = []
    stop = time.perf_counter() + seconds
    while not times or time.perf_counter() < stop:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def fma_kernel(lanes: int, threads: int) -> str:
    """Return a kernel with :data:`_CHAINS` independent chains of f32 multiply-adds in registers for each thread."""
    vector = f"f32x{lanes}"
    chains = range(_CHAINS)
    declared = "".join(f"  {vector} a{i} = {vector}({1.0 + i});\n" for i in chains)
    steps = "".join(f"    a{i} = fma(a{i}, m, c);\n" for i in chains)
    total = " + ".join(f"a{i}" for i in chains)
    return (
        f"kernel peak(inout f32 X[{lanes * threads}]) grid({threads}) operations(1000000000) {{\n"
        "  i64 g = group_id(0);\n"
        f"  {vector} m = X[g * {lanes} : {lanes}];\n  {vector} c = m * {vector}(0.5);\n{declared}"
        f"  for (i64 k = 0; k < {_STEPS}; k += 1) {{\n{steps}  }}\n"
        f"  X[g * {lanes} : {lanes}] = {total};\n}}\n"
    )


def launcher(text: str, *arrays: np.ndarray[Any, Any]) -> Callable[[], None]:
    """Return a call that launches a kernel, given as text, on arrays."""
    context = tileir.default_context()
    device = context.device("llvm")
    library = context.compiler(device).build((parse_kernel(text),))
    executor = context.executor(device)
    kernel = executor.prepare(library, 0)
    buffers = [executor.wrap(array) for array in arrays]
    return lambda: kernel.launch(buffers)


def fma_rate(threads: int) -> float:
    """Return the peak of f32 fused multiply-adds, in operations (two for each) a second."""
    lanes = tileir.default_context().device("llvm").target.lanes(tileir.DType.F32)
    x = np.full(lanes * threads, 0.999, np.float32)
    seconds = best(launcher(fma_kernel(lanes, threads), x))
    return 2.0 * lanes * _CHAINS * _STEPS * threads / seconds


def stream_rate() -> float:
    """Return the bytes a second of ``a = b + 3 c`` over arrays of 256 MiB, compulsory traffic only."""
    count = 1 << 26
    b, c = np.ones(count, np.float32), np.ones(count, np.float32)
    out = np.zeros(count, np.float32)
    triad = tileir.jit("function (B, C) -> (A) { A = B + 3.0 * C; }")
    return 12.0 * count / best(lambda: triad(b, c, out=out), 1.0)
