"""Pass that assigns allocations their offsets in each memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final

from tileir.core import REGISTER, Diagnostic, Target, TileError, attrs, rewritten
from tileir.core.targets.target_file import hardware_of
from tileir.passes.analysis.dependences import with_dependences
from tileir.passes.base import at_least
from tileir.passes.kernels.walk import rewrite_blocks
from tileir.stripe.aliases import byte_size, same_place
from tileir.stripe.check.scope import Scope
from tileir.stripe.ir import PROGRAM, Block, Program, Refinement
from tileir.stripe.lifetimes import Coexistence, Lifetime, lifetimes
from tileir.stripe.text.language import location_text
from tileir_accelerators.placement.locate import Place, is_at


@attrs.frozen
class Limit:
    """Size limit of a memory.

    Attributes:
        name: The name of the memory.
        kib: Size of one memory in KiB.
        count: Number of memories; an allocation without a unit number may use the bytes of all.
    """

    name: str
    kib: float
    count: int = 1


_MOST_BY_DEPS: Final = 1024
"""Number of allocations from which statements count as run in order, to avoid comparing all pairs."""


@attrs.frozen
class MemoryPlacement:
    """Place the allocations of the selected blocks and their inner blocks: a byte offset in each location.

    Allocations whose live ranges may overlap get disjoint bytes; others share bytes. Concurrency follows from
    dependencies if there are any, and from the order of statements otherwise; dependencies are recomputed to include
    those that sharing adds. Existing placements are kept.

    Attributes:
        reqs: Tags that a block must carry; allocations of blocks inside it are placed with it.
        locs: The memories whose allocations are placed; if empty, all memory with a location.
        alignment: Alignment of offsets in bytes.
        skip_tags: Allocations with one of these tags are not placed.
        limits: Sizes of memories, each ``{name=SRAM, kib=64}``; by default those of the hardware model, except
            registers, which are spilled. Other memories are unlimited.
    """

    name: ClassVar[str] = "memory_placement"
    sees_loops: ClassVar[bool] = True
    reqs: tuple[str, ...] = (PROGRAM,)
    locs: tuple[Place, ...] = ()
    alignment: int = attrs.field(default=4, validator=at_least(1))
    skip_tags: tuple[str, ...] = ()
    limits: tuple[Limit, ...] | None = None

    def for_target(self, target: Target) -> MemoryPlacement:
        """Return the pass with the memory sizes of the hardware model, if none are given."""
        if self.limits is not None:
            return self
        units = [unit for unit in hardware_of(target).memory_units if unit.name != REGISTER]
        named = [unit for unit in units if not self.locs or unit.name in {place.name for place in self.locs}]
        return attrs.evolve(self, limits=tuple(Limit(unit.name, unit.size_kib, unit.count) for unit in named))

    def __call__(self, program: Program) -> Program:
        """Return the program with memory placed.

        Raises:
            TileError: TIL548, simultaneously live data are larger than their memory.
        """
        lasting = frozenset((*program.inputs, *program.outputs))
        placed = rewrite_blocks(program, lambda scope: self._placed(scope, lasting), self.reqs, entry=True)
        return program if placed is program else rewrite_blocks(placed, _deps_again)

    def _placed(self, scope: Scope, lasting: frozenset[str]) -> Block:
        lives = lifetimes(scope.block, lasting if scope.parent is None else ())
        known = [life for life in lives if life.allocation.offset is not None]
        wanted = [life for life in lives if self._is_wanted(life.allocation)]
        if not wanted:
            return scope.block
        by_deps = len(lives) <= _MOST_BY_DEPS
        placer = _Placer(Coexistence(scope.block, by_deps), self.alignment, known)
        offsets = placer.place(wanted)
        self._check_room(scope.block, wanted, offsets)
        return _with_offsets(scope.block, offsets)

    def _check_room(self, block: Block, wanted: Iterable[Lifetime], offsets: Mapping[int, int]) -> None:
        limits = {limit.name: limit for limit in self.limits or ()}
        faults: dict[str, str] = {}
        for allocation in (life.allocation for life in wanted):
            where, device = location_text(allocation.location)[1:-1], allocation.location[-1]
            if (limit := limits.get(device.name)) is None:
                continue
            room = limit.kib * (1 if device.units else limit.count)
            end = (offsets[id(allocation)] + byte_size(allocation)) / 1024
            if end > room:
                faults[where] = (
                    f"block {block.name!r} has {end:.4g} KiB in {where} at a time, which has {room:.4g} KiB:"
                    f" {allocation.name!r} does not fit; split the work into smaller tiles before, by autotile or tile"
                )
        if faults:
            raise TileError(Diagnostic("TIL548", fault) for fault in faults.values())

    def _is_wanted(self, allocation: Refinement) -> bool:
        if allocation.offset is not None or not allocation.location or allocation.shape.elements == 0:
            return False
        placed = not self.locs or any(is_at(allocation.location, (place,)) for place in self.locs)
        return placed and not any(tag in allocation.tags for tag in self.skip_tags)


@attrs.define(eq=False, repr=False)
class _Placer:
    """First-fit placement in allocation order, with unbounded live ranges first."""

    coexistence: Coexistence
    alignment: int
    placed: list[Lifetime]
    offsets: dict[int, int] = attrs.field(factory=dict, init=False)  # by identity of the allocation

    def place(self, wanted: Sequence[Lifetime]) -> Mapping[int, int]:
        """Return the offset of each allocation, by its identity."""
        for life in sorted(wanted, key=lambda life: (not life.always, life.first)):
            if not self.coexistence.by_deps and not life.always:
                self.placed = [other for other in self.placed if other.always or other.last >= life.first]
            self.offsets[id(life.allocation)] = self._lowest(life)
            self.placed.append(life)
        return self.offsets

    def _lowest(self, life: Lifetime) -> int:
        size = byte_size(life.allocation)
        offset = 0
        for first, end in sorted(self._taken(life)):
            if first < offset + size and offset < end:
                offset = -(-end // self.alignment) * self.alignment
        return offset

    def _taken(self, life: Lifetime) -> set[tuple[int, int]]:
        """Return the bytes, first and end, of all allocations live together with an allocation."""
        taken = set()
        for other in self.placed:
            if same_place(other.allocation.location, life.allocation.location):
                known = other.allocation.offset
                offset = self.offsets[id(other.allocation)] if known is None else known
                if self.coexistence.together(other, life):
                    taken.add((offset, offset + byte_size(other.allocation)))
        return taken


def _with_offsets(block: Block, offsets: Mapping[int, int]) -> Block:
    """Return a block with offsets for its allocations and those inside; nesting is bounded."""
    refinements = tuple(attrs.evolve(r, offset=offsets[id(r)]) if id(r) in offsets else r for r in block.refinements)
    statements = rewritten(block.statements, lambda s: (_with_offsets(s, offsets) if isinstance(s, Block) else s,))
    if refinements == block.refinements and statements is block.statements:
        return block
    return attrs.evolve(block, refinements=refinements, statements=statements)


def _deps_again(scope: Scope) -> Block:
    """Return a block with recomputed dependencies for the placement, if it had any."""
    block = scope.block
    return with_dependences(scope) if any(statement.deps for statement in block.statements) else block
