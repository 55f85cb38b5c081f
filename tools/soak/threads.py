"""Many threads on one context: they compile, run, submit and err at the same time."""

from __future__ import annotations

import threading
from random import Random
from typing import Final

import numpy as np

from soak.programs import Program, programs
from tileir.core.errors import TileError
from tileir.driver.jit import jit
from tileir.runtime.caches.cache import Cache
from tileir.runtime.context import Context

PROGRAMS: Final = 24
KEPT: Final = 16
"""Programs that the context keeps: fewer than there are, so that some are dropped while they run."""


def faults_of_threads(device: str, threads: int, rounds: int, seed: int, patience: float = 600.0) -> list[str]:
    """Let ``threads`` threads do ``rounds`` things each on one context.

    Returns:
        What went wrong, each in a sentence; a thread that has not ended after ``patience`` seconds is among it.

    """
    faults: list[str] = []
    available = programs(PROGRAMS)
    with Context(device_id=device, disk_cache=None, programs=Cache(KEPT)) as context:

        def work(number: int) -> None:
            chosen = Random(f"{seed} {number}")
            for round_number in range(rounds):
                program = chosen.choice(available)
                try:
                    fault = _done_once(program, context, chosen)
                except Exception as error:  # any is a fault
                    fault = f"{type(error).__name__}: {error}"
                if fault is not None:
                    faults.append(f"thread {number}, round {round_number}: {fault}")

        workers = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(patience)
        faults += [f"thread {number} hangs" for number, worker in enumerate(workers) if worker.is_alive()]
        if any(worker.is_alive() for worker in workers):
            return faults  # to close the context would wait for them
    return faults


def _done_once(program: Program, context: Context, chosen: Random) -> str | None:
    """Do one thing, and say what was wrong about it."""
    left, right = program.inputs(chosen.randrange(1000))
    expected = program.expected(left, right)
    function = jit(program.text, context=context)
    match chosen.randrange(4):
        case 0:
            found = function(left, right)
        case 1:
            found = np.empty_like(expected)
            function(left, right, out=found)
        case 2:
            found = function.specialise(left, right).submit(left, right).result()
        case _:
            try:
                function(left, right.T if right.shape[0] != right.shape[1] else right[1:])
            except TileError:
                return None
            return "matrices that do not fit were multiplied"
    return None if np.array_equal(found, expected) else f"{program.text} {program.shapes} is wrong"
