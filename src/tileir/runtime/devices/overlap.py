"""Overlap of arrays in memory, on any device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tileir.core.nodes import attrs
from tileir.runtime.devices.home import OPAQUE

if TYPE_CHECKING:
    from collections.abc import Hashable

    from tileir.runtime.arrays import Array
    from tileir.runtime.devices.array import DeviceArray


@attrs.frozen
class Region:
    """Memory that the host does not see.

    Attributes:
        space: What it is memory of: a device, or an object that is the only one to use it.
        start: Its first byte.
        end: The byte behind its last one.

    """

    space: Hashable
    start: int = 0
    end: int = 1

    def overlaps(self, other: Region) -> bool:
        """Return whether two regions have a byte in common."""
        return self.space == other.space and self.start < other.end and other.start < self.end


Footprint: TypeAlias = "Array | Region"


def footprint(array: Array | DeviceArray) -> Footprint:
    """Return what tells which memory an array is in."""
    if isinstance(array, np.ndarray):
        return array
    seen = array.seen()
    if seen is not None:
        return seen
    buffer = array.memory()
    if not array.home.shares:
        return Region(id(buffer))
    executor: Any = array.home.executor
    address, device = executor.address(buffer), array.device.id
    return (
        Region((device, address)) if array.home.place[0] in OPAQUE else Region(device, address, address + array.nbytes)
    )


def overlap(one: Footprint, other: Footprint) -> bool:
    """Return whether writing one may change the other."""
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and np.may_share_memory(one, other)
    return isinstance(other, Region) and one.overlaps(other)
