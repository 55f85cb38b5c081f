"""Locations as options of passes: devices with units that numbers, affines of indices, or tags of indices name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import attrs

from tileir.core.errors import ParseError, fail
from tileir.core.targets.target_file import hardware_of
from tileir.poly.affine import Affine
from tileir.stripe.ir import Device
from tileir.stripe.text.parser import parse_location

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tileir.core.targets.hardware import MemoryUnit
    from tileir.core.targets.target import Target
    from tileir.stripe.ir import Block, Location

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
        name: What the device is called, such as ``SRAM``.
        units: Which of them, for each dimension in which they are numbered: a number; ``#tag`` for the value of the one
            index of the block that carries this tag; or an affine of the block's indices, such as ``2*i + 1``.

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
    """Return whether a location begins with the devices of ``places``; units count where both sides have numbers."""
    return len(where) >= len(places) and all(map(_matches, where, places))


def _matches(device: Device, place: Place) -> bool:
    if device.name != place.name:
        return False
    pairs = zip(device.units, place.units, strict=False)
    return not any(a.is_constant and isinstance(b, int) and a.offset != b for a, b in pairs)


def memory_of(places: Sequence[Place], target: Target) -> MemoryUnit | None:
    """Return the memories that the last device of ``places`` is one of, by the hardware model of a target.

    None where no place is given, or the model has no such memory: tags and locations may name what it does not know.
    """
    if not places:
        return None
    return next((unit for unit in hardware_of(target).memory_units if unit.name == places[-1].name), None)
