"""Dependences of overlapping launches by their memory."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

from tileir.core.nodes import attrs
from tileir.runtime.plans.dependencies import GRAPH_LAUNCHES, DirectPredecessors, chain


class Use(NamedTuple):
    """Use of memory by a launch.

    Attributes:
        array: Number of an array to be given, which shares memory with nothing else; -1 for addresses.
        begin: First byte.
        end: End, exclusive.
        writes: Whether the launch may write it.
    """

    array: int
    begin: int
    end: int
    writes: bool


APART: Final = Use(-1, -1, 0, True)
"""Use that serialises messages, kernels whose groups wait for each other, and kernels that fill the card.

Two kernels whose groups wait could each keep the other's groups from becoming resident.
"""


def following(launches: Sequence[Sequence[Use]]) -> tuple[tuple[int, ...], ...]:
    """Return the earlier launches that each launch must follow, by number, in ascending order.

    It follows earlier writers of its memory, and earlier readers of memory that it writes, without transitive
    dependences. More than :data:`~tileir.runtime.plans.dependencies.GRAPH_LAUNCHES` run in order.
    """
    if len(launches) > GRAPH_LAUNCHES:
        return chain(len(launches))
    order = Order()
    return tuple(order.add(uses) for uses in launches)


@attrs.define(eq=False)
class Order:
    """Launches in order, with the latest users of memory."""

    _direct: DirectPredecessors = attrs.field(factory=DirectPredecessors, init=False)
    _memory: dict[int, _Memory] = attrs.field(factory=lambda: defaultdict(_Memory), init=False)

    def add(self, uses: Sequence[Use]) -> tuple[int, ...]:
        """Return the numbers of the next launch's predecessors, like :func:`following`."""
        number = len(self._direct.before)
        for use in uses:
            self._memory[use.array].cut(use.begin)
            self._memory[use.array].cut(use.end)
        needed: set[int] = set()
        for use in uses:
            for cell in self._memory[use.array].over(use.begin, use.end):
                needed.update(cell.written)
                needed.update(cell.read if use.writes else ())
        for use in sorted(uses, key=lambda each: not each.writes):
            self._memory[use.array].note(use, number)
        return self._direct.add(needed)


@attrs.define(eq=False)
class _Cell:
    """Memory range that each launch so far used entirely or not at all.

    Attributes:
        end: End, exclusive.
        written: Its latest writer, if any.
        read: Its readers since then.
    """

    end: int
    written: tuple[int, ...] = ()
    read: tuple[int, ...] = ()


@attrs.define(eq=False)
class _Memory:
    """Cells by address, in ascending order, with gaps of unused memory."""

    _begins: list[int] = attrs.field(factory=list, init=False)
    _cells: dict[int, _Cell] = attrs.field(factory=dict, init=False)

    def cut(self, at: int) -> None:
        """Split a cell at a byte, if there is one around it."""
        place = bisect_right(self._begins, at)
        if place:
            begin = self._begins[place - 1]
            cell = self._cells[begin]
            if begin < at < cell.end:
                self._begins.insert(place, at)
                self._cells[at] = attrs.evolve(cell)
                cell.end = at

    def over(self, begin: int, end: int) -> list[_Cell]:
        """Return the cells in an interval at whose ends cells are split."""
        return [self._cells[each] for each in self._begins[self._places(begin, end)]]

    def note(self, use: Use, number: int) -> None:
        """Record a use by a launch, writes first."""
        self.cut(use.begin)
        self.cut(use.end)
        if use.writes:
            places = self._places(use.begin, use.end)
            for each in self._begins[places]:
                del self._cells[each]
            self._begins[places] = [use.begin]
            self._cells[use.begin] = _Cell(use.end, (number,))
            return
        at = use.begin
        for begin in [*self._begins[self._places(use.begin, use.end)], use.end]:
            if at < begin:
                self._begins.insert(bisect_left(self._begins, at), at)
                self._cells[at] = _Cell(begin)
            at = self._cells[begin].end if begin < use.end else begin
        for cell in self.over(use.begin, use.end):
            if cell.written != (number,):
                cell.read = (*cell.read, number)

    def _places(self, begin: int, end: int) -> slice:
        return slice(bisect_left(self._begins, begin), bisect_left(self._begins, end))
