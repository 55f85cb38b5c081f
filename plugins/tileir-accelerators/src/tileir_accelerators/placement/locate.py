"""Passes that assign locations to blocks and memory.

Locations are options of passes: devices with units given by numbers, affines of indices, or tags of indices.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import ClassVar, Final

from tileir.core import MemoryUnit, ParseError, Target, attrs, fail, rewritten
from tileir.core.targets.target_file import hardware_of
from tileir.passes.kernels.walk import choice, rewrite_blocks, rewrite_chosen, with_views
from tileir.poly.affine import Affine
from tileir.stripe.check.scope import Scope
from tileir.stripe.ir import KERNEL, PROGRAM, Block, Device, Direction, Location, Program, Refinement, Statement
from tileir.stripe.text.parser import parse_location

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def _is_name(_: object, __: attrs.Attribute[str], name: str) -> None:
    if not _NAME.match(name):
        raise ValueError(f"the name of a device must be letters, digits and underscores, not {name!r}")


def _are_units(_: object, __: attrs.Attribute[tuple[int | str, ...]], units: tuple[int | str, ...]) -> None:
    for unit in units:
        if isinstance(unit, str) and not (unit.startswith("#") and _NAME.match(unit[1:])):
            try:
                parse_location(f"D[{unit}]")
            except ParseError as error:
                raise ValueError(f"a unit is a number, #tag of an index, or an affine, not {unit!r}") from error


@attrs.frozen
class Place:
    """One device of a location.

    Attributes:
        name: Name of the device, such as ``SRAM``.
        units: Its unit number along each dimension of units: a number; ``#tag`` for the value of the block's only index
            with this tag; or an affine of the block's indices, such as ``2*i + 1``.
    """

    name: str = attrs.field(validator=_is_name)
    units: tuple[int | str, ...] = attrs.field(default=(), validator=_are_units)


def location(places: Iterable[Place], block: Block) -> Location:
    """Return the location that ``places`` mean in a block.

    Raises:
        TileError: TIL505, no index of the block, or several, carry the tag of a unit; or an affine uses an index that
            the block does not have.
    """
    return tuple(Device(place.name, tuple(_unit(unit, block) for unit in place.units)) for place in places)


def _unit(unit: int | str, block: Block) -> Affine:
    if isinstance(unit, int):
        return Affine.constant(unit)
    if unit.startswith("#"):
        tagged = [index.name for index in block.indices if unit[1:] in index.words]
        if len(tagged) != 1:
            found = "none does" if not tagged else f"{', '.join(tagged)} do"
            message = (
                f"one index of block {block.name!r} must carry the tag {unit[1:]!r} to be a unit's number: {found}"
            )
            raise fail("TIL505", message)
        return Affine.index(tagged[0])
    ((affine,),) = (device.units for device in parse_location(f"D[{unit}]"))
    known = {index.name for index in block.indices}
    for name in affine.indices:
        if name not in known:
            raise fail("TIL505", f"the unit {unit!r} uses {name!r}, which is no index of block {block.name!r}")
    return affine


def is_at(where: Location, places: Sequence[Place]) -> bool:
    """Return whether a location begins with the devices of ``places``; units are compared if both have numbers."""
    return len(where) >= len(places) and all(map(_matches, where, places))


def _matches(device: Device, place: Place) -> bool:
    if device.name != place.name:
        return False
    pairs = zip(device.units, place.units, strict=False)
    return not any(a.is_constant and isinstance(b, int) and a.offset != b for a, b in pairs)


def memory_of(places: Sequence[Place], target: Target) -> MemoryUnit | None:
    """Return the memories of the last device of ``places``, by the hardware model of a target.

    None without a place, or if the model has no such memory: tags and locations may name unknown memories.
    """
    if not places:
        return None
    return next((unit for unit in hardware_of(target).memory_units if unit.name == places[-1].name), None)


@attrs.frozen
class LocateBlock:
    """Name the device that runs the selected blocks.

    Attributes:
        reqs: Tags that a block must carry; without tags, all kernels and all blocks in them.
        loc: The device, or a path of devices from the outside in; if empty, the pass does nothing.
        append_devs: Whether to append it to a block's location instead of replacing that.
        skip_tags: Blocks with one of these tags keep their location.
    """

    name: ClassVar[str] = "locate_block"
    sees_loops: ClassVar[bool] = True
    reqs: tuple[str, ...] = (KERNEL,)
    loc: tuple[Place, ...] = ()
    append_devs: bool = False
    skip_tags: tuple[str, ...] = ()

    def __call__(self, program: Program) -> Program:
        """Return the program with the selected blocks located.

        Raises:
            TileError: TIL505, a unit names a tag that not exactly one index of the block carries.
        """
        if not self.loc:
            return program
        return rewrite_blocks(program, partial(_located, self), self.reqs, skip_tags=self.skip_tags)


@attrs.frozen
class LocateInnerBlock:
    """Assign a device to blocks directly inside the selected blocks.

    Attributes:
        reqs: Tags that the enclosing block must carry.
        inner_reqs: Tags that an inner block must carry.
        loc: The device, or a path of devices; if empty, the pass does nothing.
        append_devs: Whether to append it to an inner block's location instead of replacing that.
        skip_tags: Inner blocks with one of these tags keep their location.
    """

    name: ClassVar[str] = "locate_inner_block"
    sees_loops: ClassVar[bool] = True
    reqs: tuple[str, ...] = (KERNEL,)
    inner_reqs: tuple[str, ...] = ()
    loc: tuple[Place, ...] = ()
    append_devs: bool = False
    skip_tags: tuple[str, ...] = ()

    def __call__(self, program: Program) -> Program:
        """Return the program with the inner blocks located; raises as :meth:`LocateBlock.__call__`."""
        if not self.loc:
            return program
        around, chosen = choice(program, self.reqs), choice(program, self.inner_reqs, self.skip_tags)

        def wanted(block: Block, parent: Block | None) -> bool:
            return parent is not None and parent is not program.entry and around(parent) and chosen(block)

        return rewrite_chosen(program, partial(_located, self), wanted)


def _located(naming: LocateBlock | LocateInnerBlock, scope: Scope) -> Block:
    block = scope.block
    where = location(naming.loc, block)
    new = (*block.location, *where) if naming.append_devs else where
    return block if new == block.location else attrs.evolve(block, location=new)


@attrs.frozen
class LocateMemory:
    """Name the memory in which allocations of the selected blocks are; views of them, at any depth, follow.

    Attributes:
        reqs: Tags that a block must carry; ``program`` for parameters, results and temporaries of the program.
        ref_reqs: Tags that an allocation must carry.
        loc: The memory, or a path of devices to it; if empty, the pass does nothing.
        append_devs: Whether to append it to an allocation's location instead of replacing that.
        skip_tags: Allocations with one of these tags keep their location.
        located: Whether to move allocations that already have a location.
    """

    name: ClassVar[str] = "locate_memory"
    sees_loops: ClassVar[bool] = True
    reqs: tuple[str, ...] = (PROGRAM,)
    ref_reqs: tuple[str, ...] = ()
    loc: tuple[Place, ...] = ()
    append_devs: bool = False
    skip_tags: tuple[str, ...] = ()
    located: bool = False

    def __call__(self, program: Program) -> Program:
        """Return the program with memory located; raises as :meth:`LocateBlock.__call__`."""
        return rewrite_blocks(program, self._with_memory, self.reqs, entry=True) if self.loc else program

    def _with_memory(self, scope: Scope) -> Block:
        block = scope.block
        where = location(self.loc, block)
        placed = ((r, self._place(r, where)) for r in block.refinements)
        moved = {r.name: attrs.evolve(r, location=new) for r, new in placed if new != r.location}
        if not moved:
            return block
        refinements = tuple(moved.get(r.name, r) for r in block.refinements)
        statements = rewritten(block.statements, lambda s: (located_by(s, moved),))
        return attrs.evolve(block, refinements=refinements, statements=statements)

    def _place(self, refinement: Refinement, where: Location) -> Location:
        tags = refinement.tags
        skipped = refinement.direction is not Direction.NONE or not tags.has_all(self.ref_reqs)
        if skipped or any(tag in tags for tag in self.skip_tags):
            return refinement.location
        if refinement.location and not (self.located or self.append_devs):
            return refinement.location
        return (*refinement.location, *where) if self.append_devs else where


def located_by(statement: Statement, moved: Mapping[str, Refinement]) -> Statement:
    """Return a statement with the locations of ``moved`` refinements in their views, at any depth.

    Units that indices choose are only named at the allocation.
    """
    return with_views(statement, moved, lambda view, of: attrs.evolve(view, location=fixed(of.location)))


def fixed(where: Location) -> Location:
    """Return a location without the units that indices choose."""
    return tuple(_fixed_device(device) for device in where)


def _fixed_device(device: Device) -> Device:
    return device if all(unit.is_constant for unit in device.units) else attrs.evolve(device, units=())


@attrs.frozen
class RewriteLocations:
    """Replace the beginning of locations, of blocks and of memory.

    Attributes:
        reqs: Tags that a block must carry; without tags, all blocks.
        prefix: The beginning of locations to replace.
        target: The replacement; unit numbers of the prefix are replaced as well.
    """

    name: ClassVar[str] = "rewrite_locations"
    sees_loops: ClassVar[bool] = True
    reqs: tuple[str, ...] = ()
    prefix: tuple[Place, ...] = ()
    target: tuple[Place, ...] = ()

    def __call__(self, program: Program) -> Program:
        """Return the program with other locations; raises as :meth:`LocateBlock.__call__`."""
        return rewrite_blocks(program, self._rewritten, self.reqs, entry=True) if self.prefix else program

    def _rewritten(self, scope: Scope) -> Block:
        block = scope.block
        refinements = tuple(self._refinement(r, block) for r in block.refinements)
        where = self._moved(block.location, block)
        if where == block.location and refinements == block.refinements:
            return block
        return attrs.evolve(block, location=where, refinements=refinements)

    def _refinement(self, refinement: Refinement, block: Block) -> Refinement:
        where = self._moved(refinement.location, block)
        return refinement if where == refinement.location else attrs.evolve(refinement, location=where)

    def _moved(self, where: Location, block: Block) -> Location:
        if not is_at(where, self.prefix):
            return where
        return (*location(self.target, block), *where[len(self.prefix) :])
