"""Vector clocks of groups, and races on elements, for the interpreter."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from tileir.core.nodes import attrs

Known: TypeAlias = dict[int, int]
"""The number of arrivals up to which the work of a group is known, by the number of the group."""


@attrs.define(eq=False)
class Clock:
    """Number of stretches of statements between barriers that threads have run, including those of earlier groups."""

    stretch: int = 0


@attrs.define(eq=False)
class Order:
    """Knowledge of a group about others from flags that it has awaited or arrived at (a vector clock).

    Attributes:
        group: Number of the group.
        clock: Clock of its threads.
        clocks: Clocks of all groups.
        arrived: Number of its arrivals.
        known: Its knowledge.
    """

    group: int
    clock: Clock
    clocks: list[Clock]
    arrived: int = 0
    known: Known = attrs.field(factory=dict)

    def knows(self, other: tuple[int, int]) -> bool:
        """Return whether the work of a group after a number of its arrivals is known to be done."""
        group, arrived = other
        return group == self.group or arrived < self.known.get(group, 0)

    def learns(self, known: Known) -> None:
        """Add to the knowledge; for the threads, all earlier work of others is past."""
        self.known = merged(self.known, known)
        self.clock.stretch = 1 + max(clock.stretch for clock in self.clocks)

    def arrives(self) -> Known:
        """Return the knowledge after an arrival of this group."""
        self.arrived += 1
        return merged(self.known, {self.group: self.arrived})


def merged(known: Known, more: Known) -> Known:
    """Return the union of two states of knowledge."""
    return {group: max(known.get(group, 0), more.get(group, 0)) for group in known.keys() | more.keys()}


@attrs.define(eq=False)
class AccessHistory:
    """Last writer of each element, and its readers since: groups, each with its earlier arrivals."""

    writers: dict[int, tuple[int, int]] = attrs.field(factory=dict)
    readers: dict[int, Known] = attrs.field(factory=dict)

    def clash(self, elements: Iterable[int], order: Order, changed: Any) -> int | None:
        """Record an access, and return an element with an access of another group unknown to this one.

        ``changed`` is None for a read. For a write it returns which values are new: all may write equal values.
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
