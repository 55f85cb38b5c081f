"""Placement of barriers between statements that pass elements of an array from one thread of a group to another."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from tileir.core import attrs, fail, grouped
from tileir.poly.affine import Affine
from tileir.semtree import ir as sem

THREAD: Final = "%thread"
"""Name of the number of a thread in :attr:`SharedAccess.own`; no variable can have it."""


@attrs.frozen
class SharedAccess:
    """An access of a phase to an array shared by several threads.

    Attributes:
        array: Its name.
        writes: Whether the access is not just a load.
        merges: Whether it is a store that aggregates.
        threads: Number of threads.
        own: For disjoint elements of each thread, their offset, as an affine of :data:`THREAD` and other variables;
            else None. Equal affines are equal elements for one thread.
        fixed: Whether the other variables of ``own`` never change.
        local: Whether the array is in local memory.
        atomic: Whether it is an update, concurrent with updates of the same elements by other threads.
        waits: Whether the access, a store of a box, continues until a wait.
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

    def earlier(self) -> SharedAccess:
        """Return the access as the next iteration of an enclosing loop sees it."""
        return self if self.fixed or self.own is None else attrs.evolve(self, own=None)


@attrs.frozen(eq=False)
class Phase:
    """Statements that threads run without synchronisation."""

    statements: tuple[sem.Stmt, ...]
    touches: tuple[SharedAccess, ...]


@attrs.frozen(eq=False)
class StepSequence:
    """Steps in order, inside loops or conditions that are uniform for all threads.

    ``wrap`` puts statements into these; ``repeats`` is true for loops, ``skips`` if the body may not run at all.
    """

    steps: tuple[Step, ...]
    wrap: Callable[[list[sem.Stmt]], list[sem.Stmt]]
    repeats: bool
    skips: bool


Step: TypeAlias = Phase | StepSequence


def with_barriers(step: Step) -> list[sem.Stmt]:
    """Return the statements of a step with as few barriers as a scan in program order finds necessary.

    Raises:
        TileError: TIL502, threads pass on elements of an array outside local memory, which barriers do not order.
    """
    return _placed(step, ()).statements


@attrs.frozen(eq=False, repr=False)
class _SynchronisedStatements:
    """Statements with their barriers.

    ``before`` are the touches that may precede the first barrier, ``after`` those that may follow the last one,
    including those pending at the start; ``meets`` is true if there is certainly a barrier.
    """

    statements: list[sem.Stmt]
    before: tuple[SharedAccess, ...]
    after: tuple[SharedAccess, ...]
    meets: bool


def _placed(step: Step, pending: tuple[SharedAccess, ...]) -> _SynchronisedStatements:
    """Insert barriers into a step; ``pending`` are the touches since the last one."""
    if isinstance(step, Phase):
        if _meet(pending, step.touches):
            wait, left = _waited(pending, step.touches)
            after = _joined(left, step.touches)
            return _SynchronisedStatements([*wait, sem.Barrier(), *step.statements], (), after, meets=True)
        return _SynchronisedStatements(list(step.statements), step.touches, _joined(pending, step.touches), meets=False)
    body = _in_order(step.steps, pending)
    ahead = tuple(touch for touch in body.after if touch.waits and touch not in pending)
    if step.repeats and ahead:  # an iteration waits for stores of the previous one if it needs their memory
        body = _in_order(step.steps, _joined(pending, ahead))
    if step.repeats and _meet(_from_last_iteration(body.after), body.before):
        body = attrs.evolve(
            body,
            statements=[*body.statements, sem.Barrier()],
            after=tuple(touch for touch in body.after if touch.waits),
            meets=True,
        )
    if step.skips and any(touch.waits for touch in body.after):  # their number is unknown
        done = tuple(attrs.evolve(touch, waits=False) for touch in body.after)
        body = attrs.evolve(body, statements=[*body.statements, sem.BulkWait(0)], after=done)
    after = _joined(pending, body.after) if step.skips else body.after
    return _SynchronisedStatements(step.wrap(body.statements), body.before, after, meets=body.meets and not step.skips)


def _from_last_iteration(touches: Iterable[SharedAccess]) -> tuple[SharedAccess, ...]:
    """Return the touches of the previous iteration that matter to the next one.

    Iterations are points of a Stripe block: independent except for local memory of the enclosing block, and for merges.
    """
    return tuple(touch.earlier() for touch in touches if touch.local or touch.merges)


def _in_order(steps: Iterable[Step], pending: tuple[SharedAccess, ...]) -> _SynchronisedStatements:
    statements: list[sem.Stmt] = []
    before: tuple[SharedAccess, ...] = ()
    meets = False
    for step in steps:
        placed = _placed(step, pending)
        statements.extend(placed.statements)
        before = before if meets else _joined(before, placed.before)
        meets, pending = meets or placed.meets, placed.after
    return _SynchronisedStatements(statements, before, pending, meets)


def _joined(first: Iterable[SharedAccess], second: Iterable[SharedAccess]) -> tuple[SharedAccess, ...]:
    """Return both, each touch once: the last occurrence for stores of boxes, whose order counts."""
    second = tuple(second)
    return tuple(dict.fromkeys((*(touch for touch in first if not touch.waits or touch not in second), *second)))


def _waited(
    before: tuple[SharedAccess, ...], after: tuple[SharedAccess, ...]
) -> tuple[list[sem.Stmt], tuple[SharedAccess, ...]]:
    """Return the wait of a phase for earlier stores, if it needs one, and the stores that are still pending."""
    stores = [touch for touch in before if touch.waits]
    count = max((n for n, touch in enumerate(stores, 1) if _meet((touch,), after)), default=0)
    wait: list[sem.Stmt] = [sem.BulkWait(len(stores) - count)] if count else []
    return wait, tuple(stores[count:])


def _meet(before: Iterable[SharedAccess], after: Iterable[SharedAccess]) -> bool:
    """Return whether a barrier is needed between touches."""
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


def _clash(a: SharedAccess, b: SharedAccess) -> bool:
    """Return whether different threads may access one element of an array, and one of them writes it."""
    alone = a.threads == b.threads == 1 or (a.own is not None and a.own == b.own)
    return (a.writes or b.writes) and not (alone or (a.atomic and b.atomic))
