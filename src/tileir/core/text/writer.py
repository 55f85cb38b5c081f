"""Text with indentation, for every printer."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import attrs

_LONGEST: Final = 1 << 16
_DIGEST: Final = "sha256 "


def listed(items: Iterable[object]) -> str:
    """Return the texts of items separated by commas."""
    return ", ".join(map(str, items))


def bytes_text(data: bytes | memoryview) -> str:
    """Return bytes as hexadecimal, or above 64 KiB only the digest."""
    return data.hex() if len(data) <= _LONGEST else f"{_DIGEST}{hashlib.sha256(data).hexdigest()}"


def bytes_of_text(text: str) -> bytes:
    """Return the bytes that :func:`bytes_text` was given.

    Raises:
        ValueError: The text is no hexadecimal; or there is only a digest.
    """
    if text.startswith(_DIGEST):
        raise ValueError("the text holds only the digest of these bytes; keep the program as JSON")
    if re.fullmatch("(?:[0-9a-f]{2})*", text) is None:
        raise ValueError("bytes are written as two digits each, of 0123456789abcdef")
    return bytes.fromhex(text)


@attrs.define(eq=False, repr=False)
class Writer:
    """Lines of one text, collected in order."""

    _lines: list[str] = attrs.field(factory=list, init=False)
    _depth: int = attrs.field(default=0, init=False)

    def line(self, text: str = "") -> None:
        """Append one line at the current depth; an empty one has no trailing blanks."""
        self._lines.append("  " * self._depth + text if text else "")

    @contextmanager
    def indented(self, levels: int = 1) -> Iterator[None]:
        """Indent the text written inside the ``with`` block."""
        self._depth += levels
        try:
            yield
        finally:
            self._depth -= levels

    def text(self) -> str:
        """Return all lines, each ended by a line feed."""
        return "".join(line + "\n" for line in self._lines)
