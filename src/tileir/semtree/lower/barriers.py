"""Placement of barriers: between statements that hand elements of an array from one thread of a group to another."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from tileir.core import attrs, fail, grouped
from tileir.poly.affine import Affine
from tileir.semtree import ir as sem

THREAD: Final = "%thread"
"""Stands for the number of a thread in :attr:`Touch.own`; no variable can have this name."""


@attrs.frozen
class Touch:
    """One access of a phase to an array that several threads see.

    Attributes:
        array: Its name.
        writes: Whether the access is not just a load.
        merges: Whether it is a store that aggregates.
        threads: How many threads there are.
        own: Set where each thread touches elements that no other one does: their offset, as an affine of
            :data:`THREAD` and other variables. Equal ones are the same elements for the same thread.
        fixed: Whether the other variables of ``own`` never change.
        local: Whether the array is in local memory.
        atomic: Whether it is an update, beside which other threads may update the same elements.
        waits: Whether the access goes on until a wait for it: it is a store of a box.

    """

    array: str
    writes: bool
    merges: bool
    threads: int
    own: Affine | None
    fixed: bool
    local: bool
    waits: bool = False
    atomic: bool = False

    def earlier(self) -> Touch:
        """Return the touch as an iteration of a loop around sees that of the one before."""
        return self if self.fixed or self.own is None else attrs.evolve(self, own=None)


@attrs.frozen(eq=False)
class Phase:
    """Statements that threads run without waiting for each other."""

    statements: tuple[sem.Stmt, ...]
    touches: tuple[Touch, ...]


@attrs.frozen(eq=False)
class Ordered:
    """Steps in order, inside loops or conditions that are alike for all threads.

    ``wrap`` puts statements into them; ``repeats`` tells of loops, ``skips`` that the body may not run at all.
    """

    steps: tuple[Step, ...]
    wrap: Callable[[list[sem.Stmt]], list[sem.Stmt]]
    repeats: bool
    skips: bool


Step: TypeAlias = Phase | Ordered


def with_barriers(step: Step) -> list[sem.Stmt]:
    """Return the statements of a step with as few barriers as a scan in program order finds necessary.

    Raises:
        TileError: TIL502 where threads hand on elements of an array in other than local memory, which barriers do not
            order.

    """
    return _placed(step, ()).statements


@attrs.frozen(eq=False, repr=False)
class _Placed:
    """Statements with their barriers.

    ``before`` are the touches that no barrier surely precedes, ``after`` those that none surely follows, what was
    pending at the start included; ``meets`` tells whether there surely is a barrier.
    """

    statements: list[sem.Stmt]
    before: tuple[Touch, ...]
    after: tuple[Touch, ...]
    meets: bool


def _placed(step: Step, pending: tuple[Touch, ...]) -> _Placed:
    """Put barriers into a step; ``pending`` has been touched since the last one."""
    if isinstance(step, Phase):
        if _meet(pending, step.touches):
            wait, left = _waited(pending, step.touches)
            after = _joined(left, step.touches)
            return _Placed([*wait, sem.Barrier(), *step.statements], (), after, meets=True)
        return _Placed(list(step.statements), step.touches, _joined(pending, step.touches), meets=False)
    body = _in_order(step.steps, pending)
    ahead = tuple(touch for touch in body.after if touch.waits and touch not in pending)
    if step.repeats and ahead:  # an iteration waits for stores of the one before where it needs their memory
        body = _in_order(step.steps, _joined(pending, ahead))
    if step.repeats and _meet(_from_last_iteration(body.after), body.before):
        body = attrs.evolve(
            body,
            statements=[*body.statements, sem.Barrier()],
            after=tuple(touch for touch in body.after if touch.waits),
            meets=True,
        )
    if step.skips and any(touch.waits for touch in body.after):  # nobody knows how many there were
        done = tuple(attrs.evolve(touch, waits=False) for touch in body.after)
        body = attrs.evolve(body, statements=[*body.statements, sem.BulkWait(0)], after=done)
    after = _joined(pending, body.after) if step.skips else body.after
    return _Placed(step.wrap(body.statements), body.before, after, meets=body.meets and not step.skips)


def _from_last_iteration(touches: Iterable[Touch]) -> tuple[Touch, ...]:
    """Return what an iteration sees of the touches that the one before has left.

    Iterations are points of a Stripe block: independent but for memory inside the block around, and for what they
    merge.
    """
    return tuple(touch.earlier() for touch in touches if touch.local or touch.merges)


def _in_order(steps: Iterable[Step], pending: tuple[Touch, ...]) -> _Placed:
    statements: list[sem.Stmt] = []
    before: tuple[Touch, ...] = ()
    meets = False
    for step in steps:
        placed = _placed(step, pending)
        statements.extend(placed.statements)
        before = before if meets else _joined(before, placed.before)
        meets, pending = meets or placed.meets, placed.after
    return _Placed(statements, before, pending, meets)


def _joined(first: Iterable[Touch], second: Iterable[Touch]) -> tuple[Touch, ...]:
    """Return both, each touch once: the last one where their order counts, as it does for stores of boxes."""
    second = tuple(second)
    return tuple(dict.fromkeys((*(touch for touch in first if not touch.waits or touch not in second), *second)))


def _waited(before: tuple[Touch, ...], after: tuple[Touch, ...]) -> tuple[list[sem.Stmt], tuple[Touch, ...]]:
    """Return the wait that a phase needs for stores before it, if it does, and the stores that go on all the same."""
    stores = [touch for touch in before if touch.waits]
    count = max((n for n, touch in enumerate(stores, 1) if _meet((touch,), after)), default=0)
    wait: list[sem.Stmt] = [sem.BulkWait(len(stores) - count)] if count else []
    return wait, tuple(stores[count:])


def _meet(before: Iterable[Touch], after: Iterable[Touch]) -> bool:
    """Return whether a barrier must stand between touches."""
    touched = grouped((touch.array, touch) for touch in after)
    clashes = [(a, b) for a in before for b in touched.get(a.array, ()) if _clash(a, b)]
    for first, _ in clashes:
        if not first.local:
            message = (
                f"threads of a group hand on elements of {first.array!r}, which is not in local memory: allocate it at "
                "LOCAL, or let each thread touch elements of its own"
            )
            raise fail("TIL502", message)
    return bool(clashes)


def _clash(a: Touch, b: Touch) -> bool:
    """Return whether different threads may touch an element of one array, and one of them writes it."""
    alone = a.threads == b.threads == 1 or (a.own is not None and a.own == b.own)
    return (a.writes or b.writes) and not (alone or (a.atomic and b.atomic))
