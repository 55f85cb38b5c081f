"""Values that reach reads of temporaries, by isl: undefined reads, and reads before the write.

The method is array dataflow analysis (Feautrier, "Dataflow analysis of array and scalar references", 1991), computed
exactly by isl for the sizes of a program. Points without an order are analysed in one, since
:func:`tileir_testing.isl.index_sets.races` reports where the order matters.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator

import islpy as isl

from tileir.stripe.ir import Program
from tileir_testing.isl.index_leaves import Element, Leaf, stores, text


def undefined_reads(program: Program) -> tuple[str, ...]:
    """Return, as sentences, reads of memory that no point before them has written."""
    return tuple(_problems(program, _undefined, "which no point before it writes"))


def premature_reads(program: Program) -> tuple[str, ...]:
    """Return, as sentences, reads of the program's memory at elements that a later point writes, too.

    Memory of blocks is left out: an accumulator of a scan is read at every step.
    """
    lasting = {refinement.name for refinement in program.memory}
    return tuple(_problems(program, _premature, "which a later point writes again", lasting))


def _problems(
    program: Program,
    wrong: Callable[[isl.UnionMap, _Accesses], isl.UnionMap],
    what: str,
    among: Container[str] | None = None,
) -> Iterator[str]:
    found = stores(program)
    for memory in dict.fromkeys(leaf.store.memory for leaf in found.leaves):
        if memory in found.unclear or memory in program.inputs or (among is not None and memory not in among):
            continue
        accesses = _Accesses(found.leaves, memory)
        for number, leaf in enumerate(found.leaves):
            for element in leaf.loads:
                if element.memory == memory and leaf.store.memory != memory:
                    bad = wrong(_named(number, leaf, element), accesses)
                    if not bad.is_empty():
                        yield f"{leaf.block!r} reads an element of {memory!r}, {what}, at {bad.domain().sample_point()}"
                        break


class _Accesses:
    """Writers of some memory, and the time of every statement."""

    def __init__(self, leaves: tuple[Leaf, ...], memory: str) -> None:
        """Collect the writes and the times of all points."""
        length = max(len(leaf.order) for leaf in leaves)
        self.schedule = isl.UnionMap("{ }")
        self.writes = isl.UnionMap("{ }")
        for number, leaf in enumerate(leaves):
            times = [text(time) for time in leaf.order]
            times += ["0"] * (length - len(times))
            self.schedule = self.schedule.union(_relation(number, leaf, times))
            if leaf.store.memory == memory:
                self.writes = self.writes.union(_named(number, leaf, leaf.store))


def _undefined(reads: isl.UnionMap, accesses: _Accesses) -> isl.UnionMap:
    information = isl.UnionAccessInfo.from_sink(reads).set_must_source(accesses.writes)
    return information.set_schedule_map(accesses.schedule).compute_flow().get_must_no_source()


def _premature(reads: isl.UnionMap, accesses: _Accesses) -> isl.UnionMap:
    """Return the reads, as maps from their points to those of the later writes."""
    together = reads.apply_range(accesses.writes.reverse())
    later = accesses.schedule.lex_lt_union_map(accesses.schedule)
    return together.intersect(later)


def _named(number: int, leaf: Leaf, element: Element) -> isl.UnionMap:
    return _relation(number, leaf, [text(place) for place in element.place])


def _relation(number: int, leaf: Leaf, values: list[str]) -> isl.UnionMap:
    points = f"S{number}[{', '.join(leaf.indices)}]"
    return isl.UnionMap(f"{{ {points} -> [{', '.join(values)}] : {leaf.points} }}")
