"""Jacobi's method in JAX's own sharding, on devices of one host: a worker of ``distributed.py`` beside it.

Usage: python jax_jacobi.py SIZE STEPS DEVICES AT_ONCE

Rows are cut over as many devices as there are, of which each has one thread. Compiled steps are as many as are made at
once, and XLA exchanges rows between them. It prints what a worker there prints: seconds, those of the processor, and a
digest of the plate.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from typing import Any

size, steps, devices, at_once = map(int, sys.argv[1:])
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices} --xla_cpu_multi_thread_eigen=false"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # which reads how many devices there are
import numpy as np


def step(u: Any, _: int) -> Any:
    """Return the plate after one step; beyond its sides there are zeros."""
    padded = jax.numpy.pad(u, 1)
    along, across = padded[:-2, 1:-1] + padded[2:, 1:-1], padded[1:-1, :-2] + padded[1:-1, 2:]
    return u + np.float32(0.2) * (along + across - 4 * u)


def main() -> None:
    """Make all steps twice, of which the second time counts."""
    mesh = jax.make_mesh((devices,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x", None))

    def several(u: Any) -> Any:
        for number in range(at_once):
            u = step(u, number)
        return u

    run = jax.jit(several, in_shardings=rows, out_shardings=rows, donate_argnums=0)
    y, x = np.ogrid[:size, :size]
    plate = jax.device_put(np.sin(0.37 * y + 0.011 * x, dtype=np.float32), rows)
    for _ in range(8 // at_once):
        plate = run(plate).block_until_ready()
    start, busy = time.perf_counter(), time.process_time()
    for _ in range(steps // at_once):
        plate = run(plate).block_until_ready()  # devices that run ahead of each other wait for each other in vain
    seconds, busy = time.perf_counter() - start, time.process_time() - busy
    print(json.dumps([seconds, busy, hashlib.sha256(np.asarray(plate).tobytes()).hexdigest()]))


if __name__ == "__main__":
    main()
