"""Order of launches that may overlap: each follows those whose memory it needs, and the card overlaps the others."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

from tileir.core.nodes import attrs
from tileir.runtime.plans.dependencies import GRAPH_LAUNCHES, Direct, chain


class Use(NamedTuple):
    """Memory that a launch uses.

    Attributes:
        array: The number of an array that comes later, which shares memory with nothing else; -1 for addresses.
        begin: The byte where it begins.
        end: The byte behind it.
        writes: Whether the launch may write to it.

    """

    array: int
    begin: int
    end: int
    writes: bool


APART: Final = Use(-1, -1, 0, True)
"""A use by which messages, and kernels whose groups wait for each other, run one after the other.

Of two such kernels side by side each may keep the other from having room for all of its groups.
"""


def following(launches: Sequence[Sequence[Use]]) -> tuple[tuple[int, ...], ...]:
    """Return, for each launch, the numbers of the earlier ones that it must follow, in rising order.

    It follows those that wrote what it uses, and those that read what it writes; what follows from others by
    transitivity is left out. More than :data:`~tileir.runtime.plans.dependencies.GRAPH_LAUNCHES` run in order.
    """
    if len(launches) > GRAPH_LAUNCHES:
        return chain(len(launches))
    order = Order()
    return tuple(order.add(uses) for uses in launches)


@attrs.define(eq=False)
class Order:
    """Launches that come one after the other, and who used which memory last."""

    _direct: Direct = attrs.field(factory=Direct, init=False)
    _memory: dict[int, _Memory] = attrs.field(factory=lambda: defaultdict(_Memory), init=False)

    def add(self, uses: Sequence[Use]) -> tuple[int, ...]:
        """Return the numbers of those that the next launch must follow, as :func:`following` does."""
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
    """A piece of memory that each launch so far used as a whole or not at all.

    Attributes:
        end: The byte behind it.
        written: Who wrote it last, if somebody did.
        read: Who read it since.

    """

    end: int
    written: tuple[int, ...] = ()
    read: tuple[int, ...] = ()


@attrs.define(eq=False)
class _Memory:
    """Cells by where they begin, in rising order; between them is what nobody used."""

    _begins: list[int] = attrs.field(factory=list, init=False)
    _cells: dict[int, _Cell] = attrs.field(factory=dict, init=False)

    def cut(self, at: int) -> None:
        """Let a cell begin or end at a byte, if there is one around it."""
        place = bisect_right(self._begins, at)
        if place:
            begin = self._begins[place - 1]
            cell = self._cells[begin]
            if begin < at < cell.end:
                self._begins.insert(place, at)
                self._cells[at] = attrs.evolve(cell)
                cell.end = at

    def over(self, begin: int, end: int) -> list[_Cell]:
        """Return the cells in an interval at whose ends cells are cut."""
        return [self._cells[each] for each in self._begins[self._places(begin, end)]]

    def note(self, use: Use, number: int) -> None:
        """Note a use by a launch, of which those that write come first."""
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
