"""Places in texts and in the user's Python."""

from __future__ import annotations

import builtins
import linecache
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import attrs
from hypothesis import given, strategies as st

from tileir.core.text.span import Source, Span, call_site, called_at, held_at

if TYPE_CHECKING:
    from pathlib import Path


@given(st.text(alphabet="ab\n\t", min_size=1), st.data())
def test_line_and_column_are_those_of_splitting(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    span = Span(Source(text), start, start + 1)
    before = text[:start].split("\n")
    assert (span.line, span.column) == (len(before), len(before[-1]) + 1)
    assert span.text == text[start]


@given(st.text(alphabet="ab\n\t"), st.data())
def test_carets_stand_below_the_spanned_part(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, len(text)))
    shown, carets = Span(Source(text), start, stop).excerpt().split("\n")
    place = carets.index("^")
    width = carets.count("^")
    spanned = text[start:stop].split("\n")[0]
    assert width == max(1, len(spanned))
    assert shown[place : place + len(spanned)] == spanned
    assert carets[:place].replace("|", " ").strip() == ""


def test_spans_join() -> None:
    source = Source("abcdef")
    assert Span(source, 1, 2).to(Span(source, 4, 5)).text == "bcde"
    assert Span(source, 1, 5).to(Span(source, 2, 3)).text == "bcde"


def test_long_lines_are_cut_around_the_span() -> None:
    text = "x" * 10_000 + "HERE" + "y" * 10_000
    excerpt = Span(Source(text), 10_000, 10_004).excerpt()
    shown, carets = excerpt.split("\n")
    assert len(shown) < 200
    assert shown[carets.index("^") :].startswith("HERE")


@given(st.text(alphabet="a\t\r\x1b\x9b\u202e\u2028\ud800\xa0é😀"), st.data())
def test_nothing_moves_a_terminal(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    shown, carets = Span(Source(text + "\r\nb"), start, len(text)).excerpt().split("\n")
    assert shown.replace("\t", "").isprintable()
    assert carets.count("^") == max(1, len(text) - start)
    assert len(shown) == len("1 | ") + len(text)
    shown.encode()


def test_sources_are_compared_by_identity() -> None:
    assert Source("a") != Source("a")


def test_call_site_is_the_expression_of_the_caller() -> None:
    _, span = "é", call_site()
    assert span is not None
    assert span.text == "call_site()"
    assert not span.by_library
    assert span.source.name == __file__


def test_without_columns_call_site_is_the_line_of_the_caller(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text("from tileir.core.text.span import call_site\nx, span = 1, call_site()\nprint(span.text)\n")
    command = [sys.executable, "-X", "no_debug_ranges", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "x, span = 1, call_site()\n"


def test_call_sites_of_code_that_is_made_again_and_again_are_told_apart(tmp_path: Path) -> None:
    for number in range(600):
        file = tmp_path / f"m{number % 7}.py"
        text = f"{' ' * (number % 5)}(call_site(),)".strip() + f" + ({number},)"
        file.write_text(f"_ = 0; span = {text}\n")
        linecache.checkcache(str(file))
        scope: dict[str, Any] = {"call_site": call_site}
        builtins.exec(compile(file.read_text(), str(file), "exec"), scope)
        assert scope["span"][0].text == "call_site()"


def test_call_site_of_code_without_source_is_unknown() -> None:
    scope: dict[str, object] = {"call_site": call_site}
    builtins.exec(compile("span = call_site()", "<nowhere>", "exec"), scope)
    assert scope["span"] is None


def test_places_in_functions_remember_the_innermost_calls() -> None:
    source = Source("f(x)\ng(y)\nh(z)", "t.tile")
    inner, first, second = Span(source, 0, 4), Span(source, 5, 9), Span(source, 10, 14)
    called = inner.called_from(first).called_from(second)
    assert [span.text for span in called.callers] == ["g(y)", "h(z)"]
    assert (called.text, inner.callers) == ("f(x)", ())
    assert called.to(Span(source, 2, 9)).callers == called.callers
    for _ in range(20):
        called = called.called_from(second)
    assert len(called.callers) == 8
    assert called.callers[0] == attrs.evolve(first, caller=called.callers[1])


def test_a_place_is_held_and_calls_are_named() -> None:
    source = Source("f(x)", "t.tile")
    place = Span(source, 0, 4)
    with held_at(place):
        assert call_site() is place
        with held_at(None):
            assert call_site() is place
    with called_at(place):
        here = call_site()
    assert here is not None
    assert here.callers == (place,)
    after = call_site()
    assert after is not None
    assert after.callers == ()
