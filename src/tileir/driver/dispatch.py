"""Dispatch of a program: its launches in order, with the place and the lifetime of each of its buffers."""

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
    """A launch.

    Attributes:
        kernel: The name of its kernel.
        statements: The operations that it computes, as text.
        reads: The buffers that it reads.
        writes: Those that it writes.
        runs: How often one run of the program launches it; a loop on a condition counts as one turn. What depends on
            constants alone is launched once, before the first run, and counts 0.
        conditions: What decides whether it runs, from outside in: "while go", "if odd" or "unless odd".

    """

    kernel: str
    statements: tuple[str, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    runs: int = 1
    conditions: tuple[str, ...] = ()


@attrs.frozen
class BufferLife:
    """A buffer.

    Attributes:
        role: Whose it is: "input", "output", "constant" or "temporary".
        nbytes: Its size.
        first: The first launch that uses it, or depends on it as a condition, counted from 0.
        last: The last one.
        block: The block of memory in which a temporary lies; None for others.
        offset: Bytes from the start of this block; temporaries that share bytes live one after the other.

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
        launches: In order.
        buffers: Those that some launch uses, by their first launch.
        temporary_bytes: What temporaries would take if each had memory of its own.
        peak_bytes: What they take.

    """

    launches: tuple[Dispatched, ...]
    buffers: tuple[BufferLife, ...]
    temporary_bytes: int
    peak_bytes: int

    def in_place(self) -> tuple[tuple[str, str], ...]:
        """Return pairs of temporaries where the second is written over the first, which ends with that launch."""
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
    """Return how a plan dispatches its program, which was made of a scheduled Stripe program."""
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

    Kernels that differ in names only are one, so the launches of Stripe tell better what is computed. Where there are
    loops, whose steps are written out in other numbers, kernels that are launched once still tell.
    """
    if not any(stripe.loops(scheduled.works)):
        yield from ((launch.name, launch.comments) for launch in stripe.launches(scheduled.works))
        return
    times = Counter(launch.kernel for launch in launches_of(program.works))
    for launch in launches_of(program.works):
        kernel = program.kernels[launch.kernel]
        yield kernel.name, kernel.comments if times[launch.kernel] == 1 else ()


def _lives(used: Sequence[tuple[str, ...]], plan: Plan) -> Iterator[BufferLife]:
    """Yield the buffers; ``used`` names those of each launch."""
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
