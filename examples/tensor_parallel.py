"""Run a block of a transformer whose weights are shared out: each rank has some heads, and some of the inner width.

python tensor_parallel.py                 two threads
mpiexec -n 2 python tensor_parallel.py    two processes

Nothing but the shardings of the weights says that. Ranks add up twice: what their heads bring, and what their part of
the inner width brings; the partitioned program shows these two collectives. It needs the distribution tileir-mpi.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any, TypeAlias

import numpy as np
from mpi4py import MPI

import tileir
from tileir import distributed, ops

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

WEIGHTS = {
    "Query": (("Width", "Heads", "Head"), (None, "x", None)),
    "Key": (("Width", "Heads", "Head"), (None, "x", None)),
    "Value": (("Width", "Heads", "Head"), (None, "x", None)),
    "Out": (("Heads", "Head", "Width"), ("x", None, None)),
    "Up": (("Width", "Inner"), (None, "x")),
    "Down": (("Inner", "Width"), ("x", None)),
}
"""The axes of each weight, and along which of them it is cut."""


def block() -> tileir.Function:
    """Return the function from texts [B, T, Width] and weights to what the next block reads."""
    f = tileir.FunctionBuilder()
    x = f.input("X", "B", "T", "Width")
    weights = {name: f.input(name, *axes) for name, (axes, _) in WEIGHTS.items()}
    heads = [ops.einsum("btw,whd->bhtd", ops.rms_norm(x), weights[name]) for name in ("Query", "Key", "Value")]
    x = x + ops.einsum("bhtd,hdw->btw", ops.scaled_dot_product_attention(*heads, causal=True), weights["Out"])
    inner = ops.gelu(ops.matmul(ops.rms_norm(x), weights["Up"]))
    return f.build(Y=x + ops.matmul(inner, weights["Down"]))


def drawn(name: str, spread: float, shape: tuple[int, ...]) -> Array:
    """Return random numbers, which all ranks draw alike."""
    random = np.random.default_rng(list(name.encode()))
    return (spread * random.standard_normal(shape)).astype(np.float32)


def main() -> None:
    """Run some blocks one after the other, and compare with one that is whole."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=256, help="of the texts (default: 256)")
    parser.add_argument("--time", type=int, default=64, help="length of the texts (default: 64)")
    parser.add_argument("--heads", type=int, default=8, help="of attention (default: 8)")
    parser.add_argument("--blocks", type=int, default=4, help="how often the block runs (default: 4)")
    parser.add_argument("--ranks", type=int, default=2, help="threads where mpiexec did not start it (default: 2)")
    parser.add_argument("--engine", default="mpi", help="between the ranks (default: mpi), such as nccl")
    parser.add_argument("--device", help="device id, as `tileir devices` prints it")
    options = parser.parse_args()
    ranks = MPI.COMM_WORLD.size if MPI.COMM_WORLD.size > 1 else options.ranks
    width, heads = options.width, options.heads
    sizes = {"Width": width, "Heads": heads, "Head": width // heads, "Inner": 4 * width}
    texts = drawn("X", 1.0, (2, options.time, width))
    whole = {name: drawn(name, width**-0.5, tuple(sizes[axis] for axis in axes)) for name, (axes, _) in WEIGHTS.items()}
    function, mesh = block(), {"x": ranks}
    program = tileir.partition(
        function,
        mesh,
        {name: cut for name, (_, cut) in WEIGHTS.items()},
        outputs={"Y": (None, None, None)},
        arguments={"X": texts, **whole},
    )
    run = tileir.distribute(program, options.engine, device=options.device)
    weights = {n: distributed.array(a, mesh, WEIGHTS[n][1], transport=options.engine) for n, a in whole.items()}
    speaks = 0 in weights["Up"].parts  # one rank does for all
    if speaks:
        print(*program.collectives, sep="\n")
    found: Any = texts
    for number in range(options.blocks):
        found = run(found, **weights)  # from the first block on it is on the ranks, as the weights are
        if speaks:
            sys.stderr.write(f"block {number + 1} of {options.blocks}\n")
    right, alone = texts, tileir.jit(function, options.device)
    for _ in range(options.blocks if speaks else 0):
        right = alone(right, **whole)
    result = found.numpy()
    if speaks:
        gap = np.abs(result - right).max() / np.abs(right).max()
        print(f"{ranks} ranks: mean {result.mean(dtype=np.float64):.9f}, as on one within {gap:.0e}")


if __name__ == "__main__":
    main()
