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
from typing import Any, TypeAlias

import numpy as np
from mpi4py import MPI

import tileir
from tileir.runtime.transports import Transport

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

STEP = """
function (U[H, W]) -> (V) {
  North[y, x : H, W] = +(U[y - 1, x]);
  South[y, x : H, W] = +(U[y + 1, x]);
  West[y, x : H, W] = +(U[y, x - 1]);
  East[y, x : H, W] = +(U[y, x + 1]);
  V = U + 0.2 * ((North + South) + (West + East) - 4 * U);
}
"""
"""A step of Jacobi's method: each point comes nearer to its four neighbours; the plate is cold around."""


def heat(size: int, first: int, last: int) -> Array:
    """Return rows of a plate of that size on which two places are hot."""
    y, x = np.mgrid[first:last, :size] / size
    found: Array = np.exp(-50 * ((y - 0.3) ** 2 + (x - 0.4) ** 2)) + np.exp(-90 * ((y - 0.7) ** 2 + (x - 0.6) ** 2))
    return found.astype(np.float32)


def simulated(size: int, steps: int, ranks: int, device: str | None) -> dict[int, Array]:
    """Return the plate after all steps, on each rank in this process."""
    rows = {"x": ranks}
    program = tileir.partition(STEP, rows, {"U": ("x", None)}, outputs={"V": ("x", None)}, arguments=[(size, size)])
    run = tileir.distribute(program, "mpi", device=device)

    def work(end: Transport) -> Array:
        boxes = [program.mesh.box(program.layout("U"), program.mesh.coordinates(rank)) for rank in range(ranks)]
        part = heat(size, *boxes[end.rank][0])
        for step in range(1, steps + 1):
            part = run.run(end, {"U": part})["V"]
            if end.rank == 0 and (step % 100 == 0 or step == steps):
                sys.stderr.write(f"{step} of {steps} steps\n")
        parts = [np.empty((last - first, size), np.float32) for (first, last), _ in boxes]
        end.all_gather(part, parts, range(ranks))
        return np.concatenate(parts)

    return dict(run.engine.launch(ranks, work))


def main() -> None:
    """Let heat spread, and say how warm the plate is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=512, help="points on each side of the plate (default: 512)")
    parser.add_argument("--steps", type=int, default=500, help="how many (default: 500)")
    parser.add_argument("--ranks", type=int, default=2, help="threads where mpiexec did not start it (default: 2)")
    parser.add_argument("--output", type=Path, help="write the plate there, as an array of NumPy")
    parser.add_argument("--device", help="device id, as `tileir devices` prints it")
    options = parser.parse_args()
    ranks = MPI.COMM_WORLD.size if MPI.COMM_WORLD.size > 1 else options.ranks
    found = simulated(options.size, options.steps, ranks, options.device)
    if 0 in found:  # one rank speaks for all
        digest = hashlib.sha256(found[0].tobytes()).hexdigest()[:16]
        print(f"{ranks} ranks: mean {found[0].mean(dtype=np.float64):.9f}, digest {digest}")
        if options.output is not None:
            np.save(options.output, found[0])


if __name__ == "__main__":
    main()
