"""Rules that classes of nodes declare, and the sentences about nodes that break them."""

from __future__ import annotations

from typing import ClassVar

import attrs

from tileir.core.nodes.rules import Rule, at_least, broken, same


@attrs.frozen
class Pair:
    """A node with rules."""

    rules: ClassVar = (
        Rule(same("real", "left", "right"), "{left} and {right.real} differ, not {double!r}"),
        Rule(at_least("left", 2), "{left} is too small", "TIL551"),
        Rule(lambda pair, *others: pair.left not in others, lambda pair, *others: f"{pair.left} is among {others}"),
    )
    left: int
    right: int

    @property
    def double(self) -> str:
        """A value that a message may name."""
        return str(2 * self.left)


@attrs.frozen
class Several:
    """A node with a field of several values."""

    rules: ClassVar = (Rule(same("imag", "values"), "{values}"),)
    values: tuple[complex, ...]


def told(node: Pair | Several, *others: int) -> list[tuple[str, str]]:
    return [(rule.code, rule.told(node, *others)) for rule in broken(node, *others)]


def test_nodes_that_keep_rules_are_not_told_of() -> None:
    assert told(Pair(2, 2), 3) == []
    assert told(Several((1j, 2 + 1j))) == []


def test_nodes_that_break_rules_are_told_of_in_order() -> None:
    assert told(Pair(1, 2), 1) == [
        ("", "1 and 2 differ, not '2'"),
        ("TIL551", "1 is too small"),
        ("", "1 is among (1,)"),
    ]
    assert told(Several((1j, 2j))) == [("", "(1j, 2j)")]
