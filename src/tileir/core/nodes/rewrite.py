"""Rewriting that keeps identity: unchanged values are returned themselves."""

from __future__ import annotations

import operator
from collections.abc import Callable
from itertools import chain
from typing import Generic, TypeVar

from tileir.core.errors import DivergenceError
from tileir.core.nodes import attrs

S = TypeVar("S")
T = TypeVar("T")


def rewritten(items: tuple[S, ...], function: Callable[[S], tuple[S, ...]]) -> tuple[S, ...]:
    """Replace each item by none or more; return ``items`` itself if nothing changed."""
    new = tuple(chain.from_iterable(map(function, items)))
    same = len(new) == len(items) and all(map(operator.is_, new, items))
    return items if same else new


@attrs.frozen
class Rule(Generic[T]):
    """A rewrite whose name is the law that it applies; ``apply`` returns None if it does not fit."""

    law: str
    apply: Callable[[T], T | None] = attrs.field(eq=False)

    def __call__(self, value: T) -> T | None:
        """Apply the rule to ``value``."""
        return self.apply(value)


def rule(law: str) -> Callable[[Callable[[T], T | None]], Rule[T]]:
    """Turn a function into a :class:`Rule` named by its law."""

    def decorate(function: Callable[[T], T | None]) -> Rule[T]:
        return Rule(law, function)

    return decorate


def fixpoint(step: Callable[[T], T], value: T, *, rounds: int = 64) -> T:
    """Apply ``step`` until it returns its own argument.

    Raises:
        DivergenceError: ``step`` still changes its input after ``rounds`` rounds.

    """
    for _ in range(rounds):
        after = step(value)
        if after is value:
            return value
        value = after
    raise DivergenceError(f"{step!r} still changes its input after {rounds} rounds")
