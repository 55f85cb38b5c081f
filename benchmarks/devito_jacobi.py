"""Jacobi's method in Devito, on ranks of MPI: a worker of ``distributed.py`` beside it.

Usage: mpiexec -n RANKS python devito_jacobi.py SIZE STEPS RANKS

Each rank has one thread, and its halos travel beside its work. It prints what a worker there prints: seconds, those of
the processor, and a digest of the plate, or of the part that rank 0 has.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

size, steps, ranks = map(int, sys.argv[1:])
os.environ |= {"DEVITO_LANGUAGE": "C", "DEVITO_LOGGING": "ERROR", "DEVITO_ARCH": "gcc"}
os.environ["DEVITO_MPI"] = "overlap" if ranks > 1 else "0"
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # which has mpicc

import numpy as np
from devito import Eq, Grid, Operator, TimeFunction  # which reads what is above


def main() -> None:
    """Make all steps twice, of which the second time counts."""
    grid = Grid(shape=(size, size), dtype=np.float32)
    plate: Any = TimeFunction(name="u", grid=grid, space_order=2, time_order=1)
    y, x = grid.dimensions
    along, across = (plate.subs(d, d - d.spacing) + plate.subs(d, d + d.spacing) for d in (y, x))
    step = Operator(Eq(plate.forward, plate + 0.2 * (along + across - 4 * plate)))
    rows, columns = np.ogrid[:size, :size]
    plate.data[0] = np.sin(0.37 * rows + 0.011 * columns, dtype=np.float32)
    step.apply(time_M=7)
    meet = grid.distributor.comm.Barrier if ranks > 1 else int  # without ranks Devito does not start MPI
    meet()
    start, busy = time.perf_counter(), time.process_time()
    step.apply(time_M=steps - 1)
    busy = time.process_time() - busy
    meet()
    seconds = time.perf_counter() - start
    part = np.ascontiguousarray(plate.data[steps % 2])  # which all ranks ask for
    if grid.distributor.myrank == 0:
        print(json.dumps([seconds, busy, hashlib.sha256(part.tobytes()).hexdigest()]))


if __name__ == "__main__":
    main()
