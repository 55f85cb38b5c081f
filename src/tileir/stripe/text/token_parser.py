"""Tokens of Stripe text, comments between them, and small parts: names, numbers, affines, literals, tags, locations."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

import attrs

from tileir.core import DType, Source
from tileir.core.text import lexing
from tileir.core.text.lexing import END, AbandonError, Faults, Token
from tileir.poly.affine import Affine
from tileir.poly.reading import read_affine
from tileir.stripe.dtypes import DTYPES
from tileir.stripe.ir import Device, Location, Tags, TagValue

MAX_CHARACTERS: Final = 1 << 28
"""Maximum length of a text."""

NAME: Final = "name"
TAG: Final = "tag"
SCALAR: Final = "scalar"
NUMBER: Final = "number"
STRING: Final = "string"

_PATTERN: Final = re.compile(
    r"""(?: [ \t\r\n] | //[^\n]* )*+
    (?: (?P<name>[A-Za-z_][A-Za-z0-9_.']*)
      | (?P<tag>\#[A-Za-z_][A-Za-z0-9_.']*)
      | (?P<scalar>\$[A-Za-z_][A-Za-z0-9_.']*)
      | (?P<number>0[xX][0-9A-Fa-f]+|[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)
      | (?P<string>"(?:[^"\\\n]|\\[^\n])*")
      | (?P<sign>->|>=|[][(){}<>:,;=@/*+-])
      | (?P<end>\Z)
      | (?P<unknown>.)
    )""",
    re.VERBOSE,
)
_COMMENT: Final = re.compile(r"//([^\n]*)")


@attrs.define(eq=False, repr=False)
class Lexer(lexing.Lexer):
    """The tokens of Stripe text, with lines that can be skipped."""

    @classmethod
    def of(cls, source: Source, faults: Faults) -> Lexer:
        """Return the lexer of a text; invalid characters are reported as TIL101."""
        return cls(source, faults, _PATTERN, "TIL101", lambda word: f"the character {word!r} has no meaning in Stripe")

    def skip_line(self, start: int) -> None:
        """Continue after the line of the character ``start``."""
        end = self.source.text.find("\n", start)
        self._position = max(self._position, len(self.source.text) if end < 0 else end)


def after(source: Source, token: Token) -> Token:
    """Return the token after another one, which the lexer may not have reached."""
    match = _PATTERN.match(source.text, token.stop)
    if match is None or match.lastgroup is None:
        return Token(END, "", len(source.text), len(source.text))
    word = match[match.lastgroup]
    return Token(word if match.lastgroup == "sign" else match.lastgroup, word, *match.span(match.lastgroup))


def comments(source: Source, start: int, stop: int) -> Iterator[tuple[str, bool]]:
    """Yield the comments between two tokens, each with whether it is on the line of the first token."""
    for match in _COMMENT.finditer(source.text, start, stop):
        yield match[1].strip(), "\n" not in source.text[start : match.start()]


T = TypeVar("T")

MAX_DIGITS: Final = 20
"""Maximum digits of an integer: those of 64 bits."""

MAX_SHOWN: Final = 40
"""Maximum characters of a token in messages."""

_ARTICLES: Final = {NAME: "a name", TAG: "a #tag", SCALAR: "a $scalar", NUMBER: "a number", STRING: "a string"}
_SPECIAL_VALUES: Final[dict[str, bool | float | None]] = {
    "true": True,
    "false": False,
    "none": None,
    "inf": float("inf"),
    "nan": float("nan"),
}


class HopelessError(AbandonError):
    """Error for text nested so deeply that nothing after the fault can be parsed."""


@attrs.define(eq=False, repr=False)
class TokenParser(lexing.Cursor):
    """Recursive-descent parser that reports faults where they are found, and continues with the next line."""

    lexer = Lexer.of
    tokens: Lexer

    # --- faults ---

    def fault(self, token: Token, message: str, code: str = "TIL102") -> AbandonError:
        """Report ``token``, and return the error to raise."""
        return self.report_and_abandon(message, self.span_of(token), code)

    def hopeless(self, token: Token, message: str, code: str = "TIL102") -> HopelessError:
        """Report ``token``, and return the error to raise, since nothing after it can be parsed."""
        self.report(message, self.span_of(token), code)
        return HopelessError()

    def unclosed(self, token: Token, message: str) -> HopelessError:
        """Report the unclosed ``token``, at the end of the text, unless that is reported; return the error to raise."""
        ends = (fault.span.start for fault in self.faults.found if fault.span is not None)
        return HopelessError() if self.token.start in ends else self.hopeless(token, message)

    def unexpected(self, expected: str, *notes: str) -> AbandonError:
        """Report that the next token is not ``expected``, and return the error to raise."""
        found = repr(self.token.text[:MAX_SHOWN]) if self.token.text else "the end of the text"
        return self.refuse(f"expected {expected}, found {found}", *notes)

    def recover(self, start: Token) -> None:
        """Skip the rest of a line with something unreadable that began at ``start``."""
        if self.on_new_line and self.token is not start:
            return
        self.tokens.skip_line(self.token.start)
        self.token = self.tokens.next()

    def line(self, read: Callable[[], T]) -> T | None:
        """Read one of several items on lines of their own; None, past its line, if it has a fault."""
        start = self.token
        try:
            return read()
        except HopelessError:
            raise
        except AbandonError:
            self.recover(start)
            return None

    # --- tokens ---

    def after(self) -> Token:
        """Return the token after the next one."""
        return after(self.source, self.token)

    def enclosed(self, item: Callable[[], T], signs: str = "()", what: str = "") -> tuple[T, ...]:
        """Read items between two signs, separated by commas, perhaps with one after the last."""
        self.expect(signs[0], what)
        items: list[T] = []
        while not self.at(signs[1]):
            items.append(item())
            if not self.at(signs[1]):
                self.expect(",")
        self.advance()
        return tuple(items)

    def suffixed(self, sign: str, read: Callable[[], T]) -> T | None:
        """Read the item after a sign; None without the sign."""
        return read() if self.skip(sign) else None

    def take(self, kind: str) -> str:
        """Read a token of one kind and return its text."""
        return self.expect(kind, _ARTICLES[kind]).text

    def name(self) -> str:
        """Read a name."""
        return self.take(NAME)

    def scalar(self) -> str:
        """Read ``$name`` and return the name."""
        return self.take(SCALAR)[1:]

    def string(self) -> str:
        """Read a quoted string, with the escapes of JSON."""
        token = self.token
        text = self.take(STRING)
        try:
            value: str = json.loads(text)
        except ValueError:
            raise self.fault(token, "this string has an escape that JSON does not know") from None
        return value

    def names(self) -> tuple[str, ...]:
        """Read ``(name, …)``."""
        return self.enclosed(self.name)

    # --- numbers ---

    def integer(self) -> int:
        """Read an integer with an optional sign."""
        sign = self._sign()
        token = self.token
        value = self._number()
        if not isinstance(value, int):
            raise self.fault(token, "expected an integer here")
        return sign * value

    def number_literal(self) -> bool | int | float:
        """Read a number, ``true``, ``false``, ``inf`` or ``nan``."""
        token = self.token
        value = self.literal()
        if value is None or isinstance(value, str):
            raise self.fault(token, "expected a number here")
        return value

    def literal(self) -> TagValue:
        """Read a number, a string, ``true``, ``false``, ``none``, ``inf`` or ``nan``."""
        if self.token.kind == STRING:
            return self.string()
        token = self.token
        negative = self._sign() < 0
        if self.token.kind != NAME:
            value: bool | int | float | None = self._number()
        elif self.token.text in _SPECIAL_VALUES:
            value = _SPECIAL_VALUES[self.advance().text]
        else:
            raise self.unexpected("a value")
        if not negative:
            return value
        if value is None or isinstance(value, bool):
            raise self.fault(token, "only a number has a sign")
        return -value

    def _sign(self) -> int:
        return -1 if self.skip("-") else 1

    def _number(self) -> int | float:
        token = self.token
        text = self.take(NUMBER)
        if text[:2] in ("0x", "0X") and len(text) <= MAX_DIGITS:
            return int(text, 16)
        if text.isdigit():
            if len(text) > MAX_DIGITS:
                raise self.fault(token, f"this integer has more than {MAX_DIGITS} digits", "TIL104")
            return int(text)
        if text[:2] in ("0x", "0X"):
            raise self.fault(token, f"this integer has more than {MAX_DIGITS} digits", "TIL104")
        return float(text)

    def affine(self) -> Affine:
        """Read ``constant ± coefficient*index ± …`` in any order."""
        return read_affine(self, NUMBER, self.integer, self.name)

    # --- pieces of headers ---

    def dtype(self) -> DType:
        """Read the name of a dtype."""
        token = self.token
        text = self.name()
        if text not in DTYPES:
            raise self.fault(token, f"{text[:MAX_SHOWN]!r} is no dtype; the dtypes are {', '.join(DTYPES)}")
        return DTYPES[text]

    def dependencies(self) -> tuple[int, ...]:
        """Read ``[number, …]`` if present."""
        return self.enclosed(self.integer, "[]") if self.at("[") else ()

    def tags(self) -> Tags:
        """Read ``#name`` and ``#name=value`` as long as there are any."""
        found: dict[str, TagValue] = {}
        while self.token.kind == TAG:
            name = self.advance().text[1:]
            found[name] = self.suffixed("=", self.literal)
        return Tags.of(**found)

    def location(self) -> Location:
        """Read ``<device[units…]/…>`` if present; a device may have no name."""
        if not self.skip("<"):
            return ()
        devices = [self._device()]
        while self.skip("/"):
            devices.append(self._device())
        self.expect(">")
        return tuple(devices)

    def _device(self) -> Device:
        name = self.name() if self.token.kind == NAME else ""
        return Device(name, self.enclosed(self.affine, "[]") if self.at("[") else ())
