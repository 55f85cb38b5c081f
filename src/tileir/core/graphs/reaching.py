"""Reachability: the successors of nodes in a graph, and the steps of a sequence that results depend on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, KeysView, Reversible
from typing import TypeVar

T = TypeVar("T")


def reached(start: Iterable[T], following: Callable[[T], Iterable[T]]) -> KeysView[T]:
    """Return ``start`` and all nodes reachable from it; each once, the nearest first."""
    found = dict.fromkeys(start)
    pending = [*found]
    for each in pending:  # the list grows meanwhile
        fresh = [one for one in dict.fromkeys(following(each)) if one not in found]
        found.update(dict.fromkeys(fresh))
        pending += fresh
    return found.keys()


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
        results: Names of the results.
        made: Returns the name that a step defines.
        reads: Returns the names that a step reads.
        stays: Selects steps to keep for their effects; without it, there are none.
    """
    wanted, found = set(results), []
    for step in reversed(steps):
        if made(step) in wanted or (stays is not None and stays(step)):
            found.append(step)
            wanted.update(reads(step))
    return found[::-1]
