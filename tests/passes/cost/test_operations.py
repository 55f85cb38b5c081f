"""Weights of functions, counted again in their expansions."""

from __future__ import annotations

import pytest

from tileir.core.dtype import DType
from tileir.core.ops import OPS, Op
from tileir.core.text.names import NameScope
from tileir.passes.cost.figures import Kind, kind_of
from tileir.semtree.ir import Apply, Bitcast, Cast, Expr, Type, Var
from tileir.semtree.rewrite import expressions, walk
from tileir.semtree.transform.expansions import EXPANDED, expand


def size_of_expansion(op: Op, dtype: DType) -> int:
    """Count the different operations of an expansion; what runs for rare values only is left out."""
    names = NameScope()
    arguments = tuple(Var(name, Type(dtype)) for name in ("x", "y")[: op.info.arity])
    statements, result = expand(op, arguments, names)
    seen: dict[Expr, None] = {}
    for expression in (*(e for statement in statements for e in expressions(statement)), result):
        seen.update(dict.fromkeys(walk(expression)))
    return sum(isinstance(node, Apply | Cast | Bitcast) for node in seen)


@pytest.mark.parametrize("op", [op for op in Op if op in EXPANDED])
def test_weights_are_the_sizes_of_the_expansions(op: Op) -> None:
    assert op.info.weight == (size_of_expansion(op, DType.F32), size_of_expansion(op, DType.F64))


def test_functions_are_what_is_expanded() -> None:
    assert {op for op in OPS if kind_of(op) is Kind.FUNCTION} == set(EXPANDED)


def test_plain_operations_count_once() -> None:
    assert [op.info.weight_in(DType.F32) for op in (Op.ADD, Op.MUL, Op.MAX, Op.COND, Op.IDENT)] == [1, 1, 1, 1, 0]
