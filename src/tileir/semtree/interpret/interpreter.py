"""What a kernel means. Every back end is tested against this.

Kernels are compiled to Python closures once, and then run for one group after the other. Where threads of a
group meet at barriers, they run as generators in lock step from barrier to barrier.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Generator, Iterator, Mapping, Sequence

import numpy as np

from tileir.core import attrs
from tileir.core.errors import ArgumentError, Diagnostic, fail
from tileir.core.number_system import REAL, NumberSystem
from tileir.semtree.check.verifier import verify, verify_program
from tileir.semtree.interpret.evaluation import AGENT, COPIES, SHARED, STEPS, Frame
from tileir.semtree.interpret.execution import StatementCompiler
from tileir.semtree.interpret.instructions import Action, Steps
from tileir.semtree.interpret.memory import NO_CHECKS, Agent, Array, Checks, Clock, Memory, WatchedMemory, poisoned
from tileir.semtree.ir import Barrier, Buffer, BufferRole, KernelFunction, Param, ParamAccess, Program, Stmt
from tileir.semtree.launches import executed
from tileir.semtree.matrices import waits
from tileir.semtree.rewrite import statements


def run(kernel: KernelFunction, arrays: Sequence[Array], checks: Checks = NO_CHECKS) -> None:
    """Run a kernel over its whole grid; writes go to ``arrays``, one flat array for each parameter.

    Raises:
        VerifyError: the kernel is not legal.
        ArgumentError: the arrays do not fit the parameters.
        TileError: TIL553 to TIL558 where the kernel does what it must not.

    """
    compile_kernel(kernel, checks).run(arrays)


def run_program(
    program: Program, inputs: Mapping[str, Array], checks: Checks = NO_CHECKS, *, numbers: NumberSystem = REAL
) -> dict[str, Array]:
    """Run all launches of a program and return its outputs by name, in their shapes.

    Args:
        program: What to run.
        inputs: An array, of any shape with the right number of elements, for each input buffer, as ``numbers`` stores
            its dtype.
        checks: What to watch.
        numbers: What to compute with.

    Raises:
        VerifyError: the program is not legal.
        ArgumentError: the inputs do not fit the input buffers.
        TileError: as :func:`run`.

    """
    verify_program(program)
    memory = {buffer.name: _content(buffer, inputs, numbers) for buffer in program.buffers}
    compiled: dict[int, CompiledKernel] = {}
    for launch in executed(program.works, lambda name: bool(memory[name][0])):
        if launch.kernel not in compiled:
            compiled[launch.kernel] = compile_kernel(program.kernels[launch.kernel], checks, numbers)
        compiled[launch.kernel].run([memory[name] for name in launch.arguments])
    outputs = [buffer for buffer in program.buffers if buffer.role is BufferRole.OUTPUT]
    return {buffer.name: memory[buffer.name].reshape(buffer.shape) for buffer in outputs}


def _content(buffer: Buffer, inputs: Mapping[str, Array], numbers: NumberSystem) -> Array:
    """Return the flat content that a buffer starts with."""
    if buffer.role is BufferRole.CONSTANT:
        return numbers.encoded(np.frombuffer(buffer.data, buffer.dtype.numpy))
    if buffer.role is not BufferRole.INPUT:
        return poisoned(buffer.dtype, buffer.elements, numbers)
    if buffer.name not in inputs:
        raise ArgumentError((Diagnostic("TIL705", f"no array was passed for input {buffer.name!r}"),))
    array = np.ascontiguousarray(inputs[buffer.name]).reshape(-1)
    if array.dtype != numbers.storage(buffer.dtype) or array.size != buffer.elements:
        wanted = f"{buffer.elements} {buffer.dtype.value}"
        given = f"{array.size} {array.dtype}"
        raise ArgumentError((Diagnostic("TIL701", f"input {buffer.name!r} needs {wanted}, and got {given}"),))
    return array


def compile_kernel(kernel: KernelFunction, checks: Checks = NO_CHECKS, numbers: NumberSystem = REAL) -> CompiledKernel:
    """Prepare a kernel to be run several times.

    Raises:
        VerifyError: the kernel is not legal.

    """
    verify(kernel)
    compiler = StatementCompiler(kernel, checks, numbers)
    names = tuple(compiler.expressions.slot(param.name) for param in kernel.params)
    parallel = any(map(waits, statements(kernel.body)))
    action = None if parallel else compiler.body(kernel.body)
    steps = compiler.stepped_body(kernel.body) if parallel else None
    return CompiledKernel(kernel, checks, numbers, compiler.expressions.frame_size, names, action, steps)


@attrs.frozen
class CompiledKernel:
    """A kernel as closures; exactly one of ``action`` and ``steps`` is set."""

    kernel: KernelFunction
    checks: Checks
    numbers: NumberSystem
    frame_size: int
    slots: tuple[int, ...]
    action: Action | None
    steps: Steps | None

    def run(self, arrays: Sequence[Array]) -> None:
        """Run the whole grid, as :func:`run` does."""
        _check_arguments(self.kernel, arrays, self.numbers)
        template: Frame = [0] * self.frame_size
        for slot, param, array in zip(self.slots, self.kernel.params, arrays, strict=True):
            template[slot] = self._memory(param, array)
        clock = Clock()
        with np.errstate(all="ignore"):
            for number, point in enumerate(_points(self.kernel.grid)):
                template[0:3] = point
                template[SHARED] = {}
                clock.stretch += 1 + self._run_group(template, number, clock)

    def _memory(self, param: Param, array: Array) -> Memory:
        if self.checks == NO_CHECKS:
            return Memory(param.name, array)
        fresh = self.checks.undefined and param.access is ParamAccess.WRITE
        defined = np.zeros(len(array), np.bool_) if fresh else None
        watched = math.prod(self.kernel.group) if self.checks.races else 1
        return WatchedMemory(param.name, array, self.kernel.name, defined, self.checks.races, watched)

    def _run_group(self, template: Frame, group: int, clock: Clock) -> int:
        """Run a group, and return how many messages of channels a thread has released."""
        frames = []
        for thread, point in enumerate(_points(self.kernel.group)):
            frame = template.copy()
            frame[3:6] = point
            frame[AGENT] = Agent(group, thread, clock, clock.stretch)
            frame[COPIES] = [[]]
            frame[STEPS] = {}
            frames.append(frame)
        if self.steps is not None:
            self._run_in_step([self.steps(frame) for frame in frames], clock)
        elif self.action is not None:
            for frame in frames:
                self.action(frame)
        return max(int(frame[AGENT].released) for frame in frames)

    def _run_in_step(self, threads: list[Generator[Stmt, None, None]], clock: Clock) -> None:
        while True:
            reached = [next(thread, None) for thread in threads]
            if all(barrier is None for barrier in reached):
                return
            if any(barrier is not reached[0] for barrier in reached):
                raise fail(
                    "TIL555", f"kernel {self.kernel.name!r}: the threads of a group do not meet at the same barrier"
                )
            if isinstance(reached[0], Barrier):  # those that exchange operands order nothing in memory
                clock.stretch += 1


def _points(extents: tuple[int, ...]) -> Iterator[tuple[int, int, int]]:
    """Yield all coordinates, axis 0 fastest."""
    x, y, z = (*extents, 1, 1)[:3]
    for k, j, i in itertools.product(range(z), range(y), range(x)):
        yield i, j, k


def _check_arguments(kernel: KernelFunction, arrays: Sequence[Array], numbers: NumberSystem) -> None:
    if len(arrays) != len(kernel.params):
        wanted = len(kernel.params)
        message = f"kernel {kernel.name!r} takes {wanted} arrays, not {len(arrays)}"
        raise ArgumentError((Diagnostic("TIL705", message),))
    faults = []
    for position, (param, array) in enumerate(zip(kernel.params, arrays, strict=True)):
        place = f"array {param.name!r} of kernel {kernel.name!r}"
        if array.dtype != numbers.storage(param.dtype) or array.shape != (param.size,):
            given = f"{array.shape} of {array.dtype}"
            faults.append(Diagnostic("TIL706", f"{place} is flat, {param.size} {param.dtype.value}, and not {given}"))
        elif param.access is not ParamAccess.READ and not array.flags.writeable:
            faults.append(Diagnostic("TIL703", f"{place} is written by the kernel, and cannot be"))
        elif param.no_alias and param.access is not ParamAccess.READ:
            others = (other for number, other in enumerate(arrays) if number != position)
            if any(np.may_share_memory(array, other) for other in others):
                faults.append(Diagnostic("TIL704", f"{place} is noalias, and overlaps another one"))
    if faults:
        raise ArgumentError(faults)
