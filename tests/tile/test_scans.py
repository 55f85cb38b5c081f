from __future__ import annotations

import attrs
import pytest

from tileir.core.errors import ParseError, TileError, VerifyError
from tileir.core.json.codec import from_json, to_json
from tileir.tile.checks.verifier import verify
from tileir.tile.ir import Function, IntLiteral, Scan
from tileir.tile.text.grammar import MAX_SCANS
from tileir.tile.text.parser import parse
from tileir.tile.text.printer import to_text

STEP = "function (H[N], X[N]) -> (A) {\n    A = H + X;\n  }"
HEADER = "function (Xs[T, N], H[N], K) -> (R) {\n"


def program(statement: str) -> str:
    return f"{HEADER}  {statement}\n}}\n"


@pytest.mark.parametrize(
    "statement",
    [
        f"R = scan(H; Xs) {STEP};",
        f"R = scan(H; Xs) reverse {STEP};",
        f"R = scan(H; ; H) T + 1 times {STEP};",
        f"R = scan(; Xs, Xs) 6 times reverse {STEP};",
        f"R = scan(; ; H, H) 6 times {STEP};",
        f"[[pid(a)]] R = scan(H; Xs) {STEP};",
        "R = scan(H; ; K) 2 times function (H[N], K) -> (A) {\n"
        "    A = scan(H; ; K) 3 times function (H[N], K) -> (B) {\n      B = H * K;\n    };\n  };",
    ],
)
def test_text_and_json_come_back(statement: str) -> None:
    text = program(statement)
    function = parse(text)
    assert to_text(function) == text
    assert from_json(to_json(function), Function) == function


def test_words_of_scans_are_names_elsewhere() -> None:
    parse("function (A[N]) -> (R) { R[scan : N] = +(A[scan + times - times]), times < N; }".replace("times", "reverse"))


@pytest.mark.parametrize(
    ("statement", "faults"),
    [
        ("R = scan H; R2 = H +;", [("TIL102", "H"), ("TIL102", ";")]),
        (f"R = scan(H; Xs, 3) {STEP}; Z = ;", [("TIL102", "3"), ("TIL102", ";")]),
        (f"R = scan(H; Xs; K; K) {STEP};", [("TIL102", ";")]),
        (f"R = scan(H; Xs) 3 {STEP};", [("TIL102", "function")]),
        ("R = scan(H; Xs) fun (H) -> (A) { A = ; };", [("TIL102", "->"), ("TIL102", ";")]),
        ("R = scan(H; Xs) function (H[N], X[N] -> (A) { A = ; B = 1 +; };", [("TIL102", "->"), *2 * [("TIL102", ";")]]),
        ("R = scan(H; Xs) function (H[N], X[N]) -> (A) { A = H + X; } Z = H;", [("TIL102", "Z")]),
    ],
)
def test_faults_of_the_grammar(statement: str, faults: list[tuple[str, str]]) -> None:
    with pytest.raises(ParseError) as caught:
        parse(program(statement))
    assert [(d.code, d.underlined) for d in caught.value.diagnostics] == faults


@pytest.mark.parametrize(
    ("statement", "faults"),
    [
        ("R = scan(H) function (H) -> (A) { A = H; };", [("TIL218", "R")]),
        ("R = scan(H; Xs) function (H) -> (A) { A = H; };", [("TIL218", "R")]),
        ("R = scan(H, K; Xs) function (H, K, X) -> (A) { A = H; };", [("TIL218", "R")]),
        ("R = scan(H; Ys; T) function (H, X, T) -> (A) { A = H; };", [("TIL201", "Ys"), ("TIL205", "T")]),
        ("R = scan(R; Xs) function (H, X) -> (A) { A = H; };", [("TIL201", "R")]),
        ("R = scan(H; Xs) H times function (H, X) -> (A) { A = H; };", [("TIL204", "H")]),
        ("R = scan(H; Xs) function (H, X) -> (A) { A[i : H] = +(X[i]); };", [("TIL204", "H")]),
        ("R = scan(H; Xs) function (H, X) -> (A) { P = X / 2; A = reshape(H, P); };", [("TIL204", "Xs")]),
        ("R = scan(H; Xs) function (H, X) -> (A) { A = H + K; };", [("TIL201", "K")]),
        ("R = scan(H; Xs) function (H, X) -> (A) { A[i : T] = +(H[i]); };", [("TIL201", "T")]),
        ("R = scan(H; Xs) function (H, X) -> (A, B) { A = foo(H); };", [("TIL201", "B"), ("TIL206", "foo(H)")]),
        ("R = scan(H; Xs) function (H, H) -> (A) { A = 1; };", [("TIL202", "H")]),
    ],
)
def test_faults_of_scans_and_steps(statement: str, faults: list[tuple[str, str]]) -> None:
    with pytest.raises(VerifyError) as caught:
        parse(program(statement))
    assert [(d.code, d.underlined) for d in caught.value.diagnostics] == faults


def test_a_step_that_reads_around_itself_is_told_what_to_do() -> None:
    with pytest.raises(VerifyError, match="pass it to the scan"):
        parse(program("R = scan(H; Xs) function (H, X) -> (A) { A = H + K; };"))


def nested(depth: int) -> str:
    text = "A = H;"
    for _ in range(depth):
        text = f"A = scan(H) 2 times function (H) -> (A) {{ {text} }};"
    return f"function (H) -> (A) {{ {text} }}"


def test_scans_are_not_nested_without_end() -> None:
    function = parse(nested(MAX_SCANS))
    for depth in (MAX_SCANS + 1, 5000):
        with pytest.raises(TileError, match="TIL103"):
            parse(nested(depth))
    step = Scan("A", (), (), (), function, IntLiteral(1))
    with pytest.raises(VerifyError, match="TIL103"):
        verify(attrs.evolve(function, statements=(step,)))
