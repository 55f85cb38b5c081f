"""Executors that offer more or less beyond the protocol; the processor plays all of them."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, Any

import attrs

from strategies.asynchronous import DistantDevice
from strategies.devices import executor

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.runtime.host_memory import HostBuffer


@attrs.define(eq=False)
class PlainDevice:
    """A device of a stranger: the protocol, and nothing beyond it."""

    prepare: Any = attrs.field(factory=lambda: executor().prepare)
    copy: Any = attrs.field(factory=lambda: executor().copy)
    wrap: Any = attrs.field(factory=lambda: executor().wrap)
    allocated: list[tuple[weakref.ref[Any], int]] = attrs.field(factory=list)

    def allocate(self, nbytes: int) -> HostBuffer:
        buffer = executor().allocate(nbytes)
        self.allocated.append((weakref.ref(buffer.array.base), nbytes))  # parts of it keep that alive
        return buffer

    @property
    def living_bytes(self) -> int:
        gc.collect()
        return sum(nbytes for memory, nbytes in self.allocated if memory() is not None)


class OpaqueDevice(DistantDevice):
    """A distant device that neither submits nor divides memory."""

    asynchronous = False
    part: Any = None


class UndividedDevice(DistantDevice):
    """A distant device that does not divide memory."""

    part: Any = None


DEVICES: list[Callable[[], Any]] = [executor, PlainDevice, OpaqueDevice, DistantDevice, UndividedDevice]
