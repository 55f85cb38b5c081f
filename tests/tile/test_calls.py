"""Texts of several functions that call each other: they mean what the text means with the calls written out."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tileir import compile as compile_program, evaluate, gradient, parse, to_text, vmap
from tileir.core.errors import ArgumentError, ParseError, TileError, VerifyError
from tileir.tile.text.printer import node_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Vectors = Sequence[np.ndarray[Any, Any]]

SOFTMAX: Final = "function softmax(X[N]) -> (Y) { M[] = >(X[i]); E = exp(X - M); S[] = +(E[i]); Y = E / S; }\n"
BOTH: Final = "function both(A, B) -> (Sum, Product) { Sum = A + B; Product = A * B; }\n"


def inlined(text: str, by_hand: str) -> bool:
    return parse(text) == parse(by_hand)


def soft(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    e = np.exp(x - x.max())
    return np.asarray(e / e.sum())


def test_a_call_is_what_the_function_computes() -> None:
    text = SOFTMAX + "function (A[K]) -> (O) { O = softmax(2 * softmax(A)) + 1; }"
    a = np.array([0.5, -1.0, 2.0])
    np.testing.assert_allclose(evaluate(text, [a]), soft(2 * soft(a)) + 1)


def test_results_are_taken_apart() -> None:
    together = BOTH + "function (A[K], B[K]) -> (O) { (S, P) = both(A, B); O = S - P; }"
    later = BOTH + "function (A[K], B[K]) -> (O) { T = both(A, B); O = element(T, 0) - element(T, 1); }"
    nested = BOTH + "function (A[K], B[K]) -> (O) { O = element(both(A, B), 0) - element(both(A, B), 1); }"
    a, b = np.array([1.0, 2.0]), np.array([3.0, 5.0])
    for text in (together, later, nested):
        np.testing.assert_array_equal(evaluate(text, [a, b]), a + b - a * b)
    assert inlined(together, "function (A[K], B[K]) -> (O) { S = A + B; P = A * B; O = S - P; }")


def test_tuples_of_builtins_and_loops_are_taken_apart_and_printed_so() -> None:
    text = """function (X[N], W[N]) -> (DX, DW) {
  L[] = +(X[i] * W[i]);
  (DX, DW) = gradient(L, X, W);
}
"""
    function = parse(text)
    assert to_text(function) == text
    x, w = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    for found, expected in zip(evaluate(function, [x, w]), (w, x), strict=True):
        np.testing.assert_array_equal(found, expected)
    loop = """function (X[N]) -> (Last, All) {
  Zero = 0.0;
  C[] = =(Zero[]);
  (Last, All) = scan(C; X) function (A, E) -> (B, B2) {
    B = A + E;
    B2 = B * B;
  };
}
"""
    assert to_text(parse(loop)) == loop
    np.testing.assert_array_equal(evaluate(loop, [x.astype(np.float32)])[1], np.cumsum(x) ** 2)


def test_a_part_that_is_not_needed_is_no_warning() -> None:
    function = parse("function (X[N], W[N]) -> (DX) { L[] = +(X[i] * W[i]); (DX, DW) = gradient(L, X, W); }")
    assert function.warnings == ()
    (warning,) = parse("function (X) -> (Y) { Y = X; (A, B) = tuple(X, X); }").warnings
    assert (warning.code, warning.message) == (
        "TIL232",
        "no result depends on 'A', 'B'; remove it, or make it an output",
    )


def test_what_looks_like_a_tuple_taken_apart_is_printed_as_it_is() -> None:
    for body in (
        '"(Y)" = tuple(X, X); Y = element("(Y)", 0); Z = element("(Y)", 0);',
        '"(Y)" = tuple(X, X); Y = element("(Y)", 1); Z = element("(Y)", 0);',
        '"(Y)" = tuple(X, X); [[pid(y)]] Y = element("(Y)", 0); Z = element("(Y)", 1);',
        '"(Y)"[i : N] = =(X[i]); Y = element("(Y)", 0); Z = element("(Y)", 1);',
    ):
        function = parse(f"function (X[N]) -> (Y, Z) {{ {body} }}")
        assert parse(to_text(function)) == function
        assert "(Y, Z) =" not in to_text(function)


def test_the_program_is_the_function_without_a_name_or_else_the_last() -> None:
    a = np.array([1.0, 2.0])
    square, double = "function square(X) -> (Y) { Y = X * X; }", "function double(X) -> (Y) { Y = X + X; }"
    assert evaluate(f"{square} {double}", [a]).tolist() == [2, 4]
    assert evaluate(f"function (X) -> (Y) {{ Y = square(X); }} {square} {double}", [a]).tolist() == [1, 4]
    assert evaluate(parse(f"{square} {double}", entry="square"), [a]).tolist() == [1, 4]
    with pytest.raises(ArgumentError) as caught:
        parse(f"{square} {double}", entry="squared")
    assert caught.value.diagnostics[0].code == "TIL206"
    assert "did you mean 'square'" in str(caught.value)
    with pytest.raises(ArgumentError, match="its only function has no name"):
        parse("function (X) -> (Y) { Y = X; }", entry="square")


def test_functions_stand_in_any_order_and_names_may_have_either_case() -> None:
    text = """
    function (A) -> (O) { O = $Outer(A) + _low(A); }
    function Outer(X) -> (Y) { Y = inner(X) * 2; }
    function inner(X) -> (Y) { Y = X + 1; }
    function $_low(X) -> (Y) { Y = -X; }
    """.replace(" _low(", " $_low(")
    assert evaluate(text, [np.array([3.0])]).tolist() == [5.0]


def test_sizes_may_be_what_a_function_computes_of_sizes() -> None:
    text = "function half(N) -> (H) { H = N / 2; } function (A[K]) -> (O) { Half = half(K); O[i : Half] = =(A[i]); }"
    assert evaluate(text, [np.arange(5.0)]).tolist() == [0, 1]
    text = "function head(X[N], Size) -> (O) { O[i : Size] = =(X[i]); } function (A[K]) -> (O) { O = head(A, K - 1); }"
    assert evaluate(text, [np.arange(3.0)]).tolist() == [0, 1]


def test_steps_of_loops_call_functions() -> None:
    text = """
    function plus(A, B) -> (C) { C = A + B; }
    function below(A, B) -> (C) { C = A < B; }
    function (X[N]) -> (Last, Powers) {
      Zero = 0.0;
      C[] = =(Zero[]);
      (Last, All) = scan(C; X) function (A, E) -> (B, B2) { B = plus(A, E); B2 = plus(B, 1.0); };
      P = while(Last) function (P) -> (More) { More = below(P, 100.0); } do function (P) -> (Q) { Q = plus(P, P); };
      Powers = All * P;
    }
    """
    x = np.array([1.0, 2.0, 3.0], np.float32)
    last, powers = evaluate(text, [x])
    assert last == 6
    np.testing.assert_array_equal(powers, (np.cumsum(x) + 1) * 192)


def test_attributes_of_a_call_stand_before_all_that_it_is() -> None:
    made = parse(SOFTMAX + "function (A[K]) -> (O) { [[pid(row)]] O = softmax(A); }")
    assert all("[[pid(row)]]" in node_text(statement) for statement in made.statements)


def test_results_that_are_inputs_or_each_other_are_copies() -> None:
    text = "function same(X) -> (X) { } function (A) -> (B, C, D) { B = same(A); C = B; D = same(B); }"
    for found in evaluate(text, [np.array([1.0, 2.0])]):
        assert found.tolist() == [1, 2]


def test_constants_and_their_dimensions_stay() -> None:
    text = """
    function twice(X) -> (Y) { constant Two[D] = f32[1](2.0); Y = X * Two; }
    function (A[D]) -> (O) { constant K[D] = f32[2](1.0, 10.0); O = twice(A) * K; }
    """
    assert evaluate(text, [np.ones(2, np.float32)]).tolist() == [2, 20]
    with pytest.raises(TileError) as caught:
        evaluate(text, [np.ones(3, np.float32)])
    assert caught.value.diagnostics[0].code == "TIL304"


def test_assertions_of_a_function_are_kept() -> None:
    text = """
    function square(X[N, M]) -> (Y) { Check = assert_square(N == M); Y = X * X; }
    function (A[K, L]) -> (O) { O = square(A); }
    """
    assert evaluate(text, [np.ones((2, 2))]).tolist() == [[1, 1], [1, 1]]
    with pytest.raises(TileError) as caught:
        evaluate(text, [np.ones((2, 3))])
    assert caught.value.diagnostics[0].code == "TIL312"


def test_what_is_declared_of_inputs_that_nothing_reads_is_checked() -> None:
    text = "function f(X, Unread: f32[N, 3]) -> (Y) { Y = X; } function (A, B) -> (C) { C = f(A, B); }"
    a = np.ones(2)
    assert evaluate(text, [a, np.ones((2, 3), np.float32)]).tolist() == [1, 1]
    for wrong in (np.ones((2, 3)), np.ones((2, 4), np.float32)):
        with pytest.raises(TileError) as caught:
            evaluate(text, [a, wrong])
        assert caught.value.diagnostics[0].code == "TIL317"


def test_a_function_with_calls_is_differentiated_and_mapped() -> None:
    text = SOFTMAX + "function (A[K], W[K]) -> (L) { P = softmax(A); L[] = +(P[i] * W[i]); }"
    a, w = np.array([0.5, -1.0, 2.0]), np.array([1.0, 2.0, 4.0])
    p = soft(a)
    np.testing.assert_allclose(evaluate(gradient(text, wrt=["A"]), [a, w]), p * (w - (p * w).sum()))
    rows = np.stack([a, 2 * a])
    mapped = evaluate(vmap(parse(text), [0, None]), [rows, w])
    np.testing.assert_allclose(mapped, [(soft(row) * w).sum() for row in rows])


@pytest.mark.parametrize(
    "derivative",
    [
        "D = gradient(Y, X);",
        "(D, E) = gradient(Y, X, X);",
        "T = tuple(X, X); D = gradient(Y, element(T, 0));",
        "One = 1.0; D = vjp(Y, One, X);",
        "P = X; D = gradient(Y, P);",
    ],
)
def test_derivatives_in_a_function_are_by_its_inputs_alone(derivative: str) -> None:
    """Values that the caller computes from an operand are constants, as in a function called by itself."""
    text = f"function f(X[N], Z[N]) -> (D) {{ Y[] = +(X[i] * Z[i]); {derivative} }}\n"
    a = np.array([1.0, 3.0])
    for call, expected in (("f(A, A)", a), ("f(A, A * A)", a * a), ("f(A * A, A)", a)):
        np.testing.assert_allclose(evaluate(f"{text} function (A[K]) -> (O) {{ O = {call}; }}", [a]), expected)
    along = "function f(X[N], Z[N]) -> (D) { Y = X * Z; One = as_like(X * 0 + 1, X); D = jvp(Y, X, One); }"
    np.testing.assert_allclose(evaluate(f"{along} function (A[K]) -> (O) {{ O = f(A, 2 * A); }}", [a]), 2 * a)
    outer = f"{text} function (A[K]) -> (G) {{ S = f(A, A * A); L[] = +(S[i]); G = gradient(L, A); }}"
    np.testing.assert_allclose(evaluate(outer, [a]), 2 * a)


@pytest.mark.parametrize(
    ("text", "code", "underlined"),
    [
        ("function f(X) -> (Y) { Y = f(X); }", "TIL229", "f(X)"),
        ("function f(X) -> (Y) { Y = g(X); } function g(X) -> (Y) { Y = 1 + f(X); }", "TIL229", "f(X)"),
        ("function f(X) -> (Y) { Y = g(X); } function g(Z) -> (Y) { Y = f(Z); } function (A)->(A){}", "TIL229", "f(Z)"),
        ("function exp(X) -> (Y) { Y = X; }", "TIL202", "exp"),
        ("function assert_me(X) -> (Y) { Y = X; }", "TIL202", "assert_me"),
        ("function scan(X) -> (Y) { Y = X; }", "TIL202", "scan"),
        ("function f(X) -> (Y) { Y = X; } function f(X) -> (Y) { Y = X; }", "TIL202", "f"),
        ("function (X) -> (Y) { Y = X; } function (Z) -> (Z) { }", "TIL202", "function (Z) -> (Z) { }"),
        ("function ff(X) -> (Y) { Y = X; } function (A) -> (B) { B = fff(A); }", "TIL206", "fff(A)"),
        ("function f(X) -> (Y) { Y = X; } function (A) -> (B) { B = f(A, A); }", "TIL207", "f(A, A)"),
        (BOTH + "function (A) -> (B) { (B, C, D) = both(A, A); }", "TIL207", "B, C, D"),
        ("function f(X) -> (Y) { Y = X; } function (A[N]) -> (B) { B[i : f(N)] = =(A[i]); }", "TIL204", "f(N)"),
        ("function f(X) -> (Y) { Y = X; } function (A[N]) -> (B) { B = reshape(A, f(N)); }", "TIL204", "f(N)"),
        ("function f(X) -> (Y) { Y = Z; } function (A) -> (B) { B = f(A); }", "TIL201", "Z"),
    ],
)  # fmt: skip
def test_rules(text: str, code: str, underlined: str) -> None:
    with pytest.raises(VerifyError) as caught:
        parse(text)
    assert [(fault.code, fault.underlined) for fault in caught.value.diagnostics] == [(code, underlined)]


@pytest.mark.parametrize(
    ("text", "underlined"),
    [
        ('function "a b"(X) -> (Y) { Y = X; }', '"a b"'),
        ("function f g(X) -> (Y) { Y = X; }", "g"),
        ("function (X) -> (Y) { (Y) = X; }", ")"),
        ("function (X) -> (Y) { (Y, y) = X; }", "y"),
        ("function (X) -> (Y) { (Y, Z) X; }", "X"),
        ("function (X) -> (Y) { Y = scan(X) function step(X) -> (Y) { Y = X; }; }", "step"),
        ("function (X) -> (Y) { Y = X; } ?", "?"),
    ],
)
def test_grammar(text: str, underlined: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(text)
    assert (caught.value.diagnostics[0].code, caught.value.diagnostics[0].underlined) == ("TIL102", underlined)


def test_faults_of_all_functions_are_told_at_once() -> None:
    text = "function f(X) -> (Y) { Y = ; } function g(X) -> (Y) { Y = Q; } function (A) -> (B) { B = f(A, A) + h(A); }"
    with pytest.raises(ParseError) as caught:
        parse(text)
    found = [(fault.code, fault.underlined) for fault in caught.value.diagnostics]
    assert found == [("TIL102", ";"), ("TIL201", "Q"), ("TIL207", "f(A, A)"), ("TIL206", "h(A)")]


@pytest.mark.parametrize(
    ("declared", "caller", "types", "code", "words"),
    [
        ("X[N]", "function (A[N, M]) -> (Y) { Y = f(A); }", "", "TIL305", "X has 1 axes, but is given a tensor with 2"),
        ("X[3]", "function (A[4]) -> (Y) { Y = f(A); }", "", "TIL317", "axis 0 of 'X' is declared as 3, but is 4"),
        ("X[3]", "function (A[N]) -> (Y) { Y = f(A); }", "f32[4]", "TIL317", "has shape [4], where [3] is declared"),
        ("X: f64[N]", "function (A[N]) -> (Y) { Y = f(A); }", "f32[4]", "TIL317", "f64"),
        ("X[N, N]", "function (A[N, M]) -> (Y) { Y = f(A); }", "f32[4, 5]", "TIL312", "'N' is 4 and 'M' is 5"),
    ],
)  # fmt: skip
def test_calls_are_checked_by_signatures(declared: str, caller: str, types: str, code: str, words: str) -> None:
    with pytest.raises(TileError) as caught:
        compile_program(parse(f"function f({declared}) -> (Y) {{ Y = 2 * X; }}\n{caller}", "t.tile"), [types])
    fault = caught.value.diagnostics[0]
    assert (fault.code, fault.underlined) == (code, declared)
    assert words in fault.message
    assert fault.trail == ("called at t.tile:2:" + str(caller.index("f(A)") + 1) + ": f(A)",)


def test_faults_in_a_function_name_the_calls_that_lead_there() -> None:
    text = """function inner(X, Z) -> (Y) { Y = X + Z; }
function outer(X, Z) -> (Y) { Y = inner(X, Z); }
function (A[N], B[M]) -> (C) { C = outer(A, B); }
"""
    with pytest.raises(TileError) as caught:
        compile_program(parse(text, "t.tile"), ["f32[2]", "f32[3]"])
    (fault,) = caught.value.diagnostics
    assert (fault.code, fault.underlined) == ("TIL301", "X + Z")
    assert fault.trail == ("called at t.tile:2:35: inner(X, Z)", "called at t.tile:3:36: outer(A, B)")
    assert "\nnote: called at t.tile:3:36: outer(A, B)" in str(caught.value)


@pytest.mark.sampled(0)
def test_long_chains_of_calls_are_followed_without_recursion() -> None:
    count = 3000
    text = "function f0(X) -> (Y) { Y = X + 1; }" + "".join(
        f"function f{k}(X) -> (Y) {{ Y = f{k - 1}(X); }}" for k in range(1, count)
    )
    function = parse(text)
    assert len(function.statements) == 1
    circle = text.replace("Y = X + 1", f"Y = f{count - 1}(X)")
    with pytest.raises(VerifyError) as caught:
        parse(circle)
    assert caught.value.diagnostics[0].code == "TIL229"


def test_calls_that_come_to_too_much_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tileir.tile.text.linking.MAX_STATEMENTS", 1000)
    text = "function f0(X) -> (Y) { Y[] = +(X[]); }" + "".join(
        f"function f{k}(X) -> (Y) {{ A = f{k - 1}(X); Y = f{k - 1}(A); }}" for k in range(1, 30)
    )
    with pytest.raises(TileError) as caught:
        parse(text)
    assert caught.value.diagnostics[0].code == "TIL103"


BODIES: Final[Sequence[tuple[str, Callable[..., np.ndarray[Any, Any]]]]] = (
    ("{0} + {1}", lambda a, b: a + b),
    ("{0} * {1} - 1", lambda a, b: a * b - 1),
    ("{0} < {1} ? {0} : 2 * {1}", lambda a, b: np.where(a < b, a, 2 * b)),
    ("tanh({0})", lambda a, _: np.tanh(a)),
)
REDUCED: Final = ("[i : N] = +({0}[i + j]), j < 2", lambda a: a + np.append(a[1:], 0))


def assign(values: dict[str, Any], name: str, meaning: Callable[..., Any], operands: Sequence[str]) -> None:
    values[name] = meaning(*(values[operand] for operand in operands))


@st.composite
def programs(draw: st.DrawFn) -> tuple[str, Callable[[Vectors], list[np.ndarray[Any, Any]]]]:
    """Return a text of functions on vectors that call those before, and what it computes, by NumPy."""
    meanings: list[tuple[int, int, Callable[[Vectors], list[np.ndarray[Any, Any]]]]] = []
    texts: list[str] = []
    count = draw(st.integers(1, 4))
    for number in range(count):
        inputs, outputs = draw(st.integers(1, 2)), draw(st.integers(1, 2))
        names = [f"X{k}" for k in range(inputs)]
        lines: list[str] = []
        steps: list[Callable[[dict[str, np.ndarray[Any, Any]]], None]] = []
        for step in range(draw(st.integers(outputs, 4))):
            one, two = draw(st.sampled_from(names)), draw(st.sampled_from(names))
            kind = draw(st.sampled_from(["value", "sum", *["call"] * (2 if meanings else 0)]))
            new = f"Y{step}"
            if kind == "value":
                form, meaning = draw(st.sampled_from(BODIES))
                lines.append(f"{new} = {form.format(one, two)};")
                steps.append(partial(assign, name=new, meaning=meaning, operands=(one, two)))
            elif kind == "sum":
                lines.append(f"{new}{REDUCED[0].format(one)};")
                steps.append(partial(assign, name=new, meaning=REDUCED[1], operands=(one,)))
            else:
                callee = draw(st.integers(0, len(meanings) - 1))
                taken, made, meaning_of = meanings[callee]
                operands = [one, two][:taken]
                written = f"f{callee}({', '.join(operands)})"
                lines.append(f"{new} = {written} + 1;" if made == 1 else f"({new}, {new}') = {written};")

                def called(
                    v: dict[str, np.ndarray[Any, Any]], n: str = new, m: Any = meaning_of, o: list[str] = operands
                ) -> None:
                    results = m([v[each] for each in o])
                    v[n] = results[0] + 1 if len(results) == 1 else results[0]
                    if len(results) > 1:
                        v[f"{n}'"] = results[1]

                steps.append(called)
                names += [f"{new}'"] * (made - 1)
            names.append(new)
        results = draw(st.permutations(names[inputs:]))[:outputs]
        header = f"{', '.join(f'X{k}[N]' for k in range(inputs))}) -> ({', '.join(results)})"
        texts.append(f"function f{number}({header} {{ {' '.join(lines)} }}")

        def meaning_of_all(
            vectors: Vectors, steps: Any = tuple(steps), results: Any = tuple(results)
        ) -> list[np.ndarray[Any, Any]]:
            values = {f"X{k}": vector for k, vector in enumerate(vectors)}
            for step in steps:
                step(values)
            return [values[name] for name in results]

        meanings.append((inputs, outputs, meaning_of_all))
    order = draw(st.permutations(texts[:-1]))
    return "\n".join([*order, texts[-1]]), meanings[-1][2]


@given(programs(), st.integers(0, 2**32 - 1))
def test_programs_with_calls_compute_what_numpy_does(
    drawn: tuple[str, Callable[[Vectors], list[np.ndarray[Any, Any]]]], seed: int
) -> None:
    text, meaning = drawn
    function = parse(text)
    assert parse(to_text(function)) == function
    random = np.random.default_rng(seed)
    vectors = [random.uniform(-1, 1, 3) for _ in function.inputs]
    found = evaluate(function, vectors)
    results = found if isinstance(found, tuple) else (found,)
    for result, expected in zip(results, meaning(vectors), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-9)
