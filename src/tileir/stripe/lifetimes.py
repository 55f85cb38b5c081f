"""Lifetimes of memory: from the first to the last statement that accesses it."""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Sequence

from tileir.core import attrs, grouped
from tileir.stripe.aliases import byte_size, same_place
from tileir.stripe.dependences import Order, order_of
from tileir.stripe.ir import Block, Direction, Refinement, views_read, views_written
from tileir.stripe.tags import LOOP


@attrs.frozen(eq=False)
class Lifetime:
    """An allocation, and when it is in use.

    Attributes:
        allocation: The refinement.
        owner: The block that allocates.
        path: Numbers of the statements that lead from the analysed block to the one with the users: the owner, or the
            innermost nested block that runs once and has all of them, such as a side of a branch.
        users: Numbers of the statements there that access the memory, rising.
        always: Whether it is in use all the time: parameters, results and constants.
    """

    allocation: Refinement
    owner: Block
    path: tuple[int, ...]
    users: tuple[int, ...]
    always: bool

    @property
    def first(self) -> tuple[float, ...]:
        """First use, in the order of the program."""
        return (*self.path, self.users[0] if self.users else -1)

    @property
    def last(self) -> tuple[float, ...]:
        """Last use: to the end of that statement, including nested statements."""
        return (*self.path, self.users[-1] if self.users else -1, math.inf)


def lifetimes(block: Block, lasting: Container[str] = ()) -> tuple[Lifetime, ...]:
    """Return the lifetimes of the allocations of a block and of nested blocks, outermost first.

    Args:
        block: The block.
        lasting: Its allocations that callers see, which are always in use.
    """
    found: list[Lifetime] = []
    pending: list[tuple[Block, tuple[int, ...]]] = [(block, ())]
    while pending:
        owner, path = pending.pop()
        allocated = {r.name: r for r in owner.refinements if r.direction is Direction.NONE}
        if allocated:
            found.extend(_lifetimes_of(owner, path, allocated, lasting if owner is block else ()))
        inner = [(s, (*path, number)) for number, s in enumerate(owner.statements) if isinstance(s, Block)]
        pending.extend(reversed(inner))
    return tuple(found)


def _lifetimes_of(
    owner: Block, path: tuple[int, ...], allocated: dict[str, Refinement], lasting: Container[str]
) -> Iterator[Lifetime]:
    found: dict[str, Lifetime] = {}
    pending = [(owner, path, {name: frozenset({name}) for name in allocated})]
    while pending:
        block, path, views = pending.pop()
        users = grouped(
            (touched, number)
            for number, statement in enumerate(block.statements)
            for touched in dict.fromkeys((*views_read(statement), *views_written(statement)))
        )
        inside: dict[int, dict[str, frozenset[str]]] = {}
        for name, seen in views.items():
            numbers = sorted({number for view in seen for number in users.get(view, ())})
            inner = block.statements[numbers[0]] if len(numbers) == 1 else None
            if isinstance(inner, Block) and _runs_once(inner):
                within = frozenset(view.name for view in inner.refinements if view.source in seen)
                inside.setdefault(numbers[0], {})[name] = within
            else:
                always = allocated[name].constant or name in lasting
                found[name] = Lifetime(allocated[name], owner, path, tuple(numbers), always)
        for number, names in inside.items():
            inner = block.statements[number]
            assert isinstance(inner, Block)  # it was one above
            pending.append((inner, (*path, number), names))
    yield from (found[name] for name in allocated)


def _runs_once(block: Block) -> bool:
    """Return whether the statements of a block run at most once, so that their order determines lifetimes."""
    return not (block.indices or block.constraints or LOOP in block.tags)


@attrs.define(eq=False)
class Coexistence:
    """Analysis of which allocations in ``root``, a block, may be in use at the same time.

    Statements run in order; with ``by_deps`` only as far as their deps say so, in blocks that have any.
    """

    root: Block
    by_deps: bool = False
    _orders: dict[tuple[int, ...], Order | None] = attrs.field(factory=dict, init=False)

    def together(self, first: Lifetime, second: Lifetime) -> bool:
        """Return whether both may be in use at once, at one point of their common enclosing blocks."""
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
        """Return the order given by deps of the statements at the end of a path; None if they run in order."""
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


def clashes(block: Block, lasting: Container[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield pairs of allocations, of a block or nested blocks, placed at overlapping bytes while both are in use.

    Statements count as run in order; that deps order statements on the same bytes is another rule.
    """
    placed = [life for life in lifetimes(block, lasting) if life.allocation.offset is not None]
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
