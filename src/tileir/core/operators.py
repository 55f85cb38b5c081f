"""The methods of Python's operators, generated from one method that gets the operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

S = TypeVar("S")
K = TypeVar("K")
O = TypeVar("O")  # noqa: E741  the type of the other operand
R = TypeVar("R")


def method_of(apply: Callable[[S, K, O], R], kind: K) -> Callable[[S, O], R]:
    """Return the method of an operator: ``apply`` of this kind."""

    def method(self: S, other: O) -> R:
        return apply(self, kind, other)

    return method


def methods_of(
    apply: Callable[[S, K, O], R], reflected: Callable[[S, K, O], R], kind: K
) -> tuple[Callable[[S, O], R], Callable[[S, O], R]]:
    """Return the methods of an operator, and of the reflected one."""
    return method_of(apply, kind), method_of(reflected, kind)
