"""Running of many cases in forked processes, so that a crash is reported and stops no other case."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any, Final, TypeVar

Case = TypeVar("Case")
Outcome = TypeVar("Outcome")

SECONDS: Final = 300
"""Time of a processor after which a case is interrupted."""
_WAITING: Final = 10
"""Ratio of the limit by the clock to that of processor time."""


def outcomes(
    cases: Sequence[Case],
    run: Callable[[Case], Outcome],
    crashed: Callable[[Case, str], Outcome],
    *,
    jobs: int = 1,
    most: int = 50,
) -> Iterator[Outcome]:
    """Yield the result of ``run`` for each case, in any order.

    Args:
        cases: The cases.
        run: Runs a case; its outcome is sent by pickle. After :data:`SECONDS` of a processor it is interrupted by a
            TimeoutError.
        crashed: Makes the outcome of a case whose process ended, or which raised an exception, from a description.
        jobs: Processes at a time.
        most: Largest number of consecutive cases in a process.
    """
    waiting = list(reversed(cases))
    size = max(1, min(most, len(waiting) // (4 * jobs)))
    running: dict[Connection, tuple[Any, list[Case]]] = {}
    context = get_context("fork")
    while waiting or running:
        while waiting and len(running) < jobs:
            share = [waiting.pop() for _ in range(min(len(waiting), size))]
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, share, run, crashed))
            process.start()
            theirs.close()
            running[ours] = process, share
        for ready in wait(list(running)):
            assert isinstance(ready, Connection)
            process, share = running[ready]
            try:
                yield ready.recv()
                share.pop(0)
            except EOFError:
                process.join()
                del running[ready]
                if share:
                    yield crashed(share.pop(0), f"the process ended with {process.exitcode}")
                    waiting += reversed(share)


def _serve(
    pipe: Connection, share: Sequence[Case], run: Callable[[Case], Outcome], crashed: Callable[[Case, str], Outcome]
) -> None:
    signal.signal(signal.SIGPROF, _too_long)
    signal.signal(signal.SIGALRM, _too_long)
    for case in list(share):
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        signal.setitimer(signal.ITIMER_REAL, _WAITING * SECONDS)
        try:
            outcome = run(case)
        except Exception as error:  # whatever a case is made by
            outcome = crashed(case, f"{type(error).__name__}: {error}".splitlines()[0])
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        pipe.send(outcome)
        gc.collect()
    pipe.close()
    os._exit(0)  # nothing of the parent's is to be cleaned up here


def _too_long(*_: object) -> None:
    raise TimeoutError(f"it takes more than {SECONDS} seconds")
