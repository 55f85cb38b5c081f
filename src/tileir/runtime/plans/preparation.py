"""Memory of a plan's constants and of values computed once from constants, before the first run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from tileir.core.nodes import attrs
from tileir.runtime.arrays import Array
from tileir.runtime.interface import Buffer as Memory, Executor
from tileir.runtime.plans.cached_results import KeptResults
from tileir.runtime.plans.workspace import AnyStep, copied, executed, holds
from tileir.semtree.ir import Buffer, BufferRole, Program, Work
from tileir.semtree.launches import used_buffers

LEAST_KEPT: Final = 1 << 16
"""Minimum size of cached results in bytes; smaller ones are recomputed as fast as they are read."""

KeptBy: TypeAlias = Callable[[Sequence[Work], Sequence[str]], KeptResults | None]
"""Finds the cache entry for the content of buffers that works write; None for no caching."""


@attrs.frozen(eq=False)
class Preparation:
    """Works of a program that only read constants, run by the program's own kernels.

    Attributes:
        executor: Executor of the works.
        buffers: Buffers of the program by the numbers that steps use.
        steps: The works, in order.
        uses: Numbers of the buffers that each step uses.
        results: Numbers of the result buffers in later works.
        kept: Cache entry of the results.
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
        """Prepare works of a program; ``wanted`` has the names of buffers that later works may read.

        Args:
            executor: Executor of the works.
            program: Program of the works.
            works: The works, in order.
            step: Makes a step of a work, by the numbers of the buffers.
            wanted: Numbers of the result buffers in later works.
            kept_by: Finds the cache entry for the results.
        """
        numbers = {buffer.name: number for number, buffer in enumerate(program.buffers)}
        uses = tuple(tuple(dict.fromkeys(numbers[name] for name in used_buffers((work,)))) for work in works)
        used = frozenset(number for each in uses for number in each)
        results = {numbers[name]: number for name, number in wanted.items() if numbers[name] in used}
        steps = tuple(step(work, numbers) for work in works)
        kept = None if kept_by is None else kept_by(works, [program.buffers[number].name for number in sorted(results)])
        return cls(executor, program.buffers, steps, uses, results, kept)

    def memory(self) -> Mapping[int, Memory]:
        """Return the memory of the results, by the numbers in later works.

        The works run on the first call unless their results are cached; concurrent first calls may each run them.
        """
        if not self._made:
            made = self._run() if self.kept is None else self._kept_or_run(self.kept)
            self._made.append({number: made[own] for own, number in self.results.items()})
        return self._made[0]

    def _kept_or_run(self, kept: KeptResults) -> Mapping[int, Memory]:
        """Return the memory of the results by their own numbers, mapped from the cache if possible."""
        numbers = sorted(self.results)
        sizes = [_nbytes(self.buffers[number]) for number in numbers]
        if sum(sizes) < LEAST_KEPT:
            return self._run()
        content = kept.load(sizes)
        if content is None:
            made = self._run()
            content = kept.store([self._downloaded(made[at], size) for at, size in zip(numbers, sizes, strict=True)])
            if content is None or made[numbers[0]].host() is None:  # device memory stays there
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
        """Run the works; memory is allocated at the first use of each buffer and released after its last."""
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
    """Return memory with a constant: its own memory, if it is a view and the device reads them in place."""
    content = _content(buffer)
    return memory_of(executor, content) if isinstance(buffer.data, memoryview) else copied(executor, content)


def memory_of(executor: Executor[Any], content: Array) -> Memory:
    """Return memory with the content of a constant array: its own, if the device reads it in place."""
    memory: Memory | None = executor.wrap(content)
    return copied(executor, content) if memory is None else memory


def _nbytes(buffer: Buffer) -> int:
    return buffer.elements * buffer.dtype.itemsize


def _content(buffer: Buffer) -> Array:
    array: Array = np.frombuffer(buffer.data, buffer.dtype.numpy)
    return array if sys.byteorder == "little" else array.byteswap()
