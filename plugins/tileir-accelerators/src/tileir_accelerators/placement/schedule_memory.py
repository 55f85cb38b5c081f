"""Pass that schedules data of statements in an inner memory: slots, transfers and spills."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import ClassVar, Final

from tileir.core import Diagnostic, NameScope, Target, TileError, attrs, rewritten
from tileir.passes.analysis.dependences import with_dependences
from tileir.passes.base import at_least, free_tags
from tileir.passes.kernels.walk import rewrite_blocks, with_views
from tileir.poly.affine import Affine
from tileir.stripe.aliases import Aliases, allocations, byte_size
from tileir.stripe.check.scope import Scope, enter
from tileir.stripe.ir import (
    MAIN,
    Block,
    Direction,
    Location,
    Program,
    Refinement,
    Special,
    Statement,
    Tags,
    views_read,
    views_written,
)
from tileir.stripe.works import uses_of
from tileir_accelerators.placement.locate import Place, is_at, located_by, location, memory_of
from tileir_accelerators.placement.partition import hand_down
from tileir_accelerators.placement.point_groups import grouped
from tileir_accelerators.placement.residency import ALL_BANKS, Item, LiveRange, Memory, Shortage, Slot, Use, plan
from tileir_accelerators.placement.resident_views import Resident, identity, locals_of, overhanging, residents
from tileir_accelerators.placement.transfers import Transfers, redirected, slot_for

_UNKNOWN_KIB: Final = 256.0
"""Size of memories unknown to the hardware model."""


@attrs.frozen
class Schedule:
    """Provide the data of the selected blocks' statements in an inner memory.

    Transfers (tag ``xfer``) load inputs, and store results that are needed outside; items that fit stay live between
    statements. Free slots are reused; under memory pressure, the item with the most distant next use is spilled.
    Dependencies express concurrency: transfers for the next statement overlap the current one if there is room.
    Temporaries that never leave the inner memory are dropped outside.

    A block that allocates in the inner memory itself loads its own data, and keeps its place.

    Attributes:
        reqs: Tags that a block must carry.
        mem_loc: The inner memory.
        mem_kib: Its size, or that of each of its banks, in KiB; 0 for unlimited. None: the size in the hardware model,
            or else 256.
        alignment: Alignment of offsets in bytes.
        xfer_loc: The unit that moves data.
        allow_out_of_range_accesses: Whether that unit may access memory beyond the edge of a tensor: transfers whose
            constraints prevent it get the tag ``overrun``, which allows a device to drop the constraints.
        num_banks: Number of banks; refinements with a bank axis are spread over all of them. None: the number of
            memories of that name in the hardware model if the size is from there as well, else 1.
        pipeline_depth: Number of points of a block in the memory at a time: if an index allows it, the block is
            unrolled by this number, and transfers and statements of different points wait only for true dependencies.
        window: Number of statements by which loads precede their use.
        swap_in_set: Tags of blocks that load data.
        swap_out_set: Tags of blocks that store data.
        skip_tags: Refinements with one of these tags are left alone.
        only_larger: Whether to skip blocks whose data fit in the memory together: the enclosing block can load these at
            once.
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
        """KiB of the inner memory, or of a bank of it; 0 for unlimited."""
        return _UNKNOWN_KIB if self.mem_kib is None else self.mem_kib

    @property
    def banks(self) -> int:
        """Number of banks of the inner memory."""
        return self.num_banks or 1

    def for_target(self, target: Target) -> Schedule:
        """Return the pass with the size of the inner memory in the hardware model, if none is given."""
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
            scheduled = _ScheduledBlock(self, aliases, lasting, faults).build()
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


@attrs.define(eq=False, slots=False)
class _ScheduledBlock:
    """Builder of one block.

    Attributes:
        options: The pass.
        aliases: The original block.
        lasting: Parameters and results of the program.
        faults: Collects statements whose data do not fit.
    """

    options: Schedule
    aliases: Aliases
    lasting: frozenset[str]
    faults: list[Diagnostic]
    _slots: dict[int, Refinement] = attrs.field(factory=dict, init=False)  # by identity of the live range
    _places: dict[str, tuple[Location, int]] = attrs.field(factory=dict, init=False)  # of allocations inside statements

    def build(self) -> Block:
        """Return the block with transfers and slots; the block itself if nothing is loaded, or it does not fit."""
        options, block = self.options, self.aliases.scope.block
        if any(is_at(r.location, options.mem_loc) for r in block.refinements if r.direction is Direction.NONE):
            return block
        if options.only_larger and self._fits_around():
            return block
        found = residents(self.aliases, self.lasting, options.mem_loc, options.banks, options.skip_tags)
        if not found:
            return block
        views = {resident.item.name: resident for resident in found}
        items = [*(resident.item for resident in found), *self._items_of_locals()]
        ranges = plan(items, len(block.statements), self._memory, options.window, self._reserved())
        kept = [live for live in ranges if isinstance(live, LiveRange)]
        if len(kept) < len(ranges) or not kept:
            self.faults.extend(self._fault(live) for live in ranges if isinstance(live, Shortage))
            return block
        names = NameScope.of(r.name for r in block.refinements)
        for live in kept:
            if live.item.name in views:
                self._slots[id(live)] = self._slot(views[live.item.name], live.slot, names)
        self._places = {live.item.name: self._placed(live.slot) for live in kept if live.item.name not in views}
        statements = self._statements([live for live in kept if live.item.name in views], views)
        used = {name for s in statements for name in (*views_read(s), *views_written(s))}
        homes = tuple(r for r in block.refinements if r.name in used or r.name not in views)
        new = attrs.evolve(block, refinements=(*homes, *self._slots.values()), statements=statements)
        return with_dependences(enter(new, self.aliases.scope.parent, self.aliases.scope.number))

    @cached_property
    def _memory(self) -> Memory:
        return Memory(int(self.options.room_kib * 1024), self.options.banks, self.options.alignment)

    @cached_property
    def _place(self) -> Location:
        return location(self.options.mem_loc, self.aliases.scope.block)

    @cached_property
    def _transfers(self) -> Transfers:
        options, block = self.options, self.aliases.scope.block
        return Transfers(
            self.aliases,
            location(options.xfer_loc, block),
            Tags.of(*options.swap_in_set),
            Tags.of(*options.swap_out_set),
            options.allow_out_of_range_accesses,
        )

    def _fits_around(self) -> bool:
        """Return whether all views of the enclosing block fit into the memory together with the data inside."""
        parent, memory = self.aliases.scope.parent, self._memory
        if parent is None:
            return True
        sources = {r.source for r in self.aliases.scope.block.refinements if r.direction is not Direction.NONE}
        views = [slot_for(r, 1) for r in parent.block.refinements if r.name in sources]
        sizes = [byte_size(r) for r in (*views, *allocations(self.aliases.scope.block))]
        total = sum(map(memory.aligned, sizes))
        return memory.bank_bytes == 0 or (max(sizes, default=0) <= memory.bank_bytes and total <= memory.total_bytes)

    def _items_of_locals(self) -> Iterator[Item]:
        """Yield items for allocations inside statements, each live while its statement runs."""
        for number, statement in enumerate(self.aliases.scope.block.statements):
            for order, allocation in enumerate(locals_of(statement, self.options.mem_loc)):
                uses = {number: Use(reads=False, writes=True)}
                yield Item(_local_name(number, order), byte_size(allocation), uses, live_in=False, live_out=False)

    def _placed(self, slot: Slot) -> tuple[Location, int]:
        """Return the location and offset of a slot."""
        *path, device = self._place
        if slot.bank != ALL_BANKS and (self.options.banks > 1 or not device.units):
            device = attrs.evolve(device, units=(*device.units, Affine.constant(slot.bank)))
        return (*path, device), slot.offset

    def _reserved(self) -> dict[int, tuple[Slot, ...]]:
        """Return the slots placed by statements that load their own data."""
        found: dict[int, tuple[Slot, ...]] = {}
        for number, statement in enumerate(self.aliases.scope.block.statements):
            if isinstance(statement, Block):
                own = (a for a in allocations(statement) if is_at(a.location, self.options.mem_loc))
                slots = tuple(Slot(self._bank(a), a.offset, byte_size(a)) for a in own if a.offset is not None)
                if slots:
                    found[number] = slots
        return found

    def _bank(self, allocation: Refinement) -> int:
        """Return the bank of an allocation, by its last unit."""
        if self.options.banks == 1:
            return 0
        units = allocation.location[len(self.options.mem_loc) - 1].units
        return int(units[-1].offset) if units and units[-1].is_constant else ALL_BANKS

    def _slot(self, resident: Resident, slot: Slot, names: NameScope) -> Refinement:
        """Return the allocation of a slot."""
        where, offset = self._placed(slot)
        name = names.fresh(f"{resident.view.name}_{where[-1].name.lower()}")
        return attrs.evolve(resident.slot, name=name, location=where, offset=offset)

    def _statements(self, ranges: list[LiveRange], views: dict[str, Resident]) -> tuple[Statement, ...]:
        """Return the statements in order, with transfers before and after them."""
        block = self.aliases.scope.block
        before: dict[int, list[Statement]] = {}
        behind: dict[int, list[Statement]] = {}
        slots: dict[int, dict[str, LiveRange]] = {}
        for live in ranges:
            view, slot = views[live.item.name].view, self._slots[id(live)]
            if live.load_before is not None:
                before.setdefault(live.load_before, []).append(self._transfers.swap_in(view, slot))
            if live.store_after is not None:
                behind.setdefault(live.store_after, []).append(self._transfers.swap_out(view, slot))
            for number in live.uses:
                slots.setdefault(number, {})[view.name] = live
                if views[live.item.name].filled:
                    fill = Special("fill", (), (slot.name,), (("value", identity(view)),))
                    before.setdefault(number, []).append(fill)
        result: list[Statement] = []
        for number, statement in enumerate(block.statements):
            result.extend(before.get(number, ()))
            result.append(self._statement(self._with_locals(number, statement), slots.get(number, {}), views))
            result.extend(behind.get(number, ()))
        return tuple(result)

    def _with_locals(self, number: int, statement: Statement) -> Statement:
        """Return a statement whose own allocations are in the inner memory."""
        found = enumerate(locals_of(statement, self.options.mem_loc))
        places = {id(allocation): self._places.get(_local_name(number, order)) for order, allocation in found}
        return _with_places(statement, places) if places else statement

    def _statement(self, statement: Statement, ranges: dict[str, LiveRange], views: dict[str, Resident]) -> Statement:
        if not isinstance(statement, Block) or not ranges:
            return statement if not statement.deps else attrs.evolve(statement, deps=())
        kept = [self._slots[id(live)] for name, live in ranges.items() if views[name].filled]
        moved = {name: (views[name].view, self._slots[id(live)]) for name, live in ranges.items()}
        new = redirected(statement, moved)
        return with_views(new, {slot.name: slot for slot in kept}, _merging)

    def _fault(self, shortage: Shortage) -> Diagnostic:
        statement = self.aliases.scope.block.statements[shortage.statement]
        name = statement.name if isinstance(statement, Block) else f"statement {shortage.statement}"
        banks, size = self.options.banks, f"{self.options.room_kib:.4g} KiB"
        has = f"{banks} banks of {size}" if banks > 1 else size
        where = "/".join(place.name for place in self.options.mem_loc)
        largest = shortage.largest
        message = (
            f"pass schedule: {name!r} of block {self.aliases.scope.block.name!r} needs {shortage.needed / 1024:.4g} KiB"
            f" in {where}, {largest.size / 1024:.4g} of it for {largest.name!r}, but that has {has}: split the block"
            " into tiles first, by autotile or tile, and schedule these"
        )
        return Diagnostic("TIL548", message)


def _local_name(number: int, order: int) -> str:
    """Return a name for an allocation inside statement ``number``; no refinement has it."""
    return f"{number}/{order}"


def _with_places(statement: Statement, places: Mapping[int, tuple[Location, int] | None]) -> Statement:
    """Return a statement with placed allocations, by identity, and their views, at any depth."""
    if not isinstance(statement, Block):
        return statement
    moved: dict[str, Refinement] = {}
    for refinement in statement.refinements:
        place = places.get(id(refinement)) if refinement.direction is Direction.NONE else None
        if place is not None:
            moved[refinement.name] = attrs.evolve(refinement, location=place[0], offset=place[1])
    refinements = tuple(moved.get(r.name, r) for r in statement.refinements)
    statements = rewritten(statement.statements, lambda s: (_with_places(located_by(s, moved), places),))
    return attrs.evolve(statement, refinements=refinements, statements=statements)


def _merging(view: Refinement, _: Refinement) -> Refinement | None:
    """Make a view merge into the enclosing block's content instead of overwriting that first."""
    return attrs.evolve(view, direction=Direction.INOUT) if view.merges else None
