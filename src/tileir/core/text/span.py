"""Where something was written: a place in a text, or a line of the user's Python."""

from __future__ import annotations

import linecache
import os
import sys
from bisect import bisect_right
from functools import cached_property, lru_cache
from pathlib import Path

import attrs

_PACKAGE_ROOT = str(Path(__file__).resolve().parents[2]) + os.sep
_EXCERPT = 160  # characters of a line that an excerpt shows


@attrs.frozen(eq=False, slots=False)
class Source:
    """A text with a name to show in errors. Compared by identity: spans point into one source."""

    text: str = attrs.field(repr=False)
    name: str = "<text>"

    @cached_property
    def line_starts(self) -> tuple[int, ...]:
        """Offset of the first character of each line."""
        starts = [0]
        position = self.text.find("\n")
        while position >= 0:
            starts.append(position + 1)
            position = self.text.find("\n", position + 1)
        return tuple(starts)


@attrs.frozen
class Span:
    """The characters ``start`` to ``stop`` (exclusive) of a source."""

    source: Source = attrs.field(repr=False)
    start: int
    stop: int

    @property
    def text(self) -> str:
        """The characters themselves."""
        return self.source.text[self.start : self.stop]

    @property
    def line(self) -> int:
        """Line of the first character, counted from 1."""
        return bisect_right(self.source.line_starts, self.start)

    @property
    def column(self) -> int:
        """Column of the first character, counted from 1."""
        return self.start - self.source.line_starts[self.line - 1] + 1

    def to(self, other: Span) -> Span:
        """Return the span from the start of this one to the stop of ``other``."""
        return Span(self.source, self.start, max(self.stop, other.stop))

    def excerpt(self) -> str:
        """Return the line of the first character with carets below the spanned part; a long line is cut."""
        begin = self.source.line_starts[self.line - 1]
        end = self.source.text.find("\n", begin)
        end = len(self.source.text) if end < 0 else end
        left = begin if self.start - begin < _EXCERPT else self.start - _EXCERPT // 2
        right = min(end, left + _EXCERPT)
        line = self.source.text[left:right]
        width = max(1, min(self.stop, right) - self.start)
        indent = "".join("\t" if c == "\t" else " " for c in line[: self.start - left])
        number = str(self.line)
        return f"{number} | {line}\n{' ' * len(number)} | {indent}{'^' * width}"


def call_site() -> Span | None:
    """Return the line of the nearest caller outside tileir, as a span of that Python file."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(_PACKAGE_ROOT):
        if frame.f_back is None:
            return None
        frame = frame.f_back
    name, number = frame.f_code.co_filename, frame.f_lineno
    text = linecache.getline(name, number).rstrip("\n")
    if not text:
        return None
    return _line_span(name, number, text)


@lru_cache(maxsize=4096)
def _line_span(name: str, number: int, text: str) -> Span:
    """Build a source in which only the wanted line is filled, so that its number stays true.

    Cached, because a program that is built in a loop asks for the same few lines again and again.
    """
    padding = "\n" * (number - 1)
    indent = len(text) - len(text.lstrip())
    source = Source(padding + text, name)
    return Span(source, len(padding) + indent, len(padding) + len(text))


def span_field() -> Span | None:
    """Declare the field with the place of a node, which every node ends with; it takes no part in equality."""
    return attrs.field(default=None, kw_only=True, eq=False, repr=False)  # type: ignore[no-any-return]
