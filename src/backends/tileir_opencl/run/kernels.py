"""Kernels of a built program, and their launches.

Programs of the driver are built from source in a separate thread, or made from saved binaries.

pyopencl's own program class caches sources and binaries on disk, which tileir does itself, and turns the log of every
build into a warning; the class below it does neither.
"""

from __future__ import annotations

import logging
import math
import re
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import pyopencl as cl
from pyopencl._cl import _Program

from tileir.core import BackendError, attrs
from tileir.runtime.checks import check_buffers, check_group
from tileir_opencl.emit.emitter import scratch_bytes
from tileir_opencl.run.buffers import OpenCLBuffer
from tileir_opencl.run.faults import name_of

if TYPE_CHECKING:
    from tileir.runtime.interface import Event
    from tileir.semtree.ir import KernelFunction
    from tileir_opencl.run.commands import Commands
    from tileir_opencl.run.executor import OpenCLExecutor

NativeProgram: TypeAlias = _Program

log: Final = logging.getLogger("tileir.opencl")

SHOWN_LINES: Final = 8
"""Maximum number of source lines in an error."""

_PLACE: Final = re.compile(r":(\d+):\d+:")


def built(context: cl.Context, source: str, options: Sequence[str]) -> NativeProgram:
    """Build a program, which may take seconds; other threads run meanwhile.

    Raises:
        BackendError: TIL805, the driver refused the source; the notes have its log and the lines that it names.
    """
    program = _Program(context, source)
    try:
        try:
            _build(program, options)
        except cl.Error:  # on a signal, compilers of drivers delete the files that they are writing
            program = _Program(context, source)
            _build(program, options)
    except cl.Error as error:
        log = build_log(program)
        message = f"the OpenCL driver refused the code ({name_of(error.code)}), which is a defect of tileir"
        notes = (f"the driver's log:\n{log}", *named_lines(source, log))
        raise BackendError.of("TIL805", message, None, *notes) from error
    return program


def loaded(context: cl.Context, binary: bytes, options: Sequence[str]) -> NativeProgram | None:
    """Return the program that a driver saved; None if this driver refuses it."""
    try:
        program = _Program(context, context.devices, [binary])
        _build(program, options)
    except cl.Error:
        return None
    return program


def binary_of(program: NativeProgram) -> bytes:
    """Return the binary for :func:`loaded`; empty if the driver provides none."""
    try:
        binaries = program.get_info(cl.program_info.BINARIES)
    except cl.Error:
        return b""
    return bytes(binaries[0]) if isinstance(binaries, list) and binaries else b""


def handle_of(program: NativeProgram, name: str) -> cl.Kernel:
    """Return a handle of one kernel of a program.

    pyopencl generates Python code for each kernel that it knows, and keeps that on disk. If the disk does not allow it,
    caching is off for the rest of the process.

    Raises:
        BackendError: TIL806, the program has no such kernel.
    """
    try:
        handle = cl.Kernel(program, name)
        handle.get_info(cl.kernel_info.NUM_ARGS)  # some drivers look the name up on the first query only
        return handle
    except cl.Error as error:
        raise BackendError.of("TIL806", f"the program has no kernel {name}; compile again ({error})") from error
    except Exception as error:  # errors of file systems and databases
        log.info("pyopencl's cache is not used: %s", error)
        cl._PYOPENCL_NO_CACHE = True
        return cl.Kernel(program, name)


def build_log(program: NativeProgram) -> str:
    """Return the output of the driver's compiler."""
    devices = cast("list[cl.Device]", program.get_info(cl.program_info.DEVICES))
    logs = [program.get_build_info(device, cl.program_build_info.LOG) for device in devices]
    return "\n".join(str(log).strip() for log in logs)


def named_lines(source: str, log: str) -> list[str]:
    """Return the source lines that a log refers to by number, as in ``file:3:5: error``."""
    lines = source.splitlines()
    numbers = dict.fromkeys(int(match[1]) for match in _PLACE.finditer(log))
    named = [number for number in numbers if 0 < number <= len(lines)]
    return [f"line {number}: {lines[number - 1].strip()}" for number in named[:SHOWN_LINES]]


def _build(program: NativeProgram, options: Sequence[str]) -> None:
    program._build(" ".join(options).encode(), None)


@attrs.frozen(eq=False)
class OpenCLKernel:
    """Kernel ready to run. Several threads may launch it at a time, each with its own handle.

    Attributes:
        kernel: The kernel.
    """

    kernel: KernelFunction
    _executor: OpenCLExecutor = attrs.field(repr=False)
    _commands: Commands = attrs.field(repr=False)
    _program: NativeProgram = attrs.field(repr=False)
    _symbol: str = attrs.field(repr=False)
    _sizes: tuple[int, ...] = attrs.field(repr=False)
    _items: tuple[int, ...] = attrs.field(repr=False)
    _group: tuple[int, ...] = attrs.field(repr=False)
    _scratch_bytes: int = attrs.field(repr=False)
    _spare: deque[cl.Kernel] = attrs.field(factory=deque, init=False, repr=False)

    @classmethod
    def of(cls, executor: OpenCLExecutor, kernel: KernelFunction, program: NativeProgram, symbol: str) -> OpenCLKernel:
        """Prepare the function ``symbol`` of a program.

        Raises:
            GroupLimitError: TIL804, its groups have more threads than the device can run of this kernel.
            BackendError: TIL806, the program has no such function.
        """
        group = (*kernel.group, *(1,) * (len(kernel.grid) - len(kernel.group)))
        grid = (*kernel.grid, *(1,) * (len(group) - len(kernel.grid)))
        items = tuple(map(int.__mul__, grid, group))
        sizes = tuple(param.size * param.dtype.itemsize for param in kernel.params)
        scratch = scratch_bytes(kernel) * math.prod(grid)
        made = cls(kernel, executor, executor.commands, program, symbol, sizes, items, group, scratch)
        handle = handle_of(program, symbol)
        native = executor.commands.native.device
        check_group(kernel, handle.get_work_group_info(cl.kernel_work_group_info.WORK_GROUP_SIZE, native))
        made._spare.append(handle)
        return made

    def run(self, buffers: Sequence[OpenCLBuffer], after: Sequence[Event] = ()) -> Event:
        """Launch once all of ``after`` have completed.

        Raises:
            ArgumentError: TIL706, the buffers do not fit the parameters.
            BackendError: TIL804 or TIL808, the driver refuses the launch; TIL807, the executor was closed.

        """
        handle, held = self._with_arguments(buffers)

        def enqueue(wait_for: list[cl.Event] | None) -> cl.Event:
            event = self.enqueue(handle, wait_for)
            self._spare.append(handle)  # only now: a launch that waits for others needs its arguments
            return event

        return self._commands.submit(enqueue, held, after, self._symbol)

    def launch(self, buffers: Sequence[OpenCLBuffer]) -> None:
        """Launch now, and return when the outputs are written; raises the errors of :meth:`run`."""
        self.run(buffers).wait()

    def bind(self, buffers: Sequence[OpenCLBuffer]) -> BoundOpenCLKernel:
        """Return a launch on these buffers, whose arguments are set once. One thread at a time may run it."""
        handle, held = self._with_arguments(buffers)
        return BoundOpenCLKernel(self, handle, held, self._commands, self._symbol)

    def enqueue(self, handle: cl.Kernel, wait_for: list[cl.Event] | None) -> cl.Event:
        """Put a launch into the queue."""
        return cl.enqueue_nd_range_kernel(self._commands.native, handle, self._items, self._group, None, wait_for)

    def _with_arguments(self, buffers: Sequence[OpenCLBuffer]) -> tuple[cl.Kernel, tuple[OpenCLBuffer, ...]]:
        """Return a handle with its arguments set, and the memory of the launch."""
        self._executor.check_open()
        given: tuple[object, ...] = tuple(buffers)
        held = tuple([b for b in given if isinstance(b, OpenCLBuffer) and b.commands.context is self._commands.context])
        check_buffers(self.kernel.name, given, held, self._sizes)
        if self._scratch_bytes:
            held = (*held, self._executor.allocate(self._scratch_bytes))
        try:
            handle = self._spare.pop()
        except IndexError:
            handle = handle_of(self._program, self._symbol)
        for number, buffer in enumerate(held):
            handle.set_arg(number, buffer.native)
        return handle, held


@attrs.frozen(eq=False)
class BoundOpenCLKernel:
    """Launch with checked and set buffers. It may run again while an earlier run has not completed."""

    _kernel: OpenCLKernel
    _handle: cl.Kernel = attrs.field(repr=False)
    _held: tuple[OpenCLBuffer, ...] = attrs.field(repr=False)
    _commands: Commands = attrs.field(repr=False)
    _symbol: str = attrs.field(repr=False)

    def run(self, after: Sequence[Event] = ()) -> Event:
        """Launch like :meth:`OpenCLKernel.run`."""
        return self._commands.submit(self.enqueue, self._held, after, self._symbol)

    def launch(self) -> None:
        """Launch like :meth:`OpenCLKernel.launch`."""
        self.run().wait()

    def enqueue(self, wait_for: list[cl.Event] | None) -> cl.Event:
        """Put a launch into the queue."""
        return self._kernel.enqueue(self._handle, wait_for)
