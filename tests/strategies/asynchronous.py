"""A device with memory of its own that works beside the host, as a graphics card does; the processor plays it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from strategies.devices import compiler, executor
from tileir.runtime.interface import Backend, DeviceInfo
from tileir.runtime.mapping import map_host

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileir.runtime.host_memory import HostBuffer
    from tileir.runtime.interface import Event
    from tileir_llvm.run.executor import LLVMKernel


@attrs.frozen(eq=False)
class DistantBuffer:
    """Memory that the host cannot see but by mapping."""

    memory: HostBuffer

    @property
    def nbytes(self) -> int:
        """Its size."""
        return self.memory.nbytes

    def host(self) -> None:
        """Say that the host cannot see it."""
        return

    def map_current(self, after: Sequence[Event] = ()) -> Any:
        """Show the memory."""
        return map_host(self.memory, after)

    map_discard = map_current


@attrs.frozen(eq=False)
class DistantLaunch:
    """A kernel with its buffers."""

    kernel: DistantKernel
    buffers: tuple[DistantBuffer, ...]

    def run(self, after: Sequence[Event] = ()) -> Event:
        """Submit it."""
        return self.kernel.run(self.buffers, after)

    def launch(self) -> None:
        """Run it."""
        self.kernel.launch(self.buffers)


@attrs.frozen(eq=False)
class DistantKernel:
    """A kernel that notes in its device's log when it is submitted, and on which events it waits."""

    kernel: LLVMKernel
    device: DistantDevice

    def launch(self, buffers: Sequence[DistantBuffer]) -> None:
        """Run it."""
        self.run(buffers).wait()

    def run(self, buffers: Sequence[DistantBuffer], after: Sequence[Event] = ()) -> Event:
        """Submit it."""
        gates = [*self.device.gates, *self.device.gates_of.get(len(self.device.submitted), ())]
        event = self.kernel.run([buffer.memory for buffer in buffers], [*after, *gates])
        self.device.submitted.append((event, tuple(after)))
        return event

    def bind(self, buffers: Sequence[DistantBuffer]) -> DistantLaunch:
        """Count bindings."""
        self.device.bound.append(self.kernel.kernel.name)
        return DistantLaunch(self, tuple(buffers))


@attrs.define(eq=False)
class DistantDevice:
    """The executor.

    Attributes:
        gates: What all kernels wait for beside their events.
        gates_of: What single launches wait for, by their number.
        submitted: Events of the launches so far, each with the events that it was given.
        bound: Names of the kernels that were bound.

    """

    asynchronous = True
    part_alignment = 256
    gates: list[Event] = attrs.field(factory=list)
    gates_of: dict[int, list[Event]] = attrs.field(factory=dict)
    submitted: list[tuple[Event, tuple[Event, ...]]] = attrs.field(factory=list)
    bound: list[str] = attrs.field(factory=list)

    def allocate(self, nbytes: int) -> DistantBuffer:
        """Allocate host memory."""
        return DistantBuffer(executor().allocate(nbytes))

    def wrap(self, _: np.ndarray[Any, Any]) -> None:
        """Use no memory of the host."""
        return

    def part(self, buffer: DistantBuffer, offset: int, nbytes: int) -> DistantBuffer:
        """Return a part."""
        assert offset % self.part_alignment == 0
        part = executor().wrap(buffer.memory.host()[offset : offset + nbytes])
        assert part is not None
        return DistantBuffer(part)

    def prepare(self, library: Any, index: int) -> DistantKernel:
        """Ready a kernel."""
        return DistantKernel(executor().prepare(library, index), self)

    def copy(self, source: Any, destination: Any, after: Sequence[Event] = ()) -> Event:
        """Copy in either direction."""
        read, write = (end.memory if isinstance(end, DistantBuffer) else end for end in (source, destination))
        return executor().copy(read, write, after)

    def close(self) -> None:
        """Leave the processor's executor to others."""


def distant_backend(device: DistantDevice) -> Backend[Any]:
    """Return a back end with one such device."""
    info = DeviceInfo("distant.0", "processor", "distant", target=compiler().device.target)
    return Backend("distant", lambda: (info,), lambda *_: compiler(), lambda *_: device)
