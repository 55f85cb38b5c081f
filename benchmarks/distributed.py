"""Two ranks of MPI beside one process: Jacobi's method on a plate, and a product whose rows are shared out.

python distributed.py                      4096 x 4096 points, 496 steps; matrices of 4096 x 4096
python distributed.py --rounds 1 --steps 24 --size 1024
python distributed.py --jax PYTHON         JAX's own sharding over two devices beside it, in an interpreter that has it
python distributed.py --devito PYTHON      Devito on two ranks beside it, in an interpreter that has it and mpi4py

Rounds run all ways one after the other, and ratios are of the best of each way. Results are compared to the last bit,
which products of parts need not share: sums of blocks of other sizes are rounded otherwise.
It needs tileir-mpi and an mpiexec.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import tileir
from tileir import distributed

JACOBI = """
function (U[H, W]) -> (V) {
  Along[y, x : H, W] = +(U[y + 2 * i - 1, x]), i < 2;
  Across[y, x : H, W] = +(U[y, x + 2 * i - 1]), i < 2;
  V = U + 0.2 * (Along + Across - 4 * U);
}
"""
PRODUCT = "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }"
ROWS, WHOLE = ("x", None), (None, None)
WAYS = {
    "one process, one thread": (1, 1, 1),
    "one process, two threads": (1, 2, 1),
    "two ranks, one thread each": (2, 1, 1),
    "two ranks, one program for 8 steps": (2, 1, 8),
}
"""Processes of each configuration, threads of each process, and steps of a Jacobi program."""

IN_JAX = {
    "JAX, one device": (1, 1),
    "JAX, two devices": (2, 1),
    "JAX, two devices, one program for 8 steps": (2, 8),
}
"""JAX's devices in each configuration, and steps of a program."""

IN_DEVITO = {"Devito, one thread": 1, "Devito, two ranks, one thread each": 2}
"""Devito's ranks in each configuration."""


def values(y: Any, x: Any) -> Any:
    """Return elements that differ from each other."""
    return np.sin(0.37 * y + 0.011 * x, dtype=np.float32)


def jacobi(size: int, steps: int, options: tileir.Options, ranks: int, at_once: int) -> Callable[[], Any]:
    """Return a function that makes all steps, some of them at once, and returns the plate."""
    mesh = {"x": ranks}
    plate = distributed.array(values, mesh, ROWS, shape=(size, size), transport="mpi")
    if ranks == 1:
        step: Any = tileir.stepper(JACOBI, {"U": "V"}, {"U": plate.numpy()}, options=options)
    else:
        several = distributed.repeated(JACOBI, {"U": "V"}, at_once, arguments=[plate])
        program = tileir.partition(several, mesh, {"U": ROWS}, outputs={"V": ROWS})
        step = tileir.distribute(program, "mpi", options=options).stepper({"U": "V"}, {"U": plate})
    for _ in range(8 // at_once):
        step()

    def run() -> Any:
        for _ in range(steps // at_once):
            step()
        return lambda: step.state["U"]

    return run


def product(size: int, steps: int, options: tileir.Options, ranks: int, _: int) -> Callable[[], Any]:
    """Return a function that multiplies once for each hundred steps."""
    mesh = {"x": ranks}
    a, b = (distributed.array(values, mesh, cut, shape=(size, size), transport="mpi") for cut in (ROWS, WHOLE))
    if ranks == 1:
        jitted = tileir.jit(PRODUCT, options=options)
        given: list[Any] = [a.numpy(), b.numpy()]
        call: Any = jitted
    else:
        program = tileir.partition(PRODUCT, mesh, {"A": ROWS, "B": WHOLE}, outputs={"C": ROWS}, arguments=[a, b])
        call, given = tileir.distribute(program, "mpi", options=options), [a, b]
    call(*given)

    def run() -> Any:
        for _ in range(max(1, steps // 100)):
            found = call(*given)
        return lambda: found

    return run


def work(name: str, size: int, steps: int, threads: int, at_once: int) -> None:
    """Run one way in this process, and print how long it took, also of its processor, and a digest of the result."""
    from mpi4py import MPI

    ranks = MPI.COMM_WORLD.size
    run = {"jacobi": jacobi, "product": product}[name](size, steps, tileir.Options(threads=threads), ranks, at_once)
    MPI.COMM_WORLD.Barrier()
    start, busy = time.perf_counter(), time.process_time()
    result = run()
    busy = time.process_time() - busy
    MPI.COMM_WORLD.Barrier()
    seconds = time.perf_counter() - start
    found = result()
    whole = found.numpy() if isinstance(found, distributed.DistributedArray) else found
    if MPI.COMM_WORLD.rank == 0:
        digest = hashlib.sha256(np.ascontiguousarray(whole).tobytes()).hexdigest()
        print(json.dumps([seconds, busy, digest]))


def measured(
    name: str, options: argparse.Namespace, ranks: int, threads: int, at_once: int
) -> tuple[float, float, str]:
    """Return the seconds of one way, those of the processor of rank 0, and the digest, from processes of its own."""
    worker = [sys.executable, str(Path(__file__)), "--worker", name, "--threads", str(threads)]
    worker += ["--size", str(options.size), "--steps", str(options.steps), "--at-once", str(at_once)]
    if ranks > 1:
        worker = [*mpiexec(sys.executable, ranks), *worker]
    said = subprocess.run(worker, capture_output=True, text=True, check=True).stdout
    seconds, busy, digest = json.loads(said.splitlines()[-1])
    return seconds, busy, digest


def mpiexec(python: str, ranks: int) -> list[str]:
    """Return a command that runs another one on ranks, each on a processor: that beside an interpreter, if any."""
    command = shutil.which("mpiexec", path=str(Path(python).parent)) or "mpiexec"
    return [command, "--allow-run-as-root", "--bind-to", "core", "-n", str(ranks)]


def measured_in_jax(options: argparse.Namespace, devices: int, at_once: int) -> tuple[float, float]:
    """Return the seconds of Jacobi's method in JAX, and those of the processor for all of its threads."""
    worker = [options.jax, str(Path(__file__).with_name("jax_jacobi.py"))]
    return elsewhere([*worker, *map(str, (options.size, options.steps, devices, at_once))])


def measured_in_devito(options: argparse.Namespace, ranks: int) -> tuple[float, float]:
    """Return the seconds of Jacobi's method in Devito, and those of the processor of rank 0."""
    worker = [options.devito, str(Path(__file__).with_name("devito_jacobi.py"))]
    worker += map(str, (options.size, options.steps, ranks))
    return elsewhere([*mpiexec(options.devito, ranks), *worker] if ranks > 1 else worker)


def elsewhere(worker: list[str]) -> tuple[float, float]:
    """Return the seconds that a worker of another library prints, and those of the processor."""
    said = subprocess.run(worker, capture_output=True, text=True, check=True).stdout
    seconds, busy, _ = json.loads(said.splitlines()[-1])
    return seconds, busy


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=4096, help="rows and columns (default: 4096)")
    parser.add_argument("--steps", type=int, default=496, help="of Jacobi's method (a multiple of 8 (default: 496)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each way runs (default: 3)")
    parser.add_argument("--jax", help="an interpreter that has JAX")
    parser.add_argument("--devito", help="an interpreter that has Devito, mpi4py and an MPI")
    parser.add_argument("--worker", choices=("jacobi", "product"), help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--at-once", type=int, default=1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker is not None:
        work(options.worker, options.size, options.steps, options.threads, options.at_once)
        return
    for name in ("jacobi", "product"):
        ways = {way: each for way, each in WAYS.items() if name == "jacobi" or each[2] == 1}
        peers: dict[str, dict[str, Callable[[], tuple[float, float]]]] = {}
        if name == "jacobi" and options.jax:
            peers["JAX"] = {way: partial(measured_in_jax, options, *each) for way, each in IN_JAX.items()}
        if name == "jacobi" and options.devito:
            peers["Devito"] = {way: partial(measured_in_devito, options, each) for way, each in IN_DEVITO.items()}
        others = {way: measure for some in peers.values() for way, measure in some.items()}
        times: dict[str, list[tuple[float, float]]] = {way: [] for way in (*ways, *others)}
        digests = set()
        for _ in range(options.rounds):
            for way, (ranks, threads, at_once) in ways.items():
                seconds, busy, digest = measured(name, options, ranks, threads, at_once)
                times[way].append((seconds, busy))
                digests.add(digest)
            for way, measure in others.items():
                times[way].append(measure())
        print(f"{name}, {options.size} x {options.size}: results are {'equal' if len(digests) == 1 else 'not equal'}")
        for peer, some in peers.items():  # which round otherwise, so their results are not compared
            ours, theirs = (min(t for way in each for t, _ in times[way]) for each in (list(ways)[2:], some))
            print(f"  two ranks make {theirs / ours:.2f}x of the steps that {peer} makes in the same time, at best")
        one = min(seconds for seconds, _ in times["one process, one thread"])
        for way, each in times.items():
            seconds, busy = (min(column) for column in zip(*each, strict=True))
            print(f"  {way:<41} {seconds:8.2f} s, {one / seconds:.2f}x of one thread, rank 0 busy for {busy:.2f} s")


if __name__ == "__main__":
    main()
