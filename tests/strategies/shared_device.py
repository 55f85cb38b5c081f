"""A device that others share memory with, as a card of CUDA does: addresses, streams, and nothing the host sees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from strategies.asynchronous import DistantBuffer, DistantDevice
from strategies.devices import compiler
from tileir.core.dtype import DType
from tileir.runtime.devices.dlpack import at
from tileir.runtime.discovery import Registry, installed
from tileir.runtime.events import PendingEvent
from tileir.runtime.host_memory import wrap
from tileir.runtime.interface import Backend, DeviceInfo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileir.runtime.interface import Event

CUDA = (2, 0)


@attrs.frozen(eq=False)
class ForeignBuffer(DistantBuffer):
    """Memory of somebody else.

    Attributes:
        owner: What keeps it alive.
        alignment: What its address is a multiple of.

    """

    owner: object = None
    alignment: int = 4


@attrs.define(eq=False)
class SharedDevice(DistantDevice):
    """The executor.

    Attributes:
        followed: Streams of others that were waited for.
        preceded: Streams of others that were told to wait, each with how many events it waits for.
        awaited: The events that they wait for.
        lent: What others were given.
        staged: How many bytes of the host's memory it was asked for.
        refuses: Whether it takes no memory of others.

    """

    dlpack_device = CUDA
    dlpack_stream = 7
    followed: list[int] = attrs.field(factory=list)
    preceded: list[tuple[int, int]] = attrs.field(factory=list)
    awaited: list[Event] = attrs.field(factory=list)
    lent: list[int] = attrs.field(factory=list)
    staged: list[int] = attrs.field(factory=list)
    refuses: bool = False

    def stage(self, nbytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Return memory of the host that it is asked for."""
        self.staged.append(nbytes)
        return np.zeros(nbytes, np.uint8)

    def address(self, buffer: DistantBuffer) -> int:
        """Return where the memory is."""
        return buffer.memory.address

    def lend(self, buffer: DistantBuffer) -> int:
        """Note what others use."""
        self.lent.append(buffer.memory.address)
        return self.address(buffer)

    def adopt(self, address: int, nbytes: int, owner: object, *, read_only: bool) -> DistantBuffer | None:
        """Use memory in place."""
        if self.refuses:
            return None
        memory = at(address, DType.U8, (nbytes,), owner, read_only=read_only)
        return ForeignBuffer(wrap(memory), owner)

    def follow(self, stream: int) -> Sequence[Event]:
        """Note a stream."""
        self.followed.append(stream)
        event = PendingEvent()
        event.complete()
        return (event,)

    def precede(self, stream: int, events: Sequence[Event]) -> None:
        """Note a stream."""
        self.preceded.append((stream, len(events)))
        self.awaited.extend(events)


def shared_backend(device: SharedDevice) -> Backend[Any]:
    """Return a back end with one such device."""
    info = DeviceInfo("shared.0", "card", "shared", target=compiler().device.target, dlpack=CUDA)
    return Backend("shared", lambda: (info,), lambda *_: compiler(), lambda *_: device)


def with_card(device: SharedDevice) -> Registry:
    """Return what is installed, with such a device in place of the real cards, of which the first has its number."""
    registry = Registry(lambda: [each for each in installed() if each.name != "cuda"])
    registry.register(shared_backend(device))
    return registry


@attrs.frozen(eq=False)
class Interfaced:
    """Memory of a library of CUDA that knows no DLPack."""

    array: np.ndarray[Any, Any]
    stream: int | None = None
    changes: dict[str, Any] = attrs.field(factory=dict)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Describe it."""
        array = self.array
        data = (array.ctypes.data, not array.flags.writeable)
        described = {"shape": array.shape, "typestr": array.dtype.str, "data": data, "version": 3}
        strides = None if array.flags.c_contiguous else array.strides
        return described | {"strides": strides, "stream": self.stream} | self.changes
