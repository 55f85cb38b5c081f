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
    """Memory invisible to the host.

    Attributes:
        space: Identity of the memory: a device, or an object with exclusive memory.
        start: First byte.
        end: End, exclusive.
    """

    space: Hashable
    start: int = 0
    end: int = 1

    def overlaps(self, other: Region) -> bool:
        """Return whether two regions have a byte in common."""
        return self.space == other.space and self.start < other.end and other.start < self.end


Footprint: TypeAlias = "Array | Region"


def footprint(array: Array | DeviceArray) -> Footprint:
    """Return the memory that an array occupies."""
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
    """Return whether writing one array may change the other."""
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and np.may_share_memory(one, other)
    return isinstance(other, Region) and one.overlaps(other)
