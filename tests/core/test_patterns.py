"""Laws over operations: their texts, what they match, and what they refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tileir.core.dtype import DType
from tileir.core.errors import DivergenceError, ParseError
from tileir.core.nodes.patterns import Changes, Law, Operand
from tileir.core.ops import Op
from tileir.semtree.ir import Apply, Const, Expr, Type, Var
from tileir.semtree.simplify.expression_rules import rule_of
from tileir.semtree.simplify.simplifier import simplify_expr

if TYPE_CHECKING:
    from collections.abc import Mapping

F = Type(DType.F32)
X, Y, Z = (Var(name, F) for name in "xyz")


def apply(op: Op, *args: Expr) -> Apply:
    return Apply(op, args)


def number(value: float) -> Const:
    return Const.of(value, F)


def test_a_pattern_is_replaced() -> None:
    law = rule_of(Law("div(a, sqrt(b)) -> mul(a, rsqrt(b))"))
    root = apply(Op.SQRT, apply(Op.ADD, Y, Z))
    assert law(apply(Op.DIV, X, root)) == apply(Op.MUL, X, apply(Op.RSQRT, apply(Op.ADD, Y, Z)))
    assert law(apply(Op.DIV, root, X)) is None
    assert law(X) is None


def test_operands_of_what_commutes_stand_in_either_order() -> None:
    law = rule_of(Law("add(mul(a, b), c) -> fma(a, b, c)"))
    product = apply(Op.MUL, X, Y)
    assert law(apply(Op.ADD, product, Z)) == law(apply(Op.ADD, Z, product)) == apply(Op.FMA, X, Y, Z)
    assert rule_of(Law("sub(mul(a, b), c) -> a"))(apply(Op.SUB, Z, product)) is None


def test_equal_holes_are_equal_values() -> None:
    law = rule_of(Law("sub(add(a, b), a) -> b"))
    assert law(apply(Op.SUB, apply(Op.ADD, Y, X), X)) is Y
    assert law(apply(Op.SUB, apply(Op.ADD, Y, Z), X)) is None
    assert rule_of(Law("mul(a, a) -> a"))(apply(Op.MUL, X, Y)) is None


def test_numbers_are_constants() -> None:
    law = rule_of(Law("mul(a, 2) -> add(a, a)"))
    assert law(apply(Op.MUL, number(2.0), X)) == apply(Op.ADD, X, X)
    assert law(apply(Op.MUL, X, number(3.0))) is None
    assert rule_of(Law("exp(a) -> pow(2.5, a)"))(apply(Op.EXP, X)) == apply(Op.POW, number(2.5), X)
    assert rule_of(Law("neg(a) -> mul(-1, a)"))(apply(Op.NEG, X)) == apply(Op.MUL, number(-1.0), X)
    assert rule_of(Law("neg(a) -> 1e40"))(apply(Op.NEG, X)) is None  # f32 does not hold it


def test_a_number_has_the_type_of_what_stands_beside_it() -> None:
    i = Var("i", Type(DType.I32, 4))
    law = rule_of(Law("abs(a) -> cond(cmp_lt(a, 0), neg(a), a)"))
    new = law(apply(Op.ABS, i))
    assert isinstance(new, Apply)
    assert new.args[0] == apply(Op.CMP_LT, i, Const.of(0, i.type))
    assert rule_of(Law("neg(a) -> mul(a, 0.5)"))(apply(Op.NEG, i)) is None


def test_results_keep_their_type() -> None:
    assert rule_of(Law("neg(a) -> cmp_lt(a, 0)"))(apply(Op.NEG, X)) is None
    assert rule_of(Law("neg(a) -> cond(a, a, a)"))(apply(Op.NEG, X)) is None
    assert rule_of(Law("neg(a) -> bit_not(a)"))(apply(Op.NEG, X)) is None


def test_conditions_see_types_and_numbers() -> None:
    seen: list[dict[str, Operand]] = []

    def powers(operands: Mapping[str, Operand]) -> bool:
        seen.append(dict(operands))
        return operands["n"].number == 4.0

    law = rule_of(Law("mul(a, n) -> mul(mul(a, 2), 2)", where=powers))
    assert law(apply(Op.MUL, X, number(3.0))) is None
    assert law(apply(Op.MUL, X, number(4.0))) == apply(Op.MUL, apply(Op.MUL, X, number(2.0)), number(2.0))
    assert seen[0] == {"a": Operand(DType.F32, None), "n": Operand(DType.F32, 3.0)}


@pytest.mark.parametrize(
    ("text", "code", "underlined"),
    [
        ("", "TIL102", ""),
        ("x -> x", "TIL102", "x"),
        ("1 -> x", "TIL102", "1"),
        ("neg(x)", "TIL102", ""),
        ("neg(x) -> ", "TIL102", ""),
        ("neg(x) -> y", "TIL201", "y"),
        ("neg(x) -> add(x, z)", "TIL201", "z"),
        ("neg(x, y) -> x", "TIL207", "neg"),
        ("nagate(x) -> x", "TIL102", "nagate"),
        ("neg(x -> x", "TIL102", "->"),
        ("neg(x) -> x)", "TIL102", ")"),
        ("neg(x) => x", "TIL101", "="),
        ("neg(" * 50 + "x" + ")" * 50 + " -> x", "TIL103", "neg"),
    ],
)
def test_texts_that_are_no_laws(text: str, code: str, underlined: str) -> None:
    with pytest.raises(ParseError) as caught:
        Law(text)
    first = caught.value.diagnostics[0]
    assert (first.code, first.underlined) == (code, underlined)


def test_long_texts_are_refused_unread() -> None:
    with pytest.raises(ParseError, match="TIL105"):
        Law("neg(x) -> " + "x" * 10_000)


def test_laws_are_values() -> None:
    assert Law("neg(neg(x)) -> x") == Law("neg(neg(x)) -> x") != Law("neg(x) -> x")
    assert hash(Law("neg(x) -> x")) == hash(Law("neg(x) -> x"))


def test_laws_that_feed_one_another_are_told() -> None:
    changes = Changes(2)
    changes.note("a law")
    changes.note("a law")
    with pytest.raises(DivergenceError, match="a law still fits"):
        changes.note("a law")
    assert simplify_expr(apply(Op.ADD, X, Y)) == apply(Op.ADD, X, Y)
