"""Diagnostics and the exceptions that carry them."""

from __future__ import annotations

import pickle

import pytest

from tileir.core.errors import (
    ArgumentError,
    BackendError,
    Diagnostic,
    DivergenceError,
    ParseError,
    TileError,
    VerifyError,
    fail,
)
from tileir.core.text.span import Source, Span

SPAN = Span(Source("function (A) ->\n\tB = C;", "a.tile"), 21, 22)


def test_a_diagnostic_shows_place_message_excerpt_and_notes() -> None:
    diagnostic = Diagnostic("TIL201", "'C' is not defined", SPAN, ("define it first",))
    assert diagnostic.underlined == "C"
    assert diagnostic.render() == (
        "a.tile:2:6: error[TIL201]: 'C' is not defined\n2 | \tB = C;\n  | \t    ^\nnote: define it first"
    )


def test_a_diagnostic_without_span() -> None:
    diagnostic = Diagnostic("TIL601", "this is not JSON")
    assert diagnostic.underlined == ""
    assert diagnostic.render() == "error[TIL601]: this is not JSON"


def test_unknown_codes_are_refused() -> None:
    with pytest.raises(ValueError, match="TIL000"):
        Diagnostic("TIL000", "nothing")


@pytest.mark.parametrize("cls", [TileError, ParseError, VerifyError, ArgumentError, BackendError])
def test_errors_survive_pickling(cls: type[TileError]) -> None:
    error = cls(Diagnostic(code, "message") for code in ("TIL101", "TIL102"))
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is cls
    assert back.diagnostics == error.diagnostics
    assert str(error) == "error[TIL101]: message\nerror[TIL102]: message"


def test_errors_belong_to_the_families_that_callers_expect() -> None:
    assert issubclass(ArgumentError, ValueError)
    assert issubclass(BackendError, RuntimeError)
    assert not issubclass(DivergenceError, TileError)


def test_fail_builds_one_diagnostic() -> None:
    error = fail("TIL101", "message", SPAN, "one", "two")
    assert error.diagnostics == (Diagnostic("TIL101", "message", SPAN, ("one", "two")),)


def test_calls_that_lead_to_a_place_are_notes() -> None:
    source = Source("f(x)\ng(\n  y)", "t.tile")
    place = Span(source, 0, 4).called_from(Span(source, 5, 12))
    fault = Diagnostic("TIL201", "nothing is here", place, ("look again",))
    assert fault.trail == ("called at t.tile:2:1: g( y)",)
    assert fault.render().splitlines()[-2:] == ["note: look again", "note: called at t.tile:2:1: g( y)"]
    assert Diagnostic("TIL201", "nothing is here").trail == ()
