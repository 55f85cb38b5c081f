"""Steps that results depend on, of sequences in which each step follows what it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Reversible
from typing import TypeVar

T = TypeVar("T")


def needed(
    steps: Reversible[T],
    results: Iterable[str],
    made: Callable[[T], str | None],
    reads: Callable[[T], Iterable[str]],
    stays: Callable[[T], bool] | None = None,
) -> list[T]:
    """Return the steps that some results depend on, directly or not, in their order.

    Args:
        steps: All steps.
        results: Names of what has to be made.
        made: Gives the name of what a step makes.
        reads: Gives the names that a step reads.
        stays: Tells which steps are needed for themselves; without it, none is.
    """
    wanted, found = set(results), []
    for step in reversed(steps):
        if made(step) in wanted or (stays is not None and stays(step)):
            found.append(step)
            wanted.update(reads(step))
    return found[::-1]
