"""Process exit: uncaught errors end all ranks, and no rank exits while others might wait for it."""

from __future__ import annotations

import atexit
import sys
import time
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import TracebackType


@cache
def watch_errors() -> None:
    """End all ranks on uncaught errors, from now on."""
    sys.excepthook = _Hook(sys.excepthook)


class _Hook:
    """Hook that reports an uncaught error, and ends all ranks, which would wait for this one."""

    def __init__(self, before: Any) -> None:
        self._before = before

    def __call__(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        self._before(kind, error, trace)
        loaded = sys.modules.get("mpi4py.MPI")
        if loaded is None or not loaded.Is_initialized() or loaded.Is_finalized() or loaded.COMM_WORLD.size == 1:
            return
        world = loaded.COMM_WORLD
        sys.stderr.write(f"rank {world.rank} of {world.size} ends all: {kind.__name__}: {error}\n")
        sys.stderr.flush()
        sys.stdout.flush()
        time.sleep(0.3)  # others report it too, and mpiexec passes it on
        world.Abort(1)


@cache
def end_together() -> None:
    """Make this process exit with the others: they wait for each other, once no program can run any more."""
    atexit.register(_leave)


def _leave() -> None:
    """Notify the others that this rank ends, wait until they do, and finalise MPI if nothing else would."""
    import mpi4py
    from mpi4py import MPI

    from tileir_mpi.peers import PEERS, Notice

    if MPI.Is_finalized():
        return
    for peers in PEERS:
        peers.place = "the end of its program"
        peers.tell(peers.others, Notice.ENDED)
    while any(len(peers.ended) < len(peers.others) for peers in PEERS):
        for peers in PEERS:
            peers.read()
        time.sleep(1e-3)
    if not mpi4py.rc.initialize:  # mpi4py finalises what it has initialised itself
        MPI.Finalize()
