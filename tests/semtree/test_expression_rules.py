"""Every rule is proved by the interpreter, for each dtype and lane count for which it fires."""

from __future__ import annotations

import re
from itertools import product
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

from strategies.rule_templates import ALL_RULES, TEMPLATES, expressions, instances, is_legal
from strategies.semtree_values import content
from tileir.core.dtype import DType
from tileir.semtree.interpret.interpreter import run
from tileir.semtree.ir import (
    Assign,
    Cast,
    Const,
    Declare,
    For,
    KernelFunction,
    Param,
    ParamAccess,
    Subscript,
    Type,
    Var,
)
from tileir.semtree.rewrite import walk
from tileir.semtree.simplify import conversion_rules
from tileir.semtree.text.printer import expr_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tileir.core.nodes.rewrite import Rule
    from tileir.semtree.ir import Expr

    Builder = Callable[[Type], Expr]

SIZE: Final = 32
INDEX: Final = Type(DType.I64)


def test_every_rule_has_templates() -> None:
    assert {rule.law for rule in ALL_RULES} == {rule.law for rule in TEMPLATES}
    assert len({rule.law for rule in TEMPLATES}) == len(TEMPLATES)


def evaluated(expr: Expr) -> np.ndarray[Any, Any]:
    """Return the value of an expression for many values of its variables."""
    variables = {node.name: node for node in walk(expr) if isinstance(node, Var)}
    params = []
    declared = []
    lanes = max([expr.type.lanes, *(variable.type.lanes for variable in variables.values())])
    counter = Var("i", INDEX)
    for name, variable in sorted(variables.items()):
        params.append(Param(f"p{name}", variable.type.dtype, SIZE, ParamAccess.READ))
        declared.append(Declare(variable, Subscript(f"p{name}", counter, variable.type)))
    store = Assign(Subscript("out", counter, expr.type), expr)
    loop = For(counter, Const(0, INDEX), Const(SIZE - lanes, INDEX), 1, (*declared, store))
    out = Param("out", expr.type.dtype, SIZE, ParamAccess.WRITE)
    arrays = [content(param.dtype, SIZE, ord(param.name[-1])) for param in params]
    result = np.zeros(SIZE, expr.type.dtype.numpy)
    run(KernelFunction("k", (*params, out), (loop,)), [*arrays, result])
    return result


def bits(array: np.ndarray[Any, Any]) -> list[object]:
    """Return elements such that equal ones are equal in value and in the sign of zero."""
    if array.dtype.kind in "iub":
        return list(array)
    with np.errstate(invalid="ignore"):
        wide = array.astype(np.float64)
    return ["nan" if value != value else (value, np.signbit(value)) for value in wide]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("rule", ALL_RULES, ids=lambda rule: rule.law)
def test_rule_keeps_the_value(rule: Rule[Any]) -> None:
    fired = 0
    for expr, new in instances(rule):
        fired += 1
        assert new != expr
        assert new.type == expr.type
        assert is_legal(new)
        assert bits(evaluated(new)) == bits(evaluated(expr)), (expr, new)
    assert fired > 0


ALWAYS: Final = (
    conversion_rules.fold_operation,
    conversion_rules.fold_cast,
    conversion_rules.cast_of_broadcast,
    conversion_rules.operation_on_broadcasts,
)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("rule", ALWAYS, ids=lambda rule: rule.law)
def test_rules_of_constants_and_lanes_fit_whatever_is_legal(rule: Rule[Any]) -> None:
    lanes = 2 if rule is conversion_rules.operation_on_broadcasts else 1
    legal = [expr for expr in expressions(rule) if expr.type.lanes >= lanes]
    assert len(legal) > 100
    assert [expr for expr in legal if rule(expr) is None] == []


def test_the_inner_of_two_casts_goes_where_it_loses_nothing_that_the_outer_keeps() -> None:
    for source, inner, outer in product(DType, repeat=3):
        chain = Cast(Cast(Var("x", Type(source)), Type(inner)), Type(outer))
        saturates = source.is_integer and inner.is_float and outer.is_integer and not outer.holds(source)
        exact = inner.holds(source) and not saturates
        assert (conversion_rules.cast_of_exact_cast(chain) is not None) == exact
        wraps = all(dtype.is_integer for dtype in (source, inner, outer)) and outer.bits <= inner.bits
        assert (conversion_rules.cast_of_wrapping_cast(chain) is not None) == wraps


def outcomes(rule: Rule[Any], build: Builder) -> Iterator[str]:
    """Yield what a rule makes of a template, T being its type, with the types for which it does."""
    found: dict[str, list[str]] = {}
    for kind in (Type(dtype, lanes) for lanes in (1, 4) for dtype in DType):
        expr = build(kind)
        if is_legal(expr):
            new = rule(expr)
            pair = f"{expr_text(expr)} -> {'kept' if new is None else expr_text(new)}"
            found.setdefault(re.sub(rf"\b{kind}\b", "T", pair), []).append(str(kind))
    for pair, kinds in found.items():
        yield f"    {pair}    ({' '.join(kinds)})\n"


def test_rules_fit_where_they_did(golden: Callable[[str], None]) -> None:
    elsewhere = (*ALWAYS, conversion_rules.cast_of_exact_cast, conversion_rules.cast_of_wrapping_cast)
    lines = []
    for rule in ALL_RULES:
        if rule not in elsewhere and rule is not conversion_rules.fold_bitcast:
            lines += [f"{rule.law}\n", *(line for build in TEMPLATES[rule] for line in outcomes(rule, build))]
    golden("".join(lines))
