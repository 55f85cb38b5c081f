"""Text with indentation, for every printer."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator


@attrs.define
class Writer:
    """Lines of one text, collected in order."""

    _lines: list[str] = attrs.field(factory=list, init=False)
    _depth: int = attrs.field(default=0, init=False)

    def line(self, text: str = "") -> None:
        """Append one line at the current depth; an empty one stays without trailing blanks."""
        self._lines.append("  " * self._depth + text if text else "")

    @contextmanager
    def indented(self, levels: int = 1) -> Iterator[None]:
        """Indent what is written inside the ``with`` block."""
        self._depth += levels
        try:
            yield
        finally:
            self._depth -= levels

    def text(self) -> str:
        """Return all lines, each ended by a line feed."""
        return "".join(line + "\n" for line in self._lines)
