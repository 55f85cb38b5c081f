"""Groups of threads for kernels without any."""

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


def _jumps(kernel: stripe.Block, index: str) -> tuple[int, int, int]:
    """Return the number of written, and of other, views with stride in ``index``, and its largest output stride."""
    steps = [(abs(int(address(r).coefficient(index))), r.direction.writes) for r in kernel.refinements]
    written = [step for step, writes in steps if writes]
    far = sum(step > 1 for step in written) + (not any(written))
    return far, sum(step > 1 for step, writes in steps if not writes), max(written, default=0)
