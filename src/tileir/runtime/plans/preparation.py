"""Memory of the constants of a plan, and of what is computed from constants alone, once, before the first run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from tileir.core.nodes import attrs
from tileir.runtime.arrays import Array
from tileir.runtime.interface import Buffer as Memory, Executor
from tileir.runtime.plans.kept_results import KeptResults
from tileir.runtime.plans.workspace import AnyStep, copied, executed, holds
from tileir.semtree.ir import Buffer, BufferRole, Program, Work
from tileir.semtree.launches import used_buffers

LEAST_KEPT: Final = 1 << 16
"""Bytes of results from which on they are kept; fewer are computed as fast as they are read."""

KeptBy: TypeAlias = Callable[[Sequence[Work], Sequence[str]], KeptResults | None]
"""Finds where the content of some buffers, which works write, may be kept; None for nowhere."""


@attrs.frozen(eq=False)
class Preparation:
    """Works of a program that read constants only: the kernels of the program itself run them.

    Attributes:
        executor: What runs them.
        buffers: The buffers of the program by number, which steps name.
        steps: The works, in order.
        uses: The buffers that each step uses, by number.
        results: What is wanted of the buffers: the numbers under which later works know them.
        kept: Where the results may be kept for other processes.

    """

    executor: Executor[Any]
    buffers: Sequence[Buffer]
    steps: tuple[AnyStep, ...]
    uses: tuple[tuple[int, ...], ...]
    results: Mapping[int, int]
    kept: KeptResults | None = None
    _made: list[dict[int, Memory]] = attrs.field(factory=list, init=False, repr=False)

    @classmethod
    def of(
        cls,
        executor: Executor[Any],
        program: Program,
        works: Sequence[Work],
        step: Callable[[Work, Mapping[str, int]], AnyStep],
        wanted: Mapping[str, int],
        kept_by: KeptBy | None = None,
    ) -> Preparation:
        """Ready works of a program; ``wanted`` has the names of buffers whose content later works may read.

        Args:
            executor: What runs them.
            program: What they belong to.
            works: They alone, in order.
            step: Makes a step of a work, by the numbers of the buffers.
            wanted: Numbers under which later works know some of the buffers.
            kept_by: Finds where their content may be kept for other processes.

        """
        numbers = {buffer.name: number for number, buffer in enumerate(program.buffers)}
        uses = tuple(tuple(dict.fromkeys(numbers[name] for name in used_buffers((work,)))) for work in works)
        used = frozenset(number for each in uses for number in each)
        results = {numbers[name]: number for name, number in wanted.items() if numbers[name] in used}
        steps = tuple(step(work, numbers) for work in works)
        kept = None if kept_by is None else kept_by(works, [program.buffers[number].name for number in sorted(results)])
        return cls(executor, program.buffers, steps, uses, results, kept)

    def memory(self) -> Mapping[int, Memory]:
        """Return the memory of the results, by the numbers under which later works know them.

        The works run when it is first asked for, unless their results are kept; of threads that ask at the same time,
        each may run them.
        """
        if not self._made:
            made = self._run() if self.kept is None else self._kept_or_run(self.kept)
            self._made.append({number: made[own] for own, number in self.results.items()})
        return self._made[0]

    def _kept_or_run(self, kept: KeptResults) -> Mapping[int, Memory]:
        """Return the memory of the results by their own numbers, mapped from what is kept of them where it can be."""
        numbers = sorted(self.results)
        sizes = [_nbytes(self.buffers[number]) for number in numbers]
        if sum(sizes) < LEAST_KEPT:
            return self._run()
        content = kept.load(sizes)
        if content is None:
            made = self._run()
            content = kept.store([self._downloaded(made[at], size) for at, size in zip(numbers, sizes, strict=True)])
            if content is None or made[numbers[0]].host() is None:  # what is on a device stays there
                return made
        return dict(zip(numbers, map(self._placed, content), strict=True))

    def _placed(self, content: memoryview) -> Memory:
        return memory_of(self.executor, np.frombuffer(content, np.uint8))

    def _downloaded(self, memory: Memory, nbytes: int) -> memoryview:
        host = memory.host()
        if host is None:
            host = np.empty(nbytes, np.uint8)
            self.executor.copy(memory, host).wait()
        return host[:nbytes].data

    def _run(self) -> dict[int, Memory]:
        """Run the works; memory is taken when it is first needed, and given back after its last use."""
        last = {number: place for place, used in enumerate(self.uses) for number in used}
        memory: dict[int, Memory] = {}
        for place, (step, used) in enumerate(zip(self.steps, self.uses, strict=True)):
            for number in used:
                if number not in memory:
                    memory[number] = self._fresh(self.buffers[number])
            for launch in executed((step,), lambda number: holds(self.executor, memory[number])):
                launch.kernel.launch([memory[number] for number in launch.arguments])
            for number in used:
                if last[number] == place and number not in self.results:
                    del memory[number]
        return memory

    def _fresh(self, buffer: Buffer) -> Memory:
        if buffer.role is BufferRole.CONSTANT:
            return memory_of_constant(self.executor, buffer)
        return self.executor.allocate(_nbytes(buffer))


def memory_of_constant(executor: Executor[Any], buffer: Buffer) -> Memory:
    """Return memory with a constant: pages of its own stay where they are, if the device reads them in place."""
    content = _content(buffer)
    return memory_of(executor, content) if isinstance(buffer.data, memoryview) else copied(executor, content)


def memory_of(executor: Executor[Any], content: Array) -> Memory:
    """Return memory with the content of an array that never changes: its own, if the device reads it in place."""
    memory: Memory | None = executor.wrap(content)
    return copied(executor, content) if memory is None else memory


def _nbytes(buffer: Buffer) -> int:
    return buffer.elements * buffer.dtype.itemsize


def _content(buffer: Buffer) -> Array:
    array: Array = np.frombuffer(buffer.data, buffer.dtype.numpy)
    return array if sys.byteorder == "little" else array.byteswap()
