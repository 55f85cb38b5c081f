"""Memory of the constants of a plan, and of what is computed from constants alone, once, before the first run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tileir.core.nodes import attrs
from tileir.runtime.arrays import Array
from tileir.runtime.interface import Buffer as Memory, Executor
from tileir.runtime.plans.workspace import AnyStep, copied, executed, holds
from tileir.semtree.ir import Buffer, BufferRole, Program, Work
from tileir.semtree.launches import used_buffers


@attrs.frozen(eq=False)
class Preparation:
    """Works of a program that read constants only: the kernels of the program itself run them.

    Attributes:
        executor: What runs them.
        buffers: The buffers of the program by number, which steps name.
        steps: The works, in order.
        uses: The buffers that each step uses, by number.
        results: What is wanted of the buffers: the numbers under which later works know them.

    """

    executor: Executor[Any]
    buffers: Sequence[Buffer]
    steps: tuple[AnyStep, ...]
    uses: tuple[tuple[int, ...], ...]
    results: Mapping[int, int]
    _made: list[dict[int, Memory]] = attrs.field(factory=list, init=False, repr=False)

    @classmethod
    def of(
        cls,
        executor: Executor[Any],
        program: Program,
        works: Sequence[Work],
        step: Callable[[Work, Mapping[str, int]], AnyStep],
        wanted: Mapping[str, int],
    ) -> Preparation:
        """Ready works of a program; ``wanted`` has the names of buffers whose content later works may read.

        Args:
            executor: What runs them.
            program: What they belong to.
            works: They alone, in order.
            step: Makes a step of a work, by the numbers of the buffers.
            wanted: Numbers under which later works know some of the buffers.

        """
        numbers = {buffer.name: number for number, buffer in enumerate(program.buffers)}
        uses = tuple(tuple(dict.fromkeys(numbers[name] for name in used_buffers((work,)))) for work in works)
        used = frozenset(number for each in uses for number in each)
        results = {numbers[name]: number for name, number in wanted.items() if numbers[name] in used}
        return cls(executor, program.buffers, tuple(step(work, numbers) for work in works), uses, results)

    def memory(self) -> Mapping[int, Memory]:
        """Return the memory of the results, by the numbers under which later works know them.

        The works run when it is first asked for; of threads that ask at the same time, each may run them.
        """
        if not self._made:
            self._made.append(self._run())
        return self._made[0]

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
        return {number: memory[own] for own, number in self.results.items()}

    def _fresh(self, buffer: Buffer) -> Memory:
        if buffer.role is BufferRole.CONSTANT:
            return memory_of_constant(self.executor, buffer)
        return self.executor.allocate(buffer.elements * buffer.dtype.itemsize)


def memory_of_constant(executor: Executor[Any], buffer: Buffer) -> Memory:
    """Return memory with a constant: pages of its own stay where they are, if the device reads them in place."""
    content = _content(buffer)
    memory: Memory | None = executor.wrap(content) if isinstance(buffer.data, memoryview) else None
    return copied(executor, content) if memory is None else memory


def _content(buffer: Buffer) -> Array:
    array: Array = np.frombuffer(buffer.data, buffer.dtype.numpy)
    return array if sys.byteorder == "little" else array.byteswap()
