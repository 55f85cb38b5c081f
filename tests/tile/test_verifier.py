"""Rules that no text can break. Those that one can are in ``tests/errors/test_tile_text.py``."""

from __future__ import annotations

import pytest
from hypothesis import given

from strategies.effort import examples
from strategies.tile_text import functions
from tileir.core.errors import VerifyError
from tileir.core.ops import Aggregation, Combination
from tileir.tile.checks.verifier import verify
from tileir.tile.functions import BUILTINS, builtin
from tileir.tile.ir import (
    Access,
    Assignment,
    Attribute,
    Binary,
    BinaryOperator,
    Call,
    Conditional,
    Contraction,
    Expr,
    FloatLiteral,
    Function,
    IndexName,
    Input,
    IntLiteral,
    Name,
    Output,
    Unary,
    UnaryOperator,
)
from tileir.tile.text.parser import parse

A, N, I = Name("A"), Name("N"), IndexName("i")  # noqa: E741  an index


def codes(function: Function) -> list[str]:
    with pytest.raises(VerifyError) as caught:
        verify(function)
    return [d.code for d in caught.value.diagnostics]


def of(value: Expr, name: str = "O") -> Function:
    return Function((Input("A", (N,)),), (Output(name),), (Assignment(name, value),))


def contraction(index: Expr, combination: Combination = Combination.NONE, arity: int = 1) -> Function:
    inputs = (Access("A", (index,)),) * arity
    statement = Contraction("O", (I,), (N,), Aggregation.SUM, combination, inputs)
    return Function((Input("A", (N,)),), (Output("O"),), (statement,))


@examples(50)
@given(functions())
def test_generated_functions_break_no_rule(function: Function) -> None:
    verify(function)


@pytest.mark.parametrize(
    "value",
    [
        IntLiteral(-1),
        IntLiteral(2**64),
        IntLiteral(True),
        FloatLiteral(-1.0),
        FloatLiteral(-0.0),
        FloatLiteral(float("nan")),
        FloatLiteral(float("-inf")),
        FloatLiteral(1),
    ],
)
def test_numbers_that_no_text_has(value: Expr) -> None:
    assert codes(of(value)) == ["TIL212"]


@pytest.mark.parametrize("name", ["a b", "1a", "a-b", "é", "A''", "A;", "%0"])
def test_names_that_only_quotes_hold(name: str) -> None:
    verify(Function((Input(name, (Name(f"{name}0"),)), Input("A")), (Output("A"),), ()))
    assert "TIL211" in codes(contraction(IndexName(name)))
    assert codes(Function((Input("A"),), (Output("O"),), (Assignment("O", A, (Attribute(name),)),))) == ["TIL211"]


@pytest.mark.parametrize("name", ["", "A\n", "\x00"])
def test_names_that_no_text_has(name: str) -> None:
    assert codes(of(A, name)) == ["TIL211"]
    assert codes(Function((Input(name), Input("A")), (Output("A"),), ())) == ["TIL211"]
    assert codes(Function((Input("A", (Name(name),)),), (Output("A"),), ())) == ["TIL211"]
    assert "TIL211" in codes(contraction(IndexName(name)))
    for attribute in (Attribute(name), Attribute("a", (name,))):
        assert codes(Function((Input("A"),), (Output("O"),), (Assignment("O", A, (attribute,)),))) == ["TIL211"]


def test_an_index_has_no_quote() -> None:
    assert codes(contraction(IndexName("i'"))) == ["TIL211"]
    assert codes(Function((Input("A"),), (Output("O"),), (Assignment("O", A, (Attribute("a'"),)),))) == ["TIL211"]


@pytest.mark.parametrize(
    "index",
    [
        FloatLiteral(1.0),
        Unary(UnaryOperator.BIT_NOT, I),
        Binary(BinaryOperator.BIT_AND, I, IntLiteral(1)),
        Conditional(I, I, I),
        Call("abs", (I,)),
    ],
)
def test_what_a_polynomial_cannot_hold(index: Expr) -> None:
    assert codes(contraction(index)) == ["TIL214"]


@pytest.mark.parametrize("part", ["1 / 2 * i", "i + 1 / 2", "-1 / 2 + i", "i / 2 - 7 / 3"])
def test_a_quotient_of_literals_that_is_cut_off(part: str) -> None:
    with pytest.raises(VerifyError) as caught:
        parse(f"function (A[N]) -> (O) {{ O[i : N] = +(A[{part}]); }}")
    assert [fault.code for fault in caught.value.diagnostics] == ["TIL214"]
    parse("function (A[N]) -> (O) { O[i : 5 / 2] = +(A[4 / 2 * i]); }")


def test_index_variables_outside_polynomials() -> None:
    assert codes(of(Binary(BinaryOperator.ADD, A, I))) == ["TIL203"]


@pytest.mark.parametrize("combination", Combination)
def test_the_number_of_combined_tensors(combination: Combination) -> None:
    verify(contraction(I, combination, combination.arity))
    for arity in {0, 1, 2, 3, 4} - {combination.arity}:
        assert codes(contraction(I, combination, arity)) == ["TIL210"]


def test_a_function_needs_an_output() -> None:
    assert codes(Function((Input("A"),), (), ())) == ["TIL213"]


def test_depth_is_limited_without_recursion() -> None:
    deep: Expr = A
    for _ in range(199):
        deep = Unary(UnaryOperator.NEG, deep)
    verify(of(deep))
    for _ in range(100_000):
        deep = Unary(UnaryOperator.NEG, deep)
    assert codes(of(deep)) == ["TIL103"]


def test_an_expression_that_shares_nodes_exponentially_is_refused() -> None:
    shared: Expr = A
    for _ in range(150):
        shared = Binary(BinaryOperator.ADD, shared, shared)
    assert codes(of(shared)) == ["TIL103"]


def test_constants_may_stand_in_sizes() -> None:
    parse("function (A[N]) -> (O) { K = (max(N, 3) + 1) / 2; L = K < 2 ? K : 2; O[i : K * L] = +(A[i + K]), i < L; }")


@pytest.mark.parametrize("name", BUILTINS)
def test_every_function_takes_what_it_says(name: str) -> None:
    row = BUILTINS[name]
    for count in range(1, row.least + 4):
        first = count if row.constants is None else min(row.constants, count)
        function = of(Call(name, (A,) * first + (IntLiteral(1),) * (count - first)))
        if row.takes(count):
            verify(function)
        else:
            assert codes(function) == ["TIL207"]


def test_assertions_have_any_ending() -> None:
    assert builtin("assert_even") is not None
    assert builtin("assert_") is None
    parse("function (A[N]) -> (O) { C = assert_even(N / 2 * 2 == N); O = A; }")
