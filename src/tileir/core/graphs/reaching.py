"""Reachability in a graph, step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, KeysView
from typing import TypeVar

T = TypeVar("T")


def reached(start: Iterable[T], following: Callable[[T], Iterable[T]]) -> KeysView[T]:
    """Return some things, and what follows them in any number of steps; each once, the nearest first."""
    found = dict.fromkeys(start)
    pending = [*found]
    for each in pending:  # it grows meanwhile
        fresh = [one for one in dict.fromkeys(following(each)) if one not in found]
        found.update(dict.fromkeys(fresh))
        pending += fresh
    return found.keys()
