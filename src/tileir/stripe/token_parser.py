"""The small parts of Stripe text: names, numbers, affines, literals, tags, locations; and what happens to faults."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar

import attrs

from tileir.core.errors import Diagnostic, ParseError
from tileir.poly.affine import Affine
from tileir.stripe.dtypes import DTYPES
from tileir.stripe.ir import Device, Tags
from tileir.stripe.lexer import Kind, Lexer, Token

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.core.dtype import DType
    from tileir.poly.affine import Rational
    from tileir.stripe.ir import Location, TagValue

T = TypeVar("T")

MAX_DIGITS: Final = 20
"""Integers with more digits than the longest of 64 bits are refused."""

MAX_FAULTS: Final = 100
"""After this many faults the rest of the text is not read."""

MAX_SHOWN: Final = 40
"""Messages quote no more characters than this of a token."""

_SPECIAL_VALUES: Final[dict[str, bool | float | None]] = {
    "true": True,
    "false": False,
    "none": None,
    "inf": float("inf"),
    "nan": float("nan"),
}


class LineError(Exception):
    """One thing that is wrong with the text; reading goes on with the next line unless it is fatal."""

    def __init__(self, token: Token, message: str, code: str = "TIL102", *, fatal: bool = False) -> None:
        super().__init__(message)
        self.token, self.message, self.code, self.fatal = token, message, code, fatal


@attrs.define
class TokenParser:
    """A recursive-descent parser over :class:`Lexer`, with the faults found so far."""

    lexer: Lexer
    diagnostics: list[Diagnostic] = attrs.field(factory=list, init=False)

    @property
    def source_text(self) -> str:
        """The whole text."""
        return self.lexer.source.text

    # --- faults ---

    def finish(self, read: Callable[[], T]) -> T:
        """Run ``read`` over the whole text and return its result, or raise everything that is wrong."""
        try:
            value = read()
            token = self.significant()
            if token.kind is not Kind.END:
                self.report(self.fault(token, "expected the end of the text"))
        except LineError as fault:
            self.report(fault)
            raise ParseError(self.diagnostics) from None
        if self.diagnostics:
            raise ParseError(self.diagnostics)
        return value

    def fault(self, token: Token, message: str, code: str = "TIL102", *, fatal: bool = False) -> LineError:
        """Build the fault to raise at ``token``; an unknown character outranks what was expected instead."""
        if token.kind is Kind.UNKNOWN:
            return LineError(token, f"the character {token.text!r} has no meaning in Stripe", "TIL101", fatal=fatal)
        return LineError(token, message, code, fatal=fatal)

    def report(self, fault: LineError) -> None:
        """Keep ``fault`` as a diagnostic."""
        self.diagnostics.append(Diagnostic(fault.code, fault.message, self.lexer.span(fault.token)))

    def recover(self, fault: LineError) -> None:
        """Keep ``fault`` and go on with the next line; a fatal one is raised again."""
        if fault.fatal or len(self.diagnostics) >= MAX_FAULTS:
            raise fault
        self.report(fault)
        self.lexer.next_line(fault.token)

    # --- tokens ---

    def significant(self) -> Token:
        """Return the next token that is not a comment, without stepping behind it."""
        while self.lexer.token.kind is Kind.COMMENT:
            self.lexer.advance()
        return self.lexer.token

    def at(self, text: str) -> bool:
        """Tell whether the punctuation ``text`` comes next."""
        token = self.significant()
        return token.kind is Kind.PUNCTUATION and token.text == text

    def at_word(self, text: str) -> bool:
        """Tell whether the name ``text`` comes next."""
        token = self.significant()
        return token.kind is Kind.NAME and token.text == text

    def expect(self, text: str) -> Token:
        """Step behind the punctuation ``text``."""
        if not self.at(text):
            self.unexpected(f"{text!r}")
        return self.lexer.advance()

    def word(self, text: str) -> None:
        """Step behind the name ``text``."""
        if not self.at_word(text):
            self.unexpected(f"{text!r}")
        self.lexer.advance()

    def separator(self, end: str) -> None:
        """Step behind a comma, which is needed unless ``end`` comes next."""
        if not self.at(end):
            self.expect(",")

    def unexpected(self, wanted: str) -> NoReturn:
        """Raise the fault that something else than ``wanted`` comes next."""
        token = self.significant()
        found = repr(token.text[:MAX_SHOWN]) if token.text else token.kind.value
        raise self.fault(token, f"expected {wanted}, found {found}")

    def take(self, kind: Kind) -> str:
        """Read a token of one kind and return its text."""
        if self.significant().kind is not kind:
            self.unexpected(kind.value)
        return self.lexer.advance().text

    def name(self) -> str:
        """Read a name."""
        return self.take(Kind.NAME)

    def scalar(self) -> str:
        """Read ``$name`` and return the name."""
        return self.take(Kind.SCALAR)[1:]

    def string(self) -> str:
        """Read a quoted string, with the escapes of JSON."""
        token = self.significant()
        text = self.take(Kind.STRING)
        try:
            value: str = json.loads(text)
        except ValueError:
            raise self.fault(token, "this string has an escape that JSON does not know") from None
        return value

    def names(self) -> tuple[str, ...]:
        """Read ``(name, …)``."""
        self.expect("(")
        found: list[str] = []
        while not self.at(")"):
            found.append(self.name())
            self.separator(")")
        self.expect(")")
        return tuple(found)

    # --- numbers ---

    def integer(self) -> int:
        """Read an integer that may have a sign."""
        sign = self._sign()
        token = self.significant()
        value = self._number()
        if not isinstance(value, int):
            raise self.fault(token, "expected an integer here")
        return sign * value

    def number_literal(self) -> bool | int | float:
        """Read a number, ``true``, ``false``, ``inf`` or ``nan``."""
        token = self.significant()
        value = self.literal()
        if value is None or isinstance(value, str):
            raise self.fault(token, "expected a number here")
        return value

    def literal(self) -> TagValue:
        """Read a number, a string, ``true``, ``false``, ``none``, ``inf`` or ``nan``."""
        if self.significant().kind is Kind.STRING:
            return self.string()
        token = self.significant()
        negative = self._sign() < 0
        if self.significant().kind is not Kind.NAME:
            value: bool | int | float | None = self._number()
        elif self.significant().text in _SPECIAL_VALUES:
            value = _SPECIAL_VALUES[self.lexer.advance().text]
        else:
            self.unexpected("a value")
        if not negative:
            return value
        if value is None or isinstance(value, bool):
            raise self.fault(token, "only a number has a sign")
        return -value

    def _sign(self) -> int:
        if self.at("-"):
            self.lexer.advance()
            return -1
        return 1

    def _number(self) -> int | float:
        token = self.significant()
        text = self.take(Kind.NUMBER)
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
        coefficients: dict[str, Rational] = {}
        offset: Rational = 0
        sign = self._sign()
        while True:
            factor: Rational = sign
            token = self.significant()
            if token.kind is Kind.NUMBER:
                factor *= self._rational()
                index = self._factor_index()
            else:
                index = self.name()
            if index is None:
                offset += factor
            else:
                coefficients[index] = coefficients.get(index, 0) + factor
            if not (self.at("+") or self.at("-")):
                return Affine.of(coefficients, offset)
            sign = 1 if self.lexer.advance().text == "+" else -1

    def _factor_index(self) -> str | None:
        if not self.at("*"):
            return None
        self.lexer.advance()
        return self.name()

    def _rational(self) -> Rational:
        numerator = self.integer()
        if not self.at("/"):
            return numerator
        self.lexer.advance()
        token = self.significant()
        denominator = self.integer()
        if denominator <= 0:
            raise self.fault(token, "a denominator must be positive", "TIL104")
        return Fraction(numerator, denominator)

    # --- pieces of headers ---

    def dtype(self) -> DType:
        """Read the name of a dtype."""
        token = self.significant()
        text = self.name()
        if text not in DTYPES:
            raise self.fault(token, f"{text[:MAX_SHOWN]!r} is no dtype; the dtypes are {', '.join(DTYPES)}")
        return DTYPES[text]

    def dependencies(self) -> tuple[int, ...]:
        """Read ``[number, …]`` if it is there."""
        if not self.at("["):
            return ()
        self.lexer.advance()
        found: list[int] = []
        while not self.at("]"):
            found.append(self.integer())
            self.separator("]")
        self.expect("]")
        return tuple(found)

    def tags(self) -> Tags:
        """Read ``#name`` and ``#name=value`` as long as there are any."""
        found: dict[str, TagValue] = {}
        while self.significant().kind is Kind.TAG:
            name = self.lexer.advance().text[1:]
            value: TagValue = None
            if self.at("="):
                self.lexer.advance()
                value = self.literal()
            found[name] = value
        return Tags.of(**found)

    def location(self) -> Location:
        """Read ``<device[units…]/…>`` if it is there; a device may have no name."""
        if not self.at("<"):
            return ()
        self.lexer.advance()
        devices: list[Device] = []
        while True:
            name = self.name() if self.significant().kind is Kind.NAME else ""
            devices.append(Device(name, self._units()))
            if not self.at("/"):
                break
            self.lexer.advance()
        self.expect(">")
        return tuple(devices)

    def _units(self) -> tuple[Affine, ...]:
        if not self.at("["):
            return ()
        self.lexer.advance()
        units: list[Affine] = []
        while not self.at("]"):
            units.append(self.affine())
            self.separator("]")
        self.expect("]")
        return tuple(units)
