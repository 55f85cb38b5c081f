"""Lowering of Tile functions to kernels for a processor that may be another one, without a C compiler.

Lowering belongs to tileir, which compiles for devices. So this module has a device that only emits, in a separate
context, which compiles the kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn

import attrs
import numpy as np

import tileir
from tileir.core.errors import BackendError
from tileir.runtime.discovery import Registry
from tileir.runtime.events import all_ended
from tileir.runtime.host_memory import HostBuffer, allocate
from tileir.runtime.interface import Backend, DeviceInfo
from tileir.semtree.analysis.constant_works import constant_works, without_constant_works
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.ir import BufferRole, Launch
from tileir.semtree.launches import launches, used_buffers, with_launches
from tileir_c.compiler import whole
from tileir_c.device import target
from tileir_c.emitter import emit
from tileir_c.library import CLibrary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tileir.runtime.events import PendingEvent
    from tileir.semtree.ir import KernelFunction, Program, Work

NAME = "c-source"
"""Name of the back end, and of its only device."""

_INTERPRETED: Final = 1 << 25
"""Maximum number of operations and moved elements up to which the interpreter folds constant works."""


def lower(function: tileir.Function | str, types: Mapping[str, tileir.TensorType], vector_bytes: int) -> Program:
    """Return the kernels of a function for a processor with vectors of some width, one thread and usual caches.

    Raises:
        TileError: The function is wrong or does not fit the types of its inputs.
    """
    processor = attrs.evolve(target({}, 1), name=NAME, vector_bytes=vector_bytes)
    device = DeviceInfo(f"{NAME}.0", "any processor", NAME, target=processor)
    backend = Backend(
        NAME, lambda: (device,), lambda _device, _options: _Emitter(), lambda _device, _options: _Nowhere()
    )
    with tileir.Context(registry=Registry.of(backend), disk_cache=None) as context:
        return _folded(tileir.compile(function, types, device=device.id, context=context).sem)


def _folded(program: Program) -> Program:
    """Return a program with the results of works that only depend on constants as constants.

    The interpreter of kernels runs them; if that would take long, each call of the program does.
    """
    once = constant_works(program)
    works = tuple(work for number, work in enumerate(program.works) if number in once)
    if not works or sum(_operations(program, work) for work in works) > _INTERPRETED:
        return program
    left = without_constant_works(program, once)
    known = {buffer.name for buffer in program.buffers if buffer.role is BufferRole.CONSTANT}
    wanted = {buffer.name for buffer in left.buffers if buffer.role is BufferRole.CONSTANT} - known
    used = {*used_buffers(works), *wanted}
    buffers = tuple(
        attrs.evolve(buffer, role=BufferRole.OUTPUT) if buffer.name in wanted else buffer
        for buffer in program.buffers
        if buffer.name in used
    )
    found = run_program(attrs.evolve(program, buffers=buffers, works=works), {})
    results = {name: np.ascontiguousarray(array).tobytes() for name, array in found.items()}
    kernels = tuple(dict.fromkeys(launch.kernel for launch in launches(left.works)))
    return attrs.evolve(
        left,
        kernels=tuple(program.kernels[number] for number in kernels),
        buffers=tuple(attrs.evolve(each, data=results.get(each.name, each.data)) for each in left.buffers),
        works=with_launches(left.works, lambda launch: attrs.evolve(launch, kernel=kernels.index(launch.kernel))),
    )


def _operations(program: Program, work: Work) -> int:
    """Return the operations and moves of a launch; more than any limit if unknown, as in loops."""
    return (program.kernels[work.kernel].operations if isinstance(work, Launch) else 0) or _INTERPRETED + 1


@attrs.frozen
class _Emitter:
    """Compiler whose libraries have a source and no code."""

    identity: str = NAME

    def build(self, kernels: Sequence[KernelFunction]) -> CLibrary:
        emitted = emit(kernels)
        return CLibrary(tuple(kernels), whole(emitted), b"", emitted.scratch_bytes)

    def load(self, kernels: Sequence[KernelFunction], parts: Mapping[str, bytes]) -> CLibrary:
        return CLibrary.restore(tuple(kernels), parts)


class _Nowhere:
    """Executor, and placeholder of its kernels, which cannot be launched."""

    def allocate(self, nbytes: int) -> HostBuffer:
        return allocate(nbytes)

    def wrap(self, *_: Any, **__: Any) -> None:
        """Return None: no array can be used in place."""

    def prepare(self, *_: Any, **__: Any) -> _Nowhere:
        return self

    def run(self, *_: Any, **__: Any) -> NoReturn:
        raise BackendError.of("TIL804", f"device {NAME}.0 only emits code; run it with the device c.0")

    launch = run

    def copy(self, *_: Any, **__: Any) -> PendingEvent:
        """Copy nothing: constants are written into the source."""
        return all_ended(())

    def close(self) -> None:
        """Do nothing."""
