"""Vector clocks of groups, and races on elements, for the interpreter."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from tileir.core.nodes import attrs

Known: TypeAlias = dict[int, int]
"""Up to which of its arrivals the work of a group is known, by the number of the group."""


@attrs.define(eq=False)
class Clock:
    """Number of stretches of statements between barriers that threads have run, those of earlier groups among them."""

    stretch: int = 0


@attrs.define(eq=False)
class Order:
    """Knowledge of a group about others, for it has awaited flags or arrived at some (a vector clock).

    Attributes:
        group: Its number.
        clock: That of its threads.
        clocks: Those of all groups.
        arrived: How often it has arrived.
        known: What it knows.

    """

    group: int
    clock: Clock
    clocks: list[Clock]
    arrived: int = 0
    known: Known = attrs.field(factory=dict)

    def knows(self, other: tuple[int, int]) -> bool:
        """Return whether what a group did after so many arrivals of its own is known to be done."""
        group, arrived = other
        return group == self.group or arrived < self.known.get(group, 0)

    def learns(self, known: Known) -> None:
        """Add to what is known; for the threads, all that others did so far is past."""
        self.known = merged(self.known, known)
        self.clock.stretch = 1 + max(clock.stretch for clock in self.clocks)

    def arrives(self) -> Known:
        """Return what is known behind an arrival of this group."""
        self.arrived += 1
        return merged(self.known, {self.group: self.arrived})


def merged(known: Known, more: Known) -> Known:
    """Return what two know together."""
    return {group: max(known.get(group, 0), more.get(group, 0)) for group in known.keys() | more.keys()}


@attrs.define(eq=False)
class Touched:
    """Last writer of each element, and its readers since: groups, each with how often it had arrived before."""

    writers: dict[int, tuple[int, int]] = attrs.field(factory=dict)
    readers: dict[int, Known] = attrs.field(factory=dict)

    def clash(self, elements: Iterable[int], order: Order, changed: Any) -> int | None:
        """Note an access, and return an element that another group touched, of which this one does not know.

        ``changed`` is None for a read. For a write it tells which values are new: all may write the same one.
        """
        found = None
        for number, element in enumerate(elements):
            writer = self.writers.get(element)
            unknown = writer is not None and not order.knows(writer)
            if changed is None:
                self.readers.setdefault(element, {})[order.group] = order.arrived
            else:
                new = bool(changed if changed.ndim == 0 else changed[number])
                readers = self.readers.pop(element, {})
                unknown = (unknown and new) or not all(map(order.knows, readers.items()))
                self.writers[element] = order.group, order.arrived
            if unknown and found is None:
                found = element
        return found
