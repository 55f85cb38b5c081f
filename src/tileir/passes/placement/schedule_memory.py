"""Bring the data of statements into an inner memory, and results out again: slots, transfers and spills."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs

from tileir.core.errors import Diagnostic, TileError
from tileir.passes.base import at_least, free_tags
from tileir.passes.kernels.walk import rewrite_blocks
from tileir.passes.placement.hand_down import hand_down
from tileir.passes.placement.locations import Place
from tileir.passes.placement.point_groups import grouped
from tileir.passes.placement.resident_views import overhanging
from tileir.passes.placement.scheduled_block import ScheduledBlock
from tileir.stripe.aliases import Aliases
from tileir.stripe.check.scope import enter
from tileir.stripe.tags import MAIN
from tileir.stripe.works import uses_of

if TYPE_CHECKING:
    from tileir.stripe.check.scope import Scope
    from tileir.stripe.ir import Block, Program


@attrs.frozen
class Schedule:
    """Give statements of the selected blocks their data in an inner memory.

    Transfers (tag ``xfer``) bring in what is read and bring out what is needed outside; what fits stays from one
    statement to the next. Slots are used again when they are free; where memory is short, what is needed again last
    gives way. Dependencies say what may run at the same time: transfers for the next statement run beside this one if
    there is room. Temporaries that never leave the inner memory are dropped outside.

    A block that allocates in the inner memory itself brings its data on its own, and keeps its place.

    Attributes:
        reqs: Tags that a block must carry.
        mem_loc: The inner memory.
        mem_kib: Size of it, or of each of its banks; 0 for one without end.
        alignment: Bytes that offsets in it are multiples of.
        xfer_loc: The unit that moves data.
        allow_out_of_range_accesses: Whether that unit may touch what is beyond the edge of a tensor: transfers that
            constraints keep from that get the tag ``overrun``, by which a device may drop these.
        num_banks: How many banks the memory has. What has a bank axis is spread over all of them.
        pipeline_depth: So many points of a block are in the memory at a time: where an index allows it, each point does
            the work of so many, whose transfers and statements wait for each other only where they must.
        window: By how many statements data are brought in ahead of their use.
        swap_in_set: Tags of blocks that bring data in.
        swap_out_set: Tags of blocks that bring data out.
        skip_tags: Refinements with one of these tags stay where they are.
        only_larger: Whether to leave blocks alone all of whose data fit into the memory together: the block around them
            can bring these in at once.
    """

    name: ClassVar[str] = "schedule"
    reqs: tuple[str, ...] = (MAIN,)
    mem_loc: tuple[Place, ...] = (Place("SRAM"),)
    mem_kib: float = 256.0
    alignment: int = attrs.field(default=16, validator=at_least(1))
    xfer_loc: tuple[Place, ...] = (Place("DMA"),)
    allow_out_of_range_accesses: bool = False
    num_banks: int = attrs.field(default=1, validator=at_least(1))
    pipeline_depth: int = attrs.field(default=1, validator=at_least(1))
    window: int = attrs.field(default=1, validator=at_least(0))
    swap_in_set: tuple[str, ...] = attrs.field(default=("swap_in",), validator=free_tags)
    swap_out_set: tuple[str, ...] = attrs.field(default=("swap_out",), validator=free_tags)
    skip_tags: tuple[str, ...] = ()
    only_larger: bool = False

    def __call__(self, program: Program) -> Program:
        """Return the program with the selected blocks scheduled.

        Raises:
            TileError: TIL548, the data of a statement do not fit; TIL505, a unit names a tag that not exactly one index
                of the block carries.
        """
        program_with_indices = hand_down(program, overhanging, self.reqs)
        faults: list[Diagnostic] = []
        lasting = frozenset((*program.inputs, *program.outputs))

        def schedule(scope: Scope) -> Block:
            several = grouped(scope.block, self.pipeline_depth)
            aliases = Aliases(enter(several, scope.parent, scope.number))
            scheduled = ScheduledBlock(self, aliases, lasting, faults).build()
            return scope.block if scheduled is several else scheduled

        scheduled = rewrite_blocks(program_with_indices, schedule, self.reqs)
        if faults:
            raise TileError(faults)
        return program if scheduled is program_with_indices else without_unused_temporaries(scheduled)


def without_unused_temporaries(program: Program) -> Program:
    """Return the program without temporaries that no kernel touches."""
    lasting = {*program.inputs, *program.outputs, *(buffer.name for buffer in program.buffers)}
    used = uses_of(program.kernels, program.works).names | lasting
    memory = tuple(each for each in program.memory if each.name in used)
    return program if len(memory) == len(program.memory) else attrs.evolve(program, memory=memory)
