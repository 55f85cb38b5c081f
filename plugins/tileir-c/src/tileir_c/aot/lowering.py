"""From a Tile function to kernels for a processor that need not be this one, without a C compiler.

The way down belongs to tileir, which compiles for devices. So a device is described here that only emits: it is
offered to a context of its own, and what the context compiled has the kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import attrs

import tileir
from tileir.core.errors import BackendError
from tileir.runtime.discovery import Registry
from tileir.runtime.events import all_ended
from tileir.runtime.host_memory import HostBuffer, allocate
from tileir.runtime.interface import Backend, DeviceInfo
from tileir_c.compiler import whole
from tileir_c.device import target
from tileir_c.emitter import emit
from tileir_c.library import CLibrary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tileir.runtime.events import PendingEvent
    from tileir.semtree.ir import KernelFunction, Program

NAME = "c-source"
"""The back end's name, and the stem of its only device."""


def lower(function: tileir.Function | str, types: Mapping[str, tileir.TensorType], vector_bytes: int) -> Program:
    """Return the kernels of a function for a processor with vectors of some width, one thread and usual caches.

    Raises:
        TileError: the function is wrong or does not fit the types of its inputs.

    """
    processor = attrs.evolve(target({}, 1), name=NAME, vector_bytes=vector_bytes)
    device = DeviceInfo(f"{NAME}.0", "any processor", NAME, target=processor)
    backend = Backend(
        NAME, lambda: (device,), lambda _device, _options: _Emitter(), lambda _device, _options: _Nowhere()
    )
    with tileir.Context(registry=Registry.of(backend), disk_cache=None) as context:
        return tileir.compile(function, types, device=device.id, context=context).sem


@attrs.frozen
class _Emitter:
    """A compiler whose libraries have a source and no code."""

    identity: str = NAME

    def build(self, kernels: Sequence[KernelFunction]) -> CLibrary:
        emitted = emit(kernels)
        return CLibrary(tuple(kernels), whole(emitted), b"", emitted.scratch_bytes)

    def load(self, kernels: Sequence[KernelFunction], parts: Mapping[str, bytes]) -> CLibrary:
        return CLibrary.restore(tuple(kernels), parts)


class _Nowhere:
    """An executor whose kernels cannot be launched; it stands for them too."""

    def allocate(self, nbytes: int) -> HostBuffer:
        return allocate(nbytes)

    def wrap(self, *_: Any, **__: Any) -> None:
        """No array can be used in place."""

    def prepare(self, *_: Any, **__: Any) -> _Nowhere:
        return self

    def run(self, *_: Any, **__: Any) -> NoReturn:
        raise BackendError.of("TIL804", f"device {NAME}.0 only emits code; run it with the device c.0")

    launch = run

    def copy(self, *_: Any, **__: Any) -> PendingEvent:
        """Copy nothing: constants are written into the source."""
        return all_ended(())

    def close(self) -> None:
        """There is nothing to wait for."""
