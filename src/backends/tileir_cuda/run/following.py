"""Order of the launches of a graph: each follows those whose memory it needs, and the card overlaps the others."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from tileir.runtime.plans.dependencies import GRAPH_LAUNCHES, chain, without_implied


class Use(NamedTuple):
    """Memory that a launch uses.

    Attributes:
        array: The number of an array that comes later, which shares memory with nothing else; -1 for addresses.
        begin: Where it begins.
        end: Where it ends.
        writes: Whether the launch may write to it.

    """

    array: int
    begin: int
    end: int
    writes: bool


_Cell: TypeAlias = tuple[int, int]
"""A piece of memory that each launch uses as a whole or not at all: of which array, and which one."""


def following(launches: Sequence[Sequence[Use]]) -> tuple[tuple[int, ...], ...]:
    """Return, for each launch, the numbers of the earlier ones that it must follow, in rising order.

    It follows those that wrote what it uses, and those that read what it writes; what follows from others by
    transitivity is left out. More than :data:`~tileir.runtime.plans.dependencies.GRAPH_LAUNCHES` run in order.
    """
    if len(launches) > GRAPH_LAUNCHES:
        return chain(len(launches))
    return without_implied(_needed(launches))


def _needed(launches: Sequence[Sequence[Use]]) -> Iterator[set[int]]:
    edges: dict[int, set[int]] = {}
    for use in (use for uses in launches for use in uses):
        edges.setdefault(use.array, set()).update((use.begin, use.end))
    ordered = {array: sorted(each) for array, each in edges.items()}
    written: dict[_Cell, int] = {}
    read: dict[_Cell, list[int]] = {}
    for number, uses in enumerate(launches):
        cells = [(cell, use.writes) for use in uses for cell in _cells(use, ordered[use.array])]
        needed = {written[cell] for cell, _ in cells if cell in written}
        for cell, writes in cells:
            if writes:
                needed.update(read.get(cell, ()))
        yield needed
        for cell, writes in cells:
            if writes:
                written[cell], read[cell] = number, []
        for cell, writes in cells:
            if not writes and written.get(cell) != number:
                read.setdefault(cell, []).append(number)


def _cells(use: Use, edges: Sequence[int]) -> Iterator[_Cell]:
    """Yield the pieces of what is used, given all places where something begins or ends."""
    return ((use.array, cell) for cell in range(bisect_left(edges, use.begin), bisect_left(edges, use.end)))
