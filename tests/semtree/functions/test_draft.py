"""Terms build what their operators say, and drafts name results."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

import pytest

from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.core.text.names import NameScope
from tileir.semtree.functions.draft import Draft, Term, at_least, at_most, horner, where
from tileir.semtree.ir import Apply, Assign, Const, Declare, Type, Var

if TYPE_CHECKING:
    from collections.abc import Callable

F32 = Type(DType.F32, 4)
X = Term(Var("x", F32))
TWO = Const(2.0, F32)


@pytest.mark.parametrize(
    ("operation", "op"),
    [(operator.add, Op.ADD), (operator.sub, Op.SUB), (operator.mul, Op.MUL), (operator.truediv, Op.DIV)],
)
def test_operators_take_numbers_on_either_side(operation: Callable[[object, object], Term], op: Op) -> None:
    assert operation(X, 2.0).expr == Apply(op, (X.expr, TWO))
    assert operation(2.0, X).expr == Apply(op, (TWO, X.expr))
    assert operation(X, X).expr == Apply(op, (X.expr, X.expr))


def test_comparisons_are_terms() -> None:
    assert (X < 2.0).expr == Apply(Op.CMP_LT, (X.expr, TWO))
    assert (X >= 2.0).type == Type(DType.BOOL, 4)
    assert X.equals(2.0).expr == Apply(Op.CMP_EQ, (X.expr, TWO))


def test_bits_and_back() -> None:
    assert X.bits.type == Type(DType.U32, 4)
    assert X.bits.real.type == F32
    assert (X.bits << 3).type == Type(DType.U32, 4)


def test_where_needs_a_term_to_tell_the_type() -> None:
    assert where(X < 0.0, 2.0, X).expr == Apply(Op.COND, ((X < 0.0).expr, TWO, X.expr))
    with pytest.raises(TypeError, match="must be a term"):
        where(X < 0.0, 1.0, 2.0)


def test_limits_pass_nan_on() -> None:
    """The limit is chosen only where it compares true, so that NaN stays."""
    assert at_most(X, 2.0).expr == Apply(Op.COND, (Apply(Op.CMP_LT, (TWO, X.expr)), TWO, X.expr))
    assert at_least(X, 2.0).expr == Apply(Op.COND, (Apply(Op.CMP_GT, (TWO, X.expr)), TWO, X.expr))


def test_horner_nests_from_the_highest_coefficient() -> None:
    inner = Apply(Op.FMA, (X.expr, Const(3.0, F32), TWO))
    assert horner(X, (1.0, 2.0, 3.0)).expr == Apply(Op.FMA, (inner, X.expr, Const(1.0, F32)))


def test_a_draft_declares_fresh_variables_and_assigns_them() -> None:
    draft = Draft(NameScope.of(["x"]))
    total = draft.let("x", X + X)
    inside = draft.branch()
    inside.assign(total, X)
    assert draft.statements == [Declare(Var("x_0", F32), (X + X).expr)]
    assert inside.statements == [Assign(Var("x_0", F32), X.expr)]
    assert inside.let("x", X).expr == Var("x_1", F32)
    with pytest.raises(TypeError, match="variable"):
        draft.assign(X + X, X)
