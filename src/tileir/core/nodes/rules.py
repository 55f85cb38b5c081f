"""Invariants of nodes, declared on their classes: a predicate of a node, and the sentence for one that breaks it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tileir.core.nodes import attrs

Predicate: TypeAlias = Callable[..., bool]
"""A function of a node, and of the definitions of its operands, if these are names."""


@attrs.frozen(eq=False)
class Rule:
    """Invariant of all nodes of a class.

    Attributes:
        holds: The predicate.
        message: The sentence about a node that breaks it: a text with fields or properties of the node, or attributes
            of these, in braces, or a function with the arguments of ``holds``.
        code: The code of the fault, if the verifier has more than one.
    """

    holds: Predicate
    message: str | Callable[..., str]
    code: str = ""

    def told(self, node: object, *operands: object) -> str:
        """Return the sentence about a node."""
        if not isinstance(self.message, str):
            return self.message(node, *operands)
        from string import Formatter  # for faults only

        return Formatter().vformat(self.message, (), _Fields(node))


class _Fields(dict[str, Any]):
    def __init__(self, node: object) -> None:
        super().__init__()
        self.node = node

    def __missing__(self, name: str) -> Any:
        return getattr(self.node, name)


def broken(node: Any, *operands: object) -> Sequence[Rule]:
    """Return the rules of its class that a node breaks."""
    rules: tuple[Rule, ...] = node.rules
    for rule in rules:
        if not rule.holds(node, *operands):
            return [each for each in rules if not each.holds(node, *operands)]
    return ()


def same(of: str, *names: str) -> Predicate:
    """Return a predicate: fields, or the elements of one, agree in an attribute."""

    def holds(node: object, *_: object) -> bool:
        values = [getattr(node, name) for name in names]
        if len(names) == 1:
            (values,) = values
        first = getattr(values[0], of)
        return all((other := getattr(value, of)) is first or other == first for value in values[1:])

    return holds


def at_least(name: str, least: int) -> Predicate:
    """Return a predicate: a field is not below a number."""
    return lambda node, *_: getattr(node, name) >= least
