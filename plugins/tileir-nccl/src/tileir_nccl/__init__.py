"""Partitioned programs of tileir on several NVIDIA GPUs, by NCCL.

``tileir.distribute(program, "nccl")`` runs on the ranks that ``torchrun`` or ``mpiexec`` started, and otherwise on
threads of this process, one for each card; ``tileir.distribute(program, Cards(…))`` has options.
"""

from typing import Final

from tileir_nccl.engine import Cards, Start

__all__ = ["ENGINE", "Cards", "Start"]

ENGINE: Final = Cards()
"""Engine of the entry point: all ranks, one card each."""
