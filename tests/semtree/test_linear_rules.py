"""Sums that are taken for canonical are so in all their parts, and those that lowerings write are taken for it."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Final

import pytest

from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.semtree.ir import Apply, Const, GridIndex, GridLevel, Type, Var
from tileir.semtree.rewrite import walk
from tileir.semtree.simplify.expression_rules import rules_for
from tileir.semtree.simplify.linear_rules import is_canonical
from tileir.semtree.simplify.simplifier import simplify_expr

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tileir.semtree.ir import Expr

TYPES: Final = (Type(DType.I64), Type(DType.U8), Type(DType.I8), Type(DType.I32, 4))


def leaves(kind: Type) -> tuple[Expr, ...]:
    """Return two atoms, and the constants at which the form of a sum changes."""
    edge = 1 << (kind.dtype.bits - 1)
    values = {0, 1, 2, edge - 1, edge, -1, -edge}
    constants = (Const(v, kind) for v in sorted(values) if kind.dtype.minimum <= v <= kind.dtype.maximum)
    other = Var("y", kind) if kind.lanes > 1 else GridIndex(GridLevel.GROUP, 0, kind)
    return Var("x", kind), other, *constants


def sums(kind: Type) -> Iterator[Apply]:
    """Yield sums, differences and products of few parts."""
    atoms = leaves(kind)
    pairs = [Apply(op, parts) for op in (Op.ADD, Op.SUB, Op.MUL) for parts in product(atoms, repeat=2)]
    yield from pairs
    for op, pair, atom in product((Op.ADD, Op.SUB, Op.MUL), pairs, atoms):
        yield Apply(op, (pair, atom))
        yield Apply(op, (atom, pair))


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_no_rule_fits_any_part_of_what_is_canonical(kind: Type) -> None:
    found = [expr for expr in sums(kind) if is_canonical(expr)]
    assert len(found) > 30
    fitting = [(expr, rule.law) for expr in found for node in walk(expr) for rule in rules_for(node) if rule(node)]
    assert fitting == []


def test_sums_of_multiples_are_canonical_once_they_are_simple() -> None:
    """And so they stay without a look at their parts, but for those that have no positive part to begin with."""
    kind = Type(DType.I64)
    x, y = Var("x", kind), Var("y", kind)
    factors = [Const(value, kind) for value in (1, 2, 5)]
    terms = [Apply(Op.MUL, (variable, factor)) for variable in (x, y) for factor in factors]
    made = [
        Apply(last, (Apply(op, (left, right)), constant))
        for last, op in product((Op.ADD, Op.SUB), repeat=2)
        for left, right in product(terms, repeat=2)
        for constant in (Const(0, kind), *factors)
        if op is Op.ADD or left.args[0] != right.args[0]
    ]
    simple = [simplify_expr(expr) for expr in made]
    assert all(is_canonical(expr) for expr in simple if isinstance(expr, Apply))


def test_sums_of_floats_are_not_canonical() -> None:
    kind = Type(DType.F32)
    assert not is_canonical(Apply(Op.ADD, (Var("x", kind), Var("y", kind))))
