"""Dependences between the statements of a block: the meaning of ``deps``.

A statement must follow each earlier one that defines a scalar which it uses, or that accesses the same memory, if one
of both writes. Deps express this directly or transitively; without any deps, the statements of a block run in order.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from tileir.core.nodes import attrs
from tileir.stripe.aliases import Aliases, AnyReach, MemoryKey, Overlap, PlacedReach, compare, contains
from tileir.stripe.check.scope import Scope
from tileir.stripe.ir import Statement, scalar_inputs, scalar_output

WINDOW: Final = 4096
"""Distance in statements up to which transitivity is exact: each costs one bit per statement."""

_MOST_PENDING: Final = 64
"""Maximum unordered writes to one piece of memory; the next write waits for all accesses."""


@attrs.define(eq=False)
class Order:
    """Transitive predecessors of each statement, as statements are added in order.

    Bit ``k`` of a mask is the statement ``k + 1`` places before; statements before :data:`WINDOW` are unknown.
    """

    _masks: list[int] = attrs.field(factory=list, init=False)

    def add(self, deps: Iterable[int]) -> None:
        """Add the next statement, which directly follows ``deps``."""
        number = len(self._masks)
        mask = 0
        for dep in deps:
            mask |= self._shifted(dep, number)
        self._masks.append(mask & ((1 << WINDOW) - 1))
        if number >= WINDOW:
            self._masks[number - WINDOW] = 0  # no later statement looks that far back

    def _shifted(self, dep: int, number: int) -> int:
        """Return ``dep`` and its predecessors, as a mask relative to the statement ``number``."""
        distance = number - dep
        return 0 if distance > WINDOW else 1 << (distance - 1) | self._masks[dep] << distance

    def follows(self, later: int, earlier: int) -> bool:
        """Return whether ``later`` certainly follows ``earlier``."""
        distance = later - earlier
        return 0 < distance <= WINDOW and bool(self._masks[later] >> (distance - 1) & 1)

    def direct(self, needed: Iterable[int]) -> tuple[int, ...]:
        """Return the direct predecessors of the next statement: ``needed`` without transitive predecessors."""
        number = len(self._masks)
        kept: list[int] = []
        covered = 0
        for dep in sorted(set(needed), reverse=True):
            distance = number - dep
            if distance > WINDOW or not covered >> (distance - 1) & 1:
                kept.append(dep)
                covered |= self._shifted(dep, number)
        return tuple(reversed(kept))


def order_of(statements: Iterable[Statement]) -> Order:
    """Return the order given by the deps of statements."""
    order = Order()
    for statement in statements:
        order.add(statement.deps)
    return order


def dependences(scope: Scope) -> tuple[tuple[int, ...], ...]:
    """Return minimal deps for each statement of a block, in rising order.

    Transitive deps are omitted, exactly for statements less than :data:`WINDOW` apart.
    """
    order = Order()
    result = []
    for needed in requirements(scope):
        direct = order.direct(needed)
        order.add(direct)
        result.append(direct)
    return tuple(result)


def requirements(scope: Scope) -> Iterator[tuple[int, ...]]:
    """Yield, for each statement, earlier statements that it must follow; transitive predecessors may be missing."""
    aliases = Aliases(scope)
    pending = _Pending(aliases)
    defined: dict[str, int] = {}
    for number, statement in enumerate(scope.block.statements):
        found = {defined[name] for name in scalar_inputs(statement) if name in defined}
        if (name := scalar_output(statement)) is not None:
            defined[name] = number
        found.update(pending.visit(number, tuple(aliases.reaches(statement))))
        yield tuple(sorted(found - {number}))


@attrs.define(eq=False, repr=False)
class _Accesses:
    """Accesses to one piece of memory, or stretch of bytes, that later accesses may have to follow."""

    reads: list[tuple[int, AnyReach]] = attrs.field(factory=list)
    writes: list[tuple[int, AnyReach]] = attrs.field(factory=list)

    def clashes(self, reach: AnyReach, ranges: Mapping[str, int]) -> Iterator[int]:
        """Yield the statements that ``reach`` must follow."""
        for number, known in (*self.writes, *(self.reads if reach.writes else ())):
            if compare(known, reach, ranges) is not Overlap.NONE:
                yield number

    def prune(self, reach: AnyReach) -> None:
        """Drop accesses that a write supersedes."""
        for known in (self.reads, self.writes):
            known[:] = [item for item in known if not contains(reach, item[1])]

    def note(self, number: int, reach: AnyReach) -> tuple[int, ...]:
        """Record an access; return the statements that it has to follow to bound the record."""
        if not reach.writes:
            self.reads.append((number, reach))
            return ()
        if len(self.writes) < _MOST_PENDING:
            self.writes.append((number, reach))
            return ()
        waited = tuple(earlier for earlier, _ in (*self.reads, *self.writes))
        self.reads, self.writes = [], [(number, _everything(reach))]
        return waited


@attrs.define(eq=False, repr=False)
class _Arena:
    """Accesses to the bytes of memories of one name, by stretch."""

    _starts: list[tuple[int, int]] = attrs.field(factory=list, init=False)  # sorted: first byte, and first behind
    _stretches: dict[tuple[int, int], _Accesses] = attrs.field(factory=dict, init=False)
    _longest: int = attrs.field(default=0, init=False)

    def meeting(self, reach: PlacedReach) -> Iterator[_Accesses]:
        """Yield the accesses to all stretches that overlap ``reach``."""
        for place in range(bisect_left(self._starts, (reach.first - self._longest, 0)), len(self._starts)):
            first, end = self._starts[place]
            if first >= reach.end:
                return
            if end > reach.first:
                yield self._stretches[first, end]

    def at(self, reach: PlacedReach) -> _Accesses:
        """Return the accesses to exactly the bytes of ``reach``."""
        stretch = (reach.first, reach.end)
        if stretch not in self._stretches:
            insort(self._starts, stretch)
            self._stretches[stretch] = _Accesses()
            self._longest = max(self._longest, reach.end - reach.first)
        return self._stretches[stretch]


@attrs.define(eq=False, repr=False)
class _Pending:
    """Accesses that later accesses may have to follow, by memory."""

    aliases: Aliases
    _accesses: dict[MemoryKey, _Accesses] = attrs.field(factory=dict, init=False)
    _arenas: dict[tuple[str, ...], _Arena] = attrs.field(factory=dict, init=False)

    def visit(self, number: int, reaches: Sequence[AnyReach]) -> set[int]:
        """Return the statements that ``number`` must follow, and record its accesses."""
        found: set[int] = set()
        for reach in reaches:
            for accesses in self._meeting(reach):
                found.update(accesses.clashes(reach, self.aliases.ranges))
        for reach in reaches:
            if reach.writes:
                for accesses in self._meeting(reach):
                    accesses.prune(reach)
            found.update(self._own(reach).note(number, reach))
        return found

    def _meeting(self, reach: AnyReach) -> Iterable[_Accesses]:
        if isinstance(reach, PlacedReach):
            return self._arena(reach).meeting(reach)
        return (self._own(reach),)

    def _own(self, reach: AnyReach) -> _Accesses:
        if isinstance(reach, PlacedReach):
            return self._arena(reach).at(reach)
        return self._accesses.setdefault(reach.memory, _Accesses())

    def _arena(self, reach: PlacedReach) -> _Arena:
        return self._arenas.setdefault(tuple(device.name for device in reach.location), _Arena())


def _everything(reach: AnyReach) -> AnyReach:
    """Return an access that clashes with all others to its memory, or to its bytes."""
    if isinstance(reach, PlacedReach):
        location = tuple(attrs.evolve(device, units=()) for device in reach.location)
        return PlacedReach(location, reach.first, reach.end, writes=True)
    return attrs.evolve(reach, start=None)
