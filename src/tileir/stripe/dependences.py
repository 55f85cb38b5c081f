"""Which statements of a block must follow which: the meaning of ``deps``.

A statement must follow each earlier one that defines a scalar which it uses, or that touches memory which it touches
too, where one of both writes. Deps say so directly or by way of others; no deps at all in a block say that its
statements run in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from tileir.stripe.aliases import Aliases, Overlap, PlacedReach, compare, contains
from tileir.stripe.ir import scalar_inputs, scalar_output

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tileir.stripe.aliases import AnyReach
    from tileir.stripe.ir import Statement
    from tileir.stripe.scope import Scope

WINDOW: Final = 4096
"""How many statements back transitivity is known exactly: the cost of each is one bit for each statement."""

_MOST_PENDING: Final = 64
"""Beyond so many unordered writes to one piece of memory the next one waits for all, whatever it touches."""

_MOST_PLACED: Final = 1024
"""The same for the bytes of one location, which many pieces of memory share."""


@attrs.define(eq=False)
class Order:
    """Which statements follow which, directly or not, as statements are added in order.

    Bit ``k`` of a mask stands for the statement ``k + 1`` places before; older ones than :data:`WINDOW` are unknown.
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
        """Return ``dep`` and all that it follows, as a mask of the statement ``number``."""
        distance = number - dep
        return 0 if distance > WINDOW else 1 << (distance - 1) | self._masks[dep] << distance

    def follows(self, later: int, earlier: int) -> bool:
        """Return whether ``later`` surely follows ``earlier``."""
        distance = later - earlier
        return 0 < distance <= WINDOW and bool(self._masks[later] >> (distance - 1) & 1)

    def direct(self, needed: Iterable[int]) -> tuple[int, ...]:
        """Return what the next statement must follow without what follows from the rest."""
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
    """Return the order that the deps of statements make."""
    order = Order()
    for statement in statements:
        order.add(statement.deps)
    return order


def dependences(scope: Scope) -> tuple[tuple[int, ...], ...]:
    """Return minimal deps for each statement of a block, in rising order.

    What follows by transitivity is left out, exactly so for statements that are less than :data:`WINDOW` apart.
    """
    order = Order()
    result = []
    for needed in requirements(scope):
        direct = order.direct(needed)
        order.add(direct)
        result.append(direct)
    return tuple(result)


def requirements(scope: Scope) -> Iterator[tuple[int, ...]]:
    """Yield, for each statement, earlier ones that it must follow; those between which these stand may be left out."""
    aliases = Aliases(scope)
    pending = _Pending(aliases)
    defined: dict[str, int] = {}
    for number, statement in enumerate(scope.block.statements):
        found = {defined[name] for name in scalar_inputs(statement) if name in defined}
        if (name := scalar_output(statement)) is not None:
            defined[name] = number
        found.update(pending.visit(number, tuple(aliases.reaches(statement))))
        yield tuple(sorted(found - {number}))


@attrs.define(eq=False)
class _Accesses:
    """Reads and writes of one piece of memory that later ones may have to follow."""

    reads: list[tuple[int, AnyReach]] = attrs.field(factory=list)
    writes: list[tuple[int, AnyReach]] = attrs.field(factory=list)

    def note(self, number: int, reach: AnyReach) -> tuple[int, ...]:
        """Remember an access; return what it has to wait for so that not too many are kept."""
        if not reach.writes:
            self.reads.append((number, reach))
            return ()
        for known in (self.reads, self.writes):
            known[:] = [item for item in known if item[0] == number or not contains(reach, item[1])]
        if len(self.writes) < (_MOST_PLACED if isinstance(reach, PlacedReach) else _MOST_PENDING):
            self.writes.append((number, reach))
            return ()
        waited = tuple(earlier for earlier, _ in (*self.reads, *self.writes))
        self.reads, self.writes = [], [(number, _everything(reach))]
        return waited


@attrs.define(eq=False)
class _Pending:
    """Accesses that later ones may have to follow, by the memory that they touch."""

    aliases: Aliases
    _accesses: dict[object, _Accesses] = attrs.field(factory=dict, init=False)

    def visit(self, number: int, reaches: Sequence[AnyReach]) -> set[int]:
        """Return the statements that ``number`` must follow, and remember what it touches."""
        found: set[int] = set()
        for reach in reaches:
            found.update(self._clashes(reach))
        for reach in reaches:
            found.update(self._accesses.setdefault(_key(reach), _Accesses()).note(number, reach))
        return found

    def _clashes(self, reach: AnyReach) -> Iterator[int]:
        accesses = self._accesses.get(_key(reach))
        if accesses is None:
            return
        for number, known in (*accesses.writes, *(accesses.reads if reach.writes else ())):
            if compare(known, reach, self.aliases.ranges) is not Overlap.NONE:
                yield number


def _key(reach: AnyReach) -> object:
    """Return what accesses have in common that may clash."""
    if isinstance(reach, PlacedReach):
        return tuple(device.name for device in reach.location)
    return reach.memory


def _everything(reach: AnyReach) -> AnyReach:
    """Return an access that clashes with all others to the same memory."""
    if isinstance(reach, PlacedReach):
        location = tuple(attrs.evolve(device, units=()) for device in reach.location)
        return PlacedReach(location, 0, 1 << 62, True)
    return attrs.evolve(reach, start=None, sizes=(), strides=(), free={}, constraints=(), writes=True)
