"""When memory is in use: from the first to the last statement that touches it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import attrs

from tileir.stripe.aliases import byte_size, same_place
from tileir.stripe.dependences import order_of
from tileir.stripe.ir import Block, Direction, views_read, views_written

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tileir.stripe.dependences import Order
    from tileir.stripe.ir import Refinement


@attrs.frozen(eq=False)
class Lifetime:
    """An allocation, and when it is in use.

    Attributes:
        allocation: The refinement.
        owner: The block that allocates.
        path: Numbers of the statements that lead from the block that was asked about to the one with the users: the
            owner, or the only statement of it where that is a block of one point.
        users: Numbers of the statements there that touch the memory, rising.
        always: Whether it is in use all the time: parameters, results and constants.

    """

    allocation: Refinement
    owner: Block
    path: tuple[int, ...]
    users: tuple[int, ...]
    always: bool

    @property
    def first(self) -> tuple[float, ...]:
        """When it is first in use, in the order of the program."""
        return (*self.path, self.users[0] if self.users else -1)

    @property
    def last(self) -> tuple[float, ...]:
        """When it is last in use: to the end of that statement, whatever is inside it."""
        return (*self.path, self.users[-1] if self.users else -1, math.inf)


def lifetimes(block: Block) -> tuple[Lifetime, ...]:
    """Return when each allocation of a block and of those inside it is in use, outermost first."""
    found: list[Lifetime] = []
    pending: list[tuple[Block, tuple[int, ...]]] = [(block, ())]
    while pending:
        owner, path = pending.pop()
        allocated = {r.name: r for r in owner.refinements if r.direction is Direction.NONE}
        if allocated:
            found.extend(_lifetimes_of(owner, path, allocated))
        inner = [(s, (*path, number)) for number, s in enumerate(owner.statements) if isinstance(s, Block)]
        pending.extend(reversed(inner))
    return tuple(found)


def _lifetimes_of(owner: Block, path: tuple[int, ...], allocated: dict[str, Refinement]) -> Iterator[Lifetime]:
    names = {name: {name} for name in allocated}
    block = owner
    while (inner := _only_point(block)) is not None:
        names = {name: {r.name for r in inner.refinements if r.source in seen} for name, seen in names.items()}
        block, path = inner, (*path, 0)
    users: dict[str, list[int]] = {}
    for number, statement in enumerate(block.statements):
        for touched in dict.fromkeys((*views_read(statement), *views_written(statement))):
            users.setdefault(touched, []).append(number)
    for name, refinement in allocated.items():
        numbers = sorted({number for seen in names[name] for number in users.get(seen, ())})
        always = refinement.constant or "user" in refinement.tags
        yield Lifetime(refinement, owner, path, tuple(numbers), always)


def _only_point(block: Block) -> Block | None:
    """Return the only statement of a block if that is a block of one point."""
    if len(block.statements) != 1:
        return None
    inner = block.statements[0]
    return inner if isinstance(inner, Block) and not inner.indices and not inner.constraints else None


@attrs.define(eq=False)
class Coexistence:
    """Tells which allocations in ``root``, a block, may be in use at the same time.

    Statements run in order; with ``by_deps`` only as far as their deps say so, in blocks that have any.
    """

    root: Block
    by_deps: bool = False
    _orders: dict[tuple[int, ...], Order | None] = attrs.field(factory=dict, init=False)

    def together(self, first: Lifetime, second: Lifetime) -> bool:
        """Return whether both may be in use at once, at one point of the blocks around them."""
        if first.always or second.always:
            return True
        shared = 0
        for mine, other in zip(first.path, second.path, strict=False):
            if mine != other:
                break
            shared += 1
        order = self._order(first.path[:shared])
        ours = first.users if len(first.path) == shared else (first.path[shared],)
        theirs = second.users if len(second.path) == shared else (second.path[shared],)
        return not (_before(order, ours, theirs) or _before(order, theirs, ours))

    def _order(self, path: tuple[int, ...]) -> Order | None:
        """Return the order that deps make of the statements at the end of a path; None where they run in order."""
        if not self.by_deps:
            return None
        if path not in self._orders:
            block = self.root
            for number in path:
                inner = block.statements[number]
                block = inner if isinstance(inner, Block) else block
            has_deps = any(statement.deps for statement in block.statements)
            self._orders[path] = order_of(block.statements) if has_deps else None
        return self._orders[path]


def _before(order: Order | None, first: Sequence[int], second: Sequence[int]) -> bool:
    """Return whether all statements ``first`` of a block end before any of ``second`` begins."""
    if not first or not second:
        return True
    if order is None:
        return first[-1] < second[0]
    return all(order.follows(late, early) for late in second for early in first)


def clashes(block: Block) -> Iterator[tuple[str, str]]:
    """Yield pairs of allocations, of a block or inside it, placed at the same bytes while both are in use.

    Statements count as run in order: deps have to keep those apart that touch the same bytes, which is another rule.
    """
    placed = [life for life in lifetimes(block) if life.allocation.offset is not None]
    coexistence = Coexistence(block)
    active: list[Lifetime] = []
    for life in sorted(placed, key=lambda life: (not life.always, life.first)):
        active = [other for other in active if other.always or other.last >= life.first]
        for other in active:
            if _meet(other.allocation, life.allocation) and coexistence.together(other, life):
                yield other.allocation.name, life.allocation.name
        active.append(life)


def _meet(first: Refinement, second: Refinement) -> bool:
    """Return whether two placed allocations share bytes."""
    ours, theirs = first.offset or 0, second.offset or 0
    apart = ours + byte_size(first) <= theirs or theirs + byte_size(second) <= ours
    return not apart and same_place(first.location, second.location)
