"""Pieces of HTML for notebooks: whatever the text, it stays text."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, strategies as st

from strategies.markup import read
from tileir.core.text.markup import MOST_COLUMNS, MOST_LINES, folded, highlighted, paragraph, preformatted, table


@given(
    st.text(max_size=50) | st.sampled_from(["<script>alert(1)</script>", "</pre><img src=x onerror=y>", "&lt;", "\"'"])
)
def test_text_stays_text(text: str) -> None:
    plain = text.replace("\r", "")
    assert read(preformatted(plain)).tags == ["pre"]
    assert read(preformatted(plain)).text == plain
    for formula in (False, True):
        shown = read(highlighted(plain, formula=formula))
        assert set(shown.tags) <= {"pre", "b", "i", "span"}
        assert shown.text == plain
    assert read(paragraph(plain)).tags == ["p"]
    assert read(folded(plain, paragraph("a"))).tags == ["details", "summary", "p"]
    found = read(table((plain,), [(plain,)]))
    assert found.tags == ["table", "thead", "tr", "th", "tbody", "tr", "td"]
    assert found.attributes == [("scope", "col")]
    assert found.text == plain * 2


def test_long_texts_are_cut_off() -> None:
    lines = read(preformatted("\n".join(["x" * 5000] * (MOST_LINES + 7)))).text.split("\n")
    assert len(lines) == MOST_LINES + 1
    assert len(lines[0]) == MOST_COLUMNS + 1
    assert lines[-1] == "… and 7 more lines"


def test_tokens_are_marked() -> None:
    shown = highlighted("function (A) -> (B) { B = exp(A) * 0.5; } // < half")
    assert "<b>function</b>" in shown
    assert "<i>// &lt; half</i>" in shown
    assert '<span style="color:#3573d1">exp</span>' in shown


def test_without_pygments_texts_are_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tileir_pygments", None)
    assert highlighted("function") == preformatted("function") == "<pre>function</pre>"
