"""Typed text reads back as the function that it is of; faults are told where they are, all at once."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given

import tileir
from strategies import loops, typed_text
from strategies.derivatives import Problem, accept, problems, types_of
from strategies.effort import examples
from strategies.tile import Case, cases
from strategies.tuple_reductions import TupleCase, tuple_cases
from tileir.core.array_value import ArrayValue
from tileir.core.dtype import DType
from tileir.core.errors import ArgumentError, ParseError, TileError, VerifyError
from tileir.tile.text.parser import parse as parse_tile
from tileir.typed.dataflow import MAX_NESTING
from tileir.typed.derivatives.reverse import gradient
from tileir.typed.inference.inference import infer
from tileir.typed.ir import ArrayConstant, Function, Scan
from tileir.typed.simplify.simplifier import simplify
from tileir.typed.text.parser import parse
from tileir.typed.text.printer import to_text
from tileir.typed.verifier import verify

TEXT = """\
function (
  A: f32[4, 3],
  K: f32[] = twice,
) -> (S, P, T) {
  two: number = 2
  twice: number = mul(K, two)
  [[pid(main)]] S: f32[4] = [i] +(A[i, j] * A[i, 2 - j]), i + j < 5 no_defract
  M: f32[3] = array(f32[3](1.0, inf, nan))
  P: f32[4, 3] = mul(A, M)
  T_step = function (
    C: f32[3],
    R: f32[3],
  ) -> (N) {
    N: f32[3] = add(C, R)
  }
  T: f32[3] = scan T_step(M; A; ) 4 times reverse: final 0
}
"""


def faults(text: str) -> list[tuple[str, int, str]]:
    with pytest.raises(ParseError) as caught:
        parse(text)
    return [(d.code, d.span.line if d.span else 0, d.underlined) for d in caught.value.diagnostics]


def same(function: Function) -> None:
    text = to_text(function)
    again = parse(text)
    assert again == function
    assert to_text(again) == text


def test_a_text_means_what_it_says() -> None:
    function = parse(TEXT)
    verify(function)
    assert to_text(function) == TEXT
    a = np.arange(12, dtype=np.float32).reshape(4, 3)
    s, p, t = tileir.evaluate(TEXT, {"A": a, "K": 1.5})
    np.testing.assert_array_equal(s, [a[i] @ a[i, ::-1] for i in range(3)] + [a[3, :2] @ a[3, :0:-1]])
    np.testing.assert_array_equal(p, a * np.array([1, np.inf, np.nan], np.float32))
    np.testing.assert_array_equal(t, a.sum(0) + np.array([1, np.inf, np.nan], np.float32))
    np.testing.assert_array_equal(tileir.compile(TEXT, {"K": 1.5})(A=a, K=1.5)[0], s)


@examples(200)
@given(typed_text.functions())
def test_any_function_reads_back(function: Function) -> None:
    same(function)


@examples(100)
@given(cases(functions=True, special=True, empty=True, dtypes=list(DType)))
def test_inferred_functions_read_back(case: Case) -> None:
    same(case.typed())
    same(simplify(case.typed()))


@examples(100)
@given(loops.functions())
def test_loops_read_back(function: Function) -> None:
    same(function)


@examples(50)
@given(tuple_cases())
def test_tuple_reductions_read_back(case: TupleCase) -> None:
    same(case.function)


@examples(50)
@given(problems())
def test_derivatives_read_back(problem: Problem) -> None:
    accept(problem)
    function = infer(parse_tile(problem.text), types_of(problem.inputs))
    same(gradient(function, problem.wrt, function.outputs, even_ties=problem.wrt == ("A",)))


def test_long_arrays_are_named_by_their_digests() -> None:
    value = ArrayValue.of(np.arange(300, dtype=np.int32))
    function = Function((), ("C",), (ArrayConstant("C", value),))
    assert parse(to_text(function), arrays=[value]) == function
    assert parse(to_text(function), arrays=[value.numpy()]) == function
    assert faults(to_text(function)) == [("TIL219", 3, f"i32[300] sha256_{value.digest}")]


def test_equal_steps_are_one_function() -> None:
    text = (
        TEXT.replace("4 times reverse", "4 times")
        .replace("}\n}", "}\n}")
        .replace("final 0\n", "final 0\n  U: f32[4, 3] = scan T_step(M; A; ) 4 times: history 0\n")
    )
    loops_of = [each for each in parse(text).operations if isinstance(each, Scan)]
    assert loops_of[0].body is loops_of[1].body


def test_comments_spaces_and_lines_are_free() -> None:
    free = "// first\nfunction(A:f32[4,3],K:f32[]=twice)->(S,P,T){ // second\n" + TEXT.split("{\n", 1)[1]
    assert parse(free.replace("array(f32[3](1.0,", "array(f32[3](\n1.0, // third\n")) == parse(TEXT)


@pytest.mark.parametrize(
    ("good", "bad", "expected"),
    [
        ("A: f32[4, 3]", "A: f33[4, 3]", ("TIL102", 2, "f33")),
        ("A: f32[4, 3]", "A f32[4, 3]", ("TIL102", 2, "f32")),
        ("A: f32[4, 3]", "A: f32[4; 3]", ("TIL102", 2, ";")),
        ("A: f32[4, 3]", f"A: f32[4, {2**63}]", ("TIL104", 2, str(2**63))),
        ("A: f32[4, 3]", "`A\\q`: f32[4, 3]", ("TIL102", 2, "`A\\q`")),
        ("(S, P, T) {", "(S, P; T) {", ("TIL102", 4, ";")),
        ("(S, P, T) {", "(S, P, T) ? {", ("TIL102", 4, "?")),
        ("number = 2", "number = two", ("TIL102", 5, "two")),
        ("number = 2", "number(f33) = 2", ("TIL102", 5, "f33")),
        ("number = 2", "number = -true", ("TIL102", 5, "-true")),
        ("number = 2", "number = " + "9" * 5000, ("TIL104", 5, "9" * 5000)),
        ("number = 2", "number = 1e999", ("TIL104", 5, "1e999")),
        ("number = mul(K, two)", "number = cast(K)", ("TIL102", 6, "cast")),
        ("[[pid(main)]]", "[[pad(main)]]", ("TIL102", 7, "pad")),
        ("+(A[i, j]", "%(A[i, j]", ("TIL101", 7, "%")),
        ("+(A[i, j]", "-(A[i, j]", ("TIL102", 7, "-")),
        ("2 - j]", "2/0 - j]", ("TIL104", 7, "0")),
        ("i + j < 5", "i + j <= 5", ("TIL102", 7, "=")),
        ("f32[4] = [i]", "f32[4] = sum", ("TIL102", 7, "sum")),
        ("nan))", "nan)", ("TIL102", 9, "P")),
        ("f32[3](1.0", "f32[4](1.0", ("TIL219", 8, "f32[4](1.0, inf, nan)")),
        ("M: f32[3]", "M: f64[3]", ("TIL102", 8, "M: f64[3] = array(f32[3](1.0, inf, nan))")),
        ("mul(A, M)", "mull(A, M)", ("TIL102", 9, "mull")),
        ("mul(A, M)", "constant(1.0)", ("TIL102", 9, "P: f32[4, 3] = constant(1.0)")),
        ("mul(A, M)", "# mul(A, M)", ("TIL101", 9, "#")),
        ("    R: f32[3],", "    R; f32[3],", ("TIL102", 12, ";")),
        ("(N) {", "(N; O) {", ("TIL102", 13, ";")),
        ("add(C, R)", "add(C R)", ("TIL102", 14, "R")),
        ("scan T_step", "scan S_step", ("TIL102", 16, "S_step")),
        ("final 0", "last 0", ("TIL102", 16, "last")),
        ("final 0\n}", "final 0\n", ("TIL102", 18, "")),
        ("final 0\n}", "final 0\n}}", ("TIL102", 17, "}")),
    ],
)  # fmt: skip
def test_one_mistake_is_one_fault_in_its_place(good: str, bad: str, expected: tuple[str, int, str]) -> None:
    assert good in TEXT
    assert faults(TEXT.replace(good, bad, 1)) == [expected]


def test_all_faults_are_told_at_once() -> None:
    text = TEXT.replace("f32[4, 3],", "f33[4, 3],", 1).replace("mul(A", "mull(A").replace("add(C", "add C")
    assert faults(text) == [("TIL102", 2, "f33"), ("TIL102", 9, "mull"), ("TIL102", 14, "C")]


def test_rules_are_told_at_the_statement_that_breaks_them() -> None:
    with pytest.raises(VerifyError) as caught:
        tileir.compile(TEXT.replace("mul(A, M)", "mul(A, X)").replace("mul(K, two)", "mul(K)"), {"K": 1.0})
    found = [(d.span.line if d.span else 0, d.underlined) for d in caught.value.diagnostics]
    assert found == [(6, "twice: number = mul(K)"), (9, "P: f32[4, 3] = mul(A, X)")]


def test_words_of_operations_are_names_of_values_on_the_next_line() -> None:
    text = """\
function (
  A: f32[2, 2],
) -> (finite, descending, from) {
  S: f32[2] = [i] +(A[i, j])
  finite: f32[2] = neg(S)
  O: i32[2, 2] = argsort(A, 1)
  descending: i32[2, 2] = neg(O)
  G: f32[2, 2] = override_gradient(A)
  from: f32[2, 2] = neg(G)
}
"""
    assert to_text(parse(text)) == text
    verify(parse(text))


def test_labels_that_are_not_in_order_have_lines_of_their_own() -> None:
    text = "function (\n  A: f32[],\n) -> (B, C) {\n  B: f32[] = neg(A)\n  C: f32[] = abs(A)\n"
    lines = "  [[pid(x)]] C\n  [[pid(y)]] B\n  [[pid(z)]] C\n}\n"
    function = parse(text + lines)
    assert function.labels == (("C", "x"), ("B", "y"), ("C", "z"))
    assert to_text(function) == text + lines


def test_every_prefix_is_an_error() -> None:
    text = TEXT.rstrip()
    for stop in range(0, len(text), 5):
        with pytest.raises(ParseError):
            parse(text[:stop])


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "change", [" ", "(", ")", "{", "}", "[", "]", ":", "=", ",", ";", "-", "/", "`", "A", "1", "\n"]
)
def test_changed_texts_end_in_faults_or_functions(change: str) -> None:
    for place in range(0, len(TEXT), 3):
        for text in (TEXT[:place] + change + TEXT[place:], TEXT[:place] + change + TEXT[place + 1 :]):
            try:
                function = parse(text)
            except ParseError:
                continue
            same(function)


@pytest.mark.parametrize(
    "text",
    [
        "function (" + "(" * 10**6,
        "function (" + "A: f32[" * 10**5,
        "function () -> () {" + "\nA: f32[] = x" * 10**5,
        "function () -> () {\n" + "A = function () -> () {\n" * 10**5,
        "`" * 10**6,
        "function (A: f32[" + "9" * 10**6,
        "\x00" * 10**5,
        "function () -> () {" + "\n[[" * 10**5,
    ],
    ids=["brackets", "inputs", "faults", "nesting", "quotes", "digits", "zeros", "labels"],
)
def test_hostile_texts_are_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse(text)


def test_loops_nest_as_deep_as_the_verifier_allows() -> None:
    def nested(depth: int) -> str:
        step = "function (\n C: f32[],\n) -> (N) {\n"
        return step + ("N_step = " + nested(depth - 1) if depth else "") + "N: f32[] = neg(C)\n}\n"

    assert faults(nested(MAX_NESTING + 1))[0][0] == "TIL103"
    parse(nested(MAX_NESTING))


def test_what_is_no_text_is_an_error() -> None:
    with pytest.raises(ArgumentError, match="TIL707"):
        parse(b"function () -> ()")  # type: ignore[arg-type]
    with pytest.raises(TileError, match="TIL702"):
        parse(TEXT, arrays=[np.array("text")])


def test_functions_without_inputs_are_told_from_tile() -> None:
    typed = "function (\n) -> (C) {\n  // a comment\n  [[pid(`odd name`)]] C: f32[] = constant(2.5)\n}\n"
    assert tileir.evaluate(typed, ()) == tileir.evaluate("function () -> (C) { [[pid(c)]] C = 2.5; }", ())
    looped = re.sub(r"\[\[.*\n", "", typed).replace(
        "// a comment\n",
        "Z: i32[] = constant(3)\n  C_step = function (\n    A: i32[],\n  ) -> (B) {\n    B: i32[] = neg(A)\n  }\n"
        "  C: i32[] = scan C_step(Z; ; ) 3 times: final 0\n",
    )
    assert tileir.evaluate(looped, ()) == -3
    step_first = looped.replace("  Z: i32[] = constant(3)\n", "").replace(
        "  C: i32", "  Z: i32[] = constant(3)\n  C: i32"
    )
    assert tileir.evaluate(step_first, ()) == -3
