"""Loops that need nothing of each other, next to each other, so that threads may run them at the same time."""

from __future__ import annotations

from tileir.core import attrs
from tileir.runtime.plans.dependencies import GRAPH_LAUNCHES, ancestors, chain, dependencies
from tileir.semtree.ir import Loop, Program, Work


def loops_together(program: Program) -> Program:
    """Move loops with counts next to later ones that do not follow them; ``program`` itself where there are none.

    A work between two such loops goes behind both where it follows one of them, otherwise in front of both.
    """
    works = program.works
    if not _has_several(program):
        return program
    before = ancestors(dependencies(program))
    order: list[int] = []
    rest = list(range(len(works)))
    while rest:
        group = rest[:1]
        if _is_counted(works[rest[0]]):
            for number in rest[1:]:
                if _is_counted(works[number]) and not any(before[number] >> other & 1 for other in group):
                    group.append(number)
        ahead = [n for n in rest if n < group[-1] and not any(n == other or before[n] >> other & 1 for other in group)]
        order += [*ahead, *group]
        done = {*ahead, *group}
        rest = [number for number in rest if number not in done]
    if order == list(range(len(works))):
        return program
    return attrs.evolve(program, works=tuple(works[number] for number in order))


def in_turns(program: Program) -> tuple[tuple[int, ...], ...]:
    """Return the works that each one waits for where they run in order, but neighbouring independent loops together."""
    if not _has_several(program):
        return chain(len(program.works))
    needed = dependencies(program)
    found: list[tuple[int, ...]] = []
    last: tuple[int, ...] = ()
    turn: tuple[int, ...] = ()
    for number, work in enumerate(program.works):
        joins = turn and _is_counted(work) and _is_counted(program.works[turn[0]])
        if joins and not any(other in turn for other in needed[number]):
            turn = (*turn, number)
        else:
            last, turn = turn, (number,)
        found.append(last)
    return tuple(found)


def _has_several(program: Program) -> bool:
    """Return whether there are several loops with counts, in a program whose dependencies are cheap to know."""
    return sum(map(_is_counted, program.works)) > 1 and len(program.works) <= GRAPH_LAUNCHES


def _is_counted(work: Work) -> bool:
    return isinstance(work, Loop) and isinstance(work.times, int)
