"""Every rule is proved by the interpreter, for each dtype and lane count for which it fires."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

from strategies.rule_templates import ALL_RULES, TEMPLATES, instances, is_legal
from strategies.semtree_values import content
from tileir.core.dtype import DType
from tileir.semtree.interpreter import run
from tileir.semtree.ir import (
    Assign,
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

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.core.rewrite import Rule
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
