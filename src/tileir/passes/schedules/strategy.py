"""Strategies: passes that offer scripts for a kernel, the best first.

The first whose steps all apply is taken: a strategy says by refusals that a kernel is none of its own.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

from tileir.passes.base import KernelPass
from tileir.schedule import Done, Refused
from tileir.schedule.rearranging import Candidate, first_that_fits
from tileir.stripe.ir import Block


class Strategy(KernelPass):
    """Base of passes that schedule by scripts; their fields are options."""

    __slots__ = ()

    @abstractmethod
    def candidates(self, kernel: Block) -> Iterator[Candidate | Refused]:
        """Yield scripts for a kernel in order of predicted time, or why one that might do better is none.

        A strategy rules out kernels that are not its own by :func:`~tileir.schedule.remarks.accepted` and ``rule_out``,
        and leaves to steps what they refuse anyway.
        """

    def _kernel(self, kernel: Block) -> Done | Refused:
        return first_that_fits(self.candidates(kernel))
