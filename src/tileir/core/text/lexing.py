"""Reading texts: tokens, cursors, and recovery from faults.

A parser that cannot continue reports a fault and raises :class:`AbandonError`; the reader of a statement, or of one of
several items, catches it, skips the rest of that, and continues. So all faults of a text are reported at once, up to
:data:`MAX_FAULTS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import ClassVar, Final, NamedTuple, Protocol, Self, TypeAlias, TypeVar

import attrs

from tileir.core.errors import MAX_FAULTS, ArgumentError, Diagnostic, ParseError
from tileir.core.text.span import Source, Span
from tileir.core.text.versions import check_version

T = TypeVar("T")
C = TypeVar("C", bound="Cursor")

More: TypeAlias = "Callable[[T, Sequence[Span]], Iterable[Diagnostic]]"
"""Finds further faults in the readable parts of a text with faults at some places."""

END: Final = "end"
MAX_CHARACTERS: Final = 64 * 2**20
"""Length above which a text is refused unread."""


class Token(NamedTuple):
    """A piece of the text; ``kind`` is the sign or reserved word itself, or the name of its kind."""

    kind: str
    text: str
    start: int
    stop: int


_token: Final[Callable[[tuple[str | None, str, int, int]], Token]] = partial(tuple.__new__, Token)
"""Makes a token in half the time of its class."""


class TooManyFaultsError(Exception):
    """The limit of faults is reached: the rest is not read."""


class AbandonError(Exception):
    """A text cannot be read to the end of the current part; the fault is reported, the caller recovers."""


@attrs.define(eq=False, repr=False)
class Faults:
    """The faults of one text, in the order of their discovery."""

    found: list[Diagnostic] = attrs.field(factory=list, init=False)

    def in_order(self) -> tuple[Diagnostic, ...]:
        """Return the faults in the order of the text; the lexer is one token ahead of the parser."""
        return tuple(sorted(self.found, key=lambda fault: -1 if fault.span is None else fault.span.start))

    def report(self, code: str, message: str, span: Span, *notes: str) -> None:
        """Add a fault.

        Raises:
            TooManyFaultsError: The limit of faults is reached.
        """
        last = len(self.found) + 1 >= MAX_FAULTS
        self.found.append(Diagnostic(code, message, span, (*notes, "the rest is not read") if last else notes))
        if last:
            raise TooManyFaultsError


def source_of(text: object, name: str, most: int = MAX_CHARACTERS) -> Source:
    """Wrap a text that is to be read, of at most ``most`` characters.

    Raises:
        ArgumentError: TIL707, it is no text.
        ParseError: TIL105, it has more characters than any program has; TIL106, it names a newer version.
    """
    if not isinstance(text, str):  # callers without a type checker pass bytes and paths
        message = f"a program is read from a str, not from a value of type {type(text).__name__}"
        raise ArgumentError.of("TIL707", message)
    if len(text) > most:
        message = f"the text has {len(text)} characters; at most {most} are read"
        raise ParseError.of("TIL105", message, Span(Source("", name), 0, 0))
    return check_version(Source(text, name))


class Tokens(Protocol):
    """Tokens, one after the other; ``unknown_stop`` is the end of the last characters outside of all tokens."""

    unknown_stop: int

    def next(self) -> Token:
        """Return the next token; at the end of the text, an ``END`` as often as asked."""


@attrs.define(eq=False, repr=False)
class Lexer:
    """Lexer with a pattern that has a group for each kind; tokens of the group ``sign`` are their own kind.

    The groups ``end`` and ``unknown`` must match everything else; unknown characters are reported, by ``code`` and with
    ``advice``, and skipped.
    """

    source: Source
    faults: Faults
    pattern: re.Pattern[str]
    code: str
    advice: Callable[[str], str]
    unknown_stop: int = attrs.field(default=0, init=False)
    _position: int = attrs.field(default=0, init=False)

    def next(self) -> Token:
        """Return the next token; at the end of the text, an ``END`` as often as asked."""
        while True:
            match = self.pattern.match(self.source.text, self._position)
            if match is None or (group := match.lastindex) is None:
                raise RuntimeError("the token pattern leaves out a character")  # a defect of the pattern
            kind, word = match.lastgroup, match[group]
            start, stop = match.span(group)
            self._position = stop
            if kind != "unknown":
                return _token((word if kind == "sign" else kind, word, start, stop))
            if stop > self.unknown_stop:  # after recovery it may be read again
                self._report(start, stop)

    def _report(self, start: int, stop: int) -> None:
        self.unknown_stop = stop
        self.faults.report(self.code, self.advice(self.source.text[start:stop]), Span(self.source, start, stop))


@attrs.define(eq=False, repr=False)
class Cursor:
    """A position in a stream of tokens: examine one, take it, report the expected one.

    Words are tokens of the kind :attr:`word_kind`.
    """

    word_kind: ClassVar[str] = "name"
    lexer: ClassVar[Callable[..., Tokens]]
    """Makes the tokens of a text, from the text and the collection of its faults."""

    source: Source
    faults: Faults
    token: Token
    tokens: Tokens
    _last: Token = attrs.field(default=Token(END, "", 0, 0), init=False)

    @classmethod
    def at_start(cls, source: Source, faults: Faults) -> Self:
        """Look at the first token of a text."""
        tokens = cls.lexer(source, faults)
        return cls(source, faults, tokens.next(), tokens)

    def advance(self) -> Token:
        """Take the current token."""
        self._last = taken = self.token
        self.token = self.tokens.next()
        return taken

    def at(self, kind: str) -> bool:
        """Return whether the next token is of ``kind``."""
        return self.token.kind == kind

    def skip(self, kind: str) -> bool:
        """Take the next token if it is of ``kind``, and say whether it was."""
        if self.token.kind != kind:
            return False
        self.advance()
        return True

    def expect(self, kind: str, what: str = "") -> Token:
        """Take the next token, which must be of ``kind``; ``what`` describes it if the kind does not.

        Raises:
            AbandonError: It is another one, which is reported.
        """
        if self.token.kind != kind:
            raise self.unexpected(what or f"'{kind}'")
        return self.advance()

    def at_word(self, word: str) -> bool:
        """Return whether a word comes next."""
        return self.token.kind == self.word_kind and self.token.text == word

    def skip_word(self, word: str) -> bool:
        """Take a word if it comes next, and say whether it did."""
        found = self.at_word(word)
        if found:
            self.advance()
        return found

    def word(self, word: str) -> None:
        """Take a word, which must come next."""
        if not self.skip_word(word):
            raise self.unexpected(f"'{word}'")

    def one_of(self, words: Mapping[str, T], what: str = "") -> T:
        """Take one of some words, and return its value; ``what`` describes them all."""
        if self.token.kind != self.word_kind or self.token.text not in words:
            raise self.unexpected(f"{what}: {', '.join(words)}" if what else f"one of {', '.join(words)}")
        return words[self.advance().text]

    def list(self, item: Callable[[], T]) -> tuple[T, ...]:
        """Read one item or more, separated by commas."""
        items = [item()]
        while self.skip(","):
            items.append(item())
        return tuple(items)

    def inside(self, read: Callable[[], T], signs: str = "()") -> T:
        """Read the text between two signs."""
        self.expect(signs[0])
        found = read()
        self.expect(signs[1])
        return found

    def enclosed(self, item: Callable[[], T], signs: str = "()", what: str = "") -> tuple[T, ...]:
        """Read items separated by commas, or none, between two signs; ``what`` describes the first one."""
        self.expect(signs[0], what)
        items = () if self.at(signs[1]) else self.list(item)
        self.expect(signs[1], f"',' or '{signs[1]}'")
        return items

    def unexpected(self, expected: str, *notes: str) -> AbandonError:
        """Report that the next token is not the expected one, and return the exception for the caller to raise."""
        return self.refuse(f"expected {expected} but found {self.describe()}", *notes)

    def refuse(self, message: str, *notes: str) -> AbandonError:
        """Report the next token and return the exception for the caller to raise.

        Nothing is reported right after a character that the lexer reported, or at the end of a text that has a fault
        already: those are the same fault again.
        """
        again = self._last.stop < self.tokens.unknown_stop <= self.token.start
        if not again and not (self.faults.found and self.token.kind == END):
            self.report(message, self.here, notes=notes)
        return AbandonError()

    def describe(self) -> str:
        """Name the next token in a message."""
        return "the end of the text" if self.token.kind == END else f"'{self.here.text}'"

    def report(self, message: str, span: Span, code: str = "TIL102", notes: tuple[str, ...] = ()) -> None:
        """Report a fault and go on."""
        self.faults.report(code, message, span, *notes)

    def report_and_abandon(self, message: str, span: Span, code: str) -> AbandonError:
        """Report a fault, and return the exception for the caller to raise since the rest cannot be understood."""
        self.report(message, span, code)
        return AbandonError()

    @property
    def here(self) -> Span:
        """The span of the next token."""
        return self.span_of(self.token)

    @property
    def last(self) -> Span:
        """The span of the token that was taken last."""
        return self.span_of(self._last)

    @property
    def on_new_line(self) -> bool:
        """True if the next token is on a later line than the last one that was taken."""
        return "\n" in self.source.text[self._last.stop : self.token.start]

    def span_of(self, token: Token) -> Span:
        """Return the span of one token."""
        return Span(self.source, token.start, token.stop)

    def span_from(self, start: int) -> Span:
        """Return the span from an offset to the end of the last token that was taken."""
        stop = self._last.stop
        return Span(self.source, start, stop if stop > start else start)


def everything(cursor: type[C], source: Source, read: Callable[[C], T], more: More[T] | None = None) -> T:
    """Read a whole text.

    Args:
        cursor: The kind of cursor.
        source: The text.
        read: Reads the content of the text.
        more: Finds further faults in the result, beside those of the text at these places.

    Raises:
        ParseError: All faults, in the order of the text.
    """
    faults = Faults()
    try:
        here = cursor.at_start(source, faults)
        result = read(here)
        if here.token.kind != END:
            raise here.unexpected("the end of the text")
        if not faults.found:
            return result
        if more is not None:
            known = [fault.span for fault in faults.found if fault.span is not None]
            faults.found.extend(islice(more(result, known), MAX_FAULTS - len(faults.found)))
    except (AbandonError, TooManyFaultsError):
        pass  # each of them follows a report
    raise ParseError(faults.in_order())
