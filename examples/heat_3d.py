"""Let heat spread in a cube that is cut along two axes, and go on where the job was stopped.

python heat_3d.py                         two threads
mpiexec -n 4 python heat_3d.py            four processes, with a quarter of the cube each
python heat_3d.py --folder saved          a checkpoint after each 50 steps; started again, it goes on, on any ranks

The result is the same to the last bit, for any number of ranks. It needs the distribution tileir-mpi.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI

import tileir
from tileir import distributed

STEP = """
function (U[D, H, W]) -> (V, Most) {
  Over[z, y, x : D, H, W] = +(U[z - 1, y, x]);
  Under[z, y, x : D, H, W] = +(U[z + 1, y, x]);
  North[z, y, x : D, H, W] = +(U[z, y - 1, x]);
  South[z, y, x : D, H, W] = +(U[z, y + 1, x]);
  West[z, y, x : D, H, W] = +(U[z, y, x - 1]);
  East[z, y, x : D, H, W] = +(U[z, y, x + 1]);
  V = U + 0.1 * ((Over + Under) + (North + South) + (West + East) - 6 * U);
  Most[] = >(V[z, y, x]);
}
"""
"""A step of Jacobi's method: each point comes nearer to its six neighbours; it is cold around the cube."""

CUT = ("z", "y", None)


def heat(z: Any, y: Any, x: Any) -> Any:
    """Return how hot places of the cube are at the beginning."""
    return np.exp(-40 * ((z - 0.3) ** 2 + (y - 0.5) ** 2 + (x - 0.6) ** 2)).astype(np.float32)


def main() -> None:
    """Let heat spread, and say how warm the cube is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=96, help="points on each side of the cube (default: 96)")
    parser.add_argument("--steps", type=int, default=200, help="how many (default: 200)")
    parser.add_argument("--ranks", type=int, default=2, help="threads where mpiexec did not start it (default: 2)")
    parser.add_argument("--folder", type=Path, help="keep checkpoints there, and go on from the one that is there")
    parser.add_argument("--every", type=int, default=50, help="steps from one checkpoint to the next (default: 50)")
    parser.add_argument("--engine", default="mpi", help="between the ranks (default: mpi), such as nccl")
    parser.add_argument("--device", help="device id, as `tileir devices` prints it")
    options = parser.parse_args()
    size, ranks = options.size, MPI.COMM_WORLD.size if MPI.COMM_WORLD.size > 1 else options.ranks
    side = max(each for each in range(1, math.isqrt(ranks) + 1) if ranks % each == 0)
    mesh = {"z": ranks // side, "y": side}

    if options.folder is not None and distributed.saved(options.folder):
        found = distributed.load(options.folder, mesh, {"U": CUT}, transport=options.engine)
        cube, done = found.arrays["U"], found.about["steps"]
    else:
        shape, done = (size, size, size), 0
        cube = distributed.array(
            lambda *place: heat(*(each / size for each in place)), mesh, CUT, shape=shape, transport=options.engine
        )
    program = tileir.partition(STEP, mesh, {"U": CUT}, outputs={"V": CUT}, arguments=[cube])
    step = tileir.distribute(program, options.engine, device=options.device).stepper({"U": "V"}, {"U": cube})
    speaks = 0 in cube.parts  # one rank does for all
    for number in range(done + 1, options.steps + 1):
        most = float(step())
        if number % options.every == 0 or number == options.steps:
            if options.folder is not None:
                distributed.save(options.folder, step.state, {"steps": number})
            if speaks:
                sys.stderr.write(f"{number} of {options.steps} steps: at most {most:.6f}\n")
    middle = step.state["U"][size // 2, ::2, ::2]  # a picture of it has every other point of a slice
    digest = hashlib.sha256(step.state["U"].numpy().tobytes()).hexdigest()[:16]
    if speaks:
        print(f"{ranks} ranks: mean of the middle {middle.mean(dtype=np.float64):.9f}, digest {digest}")


if __name__ == "__main__":
    main()
