"""Wrong Tile programs: the code of each fault, and the text that is underlined."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from tileir.core.errors import ParseError, TileError, VerifyError
from tileir.tile.text.parser import parse

BODY = "function (A[M, N], B[N], X) -> (O) {{ {} }}"


def faults(text: str) -> list[tuple[str, str]]:
    with pytest.raises(TileError) as caught:
        parse(text)
    return [(d.code, d.underlined) for d in caught.value.diagnostics]


SYNTAX = [
    # characters
    ("O = A @ 1;", [("TIL101", "@")]),
    ("O = A % 2;", [("TIL101", "%")]),
    ("O = !A;", [("TIL101", "!")]),
    ("O = A + 1.;", [("TIL101", ".")]),
    ("O = A + .5;", [("TIL101", ".")]),
    ("O = _A;", [("TIL101", "_A")]),
    ("O = # A;", [("TIL101", "#")]),
    ("O = 'text';", [("TIL101", "'"), ("TIL203", "text"), ("TIL101", "'")]),
    ("O = A ≤ B;", [("TIL101", "≤")]),
    ("O[i] = +(A[i§]), ä; O = \u00a0\u00a0A;", [("TIL101", "§"), ("TIL101", "ä"), ("TIL101", "\u00a0\u00a0")]),
    # expressions
    ("O = ;", [("TIL102", ";")]),
    ("O = A + ;", [("TIL102", ";")]),
    ("O = A B;", [("TIL102", "B")]),
    ("O = (A;", [("TIL102", ";")]),
    ("O = A);", [("TIL102", ")")]),
    ("O = +A;", [("TIL102", "+")]),
    ("O = A && B;", [("TIL102", "&")]),
    ("O = A || B;", [("TIL102", "|")]),
    ("O = A ** B;", [("TIL102", "*")]),
    ("O = A < B < X;", [("TIL102", "<")]),
    ("O = A == B != X;", [("TIL102", "!=")]),
    ("O = A < B >= X == 1;", [("TIL102", ">=")]),
    ("O = A ? B;", [("TIL102", ";")]),
    ("O = exp();", [("TIL102", ")")]),
    ("O = exp(A,);", [("TIL102", ")")]),
    ("O = exp(A;", [("TIL102", ";")]),
    ("O = 2 A;", [("TIL102", "A")]),
    ("O = A[i];", [("TIL102", "[")]),
    ("O = a + b;", [("TIL203", "a"), ("TIL203", "b")]),
    ("O = A + function;", [("TIL102", "function")]),
    ("O = 18446744073709551616;", [("TIL104", "18446744073709551616")]),
    # statements
    ("O = A", [("TIL102", "A")]),
    ("O = A\nO = B;", [("TIL102", "A"), ("TIL202", "O")]),
    ("O = A = B;", [("TIL102", "=")]),
    ("O += A;", [("TIL102", "+")]),
    ("O;", [("TIL102", ";")]),
    ("o = A;", [("TIL102", "o")]),
    ("3 = A;", [("TIL102", "3")]),
    (";", [("TIL102", ";")]),
    ("[label] O = A;", [("TIL102", "label")]),
    ("[[Label]] O = A;", [("TIL102", "Label")]),
    ("[[pid()]] O = A;", [("TIL102", ")")]),
    ("[[pid(3)]] O = A;", [("TIL102", "3")]),
    ("[[pid(x)] O = A;", [("TIL102", "O")]),
    # contractions
    ("O[i : N] = A[i, j];", [("TIL102", "A")]),
    ("O[i : N] = -(A[i, j]);", [("TIL102", "-")]),
    ("O[i : N] ==(A[i, j]);", [("TIL102", "==")]),
    ("O[i : N] += A[i, j];", [("TIL102", "+")]),
    ("O[i : N] = +(A);", [("TIL102", ")")]),
    ("O[i : N] = +(A[i, j] - B[j]);", [("TIL102", "-")]),
    ("O[i : N] = +(2 * A[i, j]);", [("TIL102", "2")]),
    ("O[i : N] = +(exp(A[i, j]));", [("TIL102", "exp")]),
    ("O[i : N] = +(A[i, j] * B[j] * B[i]);", [("TIL102", "*")]),
    ("O[i : N] = +(A[i, j] * B[j] ? B[i]);", [("TIL102", "*")]),
    ("O[i : N] = +(A[i, j] == B[j] ? B[i] : B[j]);", [("TIL102", ":")]),
    ("O[i : N] = +(A[i, j]) + 1;", [("TIL102", "+")]),
    ("O[i : N] = +();", [("TIL102", ")")]),
    ("O[i : N] = +(A[i, j];", [("TIL102", ";")]),
    ("O[i N] = +(A[i, j]);", [("TIL102", "N")]),
    ("O[i, : N] = +(A[i, j]);", [("TIL102", ":")]),
    ("O[i : N,] = +(A[i, j]);", [("TIL102", "]")]),
    ("O[i : i] = +(A[i, j]);", [("TIL203", "i")]),
    ("O[i : N] = +(A[i, j]), i <= 3;", [("TIL102", "<=")]),
    ("O[i : N] = +(A[i, j]), i > 3;", [("TIL102", ">")]),
    ("O[i : N] = +(A[i, j]), 0 < i < 3;", [("TIL203", "i")]),
    ("O[i : N] = +(A[i, j]), i < j;", [("TIL203", "j")]),
    ("O[i : N] = +(A[i, j]) i < 3;", [("TIL102", "i")]),
    ("O[i : N] = +(A[i, j]) no_defract, i < 3;", [("TIL102", ",")]),
    ("O[i : N] = +(A[i, j]) default;", [("TIL102", ";")]),
    ("O[i : N] = +(A[i, j]) default B default B;", [("TIL102", "default")]),
    # index polynomials
    ("O[i : N] = +(A[i, 1.5]);", [("TIL214", "1.5")]),
    ("O[i : N] = +(A[i, 2e3]);", [("TIL214", "2e3")]),
    ("O[i : N] = +(A[i, ~j]);", [("TIL214", "~")]),
    ("O[i : N] = +(A[i, max(j, 0)]);", [("TIL214", "max")]),
    ("O[i : N] = +(A[i, j << 1]);", [("TIL102", "<<")]),
    ("O[i : N] = +(A[i, j ? 1 : 2]);", [("TIL102", "?")]),
    ("O[i : N] = +(A[i, 2N]);", [("TIL102", "N")]),
    ("O[i : N] = +(A[i, B[j]]);", [("TIL102", "[")]),
    ("O[i : N] = +(A[i, j 2]);", [("TIL102", "2")]),
]


@pytest.mark.parametrize(("body", "expected"), SYNTAX)
def test_syntax(body: str, expected: list[tuple[str, str]]) -> None:
    assert faults(BODY.format(body)) == expected
    with pytest.raises(ParseError):
        parse(BODY.format(body))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [("TIL102", "")]),
        ("O = A;", [("TIL102", "O")]),
        ("Function (A) -> (O) { O = A; }", [("TIL102", "Function")]),
        ("function A -> (O) { O = A; }", [("TIL102", "->")]),
        ("function (a) -> (O) { O = A; }", [("TIL102", "a")]),
        ("function (A B) -> (O) { O = A; }", [("TIL102", "B")]),
        ("function (A,) -> (O) { O = A; }", [("TIL102", ")")]),
        ("function (A[-3]) -> (O) { O = A; }", [("TIL102", "-")]),
        ("function (A[9223372036854775808]) -> (O) { O = A; }", [("TIL104", "9223372036854775808")]),
        ("function (A: f32) -> (O:) { O = A; }", [("TIL102", ")")]),
        ("function (A: f31[N]) -> (O) { O = A; }", [("TIL102", "f31")]),
        ("function (A[N]: f32) -> (O) { O = A; }", [("TIL102", ":")]),
        ("function (A[n]) -> (O) { O = A; }", [("TIL102", "n")]),
        ("function (A[N + 1]) -> (O) { O = A; }", [("TIL102", "+")]),
        ("function (A) (O) { O = A; }", [("TIL102", "(")]),
        ("function (A) -> () { O = A; }", [("TIL102", ")")]),
        ("function (A) -> (O[i]) { O = A; }", [("TIL203", "i"), ("TIL203", "i")]),
        ("function (A) -> (O[N]) { O = A; }", [("TIL201", "N")]),
        ("function (A) -> O { O = A; }", [("TIL102", "O")]),
        ("function (A) -> (O) O = A;", [("TIL102", "O")]),
        ("function (A) -> (O) { O = A; ", [("TIL102", "")]),
        ("function (A) -> (O) { O = A; } }", [("TIL102", "}")]),
        ("function (A) -> (O) { O = A; } function", [("TIL102", "")]),
        ("function (A[N] -> (O) { O = rt(A); P = Q + N; }", [("TIL102", "->"), ("TIL206", "rt(A)"), ("TIL201", "Q")]),
        ("function A[N] -> O { S = element(A, 0); O[i : N] = +(B[i]); }", [("TIL102", "["), ("TIL201", "B")]),
        ("function (A[N]) -> (O) { O = rt(A);", [("TIL206", "rt(A)"), ("TIL102", "")]),
        ("function (A -> (O) { O = ; P = 1 }", [("TIL102", "->"), ("TIL102", ";"), ("TIL102", "1")]),
    ],
)
def test_header(text: str, expected: list[tuple[str, str]]) -> None:
    assert faults(text) == expected


RULES = [
    # names
    ("O = C;", [("TIL201", "C")]),
    ("O = P; P = A;", [("TIL201", "P")]),
    ("O = O + 1;", [("TIL201", "O")]),
    ("O[i : N] = +(C[i]);", [("TIL201", "C")]),
    ("O[i : N] = +(O[i]);", [("TIL201", "O")]),
    ("O[i : K] = +(B[i]);", [("TIL201", "K")]),
    ("O[i : N] = +(B[i + K]);", [("TIL201", "K")]),
    ("O[i : N] = +(B[i]), i < K;", [("TIL201", "K")]),
    ("O[i : N] = +(B[i]) default D;", [("TIL201", "D")]),
    ("P = A;", [("TIL201", "O")]),
    ("", [("TIL201", "O")]),
    ("O = A; O = B;", [("TIL202", "O")]),
    ("O = A; O[i : N] = +(B[i]);", [("TIL202", "O")]),
    ("A = B; O = A;", [("TIL202", "A")]),
    ("N = 3; O = A;", [("TIL202", "N")]),
    # kinds
    ("O[i : B] = +(B[i]);", [("TIL204", "B")]),
    ("P = B * 2; O[i : P] = +(B[i]);", [("TIL204", "P")]),
    ("O[i : N] = +(B[i + B]);", [("TIL204", "B")]),
    ("O[i : N] = +(B[i]), i < B;", [("TIL204", "B")]),
    ("O[i : exp(N)] = +(B[i]);", [("TIL204", "exp(N)")]),
    ("O = reshape(A, B);", [("TIL204", "B")]),
    ("O = index(A, exp(X));", [("TIL204", "exp(X)")]),
    ("O = as_float(A, B);", [("TIL204", "B")]),
    ("O[i : N] = +(N[i]);", [("TIL205", "N[i]")]),
    ("O[i : N] = +(B[i]) default N;", [("TIL205", "N")]),
    # functions
    ("O = exo(A);", [("TIL206", "exo(A)")]),
    ("O = Exp(A);", [("TIL206", "Exp(A)")]),
    ("O = assert_(A);", [("TIL206", "assert_(A)")]),
    ("O = exp(A, B);", [("TIL207", "exp(A, B)")]),
    ("O = pow(A);", [("TIL207", "pow(A)")]),
    ("O = builtin_softmax(A, 1, 2, 3);", [("TIL207", "builtin_softmax(A, 1, 2, 3)")]),
    ("O = index(A);", [("TIL207", "index(A)")]),
    # contractions
    ("O[i] = +(B[i]);", [("TIL208", "O")]),
    ("O[i : N, M] = +(B[i]);", [("TIL208", "O")]),
    ("O[ : N] = +(B[i]);", [("TIL208", "O")]),
    ("O[i, j : N] = +(A[i, j]);", [("TIL208", "O")]),
    ("O[i : N] = +(A[i]);", [("TIL209", "A[i]")]),
    ("O[i : N] = +(B[i, j]);", [("TIL209", "B[i, j]")]),
    ("O[i : N] = +(B[]);", [("TIL209", "B[]")]),
    ("O[i : N] = +(X[i] * X[i, j]);", [("TIL209", "X[i, j]")]),
    ("P[i : N] = +(B[i]); O[i : N] = +(P[i, j]);", [("TIL209", "P[i, j]")]),
    ("P = A + 1; O[i : N] = +(P[i]);", [("TIL209", "P[i]")]),
    ("P = X + A; Q = -reshape(X, 2, 2); O[i : N] = +(P[i] * Q[i]);", [("TIL209", "Q[i]")]),
    ("O[i : N] = +(B[i]) default A;", [("TIL209", "A")]),
    ("O[i : N] = +(A[i * j, j]);", [("TIL402", "i * j")]),
    ("O[i : N] = +(A[(i + 1) * (N - j), j]);", [("TIL402", "(i + 1) * (N - j)")]),
    ("O[i : N] = +(A[N / i, j]);", [("TIL402", "i")]),
    ("O[i : N] = +(A[i / 0, j]);", [("TIL402", "0")]),
    ("O[i : N] = +(B[i]), j < 3;", [("TIL403", "j")]),
    ("O[i : N] = +(B[i]), 2j + i - k < 3, j + l < 2;", [("TIL403", "j"), ("TIL403", "k"), ("TIL403", "l")]),
    # several at once, in the order of the text
    (
        "O = C; P = exo(A); Q[i] = +(B[j, j]);",
        [("TIL201", "C"), ("TIL206", "exo(A)"), ("TIL208", "Q"), ("TIL209", "B[j, j]")],
    ),
]


@pytest.mark.parametrize(("body", "expected"), RULES)
def test_rules(body: str, expected: list[tuple[str, str]]) -> None:
    assert faults(BODY.format(body)) == expected
    with pytest.raises(VerifyError):
        parse(BODY.format(body))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("function (A, A) -> (O) { O = A; }", [("TIL202", "A")]),
        ("function (A[N], N) -> (O) { O = A; }", [("TIL202", "N")]),
        ("function (A[A]) -> (O) { O = A; }", [("TIL202", "A")]),
        ("function (A) -> (O, O) { O = A; }", [("TIL202", "O")]),
        ("function (A[N]) -> (N) {}", [("TIL205", "N")]),
        ("function () -> (O) {}", [("TIL201", "O")]),
    ],
)
def test_rules_of_headers(text: str, expected: list[tuple[str, str]]) -> None:
    assert faults(text) == expected


def test_all_faults_of_a_text_are_reported() -> None:
    text = """function (A[N) -> (O) {
  O = A[i];
  P = a +;
  Q[i : N] = +(A[i] * 2);
  R = 1 < 2 < 3
  S = B $ C;
}"""
    assert [(code, underlined) for code, underlined in faults(text)] == [
        ("TIL102", ")"),
        ("TIL102", "["),
        ("TIL203", "a"),
        ("TIL102", ";"),
        ("TIL102", "2"),
        ("TIL102", "<"),
        ("TIL102", "3"),
        ("TIL101", "$"),
    ]


def test_a_message_shows_the_place() -> None:
    with pytest.raises(TileError) as caught:
        parse("function (A[N]) -> (B) {\n  B[i : N] = +(C[i]);\n}", "demo.tile")
    assert str(caught.value).splitlines() == [
        "demo.tile:2:16: error[TIL201]: 'C' is not defined; assign it first, or make it an input",
        "2 |   B[i : N] = +(C[i]);",
        "  |                ^",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "function (A[N]) -> (B) { B = A; C = A + + ; D = Q + C; E[i : N] = +(A[i]); F = max(A); }",
            [("TIL102", "+"), ("TIL201", "Q"), ("TIL207", "max(A)")],
        ),
        ("function (A) -> (Z) { B = A * \n C = A * 2; D = C + Q; Z = D; }", [("TIL102", "="), ("TIL201", "Q")]),
        ("function (A) -> (Z) { b = A; Z = B + B; }", [("TIL102", "b")]),
        ("function (A) -> (Z) { ; }", [("TIL102", ";")]),
        ("function (A -> (Z) { Z = Q; }", [("TIL102", "->"), ("TIL201", "Q")]),
        (
            "function (A) -> (Z) { Z = scan(A; ) 2 times function (B) -> (C) { D = B + ; C = exp(B, B) + D + X; }; }",
            [("TIL102", ";"), ("TIL207", "exp(B, B)"), ("TIL201", "X")],
        ),
    ],
)
def test_behind_a_fault_of_the_grammar_the_rules_are_checked(text: str, expected: list[tuple[str, str]]) -> None:
    assert faults(text) == expected


@given(st.sampled_from(["B = A + ;", "B A;", "B[i : N = +(A[i]);", "b = A;", "B = (A;"]), st.data())
def test_a_fault_of_the_grammar_hides_and_makes_no_other(broken: str, data: st.DataObject) -> None:
    """Whatever reads the name of the faulty statement is right; what is wrong beside it is told as it was."""
    wrong = {"D = max(A);": "TIL207", "D = Q;": "TIL201", "D[i : N] = +(A[i, i]);": "TIL209", "D = B + A;": None}
    chosen = data.draw(st.sampled_from(sorted(wrong)))
    first, second = data.draw(st.permutations([broken, chosen]).filter(lambda o: o[0] == broken))
    codes = [code for code, _ in faults(f"function (A[N]) -> (O) {{ {first} {second} O = B + D; }}")]
    assert codes[1:] == [code for code in [wrong[chosen]] if code is not None]


def test_an_index_that_was_mistyped_in_a_constraint() -> None:
    with pytest.raises(VerifyError, match="'rwo' stands only in constraints; did you mean 'row'") as caught:
        parse("function (A[N]) -> (B) { B[row : N] = =(A[row]), rwo < 3; }")
    assert [(d.code, d.underlined) for d in caught.value.diagnostics] == [("TIL403", "rwo")]


@pytest.mark.parametrize(
    ("text", "underlined", "note"),
    [
        ("function (A: float32[N]) -> (B) { B = A; }", "float32", "did you mean 'f32'?"),
    ],
)
def test_forms_of_other_languages_get_advice(text: str, underlined: str, note: str) -> None:
    with pytest.raises(ParseError) as error:
        parse(text)
    (fault,) = error.value.diagnostics
    assert (fault.code, fault.underlined) == ("TIL102", underlined)
    assert any(each.startswith(note) for each in fault.notes)
