"""Works of a program that depend on constants alone, so that their results are equal in each run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tileir.core import attrs
from tileir.semtree.ir import BufferRole, ParamAccess, Program
from tileir.semtree.launches import accesses, used_buffers

LARGEST_GROWTH: Final = 8
"""Maximum ratio of the size of a result to that of its constants: 4-bit weights become 32-bit ones."""

SMALL_BYTES: Final = 1 << 20
"""Size of results that are kept in any case."""

_OF_CALLERS: Final = (BufferRole.INPUT, BufferRole.OUTPUT)


@attrs.frozen
class _Uses:
    """Buffers whose earlier content a work reads, and buffers that it writes."""

    reads: frozenset[str]
    writes: frozenset[str]


def constant_works(program: Program) -> frozenset[int]:
    """Return the numbers of the outermost works that may run once, before the first run of the others.

    They read constants and outputs of other such works, and write temporaries that no other work writes, before any
    other work reads them. Results far larger than their constants are left to each run.
    """
    nbytes = {buffer.name: buffer.elements * buffer.dtype.itemsize for buffer in program.buffers}
    temporary = {buffer.name for buffer in program.buffers if buffer.role is BufferRole.TEMPORARY}
    origins = {buffer.name: nbytes[buffer.name] for buffer in program.buffers if buffer.role is BufferRole.CONSTANT}
    uses = [_uses(program, number) for number in range(len(program.works))]
    chosen: set[int] = set()
    for number, each in enumerate(uses):
        if each.reads <= origins.keys() and each.writes <= temporary:
            origin = max((origins[name] for name in each.reads), default=0)
            if all(nbytes[name] <= SMALL_BYTES + LARGEST_GROWTH * origin for name in each.writes):
                chosen.add(number)
                origins.update((name, max(origin, origins.get(name, 0))) for name in each.writes)
    while refused := set(_refused(uses, chosen)):
        chosen -= refused
    return frozenset(chosen)


def made_by(program: Program, works: Iterable[int]) -> frozenset[str]:
    """Return the buffers that some works write."""
    return frozenset(name for number in works for name in _uses(program, number).writes)


def _uses(program: Program, number: int) -> _Uses:
    reads: set[str] = set()
    writes: set[str] = set()
    for name, access in accesses(program, (program.works[number],)):
        if access is not ParamAccess.WRITE and name not in writes:
            reads.add(name)
        if access is not ParamAccess.READ:
            writes.add(name)
    return _Uses(frozenset(reads), frozenset(writes))


def _refused(uses: list[_Uses], chosen: set[int]) -> Iterable[int]:
    """Yield works that write buffers which others write or read before, or that read buffers which others write."""
    written: set[str] = set()
    read_first: dict[str, int] = {}
    for number, each in enumerate(uses):
        if number not in chosen:
            written |= each.writes
            for name in each.reads:
                read_first.setdefault(name, number)
    for number in chosen:
        each = uses[number]
        late = any(read_first.get(name, number) < number for name in each.writes)
        if late or written & (each.writes | each.reads):
            yield number


def without_constant_works(program: Program, works: frozenset[int]) -> Program:
    """Return the works of each run, without constants and temporaries that only the constant works use.

    They read the outputs of constant works as constants of unknown content.
    """
    made = made_by(program, works)
    left = tuple(work for number, work in enumerate(program.works) if number not in works)
    used = {*used_buffers(left), *(each.name for each in program.buffers if each.role in _OF_CALLERS)}
    buffers = tuple(
        attrs.evolve(buffer, role=BufferRole.CONSTANT, data=b"") if buffer.name in made else buffer
        for buffer in program.buffers
        if buffer.name in used
    )
    return attrs.evolve(program, buffers=buffers, works=left)
