"""Text with indentation."""

from __future__ import annotations

import pytest

from tileir.core.text.writer import Writer, bytes_of_text, bytes_text


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


def test_bytes_are_hexadecimal_or_where_they_are_many_a_digest() -> None:
    assert bytes_text(b"\x00\xff") == "00ff"
    assert bytes_of_text("00ff") == b"\x00\xff"
    assert bytes_of_text("") == b""
    many = bytes(range(256)) * 300
    assert len(bytes_text(many)) < 80
    with pytest.raises(ValueError, match="only the digest"):
        bytes_of_text(bytes_text(many))


@pytest.mark.parametrize("text", ["0", "0g", "00FF", "00 ff", "٠٠", "00\n"])
def test_what_is_no_hexadecimal_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="two digits each"):
        bytes_of_text(text)
