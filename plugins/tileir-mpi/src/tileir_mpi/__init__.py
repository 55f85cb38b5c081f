"""Partitioned programs of tileir on the ranks of MPI, by mpi4py.

``tileir.distribute(program, "mpi")`` runs on all ranks that ``mpiexec`` started, and ``tileir.distribute(program,
Ranks(communicator))`` on those of a communicator. Once this is imported, an uncaught error ends all ranks.
"""

from typing import Final

from tileir_mpi.ending import watch_errors
from tileir_mpi.engine import Ranks

__all__ = ["ENGINE", "Ranks"]

ENGINE: Final = Ranks()
"""Engine of the entry point: all ranks."""

watch_errors()
