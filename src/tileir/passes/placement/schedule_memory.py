"""Bring the data of statements into an inner memory, and results out again: slots, transfers and spills."""

from __future__ import annotations

from typing import ClassVar, Final

import attrs

from tileir.core.errors import Diagnostic, TileError
from tileir.core.targets.target import Target
from tileir.passes.base import at_least, free_tags
from tileir.passes.kernels.walk import rewrite_blocks
from tileir.passes.placement.locate import Place, memory_of
from tileir.passes.placement.partition import hand_down
from tileir.passes.placement.point_groups import grouped
from tileir.passes.placement.resident_views import overhanging
from tileir.passes.placement.scheduled_block import ScheduledBlock
from tileir.stripe.aliases import Aliases
from tileir.stripe.check.scope import Scope, enter
from tileir.stripe.ir import Block, Program
from tileir.stripe.tags import MAIN
from tileir.stripe.works import uses_of

_UNKNOWN_KIB: Final = 256.0
"""The size of memories that no hardware model knows."""


@attrs.frozen
class Schedule:
    """Give statements of the selected blocks their data in an inner memory.

    Transfers (tag ``xfer``) bring in what is read and bring out what is needed outside; what fits is live from one
    statement to the next. Slots are used again when they are free; where memory is short, what is needed again last
    is spilled. Dependencies say what may run at the same time: transfers for the next statement run beside this one if
    there is room. Temporaries that never leave the inner memory are dropped outside.

    A block that allocates in the inner memory itself brings its data on its own, and keeps its place.

    Attributes:
        reqs: Tags that a block must carry.
        mem_loc: The inner memory.
        mem_kib: Size of it, or of each of its banks; 0 for one without end. None: as the hardware model says of one
            memory of that name, and 256 where it knows none.
        alignment: Bytes that offsets in it are multiples of.
        xfer_loc: The unit that moves data.
        allow_out_of_range_accesses: Whether that unit may touch what is beyond the edge of a tensor: transfers that
            constraints keep from that get the tag ``overrun``, by which a device may drop these.
        num_banks: How many banks the memory has. What has a bank axis is spread over all of them. None: as many as the
            hardware model has memories of that name, where the size comes from there too, else 1.
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
    mem_kib: float | None = None
    alignment: int = attrs.field(default=16, validator=at_least(1))
    xfer_loc: tuple[Place, ...] = (Place("DMA"),)
    allow_out_of_range_accesses: bool = False
    num_banks: int | None = attrs.field(default=None, validator=attrs.validators.optional(at_least(1)))
    pipeline_depth: int = attrs.field(default=1, validator=at_least(1))
    window: int = attrs.field(default=1, validator=at_least(0))
    swap_in_set: tuple[str, ...] = attrs.field(default=("swap_in",), validator=free_tags)
    swap_out_set: tuple[str, ...] = attrs.field(default=("swap_out",), validator=free_tags)
    skip_tags: tuple[str, ...] = ()
    only_larger: bool = False

    @property
    def room_kib(self) -> float:
        """KiB of the inner memory, or of a bank of it; 0 for one without end."""
        return _UNKNOWN_KIB if self.mem_kib is None else self.mem_kib

    @property
    def banks(self) -> int:
        """How many banks the inner memory has."""
        return self.num_banks or 1

    def for_target(self, target: Target) -> Schedule:
        """Return the pass with the size of the inner memory, as the hardware model has it, where none is given."""
        unit = memory_of(self.mem_loc, target) if self.mem_kib is None else None
        if unit is None:
            return self
        whole = self.num_banks is None and not self.mem_loc[-1].units
        return attrs.evolve(self, mem_kib=unit.size_kib, num_banks=unit.count if whole else self.num_banks)

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
