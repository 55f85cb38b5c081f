"""Kernels of a built program, and launches of them."""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING

import pyopencl as cl

from tileir.core import Diagnostic, GroupLimitError, attrs
from tileir.runtime.checks import check_buffers
from tileir_opencl.emit.emitter import scratch_bytes
from tileir_opencl.run.buffers import OpenCLBuffer
from tileir_opencl.run.programs import NativeProgram, handle_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileir.runtime.interface import Event
    from tileir.semtree.ir import KernelFunction
    from tileir_opencl.run.commands import Commands
    from tileir_opencl.run.executor import OpenCLExecutor


@attrs.frozen(eq=False)
class OpenCLKernel:
    """One kernel, ready to run. Several threads may launch it at a time: each takes a handle of its own.

    Attributes:
        kernel: What was compiled.

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
        """Ready the function ``symbol`` of a program.

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
        _check_group(kernel, handle, executor.commands.native.device)
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
        """Launch now, and return when the outputs are written; the errors are those of :meth:`run`."""
        self.run(buffers).wait()

    def bind(self, buffers: Sequence[OpenCLBuffer]) -> BoundOpenCLKernel:
        """Return a launch on these buffers, whose arguments are set once. One thread at a time may run it."""
        handle, held = self._with_arguments(buffers)
        return BoundOpenCLKernel(self, handle, held, self._commands, self._symbol)

    def enqueue(self, handle: cl.Kernel, wait_for: list[cl.Event] | None) -> cl.Event:
        """Put a launch into the queue."""
        return cl.enqueue_nd_range_kernel(self._commands.native, handle, self._items, self._group, None, wait_for)

    def _with_arguments(self, buffers: Sequence[OpenCLBuffer]) -> tuple[cl.Kernel, tuple[OpenCLBuffer, ...]]:
        """Return a handle with its arguments set, and the memory that a launch needs."""
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
    """A launch whose buffers are checked and set. It may run again while an earlier run has not completed."""

    _kernel: OpenCLKernel
    _handle: cl.Kernel = attrs.field(repr=False)
    _held: tuple[OpenCLBuffer, ...] = attrs.field(repr=False)
    _commands: Commands = attrs.field(repr=False)
    _symbol: str = attrs.field(repr=False)

    def run(self, after: Sequence[Event] = ()) -> Event:
        """Do what :meth:`OpenCLKernel.run` does."""
        return self._commands.submit(self.enqueue, self._held, after, self._symbol)

    def launch(self) -> None:
        """Do what :meth:`OpenCLKernel.launch` does."""
        self.run().wait()

    def enqueue(self, wait_for: list[cl.Event] | None) -> cl.Event:
        """Put a launch into the queue."""
        return self._kernel.enqueue(self._handle, wait_for)


def _check_group(kernel: KernelFunction, handle: cl.Kernel, device: cl.Device) -> None:
    most = handle.get_work_group_info(cl.kernel_work_group_info.WORK_GROUP_SIZE, device)
    if math.prod(kernel.group) > most:
        message = (
            f"kernel {kernel.name} has groups of {math.prod(kernel.group)} threads, and the device can run {most} "
            "of this kernel; compile with smaller groups"
        )
        raise GroupLimitError((Diagnostic("TIL804", message),), most)
