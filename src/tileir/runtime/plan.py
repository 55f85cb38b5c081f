"""A program of kernels, ready to run on one device."""

from __future__ import annotations

import sys
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from tileir.runtime.placement import place
from tileir.semtree.ir import BufferRole

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tileir.runtime.arrays import Array
    from tileir.runtime.interface import Buffer as Memory
    from tileir.runtime.interface import Executor, Kernel, Library
    from tileir.semtree.ir import Buffer, Program

SPARE_WORKSPACES: Final = 4
"""How many sets of temporaries a plan keeps for its next runs."""


@attrs.frozen(eq=False)
class _Step:
    """One launch; ``arguments`` are numbers of the program's buffers."""

    kernel: Kernel
    arguments: tuple[int, ...]


@attrs.frozen(eq=False)
class _Slot:
    """Where an array that the caller passes enters; ``alignment`` is 1 where kernels ask for that of elements only."""

    number: int
    alignment: int


@attrs.frozen(eq=False)
class Plan:
    """Launches with their memory. Several threads may run one plan at a time: each gets temporaries of its own.

    Attributes:
        program: What is run.
        inputs: Its inputs, in the order in which :meth:`run` takes them.
        outputs: Its outputs, likewise.

    """

    program: Program
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    _executor: Executor[Any] = attrs.field(repr=False)
    _steps: tuple[_Step, ...] = attrs.field(repr=False)
    _input_slots: tuple[_Slot, ...] = attrs.field(repr=False)
    _output_slots: tuple[_Slot, ...] = attrs.field(repr=False)
    _constants: Mapping[int, Memory] = attrs.field(repr=False)
    _spare: deque[list[Any]] = attrs.field(factory=lambda: deque(maxlen=SPARE_WORKSPACES), init=False, repr=False)

    @classmethod
    def of(cls, program: Program, library: Library, executor: Executor[Any]) -> Plan:
        """Ready the kernels of ``program``, which ``library`` holds in the same order.

        Raises:
            BackendError: the device cannot load them.

        """
        numbers = {buffer.name: number for number, buffer in enumerate(program.buffers)}
        kernels = [executor.prepare(library, index) for index in range(len(program.kernels))]
        steps = [
            _Step(kernels[launch.kernel], tuple(numbers[name] for name in launch.arguments))
            for launch in program.launches
        ]
        alignments = _alignments(program)
        slots = {name: _Slot(number, alignments.get(name, 1)) for name, number in numbers.items()}
        inputs = _with_role(program, BufferRole.INPUT)
        outputs = _with_role(program, BufferRole.OUTPUT)
        constants = _with_role(program, BufferRole.CONSTANT)
        return cls(
            program,
            inputs,
            outputs,
            executor,
            tuple(steps),
            tuple(slots[buffer.name] for buffer in inputs),
            tuple(slots[buffer.name] for buffer in outputs),
            {numbers[buffer.name]: _copied(executor, _content(buffer)) for buffer in constants},
        )

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Run all launches, and return when the outputs are written.

        Args:
            inputs: Contiguous arrays of the inputs' dtypes and shapes.
            outputs: The same for the outputs; none of them shares memory with another array.

        """
        memory = self._take_workspace()
        staged: list[tuple[Memory, Array]] = []
        for slot, array in zip(self._input_slots, inputs, strict=True):
            memory[slot.number] = self._in_place(slot, array) or _copied(self._executor, array)
        for slot, array in zip(self._output_slots, outputs, strict=True):
            place_of = self._in_place(slot, array)
            if place_of is None:
                place_of = self._executor.allocate(array.nbytes)
                staged.append((place_of, array))
            memory[slot.number] = place_of
        for step in self._steps:
            step.kernel.launch([memory[number] for number in step.arguments])
        for place_of, array in staged:
            self._executor.copy(place_of, array).wait()
        for slot in (*self._input_slots, *self._output_slots):
            memory[slot.number] = None  # the caller's arrays are not kept alive
        self._spare.append(memory)

    def _in_place(self, slot: _Slot, array: Array) -> Memory | None:
        """Return a buffer over an array's own memory, if the device and all kernels can use it."""
        if slot.alignment > 1 and array.ctypes.data % slot.alignment:
            return None
        return self._executor.wrap(array)

    def _take_workspace(self) -> list[Any]:
        """Return memory by number of the buffer: temporaries and constants; None for inputs and outputs."""
        try:
            return self._spare.pop()
        except IndexError:
            pass
        placement = place(self.program)
        blocks = [self._executor.allocate(size) for size in placement.sizes]
        memory: list[Memory | None] = [None] * len(self.program.buffers)
        for number, buffer in enumerate(self.program.buffers):
            if buffer.name in placement.blocks:
                memory[number] = blocks[placement.blocks[buffer.name]]
        for number, constant in self._constants.items():
            memory[number] = constant
        return memory


def _with_role(program: Program, role: BufferRole) -> tuple[Buffer, ...]:
    return tuple(buffer for buffer in program.buffers if buffer.role is role)


def _alignments(program: Program) -> Mapping[str, int]:
    """Return, for inputs and outputs, alignments beyond that of their elements, which every array has."""
    external = (*_with_role(program, BufferRole.INPUT), *_with_role(program, BufferRole.OUTPUT))
    names = {buffer.name for buffer in external}
    needed: dict[str, int] = {}
    for launch in program.launches:
        for param, name in zip(program.kernels[launch.kernel].params, launch.arguments, strict=True):
            if name in names and param.alignment > param.dtype.itemsize:
                needed[name] = max(needed.get(name, 1), param.alignment)
    return needed


def _content(buffer: Buffer) -> Array:
    array = np.frombuffer(bytes.fromhex(buffer.data), buffer.dtype.numpy)
    return array if sys.byteorder == "little" else array.byteswap()


def _copied(executor: Executor[Any], array: Array) -> Memory:
    """Return fresh memory of the device with the content of an array."""
    memory: Memory = executor.allocate(array.nbytes)
    host = memory.host()
    if host is None:
        executor.copy(array, memory).wait()
    else:
        host[: array.nbytes] = array.reshape(-1).view(np.uint8)
    return memory
