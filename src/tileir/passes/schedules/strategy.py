"""Strategies: passes that offer scripts for a kernel, the best first.

The first script whose steps all apply is used; a strategy refuses kernels that it is not for.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence

from tileir.passes.base import KernelPass
from tileir.passes.kernels import schedule as sch
from tileir.schedule import Done, Refused
from tileir.schedule.application import Candidate, Rearrangement, first_that_fits
from tileir.schedule.steps.loops import Bind, Reorder, Split
from tileir.stripe import ir as stripe
from tileir.stripe.ir import Block


class Strategy(KernelPass):
    """Base of passes that schedule by scripts; their fields are options."""

    __slots__ = ()

    @abstractmethod
    def candidates(self, kernel: Block) -> Iterator[Candidate | Refused]:
        """Yield scripts for a kernel in order of predicted time, or why one that might do better is not possible.

        A strategy rules out other kernels by :func:`~tileir.schedule.remarks.accepted` and ``rule_out``, and leaves
        refusals of steps to these.
        """

    def _kernel(self, kernel: Block) -> Done | Refused:
        return first_that_fits(self.candidates(kernel))


def shared_out(loops: Sequence[tuple[str, int]], threads: int) -> Iterator[Rearrangement]:
    """Yield steps that divide loops of these sizes among threads, last loop first, and unroll each thread's share."""
    team: list[tuple[str, str]] = []
    for name, size in reversed(loops):
        if size > 1:
            own = sch.power_of_two_below(min(size, threads))
            threads //= own
            team.insert(0, (f"{name}_more", f"{name}_thread"))
            yield Split(name, own, team[0])
    if not team:
        return
    yield Reorder((*(thread for _, thread in team), *(more for more, _ in team)))
    yield Bind(tuple(thread for _, thread in team), stripe.Binding.THREAD)
    yield Bind(tuple(more for more, _ in team), stripe.Binding.UNROLL)
