"""Let heat spread over a plate whose rows are shared out: over threads of a process, or over processes of MPI.

python heat_2d.py                 two threads
mpiexec -n 4 python heat_2d.py    four processes

The result is the same to the last bit, for any number of ranks. It needs the distribution tileir-mpi.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI

import tileir
from tileir import distributed

STEP = """
function (U[H, W]) -> (V) {
  Along[y, x : H, W] = +(U[y + 2 * i - 1, x]), i < 2;
  Across[y, x : H, W] = +(U[y, x + 2 * i - 1]), i < 2;
  V = U + 0.2 * (Along + Across - 4 * U);
}
"""
"""A step of Jacobi's method: each point comes nearer to its four neighbours; the plate is cold around."""

ROWS = ("x", None)


def heat(y: Any, x: Any) -> Any:
    """Return how hot places of the plate are at the beginning: two of them more than others."""
    hot = np.exp(-50 * ((y - 0.3) ** 2 + (x - 0.4) ** 2)) + np.exp(-90 * ((y - 0.7) ** 2 + (x - 0.6) ** 2))
    return hot.astype(np.float32)


def main() -> None:
    """Let heat spread, and say how warm the plate is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=512, help="points on each side of the plate (default: 512)")
    parser.add_argument("--steps", type=int, default=500, help="how many (default: 500)")
    parser.add_argument("--ranks", type=int, default=2, help="threads where mpiexec did not start it (default: 2)")
    parser.add_argument("--output", type=Path, help="write the plate there, as an array of NumPy")
    parser.add_argument("--engine", default="mpi", help="between the ranks (default: mpi), such as nccl")
    parser.add_argument("--device", help="device id, as `tileir devices` prints it")
    options = parser.parse_args()
    size, ranks = options.size, MPI.COMM_WORLD.size if MPI.COMM_WORLD.size > 1 else options.ranks
    mesh = {"x": ranks}
    plate = distributed.array(
        lambda y, x: heat(y / size, x / size), mesh, ROWS, shape=(size, size), transport=options.engine
    )
    program = tileir.partition(STEP, mesh, {"U": ROWS}, outputs={"V": ROWS}, arguments=[plate])
    step = tileir.distribute(program, options.engine, device=options.device).stepper({"U": "V"}, {"U": plate})
    speaks = 0 in plate.parts  # one rank does for all
    for number in range(1, options.steps + 1):
        step()
        if speaks and (number % 100 == 0 or number == options.steps):
            sys.stderr.write(f"{number} of {options.steps} steps\n")
    found = step.state["U"].numpy()
    if speaks:
        digest = hashlib.sha256(found.tobytes()).hexdigest()[:16]
        print(f"{ranks} ranks: mean {found.mean(dtype=np.float64):.9f}, digest {digest}")
        if options.output is not None:
            np.save(options.output, found)


if __name__ == "__main__":
    main()
