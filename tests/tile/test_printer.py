from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.tile_text import functions
from tileir.core.text.lexing import END, Faults
from tileir.core.text.span import Source
from tileir.tile.ir import FloatLiteral, Function, Unary, UnaryOperator
from tileir.tile.text.lexer import Lexer
from tileir.tile.text.parser import parse, parse_expression, parse_polynomial
from tileir.tile.text.printer import expression_text, to_text


@examples(300)
@given(functions())
def test_parse_undoes_print(function: Function) -> None:
    text = to_text(function)
    again = parse(text)
    assert again == function
    assert to_text(again) == text


@examples(150)
@given(functions(), st.data())
def test_white_space_and_comments_mean_nothing(function: Function, data: st.DataObject) -> None:
    text = to_text(function)
    lexer = Lexer.of(Source(text), Faults())
    spaces = st.sampled_from([" ", "\n", "\t ", " // a ; } comment [\n", "\r\n"])
    loose = ""
    while (token := lexer.next()).kind != END:
        loose += data.draw(spaces) + text[token.start : token.stop]
    assert parse(loose + data.draw(spaces)) == function


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("((A))", "A"),
        ("(A + B) + C", "A + B + C"),
        ("A + (B + C)", "A + (B + C)"),
        ("A - (B - C)", "A - (B - C)"),
        ("(A * B) + C", "A * B + C"),
        ("(A + B) * C", "(A + B) * C"),
        ("-(A * B)", "-(A * B)"),
        ("(-A) * B", "-A * B"),
        ("- -A", "--A"),
        ("~(-A)", "~-A"),
        ("A - -B", "A - -B"),
        ("A ^ (B | (C & (D == E)))", "A ^ B | C & D == E"),
        ("((A ^ B) | C) & D", "((A ^ B) | C) & D"),
        ("(A == B) == C", "(A == B) == C"),
        ("A == (B < C)", "A == B < C"),
        ("(A << B) < C", "A << B < C"),
        ("A ? B : (C ? D : E)", "A ? B : C ? D : E"),
        ("(A ? B : C) ? D : E", "(A ? B : C) ? D : E"),
        ("A ? (B ? C : D) : E", "A ? B ? C : D : E"),
        ("(A ? B : C) + D", "(A ? B : C) + D"),
        ("exp((A), (B ? C : D))", "exp(A, B ? C : D)"),
        ("#exp + #function + Exp", "#exp + #function + Exp"),
        ("007 + 1.50 + 1e2 + 1E-10 + 2.5e+20", "7 + 1.5 + 100.0 + 1e-10 + 2.5e+20"),
    ],
)
def test_parentheses_are_minimal(written: str, canonical: str) -> None:
    expr = parse_expression(written)
    assert expression_text(expr) == canonical
    assert parse_expression(canonical) == expr


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("2i", "2 * i"),
        ("2 i + j", "2 * i + j"),
        ("-2i", "-(2 * i)"),
        ("i / 2k", "i / (2 * k)"),
        ("(i - j + 1) / 2", "(i - j + 1) / 2"),
        ("$N * #n", "$N * #n"),
        ("$default", "$default"),
        ("$i", "i"),
    ],
)
def test_polynomials(written: str, canonical: str) -> None:
    expr = parse_polynomial(written)
    assert expression_text(expr) == canonical
    assert parse_polynomial(canonical) == expr


@given(st.floats(min_value=0, allow_nan=False).map(abs))
def test_floats_keep_every_bit(value: float) -> None:
    assert parse_expression(expression_text(FloatLiteral(value))) == FloatLiteral(value)


def test_infinity_has_a_spelling() -> None:
    expr = Unary(UnaryOperator.NEG, FloatLiteral(float("inf")))
    assert expression_text(expr) == "-1e999"
    assert parse_expression("-1e999") == expr


def test_canonical_text() -> None:
    text = (
        "function (A[M, K], B[K, N], D) -> (C, E) {\n"
        "  [[pid(dot, A')]] [[hot]] C[i, j : M, N] = +(A[i, k] * B[k, j]), i - k < N no_defract default D;\n"
        "  E[] = >(C[$N, 3 * j]);\n"
        "}\n"
    )
    assert to_text(parse(text)) == text
    everything = "function ( A [ M,K ],B[K ,N] , D)->(C,E){[[pid(dot,A')]][[hot]]C[i,j:M,N]=+(A[i,k]*B[k,j]),i-k<N"
    assert to_text(parse(everything + " default D no_defract;E[:]=>(C[$N,3j]);}")) == text


def test_long_headers_are_broken() -> None:
    inputs = ",\n".join(f"  Parameter{number}[Dimension{number}]" for number in range(5))
    text = f"function (\n{inputs}\n) -> (\n  O\n) {{\n  O = Parameter0;\n}}\n"
    assert to_text(parse(text)) == text


@pytest.mark.parametrize("sign", ["+", "*", ">", "<", "="])
@pytest.mark.parametrize("inputs", ["A[i]", "A[i] + A[j]", "A[i] * A[j]", "A[i] == A[j]", "A[i] == A[j] ? A[i]"])
def test_every_aggregation_with_every_combination(sign: str, inputs: str) -> None:
    text = f"function (A) -> (O) {{\n  O[i : 3] = {sign}({inputs});\n}}\n"
    assert to_text(parse(text)) == text
