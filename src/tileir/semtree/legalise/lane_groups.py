"""Statements with several lanes that one loop over the lanes can run.

A statement reads all its lanes before it writes one. In a loop over lanes each lane runs all statements before the
next lane starts. Both are the same unless a lane reads or writes an element that another lane, or a later statement in
another lane, writes: where that cannot be excluded, a new loop begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from tileir.semtree.analysis.effects import reads, writes
from tileir.semtree.ir import Assign, Declare, DeclareArray, Reduce, Shuffle, Stmt, Subscript, Var
from tileir.semtree.legalise.offsets import Sum, offset_of
from tileir.semtree.rewrite import expressions, mentions, statements, walk

_MOST_STATEMENTS: Final = 256
"""Statements of one loop: compilers take more than linear time."""


@attrs.frozen(eq=False, repr=False)
class _Access:
    """Elements of one array that the lanes of a statement touch.

    Attributes:
        array: The array.
        start: The offset for lane 0.
        step: The distance between the elements of neighbouring lanes; None where it is not the same for all.
        lanes: How many lanes there are.

    """

    array: str
    start: Sum
    step: int | None
    lanes: int

    @classmethod
    def of(cls, place: Subscript) -> _Access:
        total = offset_of(place)
        even = all(isinstance(term, str) or term.type.lanes == 1 for term in total.terms)
        return cls(place.array, total.without_lane(), total.step if even else None, place.type.lanes)

    def clashes(self, other: _Access) -> bool:
        """Return whether an element that one lane writes here may be what another lane touches there."""
        if self.array != other.array:
            return True  # they may overlap
        distance = other.start.minus(self.start)
        if distance is None or self.step != 1 or other.step not in (0, 1):
            return True
        return 0 <= distance < self.lanes if other.step == 0 else 0 < abs(distance) < self.lanes


@attrs.define
class LaneGroup:
    """Statements that run as one loop over ``lanes``, and scalar declarations that may stand before it.

    Attributes:
        overlapping: Parameters that may overlap each other.
        lanes: The number of lanes, 0 while there is no statement.
        before: The declarations.
        stmts: The statements of the loop.

    """

    overlapping: frozenset[str]
    lanes: int = 0
    before: list[Stmt] = attrs.field(factory=list)
    stmts: list[Declare | Assign] = attrs.field(factory=list)
    _reads: dict[str, list[_Access]] = attrs.field(factory=dict)
    _writes: dict[str, list[_Access]] = attrs.field(factory=dict)

    def takes(self, stmt: Declare | Assign) -> bool:
        """Return whether a statement with several lanes can run in this loop."""
        if not self.stmts:
            return True
        if lanes_of(stmt) != self.lanes or has_reduction(stmt) or len(self.stmts) >= _MOST_STATEMENTS:
            return False
        for place in writes(stmt):
            write, memory = _Access.of(place), self._memory(place)
            if any(map(write.clashes, (*self._reads.get(memory, ()), *self._writes.get(memory, ())))):
                return False
        for place in reads(stmt):
            if any(write.clashes(_Access.of(place)) for write in self._writes.get(self._memory(place), ())):
                return False
        return not self.is_entangled(stmt)

    def may_follow(self, stmt: Stmt) -> bool:
        """Return whether a scalar declaration that stands behind the statements may be moved before them."""
        if not isinstance(stmt, Declare | DeclareArray) or has_reduction(stmt):
            return False
        return not any(self._memory(read) in self._writes for read in reads(stmt))

    def is_entangled(self, stmt: Declare | Assign) -> bool:
        """Return whether a statement may write what another lane of itself reads."""
        return any(
            self._memory(target) == self._memory(place) and _Access.of(target).clashes(_Access.of(place))
            for target in writes(stmt)
            for place in reads(stmt)
        )

    def add(self, stmt: Declare | Assign) -> None:
        """Append a statement with several lanes."""
        self.lanes = lanes_of(stmt)
        self.stmts.append(stmt)
        for places, found in ((reads(stmt), self._reads), (writes(stmt), self._writes)):
            for place in places:
                found.setdefault(self._memory(place), []).append(_Access.of(place))

    def _memory(self, place: Subscript) -> str:
        """Return the array's name, or one that stands for all parameters that may overlap."""
        return "" if place.array in self.overlapping else place.array


def lanes_of(stmt: Stmt) -> int:
    """Return how many lanes a statement sets; 1 for all that are neither declarations nor assignments."""
    match stmt:
        case Declare(variable=variable):
            return variable.type.lanes
        case Assign(target=target):
            return target.type.lanes
        case _:
            return 1


def has_reduction(stmt: Stmt) -> bool:
    """Return whether a statement itself merges lanes, or moves them."""
    return any(isinstance(node, Reduce | Shuffle) for root in expressions(stmt) for node in walk(root))


def last_mentions(stmts: Sequence[Stmt]) -> dict[str, int]:
    """Return, for each variable, the number of the last statement that mentions it, nested ones included."""
    found: dict[str, int] = {}
    for number, stmt in enumerate(stmts):
        for inner in statements((stmt,)):
            for root in mentions(inner):
                found.update((node.name, number) for node in walk(root) if isinstance(node, Var))
    return found
