from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.tile_text import polynomials
from tileir.core.errors import ParseError
from tileir.core.ops import Aggregation, Combination
from tileir.tile.ir import (
    Access,
    Assignment,
    Attribute,
    Binary,
    BinaryOperator,
    Call,
    Conditional,
    Constraint,
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
from tileir.tile.text.parser import parse, parse_contraction, parse_expression, parse_polynomial
from tileir.tile.text.printer import expression_text

A, B, C, D, E = map(Name, "ABCDE")
i, j, k = map(IndexName, "ijk")
M, N = Name("M"), Name("N")
ONE, TWO = IntLiteral(1), IntLiteral(2)


def binary(sign: str, lhs: Expr, rhs: Expr) -> Binary:
    return Binary(BinaryOperator(sign), lhs, rhs)


def test_a_whole_function() -> None:
    text = "function (A[M, N], B, C[]) -> (O, P) { [[hot]] [[pid(x, Y)]] O = A; P[i : M] = +(A[i, j]); }"
    marks = (Attribute("hot"), Attribute("pid", ("x", "Y")))
    sums = Contraction("P", (i,), (M,), Aggregation.SUM, Combination.NONE, (Access("A", (i, j)),))
    inputs = (Input("A", (M, N)), Input("B"), Input("C", ()))
    expected = Function(inputs, (Output("O"), Output("P")), (Assignment("O", A, marks), sums))
    assert parse(text) == expected


def test_a_function_without_inputs_or_statements() -> None:
    assert parse("function () -> (O) { O = 1; }").inputs == ()
    assert parse("function (A) -> (A) {}").statements == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A + B * C", binary("+", A, binary("*", B, C))),
        ("A - B - C", binary("-", binary("-", A, B), C)),
        ("A << B + C", binary("<<", A, binary("+", B, C))),
        ("A < B << C", binary("<", A, binary("<<", B, C))),
        ("A == B < C", binary("==", A, binary("<", B, C))),
        ("A & B == C", binary("&", A, binary("==", B, C))),
        ("A | B & C", binary("|", A, binary("&", B, C))),
        ("A ^ B | C", binary("^", A, binary("|", B, C))),
        ("A ^ B ^ C", binary("^", binary("^", A, B), C)),
        ("-A * B", binary("*", Unary(UnaryOperator.NEG, A), B)),
        ("-~A", Unary(UnaryOperator.NEG, Unary(UnaryOperator.BIT_NOT, A))),
        ("A - -1", binary("-", A, Unary(UnaryOperator.NEG, ONE))),
        ("A ? B : C ? D : E", Conditional(A, B, Conditional(C, D, E))),
        ("A ? B ? C : D : E", Conditional(A, Conditional(B, C, D), E)),
        ("A ^ B ? C : D", Conditional(binary("^", A, B), C, D)),
        ("exp(A, B ? C : D)", Call("exp", (A, Conditional(B, C, D)))),
        ("Foo(A)", Call("Foo", (A,))),
        ("#exp", Name("exp")),
        ("18446744073709551615", IntLiteral(2**64 - 1)),
        ("00000000000000000000000000000002", TWO),
        ("1.5e3", FloatLiteral(1500.0)),
    ],
)
def test_expressions(text: str, expected: Expr) -> None:
    assert parse_expression(text) == expected
    assert parse_expression(f"expression {text};") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2i", binary("*", TWO, i)),
        ("-2i + N", binary("+", Unary(UnaryOperator.NEG, binary("*", TWO, i)), N)),
        ("2i * N", binary("*", binary("*", TWO, i), N)),
        ("(i - j + 1) / 2", binary("/", binary("+", binary("-", i, j), ONE), TWO)),
        ("$A", IndexName("A")),
        ("#n", Name("n")),
    ],
)
def test_polynomials(text: str, expected: Expr) -> None:
    assert parse_polynomial(text) == expected
    assert parse_polynomial(f"polynomial {text};") == expected


@examples(100)
@given(polynomials(["i", "j", "x1"], ["N", "size"]), st.booleans())
def test_polynomials_round_trip(polynomial: Expr, wrapped: bool) -> None:
    text = expression_text(polynomial)
    assert parse_polynomial(f"polynomial {text};" if wrapped else text) == polynomial


@pytest.mark.parametrize(
    ("inputs", "combination"),
    [
        ("A[i]", Combination.NONE),
        ("A[i] + B[j]", Combination.ADD),
        ("A[i] * B[j]", Combination.MUL),
        ("A[i] == B[j]", Combination.EQ),
        ("A[i] == B[j] ? C[k]", Combination.COND),
    ],
)
@pytest.mark.parametrize("aggregation", Aggregation)
def test_contractions(inputs: str, combination: Combination, aggregation: Aggregation) -> None:
    sign = dict(zip(Aggregation, "+*><=", strict=True))[aggregation]
    accesses = (Access("A", (i,)), Access("B", (j,)), Access("C", (k,)))[: combination.arity]
    expected = Contraction("O", (i,), (N,), aggregation, combination, accesses)
    assert parse_contraction(f"O[i : N] = {sign}({inputs})") == expected
    assert parse_contraction(f"contraction O[i:N]= {sign} ( {inputs} );") == expected


def test_the_options_of_a_contraction() -> None:
    plain = parse_contraction("O[] = +(A[i])")
    assert (plain.indices, plain.sizes, plain.constraints) == ((), (), ())
    assert parse_contraction("O[:] = +(A[i])") == plain
    full = parse_contraction("O[i : max(N, 2) ? 1 : 2] = +(A[i]), i < N, i - j < N * 2 + 1 default D no_defract")
    assert full == parse_contraction(
        "O[i : max(N, 2) ? 1 : 2] = +(A[i]), i < N, i - j < N * 2 + 1 no_defract default D"
    )
    assert full.constraints == (
        Constraint(i, N),
        Constraint(binary("-", i, j), binary("+", binary("*", N, TWO), ONE)),
    )
    assert full.sizes == (Conditional(Call("max", (N, TWO)), ONE, TWO),)
    assert (full.no_defract, full.default) == (True, D)


def test_spans_are_what_was_written() -> None:
    text = "function (A[M]) -> (O) { [[hot]] O[2 * (i + 1) : M] = +(A[i]), i + 1 < M; }"
    statement = parse(text).statements[0]
    assert isinstance(statement, Contraction)
    nodes = (statement, statement.indices[0], statement.inputs[0], statement.constraints[0], statement.attributes[0])
    written = [node.span.text for node in nodes if node.span is not None]
    assert written == [text[25:-3], "2 * (i + 1)", "A[i]", "i + 1 < M", "[[hot]]"]
    assert statement.name_span is not None
    assert statement.name_span.text == "O"


def test_a_missing_semicolon_costs_no_other_fault() -> None:
    with pytest.raises(ParseError) as caught:
        parse("function (A) -> (O) {\n  P = A\n  O = P\n}")
    assert [(d.code, d.underlined, d.span and d.span.line) for d in caught.value.diagnostics] == [
        ("TIL102", "A", 2),
        ("TIL102", "P", 3),
    ]


@pytest.mark.sampled(0)
def test_many_statements_are_read() -> None:
    body = "".join(f"T{n} = T{n - 1} * 2 + exp(A);\nC{n}[i : N] = +(T{n}[i]);\n" for n in range(1, 5000))
    assert len(parse(f"function (A[N]) -> (T0) {{ T0 = A;\n{body}}}").statements) == 9999
