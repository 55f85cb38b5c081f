"""Steps that overlap what a loop copies with what it computes: pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs

from tileir.schedule.remarks import Refused, refused
from tileir.schedule.sizes import Size
from tileir.schedule.tree import Replaced, with_loops_replaced

if TYPE_CHECKING:
    from tileir.schedule.sizes import Known
    from tileir.schedule.tree import Loop, Tree


@attrs.frozen
class Pipeline:
    """Let what an iteration of a loop stages be copied while iterations before it compute.

    The memory in which it is staged is there ``stages`` times, so that copies run ``stages - 1`` iterations ahead, on
    devices that copy so.

    Attributes:
        loop: A loop that stages in local memory, and does nothing before.
        stages: How many iterations have memory at a time.
    """

    name: ClassVar[str] = "pipeline"
    loop: str
    stages: Size = 2

    def __call__(self, tree: Tree, known: Known) -> Tree | Refused:
        """Return the tree with the loop running ahead."""
        stages = known.size(self.stages, tree)
        if isinstance(stages, Refused):
            return stages
        if stages < 2:
            return refused("TR740", loop=self.loop, stages=stages)
        return with_loops_replaced(tree, self.loop, lambda loop, _: _ahead(loop, stages))


def _ahead(loop: Loop, stages: int) -> Replaced | Refused:
    if loop.bound:
        return refused("TR707", loop=loop.name, binding=loop.bound)
    return Replaced((attrs.evolve(loop, stages=stages),))
