"""Independent loops of a sequence, each of which may have a separate thread."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tileir.core import attrs
from tileir.runtime.interface import Choice, Repetition
from tileir.semtree.ir import ParamAccess

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tileir.runtime.host_memory import HostBuffer
    from tileir_llvm.run.executor import LLVMKernel

    Launch: TypeAlias = tuple[LLVMKernel, Sequence[HostBuffer | int]]

LONGEST_SECONDS: Final = 0.25
"""Estimated time from which loops are not parallel: on separate threads they could not be stopped."""

MOST_LOOPS: Final = 64
"""Maximum number of parallel loops: each is compared with all others."""

LAUNCH_SECONDS: Final = 1e-7
OPERATION_SECONDS: Final = 1e-10
"""Times of a launch and of each of its operations without an estimate, as for a kernel of one group."""


@attrs.frozen(eq=False, repr=False)
class LoopUse:
    """Time and memory of a loop.

    Attributes:
        seconds: Estimated time.
        scratch_bytes: Maximum scratch memory of its kernels.
        touched: Memory that it reads or writes.
        written: Memory that it writes.
    """

    seconds: float
    scratch_bytes: int
    touched: frozenset[range]
    written: frozenset[range]

    @classmethod
    def of(cls, loop: Repetition) -> LoopUse | None:
        """Return the use of a loop; None for a loop on a condition, one that contains one, or a long loop."""
        found = list(_launches((loop,), 1))
        touched: set[range] = set()
        written: set[range] = set()
        seconds, scratch_bytes = 0.0, 0
        for launch, times in found:
            if launch is None:
                return None
            kernel, arguments = launch
            guess = LAUNCH_SECONDS + kernel.kernel.operations * OPERATION_SECONDS
            seconds += times * (kernel.seconds or guess)
            scratch_bytes = max(scratch_bytes, kernel.scratch_bytes)
            for param, argument in zip(kernel.kernel.params, arguments, strict=True):
                touched.add(_memory(argument))
                if param.access is not ParamAccess.READ:
                    written.add(_memory(argument))
        if seconds > LONGEST_SECONDS:
            return None
        return cls(seconds, scratch_bytes, frozenset(touched), frozenset(written))

    def minds(self, other: LoopUse) -> bool:
        """Return whether one of both writes memory that the other accesses."""
        return _meet(self.written, other.touched) or _meet(other.written, self.touched)


def companions(works: Sequence[Any]) -> Iterator[tuple[Sequence[Any], Sequence[LoopUse]]]:
    """Yield works in order: neighbouring independent loops together, with their use, others alone."""
    group: list[Repetition] = []
    uses: list[LoopUse] = []
    for work in works:
        use = LoopUse.of(work) if isinstance(work, Repetition) else None
        if use is None or len(uses) == MOST_LOOPS or any(map(use.minds, uses)):
            if group:
                yield group, uses
            group, uses = [], []
        if use is None:
            yield [work], ()
        else:
            group.append(work)
            uses.append(use)
    if group:
        yield group, uses


def _launches(works: Sequence[Any], times: int) -> Iterator[tuple[Launch | None, int]]:
    """Yield every launch, and its maximum number of runs; None for a loop on a condition."""
    for work in works:
        match work:
            case Repetition(times=int(turns)):
                yield from _launches(work.works, times * turns)
            case Repetition():
                yield None, times
            case Choice():
                yield from _launches((*work.then, *work.otherwise), times)
            case _:
                yield work, times


def _memory(argument: HostBuffer | int) -> range:
    """Return the memory range of an argument; given arrays, which share no memory, have negative ranges."""
    if isinstance(argument, int):
        return range(-argument - 1, -argument)
    return range(argument.address, argument.address + argument.nbytes)


def _meet(first: frozenset[range], second: frozenset[range]) -> bool:
    """Return whether ranges of the first and of the second overlap."""
    ordered = sorted(first, key=lambda each: each.start)
    starts, ends = [each.start for each in ordered], list(accumulate((each.stop for each in ordered), max))
    before = ((bisect_left(starts, each.stop), each.start) for each in second)
    return any(count and ends[count - 1] > start for count, start in before)
