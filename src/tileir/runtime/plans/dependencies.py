"""Dependences between the launches of a program."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from tileir.core.nodes import attrs
from tileir.semtree.ir import ParamAccess, Program, Work
from tileir.semtree.launches import accesses

GRAPH_LAUNCHES: Final = 1024
"""Maximum length of programs with overlap: the dependence analysis takes quadratic memory."""


def dependencies(program: Program) -> tuple[tuple[int, ...], ...]:
    """Return the earlier launches that each launch must follow, by number, in ascending order.

    Dependences are read after write, write after read and write after write, without transitive dependences. A loop or
    a branch counts as one launch; a possible write follows earlier writes, whose content may remain.
    """
    return without_implied(_needed(program))


@attrs.define(eq=False)
class DirectPredecessors:
    """Launches in order, each with its direct predecessors.

    Attributes:
        before: All transitive predecessors of each launch, as a bit set.
    """

    before: list[int] = attrs.field(factory=list, init=False)

    def add(self, needed: Collection[int]) -> tuple[int, ...]:
        """Return the direct predecessors of the next launch, in ascending order."""
        kept: list[int] = []
        covered = 0
        for number in sorted(needed, reverse=True):
            if not covered >> number & 1:
                kept.append(number)
                covered |= self.before[number] | 1 << number
        self.before.append(covered)
        return tuple(reversed(kept))


def without_implied(needed: Iterable[Collection[int]]) -> tuple[tuple[int, ...], ...]:
    """Return the direct predecessors of each launch, in ascending order."""
    direct = DirectPredecessors()
    return tuple(direct.add(each) for each in needed)


def _needed(program: Program) -> Iterator[set[int]]:
    written: dict[str, int] = {}
    read: dict[str, list[int]] = {}
    for number, work in enumerate(program.works):
        needed: set[int] = set()
        merged = merged_accesses(program, work)
        for name, access in merged.items():
            if name in written:
                needed.add(written[name])
            if access is not ParamAccess.READ:
                needed.update(read.get(name, ()))
        yield needed
        for name, access in merged.items():
            if access is ParamAccess.READ:
                read.setdefault(name, []).append(number)
            else:
                written[name], read[name] = number, []


def chain(launches: int) -> tuple[tuple[int, ...], ...]:
    """Return the dependencies of launches that run one after the other."""
    return tuple(() if number == 0 else (number - 1,) for number in range(launches))


def ancestors(after: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return all transitive predecessors of each launch, as a bit set."""
    direct = DirectPredecessors()
    for each in after:
        direct.add(each)
    return tuple(direct.before)


def merged_accesses(program: Program, work: Work) -> Mapping[str, ParamAccess]:
    """Return the accesses of a launch, loop or branch to each buffer, which may be passed several times."""
    merged: dict[str, ParamAccess] = {}
    for name, access in accesses(program, (work,)):
        if merged.setdefault(name, access) is not access:
            merged[name] = ParamAccess.READ_WRITE
    return merged
