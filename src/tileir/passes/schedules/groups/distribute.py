"""Groups of threads for kernels that no other pass has given some."""

from __future__ import annotations

from typing import ClassVar

import attrs

from tileir.core.text.names import NameScope
from tileir.passes.analysis.accesses import address
from tileir.passes.base import at_least, map_kernels
from tileir.passes.kernels import schedule as sch
from tileir.passes.kernels.forms import SCHEDULED
from tileir.passes.schedules.vectors.thread import independent_indices
from tileir.poly.affine import Affine
from tileir.schedule.reindex import reindexed
from tileir.schedule.remarks import Refused, refused
from tileir.stripe import ir as stripe
from tileir.stripe.blocks import Binding


@attrs.frozen
class Distribute:
    """Share the points of a kernel out to the threads of groups, and these to a grid.

    Neighbouring threads take neighbouring elements where an index allows it. Indices whose points merge into the same
    memory stay loops of each thread; a kernel that has no others runs on one thread.

    Attributes:
        threads: Threads of a group.

    """

    name: ClassVar[str] = "distribute"
    threads: int = attrs.field(default=256, validator=at_least(1))

    def __call__(self, program: stripe.Program) -> stripe.Program:
        """Return the program with threads for each kernel that can have some."""
        return map_kernels(program, self._kernel)

    def _kernel(self, kernel: stripe.Block) -> stripe.Block | Refused:
        if sch.is_scheduled(kernel):
            return SCHEDULED
        allowed = independent_indices(kernel)
        parallel = [i for i in kernel.indices if i.name in allowed and i.range > 1 and i.affine is None]
        if not parallel:
            return refused("TR211", indices=len(kernel.indices))
        names = NameScope.of(i.name for i in kernel.indices)
        grid: list[stripe.Index] = []
        team: list[stripe.Index] = []
        values: dict[str, Affine] = {}
        ends: list[Affine] = []
        left = self.threads
        for index in sorted(parallel, key=lambda i: _jumps(kernel, i.name)):
            size = min(index.range, left)
            left //= size
            thread = sch.index(names.fresh(f"{index.name}_thread"), size, Binding.THREAD)
            groups = -(-index.range // size)
            group = attrs.evolve(index, range=groups, binding=Binding.GRID)
            values[index.name] = sch.part(group, size) + sch.part(thread)
            if groups * size > index.range:
                ends.append(index.range - 1 - values[index.name])
            team.insert(0, thread)
            grid.insert(0, group)
        serial = [i for i in kernel.indices if i not in parallel]
        inside = reindexed(kernel, (*sch.present(grid), *sch.present(team), *serial), values)
        return attrs.evolve(inside, constraints=(*inside.constraints, *ends), deps=())


def _jumps(kernel: stripe.Block, index: str) -> tuple[int, int]:
    """Return for how many written, and how many other views neighbouring values of ``index`` are not neighbours."""
    far = [(abs(address(r).coefficient(index)) not in (0, 1), r.direction.writes) for r in kernel.refinements]
    still = all(address(r).coefficient(index) == 0 for r in kernel.refinements if r.direction.writes)
    return sum(jumps for jumps, writes in far if writes) + still, sum(jumps for jumps, writes in far if not writes)
