"""Scheduled programs on the host with inner memories as they were placed: one stretch of bytes for each of them.

Usually every buffer has memory of its own, which persists: slots that share bytes while both are in use, or that are
read before they are written, show in the interpreters only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from strategies.devices import buffers as device_buffers, compiler, executor
from tileir.semtree.ir import BufferRole
from tileir.semtree.launches import executed
from tileir.semtree.lower.lowering import lower
from tileir.stripe.aliases import byte_size
from tileir.stripe.text.language import location_text
from tileir.stripe.works import inner_memory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir.core.targets.target import Target
    from tileir.semtree.ir import KernelFunction
    from tileir.stripe.ir import Program, Refinement

    Array = np.ndarray[Any, Any]


def run_in_arenas(scheduled: Program, target: Target, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Compile the kernels of a scheduled program for the host, run them in arenas, and return the results by name."""
    program = lower(scheduled, target)
    slots = slots_of(scheduled)
    arenas = _arenas(slots)
    memory: dict[str, Array] = {}
    for buffer in program.buffers:
        if buffer.name in slots:
            slot = slots[buffer.name]
            begin = slot.offset or 0
            arena = arenas[location_text(slot.location)]
            memory[buffer.name] = arena[begin : begin + byte_size(slot)].view(buffer.dtype.numpy)
        elif buffer.role is BufferRole.INPUT:
            memory[buffer.name] = np.ascontiguousarray(inputs[buffer.name])
        elif buffer.role is BufferRole.CONSTANT:
            memory[buffer.name] = np.frombuffer(bytearray(buffer.data), buffer.dtype.numpy)
        else:
            memory[buffer.name] = _undefined(buffer.elements * buffer.dtype.itemsize).view(buffer.dtype.numpy)
    kernels = [_unaligned(kernel) for kernel in program.kernels]
    library = compiler().build(kernels)
    prepared = [executor().prepare(library, number) for number in range(len(kernels))]
    for launch in executed(program.works, lambda name: bool(memory[name][0])):
        prepared[launch.kernel].launch(device_buffers(memory[name] for name in launch.arguments))
    outputs = (buffer for buffer in program.buffers if buffer.role is BufferRole.OUTPUT)
    return {buffer.name: memory[buffer.name].reshape(buffer.shape) for buffer in outputs}


def slots_of(program: Program) -> dict[str, Refinement]:
    """Return what ``main`` and the bodies of loops have placed, by name."""
    inner = inner_memory(program)
    placed = (each for each in program.memory if each.name in inner and each.offset is not None)
    return {each.name: each for each in placed if each.shape.elements}


def _arenas(slots: Mapping[str, Refinement]) -> dict[str, Array]:
    sizes: dict[str, int] = {}
    for slot in slots.values():
        place = location_text(slot.location)
        sizes[place] = max(sizes.get(place, 0), (slot.offset or 0) + byte_size(slot))
    return {place: _undefined(size) for place, size in sizes.items()}


def _undefined(nbytes: int) -> Array:
    """Return aligned memory that shows where it is read: NaN, or -1."""
    room = np.full(nbytes + 64, 0xFF, np.uint8)
    begin = -room.ctypes.data % 64
    return room[begin : begin + nbytes]


def _unaligned(kernel: KernelFunction) -> KernelFunction:
    """Return a kernel that counts on no more than elements being aligned: slots are where they were placed."""
    params = tuple(attrs.evolve(param, alignment=param.dtype.itemsize) for param in kernel.params)
    return attrs.evolve(kernel, params=params)
