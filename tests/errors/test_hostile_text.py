"""Texts that are meant to hurt: each gives an error within seconds, and nothing else."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from tileir.core.errors import MAX_FAULTS, Diagnostic, ParseError, TileError, VerifyError
from tileir.core.text.lexing import MAX_CHARACTERS
from tileir.tile.text.parser import parse, parse_contraction, parse_expression, parse_polynomial

OPEN = "function (A) -> (O) { O = A"
CLOSE = "; }"

HUGE = {
    "brackets": ("[" * 10_000_000, "TIL102"),
    "parentheses": ("(" * 10_000_000, "TIL102"),
    "braces": (OPEN + ";" + "{}" * 2_000_000, "TIL102"),
    "closing": ("}" * 10_000_000, "TIL102"),
    "nested parentheses": (f"{OPEN} + {'(' * 10**5}A{')' * 10**5}{CLOSE}", "TIL103"),
    "unclosed parentheses": (f"{OPEN} + {'(' * 5_000_000}", "TIL103"),
    "nested calls": (f"{OPEN} + {'exp(' * 10**5}A{')' * 10**5}{CLOSE}", "TIL103"),
    "signs": (f"{OPEN} + {'-' * 5_000_000}A{CLOSE}", "TIL103"),
    "long sum": (f"{OPEN}{' + A' * 10**6}{CLOSE}", "TIL103"),
    "conditions": (f"{OPEN}{' ? A' * 10**5}{CLOSE}", "TIL103"),
    "alternatives": (f"{OPEN}{' ? A : A' * 10**5}{CLOSE}", "TIL103"),
    "polynomial": (f"function (A) -> (O) {{ O[{'(' * 10**5}i", "TIL103"),
    "integer": (f"{OPEN} + {'9' * 5_000_000}{CLOSE}", "TIL104"),
    "semicolons": (OPEN + ";" * 10_000_000, "TIL102"),
    "unknown characters": ("@ " * 5_000_000, "TIL101"),
    "unknown in a bad statement": (OPEN + "[ 1.5" + " @ a" * 10**6, "TIL102"),
    "undefined names": (OPEN + ";" + "".join(f"B{n} = C{n};" for n in range(20_000)) + "}", "TIL201"),
    "inputs": ("function (" + "A, " * 300_000 + "A) -> (O) { O = A; }", "TIL202"),
    "comment": ("//" * 5_000_000, "TIL102"),
    "blanks": (" " * 10_000_000, "TIL102"),
    "quotes": ("A" + "'" * 5_000_000, "TIL102"),
}


@pytest.mark.sampled(0)
@pytest.mark.parametrize("name", HUGE)
def test_huge_texts_are_refused_soon(name: str) -> None:
    text, code = HUGE[name]
    with pytest.raises(TileError) as caught:
        parse(text)
    assert caught.value.diagnostics[0].code == code
    assert len(caught.value.diagnostics) <= MAX_FAULTS
    assert len(str(caught.value)) < 100_000


def test_a_text_beyond_all_bounds_is_not_read() -> None:
    with pytest.raises(ParseError) as caught:
        parse("@" * (MAX_CHARACTERS + 1))
    assert [d.code for d in caught.value.diagnostics] == ["TIL105"]


def test_depth_within_the_limit_is_read() -> None:
    for text in ("(" * 150 + "A" + ")" * 150, "-" * 150 + "A", "A" + " + A" * 150, "exp(" * 150 + "A" + ")" * 150):
        first, second = (parse(f"function (A) -> (O) {{ O = {text}; }}") for _ in range(2))
        assert first == second
        assert hash(first) == hash(second)


PROGRAM = """function (A[M, K], B[K, N], #c) -> (C, D') { // a comment
  [[pid(dot, X)]] C[i, j : M, N + 1] = +(A[i, 2k - 1] * B[k / 3, j]), i - k < N no_defract default #c;
  D' = (C >= -1.5e3 ? exp(C) : ~A << 2) / max(M, 7);
  E[] = >(C[i, $j] == C[j, i] ? D'[i]);
}"""


def test_every_truncation_is_an_error() -> None:
    for stop in range(len(PROGRAM)):
        with pytest.raises((ParseError, VerifyError)):
            parse(PROGRAM[:stop])


PIECES = (
    *"()[]{}:;,=+*<>?-/~#$'_2ABi",
    *("->", "==", "//", "1.5", "function", "default", "no_defract", "exp", "\n", " ", "\0", "\ud800"),
)


def refused(text: str) -> tuple[Diagnostic, ...]:
    """Return the faults of a text; none when it is fine."""
    try:
        parse(text)
    except (ParseError, VerifyError) as error:
        assert str(error)  # noqa: PT017
        return error.diagnostics
    return ()


@examples(300)
@given(st.lists(st.sampled_from(PIECES), max_size=40).map(" ".join) | st.text(max_size=60))
def test_nonsense_is_refused(text: str) -> None:
    refused(text)
    for read in (parse_expression, parse_polynomial, parse_contraction):
        with suppress(ParseError):
            read(text)


@examples(200)
@given(st.integers(0, len(PROGRAM)), st.integers(0, 8), st.lists(st.sampled_from(PIECES), max_size=3).map("".join))
def test_mutations_are_read_or_refused(start: int, length: int, insert: str) -> None:
    text = PROGRAM[:start] + insert + PROGRAM[start + length :]
    assert all(d.span is not None for d in refused(text))
