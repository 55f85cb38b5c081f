"""Groups of threads for kernels that no other pass has given some."""

from __future__ import annotations

from typing import ClassVar

from tileir.core.nodes import attrs
from tileir.passes.analysis.accesses import address
from tileir.passes.base import KernelPass, at_least
from tileir.passes.kernels import SCHEDULED, schedule as sch
from tileir.passes.schedules.vectors.thread import shared_out
from tileir.schedule import Refused, refused, reindexed
from tileir.stripe import ir as stripe


@attrs.frozen
class Distribute(KernelPass):
    """Distribute the points of a kernel over threads and groups.

    Neighbouring threads take neighbouring elements if an index allows it. Indices whose points merge into one element
    stay sequential loops of each thread; a kernel without other indices runs on one thread.

    Attributes:
        threads: Threads in a group.
    """

    name: ClassVar[str] = "distribute"
    threads: int = attrs.field(default=256, validator=at_least(1))

    def _kernel(self, kernel: stripe.Block) -> stripe.Block | Refused:
        if sch.is_scheduled(kernel):
            return SCHEDULED
        shares = shared_out(kernel, self.threads, lambda name: _jumps(kernel, name))
        if not shares.rest:
            return refused("TR211", indices=len(kernel.indices))
        grid = sch.present(index.bound(stripe.Binding.GRID) for index in reversed(shares.rest.values()))
        serial = [i for i in kernel.indices if i.name not in shares.rest]
        inside = reindexed(kernel, (*grid, *shares.team, *serial), shares.values)
        return attrs.evolve(inside, constraints=(*inside.constraints, *shares.tests), deps=())


def _jumps(kernel: stripe.Block, index: str) -> tuple[int, int]:
    """Return for how many written, and how many other views neighbouring values of ``index`` are not neighbours."""
    far = [(abs(address(r).coefficient(index)) not in (0, 1), r.direction.writes) for r in kernel.refinements]
    still = all(address(r).coefficient(index) == 0 for r in kernel.refinements if r.direction.writes)
    return sum(jumps for jumps, writes in far if writes) + still, sum(jumps for jumps, writes in far if not writes)
