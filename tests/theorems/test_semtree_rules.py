"""Laws of the semtree's simplifier: proved by z3 for integers of every width, tried on all halves for floats."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strategies.expressions import chains, difference, trees
from strategies.rule_templates import ALL_RULES, instances
from strategies.smt import counterexample, is_integral
from tileir.core.dtype import DType
from tileir.semtree.simplify.expression_rules import rules_for
from tileir.semtree.simplify.simplifier import simplify_expr
from tileir.semtree.text.printer import expr_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tileir.core.nodes.rewrite import Rule
    from tileir.semtree.ir import Expr


def fault(old: Expr, new: Expr) -> str | None:
    """Return in words for what values two expressions differ."""
    found = counterexample(old, new) if is_integral(old) and is_integral(new) else difference(old, new)
    return None if found is None else f"{expr_text(old)} is not {expr_text(new)} for {found}"


def prove(expressions: Iterable[Expr]) -> int:
    """Prove each rule where it applies, and all of them together; return how often any did."""
    faults, applied = [], 0
    for expr in expressions:
        made = [(rule.law, new) for rule in rules_for(expr) if (new := rule(expr)) is not None]
        simple = simplify_expr(expr)
        made += [("all rules", simple)] if simple is not expr else []
        for law, new in dict(made).items():
            assert new.type == expr.type, law
            applied += 1
            wrong = fault(expr, new)
            faults += [f"{law}: {wrong}"] if wrong else []
    assert faults[:10] == []
    return applied


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", DType, ids=str)
def test_rules_keep_every_value(dtype: DType) -> None:
    assert prove(trees(dtype, deeper=150)) > 30


@pytest.mark.sampled(2)
@pytest.mark.parametrize("source", DType, ids=str)
def test_conversions_by_way_of_another_type(source: DType) -> None:
    assert prove(chains(source)) > 10


@pytest.mark.sampled(0)
@pytest.mark.parametrize("rule", ALL_RULES, ids=lambda rule: rule.law)
def test_laws_of_lanes(rule: Rule[Expr]) -> None:
    faults = [(expr, new, counterexample(expr, new)) for expr, new in instances(rule) if is_integral(expr)]
    assert [wrong for wrong in faults if wrong[-1] is not None] == []
