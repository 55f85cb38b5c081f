"""Evaluation of Tile expressions bottom up, without recursion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from tileir.tile.ir import Expr
from tileir.tile.traversal import children

T = TypeVar("T")


def bottom_up(root: Expr, combine: Callable[[Expr, Sequence[T]], T]) -> T:
    """Return ``combine(node, results of its operands)`` of ``root``; operands come first, left to right."""
    pending = [root]
    order = []
    while pending:
        node = pending.pop()
        order.append(node)
        pending.extend(children(node))
    results: list[T] = []
    for node in reversed(order):
        first = len(results) - len(children(node))
        result = combine(node, results[first:])
        del results[first:]
        results.append(result)
    return results[0]
