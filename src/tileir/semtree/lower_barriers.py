"""Where the threads of a group must meet: between statements that hand elements of an array from one to another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from tileir.core.errors import fail
from tileir.semtree import ir as sem

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tileir.poly.affine import Affine

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

    """

    array: str
    writes: bool
    merges: bool
    threads: int
    own: Affine | None
    fixed: bool
    local: bool

    def earlier(self) -> Touch:
        """Return the touch as an iteration of a loop around sees that of the one before."""
        return self if self.fixed or self.own is None else attrs.evolve(self, own=None)


@attrs.frozen
class Phase:
    """Statements that threads run without waiting for each other."""

    statements: tuple[sem.Stmt, ...]
    touches: tuple[Touch, ...]


@attrs.frozen
class Ordered:
    """Steps in order, inside loops or conditions that are alike for all threads.

    ``wrap`` puts statements into them; ``repeats`` tells of loops, ``skips`` that the body may not run at all.
    """

    steps: tuple[Step, ...]
    wrap: Callable[[list[sem.Stmt]], list[sem.Stmt]]
    repeats: bool
    skips: bool


Step: TypeAlias = Phase | Ordered
_Pending: TypeAlias = tuple[Touch, ...]


def with_barriers(step: Step) -> list[sem.Stmt]:
    """Return the statements of a step with as few barriers as a scan in program order finds necessary.

    Raises:
        TileError: TIL502 where threads hand on elements of an array in other than local memory, which barriers do not
            order.

    """
    statements, _ = _placed(step, ())
    return statements


def _placed(step: Step, pending: _Pending) -> tuple[list[sem.Stmt], _Pending]:
    """Return statements, and what has been touched since the last barrier; ``pending`` is that before the step."""
    if isinstance(step, Phase):
        if _meet(pending, step.touches):
            return [sem.Barrier(), *step.statements], step.touches
        return list(step.statements), tuple(dict.fromkeys((*pending, *step.touches)))
    body, after = _in_order(step.steps, pending)
    if step.repeats and _needs_barrier_between(step.steps, after):
        body.append(sem.Barrier())
        after = ()
    if step.skips:
        after = tuple(dict.fromkeys((*pending, *after)))
    return step.wrap(body), after


def _needs_barrier_between(steps: Sequence[Step], after: _Pending) -> bool:
    """Return whether iterations over ``steps`` need a barrier between; ``after`` is what one leaves.

    Iterations are points of a Stripe block. They are independent but for memory inside the block around, and for what
    they merge.
    """
    before = tuple(touch.earlier() for touch in after if touch.local or touch.merges)
    return len(_in_order(steps, before)[0]) > len(_in_order(steps, ())[0])


def _in_order(steps: Sequence[Step], pending: _Pending) -> tuple[list[sem.Stmt], _Pending]:
    statements: list[sem.Stmt] = []
    for step in steps:
        added, pending = _placed(step, pending)
        statements.extend(added)
    return statements, pending


def _meet(before: Sequence[Touch], after: Sequence[Touch]) -> bool:
    """Return whether a barrier must stand between touches."""
    clashes = [(a, b) for a in before for b in after if _clash(a, b)]
    for first, _ in clashes:
        if not first.local:
            message = (
                f"threads of a group hand on elements of {first.array!r}, which is not in local memory: allocate it at "
                "LOCAL, or let each thread touch elements of its own"
            )
            raise fail("TIL502", message)
    return bool(clashes)


def _clash(a: Touch, b: Touch) -> bool:
    if a.array != b.array or not (a.writes or b.writes):
        return False
    return not (a.threads == b.threads == 1 or (a.own is not None and a.own == b.own))
