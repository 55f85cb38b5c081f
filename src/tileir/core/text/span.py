"""Source locations: a place in a text, or a line of the user's Python."""

from __future__ import annotations

import linecache
import os
import sys
import threading
import weakref
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import cached_property, lru_cache
from pathlib import Path
from types import CodeType
from typing import Final, TypeAlias

import numpy as np

from tileir.core.nodes import attrs

_Position: TypeAlias = tuple[int | None, int | None, int | None, int | None]
_Place: TypeAlias = tuple[int | None, int | None, int | None]

_PACKAGE_ROOT = str(Path(__file__).parents[2]) + os.sep  # as it was imported, maybe by a link: code has the same path
_LIBRARY_ROOT = _PACKAGE_ROOT + "ops" + os.sep
_INNER_ROOTS: Final = (_PACKAGE_ROOT, str(Path(np.__file__).parent) + os.sep)  # NumPy calls tileir for its functions
_EXCERPT = 160  # characters of a line in an excerpt
_MOST_CODE = 512
_MOST_CALLERS = 8
_KNOWN_CODE: Final[dict[int, tuple[weakref.ref[CodeType], tuple[_Position, ...]]]] = {}


@attrs.frozen(eq=False, slots=False)
class Source:
    """A text with a name to show in errors. Compared by identity: spans point into one source."""

    text: str = attrs.field(repr=False)
    name: str = "<text>"
    is_place: bool = False
    """True for a named place, such as a node of a graph, instead of a text."""

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
    """The characters ``start`` to ``stop`` (exclusive) of a source.

    Attributes:
        source: The text.
        start: Offset of the first one.
        stop: Offset after the last one.
        by_library: Whether an operation of :mod:`tileir.ops` made the node, at the user's call.
        caller: The call for which it was made, if it is in a function that was called.
    """

    source: Source = attrs.field(repr=False)
    start: int
    stop: int
    by_library: bool = attrs.field(default=False, repr=False)
    caller: Span | None = attrs.field(default=None, repr=False)

    @property
    def text(self) -> str:
        """The characters themselves."""
        return self.source.text[self.start : self.stop]

    @property
    def is_known(self) -> bool:
        """True if there is a text to show; there is none for Python from a prompt."""
        return not self.by_library or bool(self.source.text)

    @property
    def place(self) -> str | None:
        """The place named by :func:`placed`; None for a text."""
        return self.source.name if self.source.is_place else None

    @property
    def where(self) -> str:
        """The line of the first character, or the named place, as part of a sentence."""
        return self.place or f"line {self.line}"

    @property
    def line(self) -> int:
        """Line of the first character, counted from 1."""
        return bisect_right(self.source.line_starts, self.start)

    @property
    def column(self) -> int:
        """Column of the first character, counted from 1."""
        return self.start - self.source.line_starts[self.line - 1] + 1

    def holds(self, other: Span) -> bool:
        """Return whether ``other`` lies in this one."""
        return self.source is other.source and self.start <= other.start and other.stop <= self.stop

    def to(self, other: Span) -> Span:
        """Return the span from the start of this one to the stop of ``other``."""
        return Span(self.source, self.start, max(self.stop, other.stop), caller=self.caller)

    @property
    def callers(self) -> tuple[Span, ...]:
        """The calls for which it was made, the innermost one first."""
        found: list[Span] = []
        span = self.caller
        while span is not None:
            found.append(span)
            span = span.caller
        return tuple(found)

    def called_from(self, call: Span) -> Span:
        """Return this place in a function called at another place; only a few innermost calls are kept."""
        callers = self.callers
        if len(callers) >= _MOST_CALLERS:
            return self
        outer = call
        for each in reversed(callers):
            outer = attrs.evolve(each, caller=outer)
        return attrs.evolve(self, caller=outer)

    def excerpt(self) -> str:
        """Return the line of the first character with carets below the spanned part; a long line is cut.

        Characters that are invisible, or move their neighbours on a terminal, are replaced by U+FFFD.
        """
        begin = self.source.line_starts[self.line - 1]
        end = self.source.text.find("\n", begin)
        end = len(self.source.text) if end < 0 else end
        left = begin if self.start - begin < _EXCERPT else self.start - _EXCERPT // 2
        right = min(end, left + _EXCERPT)
        right -= self.source.text[left:right].endswith("\r")
        line = "".join(c if c.isprintable() or c == "\t" else "\ufffd" for c in self.source.text[left:right])
        width = max(1, min(self.stop, right) - self.start)
        indent = "".join("\t" if c == "\t" else " " for c in line[: self.start - left])
        number = str(self.line)
        return f"{number} | {line}\n{' ' * len(number)} | {indent}{'^' * width}"


_PLACE: Final[ContextVar[str | None]] = ContextVar("place", default=None)


@contextmanager
def placed(name: str) -> Iterator[None]:
    """Let :func:`call_site` return a place of that name inside, for programs from other sources than Python."""
    token = _PLACE.set(name)
    try:
        yield
    finally:
        _PLACE.reset(token)


@lru_cache(maxsize=4096)
def _place(name: str, by_library: bool) -> Span:
    return Span(Source(name, name, is_place=True), 0, len(name), by_library)


class _CurrentOperation(threading.local):
    """The place of the library operation that this thread is in, if any."""

    span: Span | None = None


_HELD: Final = _CurrentOperation()


class _CurrentCall(threading.local):
    """The call of the Python function whose body this thread runs, if a traced function calls it."""

    inside = False
    span: Span | None = None


_CALLED: Final = _CurrentCall()


def called_at(span: Span | None) -> AbstractContextManager[None]:
    """Return a context in which results of :func:`call_site` name the call of the surrounding function."""
    return _called(span, inside=True)


def called_by_none() -> AbstractContextManager[None]:
    """Return a context for a function that no other one calls."""
    return _called(None, inside=False)


def is_called() -> bool:
    """Return whether the running Python function is called by a traced one."""
    return _CALLED.inside


@contextmanager
def _called(span: Span | None, *, inside: bool) -> Iterator[None]:
    before = _CALLED.span, _CALLED.inside
    _CALLED.span, _CALLED.inside = span, inside
    try:
        yield
    finally:
        _CALLED.span, _CALLED.inside = before


def hold_call_site() -> Span | None:
    """Let :func:`call_site` return the present place until it is released, and return the one held before.

    An operation of the library records many statements, all of them for one line of the user's.
    """
    before = _HELD.span
    if before is None:
        _HELD.span = call_site()
    return before


def release_call_site(before: Span | None) -> None:
    """Let :func:`call_site` search again, or return the place held before."""
    _HELD.span = before


@contextmanager
def held_at(span: Span | None) -> Iterator[None]:
    """Let :func:`call_site` return a place of a text inside, regardless of the caller."""
    before, _HELD.span = _HELD.span, span or _HELD.span
    try:
        yield
    finally:
        _HELD.span = before


def call_site() -> Span | None:
    """Return the expression of the nearest caller outside tileir and NumPy, as a span of that Python file.

    Inside of :func:`placed` it is the named place.

    If Python does not know its columns, that is the whole line; without a text, as at a prompt, nothing is known except
    whether the operation library is involved.
    """
    if _HELD.span is not None:
        return _HELD.span
    frame = sys._getframe(1)
    by_library = False
    while (path := frame.f_code.co_filename).startswith(_INNER_ROOTS):
        if frame.f_back is None:
            return None
        by_library = by_library or path.startswith(_LIBRARY_ROOT)
        frame = frame.f_back
    named = _PLACE.get()
    if named is not None:
        return _place(named, by_library)
    place = _positions(frame.f_code)[frame.f_lasti // 2]
    number = place[0] or frame.f_lineno
    text = "".join(linecache.getline(path, line) for line in range(number, (place[1] or number) + 1)).rstrip("\n")
    if text:
        span = _expression(path, number, text, place[1:], by_library)
        return span if _CALLED.span is None else span.called_from(_CALLED.span)
    return Span(Source("", path), 0, 0, by_library) if by_library else None


def _positions(code: CodeType) -> tuple[_Position, ...]:
    """Return first and last line, first and last column of each instruction; columns count bytes.

    Cached by identity: a program that is built by many statements asks for the same code repeatedly, and the hash of a
    code object reads all of it.
    """
    known = _KNOWN_CODE.get(id(code))
    if known is not None and known[0]() is code:
        return known[1]
    if len(_KNOWN_CODE) >= _MOST_CODE:
        _KNOWN_CODE.clear()
    found = tuple(code.co_positions())
    _KNOWN_CODE[id(code)] = weakref.ref(code), found
    return found


@lru_cache(maxsize=4096)
def _expression(name: str, number: int, text: str, place: _Place, by_library: bool) -> Span:
    """Build a source with only the wanted lines filled in, so that their numbers are right.

    Cached, because a program that is built in a loop asks for the same few lines repeatedly.
    """
    padding = "\n" * (number - 1)
    source = Source(padding + text, name)
    last, column, end = place
    lines = text.split("\n")
    if last is None or column is None or end is None or len(lines) != last - number + 1:
        start, stop = len(text) - len(text.lstrip()), len(text)
    else:
        start = _characters(lines[0], column)
        stop = sum(len(line) + 1 for line in lines[:-1]) + _characters(lines[-1], end)
    return Span(source, len(padding) + start, len(padding) + max(start, stop), by_library)


def _characters(line: str, count: int) -> int:
    return len(line.encode()[:count].decode(errors="ignore"))


def span_field() -> Span | None:
    """Declare the field with the place of a node, which is last in every node; equality ignores it."""
    return attrs.field(default=None, kw_only=True, eq=False, repr=False)  # type: ignore[no-any-return]
