"""Rewriting that keeps identity."""

from __future__ import annotations

import pytest

from tileir.core.errors import DivergenceError
from tileir.core.nodes.rewrite import Rule, fixpoint, rewritten, rule


def test_rewritten_keeps_identity_where_nothing_changes() -> None:
    items = ("a", "b")
    assert rewritten(items, lambda item: (item,)) is items


def test_rewritten_drops_and_splits() -> None:
    assert rewritten(("a", "bb", "c"), lambda item: tuple(item) if item != "c" else ()) == ("a", "b", "b")
    assert rewritten(("a",), lambda _: ()) == ()


def test_a_rule_is_named_by_its_law() -> None:
    @rule("x + 0 = x")
    def add_zero(value: int) -> int | None:
        return value if value else None

    assert isinstance(add_zero, Rule)
    assert add_zero.law == "x + 0 = x"
    assert add_zero(3) == 3
    assert add_zero(0) is None


def test_fixpoint_ends_where_its_argument_comes_back() -> None:
    assert fixpoint(lambda text: text if len(text) > 4 else text + "a", "a") == "aaaaa"


def test_fixpoint_is_bounded() -> None:
    with pytest.raises(DivergenceError, match="after 3 rounds"):
        fixpoint(lambda number: number + 1, 1000, rounds=3)
