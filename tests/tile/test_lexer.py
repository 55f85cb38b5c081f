from __future__ import annotations

from typing import Any

import pytest

from tileir.core.errors import ArgumentError
from tileir.core.text.lexing import END, Faults, Token, TooManyFaultsError, source_of
from tileir.core.text.span import Source
from tileir.tile.text.lexer import FLOAT, INDEX, INTEGER, NAME, Lexer


def tokens(text: str) -> list[tuple[str, str]]:
    lexer = Lexer.of(Source(text), Faults())
    found: list[tuple[str, str]] = []
    while (token := lexer.next()).kind != END:
        found.append((token.kind, token.text))
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A B_1 Cd' X''", [(NAME, "A"), (NAME, "B_1"), (NAME, "Cd'"), (NAME, "X'")]),
        ("a b_1 cD x9", [(INDEX, "a"), (INDEX, "b_1"), (INDEX, "cD"), (INDEX, "x9")]),
        ("#a #_b #C' $A $_i", [(NAME, "a"), (NAME, "_b"), (NAME, "C'"), (INDEX, "A"), (INDEX, "_i")]),
        ("#function $default default", [(NAME, "function"), (INDEX, "default"), ("default", "default")]),
        ("0 12 007", [(INTEGER, "0"), (INTEGER, "12"), (INTEGER, "007")]),
        ("1.5 1e3 1E-3 1.5e+3", [(FLOAT, "1.5"), (FLOAT, "1e3"), (FLOAT, "1E-3"), (FLOAT, "1.5e+3")]),
        ("2i 2e 2e3", [(INTEGER, "2"), (INDEX, "i"), (INTEGER, "2"), (INDEX, "e"), (FLOAT, "2e3")]),
        ("<<<=<", [("<<", "<<"), ("<=", "<="), ("<", "<")]),
        (">>>=>", [(">>", ">>"), (">=", ">="), (">", ">")]),
        ("===!=->-", [("==", "=="), ("=", "="), ("!=", "!="), ("->", "->"), ("-", "-")]),
        ("A/B // / *\n/C", [(NAME, "A"), ("/", "/"), (NAME, "B"), ("/", "/"), (NAME, "C")]),
        (" \t\r\n", []),
        ("// only a comment", []),
    ],
)
def test_tokens(text: str, expected: list[tuple[str, str]]) -> None:
    assert tokens(text) == expected


def test_positions_include_the_mark_of_a_name() -> None:
    lexer = Lexer.of(Source("  #abc +"), Faults())
    assert lexer.next() == Token(NAME, "abc", 2, 6)
    assert lexer.next() == Token("+", "+", 7, 8)
    assert lexer.next() == lexer.next() == Token(END, "", 8, 8)


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("A @@ B", ["@@"]),
        ("_a' + _", ["_a'", "_"]),
        ("1. .5", [".", "."]),
        ("# $ #1", ["#", "$", "#"]),
        ("! != é€", ["!", "é€"]),
        ("\ufeffA\u00a0\x0c", ["\ufeff", "\u00a0\x0c"]),
        ("@ // @\n@", ["@", "@"]),
    ],
)
def test_unknown_characters_are_reported_and_passed_over(text: str, unknown: list[str]) -> None:
    faults = Faults()
    lexer = Lexer.of(Source(text), faults)
    while lexer.next().kind != END:
        pass
    assert [(d.code, d.underlined) for d in faults.found] == [("TIL101", word) for word in unknown]


def test_skipping_stops_at_the_end_of_a_statement() -> None:
    faults = Faults()
    lexer = Lexer.of(Source("A @ 1.5 != // ; }\n #x ; B"), faults)
    lexer.next()
    lexer.skip_statement(0)
    assert lexer.next().kind == ";"
    assert [d.underlined for d in faults.found] == ["@"]


def test_skipping_a_header_stops_at_its_brace() -> None:
    lexer = Lexer.of(Source("A ; // {\n } / { B"), Faults())
    lexer.skip_header(0)
    assert lexer.next().kind == "{"


def test_reading_stops_at_a_limit_of_faults() -> None:
    faults = Faults()
    lexer = Lexer.of(Source("@ " * 1000), faults)
    with pytest.raises(TooManyFaultsError):
        lexer.next()
    assert faults.found[-1].notes == ("the rest is not read",)


@pytest.mark.parametrize("value", [None, b"function (A) -> (A) {}", 3])
def test_what_is_no_text_is_refused(value: Any) -> None:
    with pytest.raises(ArgumentError) as caught:
        source_of(value, "demo.tile")
    assert [diagnostic.code for diagnostic in caught.value.diagnostics] == ["TIL707"]
