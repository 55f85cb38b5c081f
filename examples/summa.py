"""Multiply matrices that no rank has all of: each has a block of each, and of their product.

python summa.py                 four threads
mpiexec -n 2 python summa.py    two processes

As in SUMMA (van de Geijn and Watts, 1997) blocks of A stay where they are. Each rank gets the blocks of B that belong
to the columns that it has of A; its product has a part of each sum, and these are added up and scattered in one
collective. All that follows from the shardings, as the partitioned program shows. It needs the distribution tileir-mpi.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from typing import Any

import numpy as np
from mpi4py import MPI

import tileir
from tileir import distributed

PRODUCT = "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }"
BLOCKS, TURNED = ("y", "x"), ("x", "y")


def main() -> None:
    """Multiply, and compare some elements with what NumPy says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=1024, help="rows and columns of the matrices (default: 1024)")
    parser.add_argument("--repeat", type=int, default=5, help="how often (default: 5)")
    parser.add_argument("--ranks", type=int, default=4, help="threads where mpiexec did not start it (default: 4)")
    parser.add_argument("--engine", default="mpi", help="between the ranks (default: mpi), such as nccl")
    parser.add_argument("--device", help="device id, as `tileir devices` prints it")
    options = parser.parse_args()
    size, ranks = options.size, MPI.COMM_WORLD.size if MPI.COMM_WORLD.size > 1 else options.ranks
    side = max(each for each in range(1, math.isqrt(ranks) + 1) if ranks % each == 0)
    mesh = {"y": side, "x": ranks // side}

    def left(i: Any, k: Any) -> Any:
        return np.cos(3 * i + 5 * k, dtype=np.float32)

    def right(k: Any, j: Any) -> Any:
        return np.sin(7 * k - 2 * j, dtype=np.float32)

    a = distributed.array(left, mesh, BLOCKS, shape=(size, size), transport=options.engine)
    b = distributed.array(right, mesh, TURNED, shape=(size, size), transport=options.engine)
    program = tileir.partition(PRODUCT, mesh, {"A": BLOCKS, "B": TURNED}, outputs={"C": BLOCKS}, arguments=[a, b])
    run = tileir.distribute(program, options.engine, device=options.device)
    speaks = 0 in a.parts  # one rank does for all
    if speaks:
        print(*program.collectives, sep="\n")
    times = []
    for number in range(options.repeat):
        start = time.perf_counter()
        c = run(a, b)
        times.append(time.perf_counter() - start)
        if speaks:
            sys.stderr.write(f"product {number + 1} of {options.repeat}\n")
    found = c[:: size // 8, :: size // 8]
    k = np.arange(size)
    rows, columns = k[:: size // 8, None], k[None, :: size // 8]
    exact = left(rows, k[None]).astype(np.float64) @ right(k[:, None], columns).astype(np.float64)
    gap = np.abs(found - exact).max() / math.sqrt(size)
    if speaks:
        sys.stderr.write(f"{2e-9 * size**3 / min(times):.1f} GFLOP/s\n")
        print(f"{ranks} ranks: mean {found.mean(dtype=np.float64):.6f}, wrong by {gap:.0e} at most")
    if gap > 1e-4:
        raise SystemExit("the product is wrong")


if __name__ == "__main__":
    main()
