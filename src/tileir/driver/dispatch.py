"""Dispatch of a program: its launches in order, with the place and the live range of each buffer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import assert_never

from tileir.core import DType, attrs, grouped
from tileir.runtime.plans.plan import Plan
from tileir.semtree.analysis.constant_works import constant_works
from tileir.semtree.ir import Branch, BufferRole, Launch, Loop, ParamAccess, Program, Work
from tileir.semtree.launches import launches as launches_of
from tileir.stripe import Program as StripeProgram, works as stripe


@attrs.frozen
class Dispatched:
    """Launch of a kernel.

    Attributes:
        kernel: Name of the kernel.
        statements: Operations that it computes, as text.
        reads: Buffers that it reads.
        writes: Buffers that it writes.
        runs: Number of launches in one run of the program; a loop on a condition counts as one iteration. Works that
            only depend on constants are launched once, before the first run, and count 0.
        conditions: Conditions of the launch, outermost first: "while go", "if odd" or "unless odd".
    """

    kernel: str
    statements: tuple[str, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    runs: int = 1
    conditions: tuple[str, ...] = ()


@attrs.frozen
class BufferLife:
    """Live range of a buffer.

    Attributes:
        role: "input", "output", "constant" or "temporary".
        nbytes: Size in bytes.
        first: First launch that uses it, or depends on it as a condition, counted from 0.
        last: Last such launch.
        block: Memory block of a temporary; None for others.
        offset: Bytes from the start of this block; temporaries with common bytes have disjoint live ranges.
    """

    name: str
    role: str
    dtype: DType
    shape: tuple[int, ...]
    nbytes: int
    first: int
    last: int
    block: int | None = None
    offset: int | None = None


@attrs.frozen
class Dispatch:
    """One run of a program: its launches and buffers.

    Attributes:
        launches: Launches in order.
        buffers: Used buffers, by their first launch.
        temporary_bytes: Total size of the temporaries, without sharing.
        peak_bytes: Memory of the temporaries, with sharing.
    """

    launches: tuple[Dispatched, ...]
    buffers: tuple[BufferLife, ...]
    temporary_bytes: int
    peak_bytes: int

    def in_place(self) -> tuple[tuple[str, str], ...]:
        """Return pairs of temporaries where the second overwrites the first in the launch that last reads it."""
        ends = {each.name: each for each in self.buffers if each.offset is not None}
        return tuple(
            (read, written)
            for number, launch in enumerate(self.launches)
            for written in launch.writes
            for read in launch.reads
            if read != written and read in ends and written in ends and ends[read].last == number
            if (ends[read].block, ends[read].offset) == (ends[written].block, ends[written].offset)
        )


def dispatch_of(scheduled: StripeProgram, plan: Plan) -> Dispatch:
    """Return the dispatch of a plan whose program was made of a scheduled Stripe program."""
    program = plan.program
    launches: list[Dispatched] = []
    uses: list[tuple[str, ...]] = []
    once = constant_works(program)
    numbered = enumerate(program.works)
    in_order = (found for number, work in numbered for found in _with_runs((work,), int(number not in once)))
    for (launch, runs, conditions), (name, statements) in zip(in_order, _kernels(scheduled, program), strict=True):
        pairs = list(zip(program.kernels[launch.kernel].params, launch.arguments, strict=True))
        reads = tuple(name for param, name in pairs if param.access is not ParamAccess.WRITE)
        writes = tuple(name for param, name in pairs if param.access is not ParamAccess.READ)
        said = tuple(f"{word} {buffer}" for word, buffer in conditions)
        launches.append(Dispatched(name, statements, reads, writes, runs, said))
        uses.append((*reads, *writes, *(buffer for _, buffer in conditions)))
    return Dispatch(tuple(launches), tuple(_lives(uses, plan)), plan.temporary_bytes, plan.peak_bytes)


def _with_runs(
    works: Sequence[Work], runs: int = 1, conditions: tuple[tuple[str, str], ...] = ()
) -> Iterator[tuple[Launch, int, tuple[tuple[str, str], ...]]]:
    for work in works:
        match work:
            case Launch():
                yield work, runs, conditions
            case Loop(times=times, works=inner):
                counted = times if isinstance(times, int) else 1
                further = () if isinstance(times, int) else (("while", times.buffer),)
                yield from _with_runs(inner, runs * counted, (*conditions, *further))
            case Branch(condition=name, then=then, otherwise=otherwise):
                yield from _with_runs(then, runs, (*conditions, ("if", name)))
                yield from _with_runs(otherwise, runs, (*conditions, ("unless", name)))
            case _:
                assert_never(work)


def _kernels(scheduled: StripeProgram, program: Program) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the name and the statements of the kernel of each launch.

    Kernels that only differ in names are merged, so the launches of Stripe describe the computation better. With loops,
    whose steps are numbered differently, only kernels that are launched once have statements.
    """
    if not any(stripe.loops(scheduled.works)):
        yield from ((launch.name, launch.comments) for launch in stripe.launches(scheduled.works))
        return
    times = Counter(launch.kernel for launch in launches_of(program.works))
    for launch in launches_of(program.works):
        kernel = program.kernels[launch.kernel]
        yield kernel.name, kernel.comments if times[launch.kernel] == 1 else ()


def _lives(used: Sequence[tuple[str, ...]], plan: Plan) -> Iterator[BufferLife]:
    """Yield the live ranges of buffers; ``used`` names those of each launch."""
    uses = grouped((name, number) for number, names in enumerate(used) for name in names)
    known = {buffer.name: buffer for buffer in plan.program.buffers}
    for name, numbers in sorted(uses.items(), key=lambda item: (item[1][0], item[0])):
        buffer = known[name]
        place = plan.placement.places.get(name) if buffer.role is BufferRole.TEMPORARY else None
        yield BufferLife(
            name,
            buffer.role.value,
            buffer.dtype,
            buffer.shape,
            buffer.elements * buffer.dtype.itemsize,
            numbers[0],
            numbers[-1],
            None if place is None else place.block,
            None if place is None else place.offset,
        )
