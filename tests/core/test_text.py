"""Text with indentation."""

from __future__ import annotations

import pytest

from tileir.core.text import Writer


def test_lines_are_indented_and_ended() -> None:
    writer = Writer()
    writer.line("a {")
    with writer.indented():
        writer.line("b")
        writer.line()
        with writer.indented(2):
            writer.line("c")
    writer.line("}")
    assert writer.text() == "a {\n  b\n\n      c\n}\n"


def test_depth_is_restored_after_an_error() -> None:
    writer = Writer()
    with pytest.raises(KeyError), writer.indented():
        raise KeyError
    writer.line("a")
    assert writer.text() == "a\n"
