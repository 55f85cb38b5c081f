"""Base of the parsers of formulas: a cursor over tokens that reads names, numbers and colours."""

from __future__ import annotations

from typing import ClassVar, Final

import attrs

from tileir.core.text.lexing import END, AbandonError, Cursor, Token
from tileir.core.text.names import nearest
from tileir_formula.ir import Argument, Colour, Number, Value, Weights, Word
from tileir_formula.text.lexer import COLOUR, COMMENT, LINE, NAME, NUMBER, Lexer

PREVIOUS: Final = "previous"
"""The source, inside a repeated group, that is the result of its last round."""

WORDS: Final = frozenset(
    (
        *("inputs", "results", "repeat", "until", "change", "below", "of", "outside"),
        *("where", "with", "not", "within", "mask", "region", "pixel", PREVIOUS),
    )
)
"""Words that cannot be names of steps, inputs and functions."""

MOST_DIGITS: Final = 15
"""A whole number of more characters is read as a float, as JSON readers do beyond the range of doubles."""


LARGEST: Final = 1e300
"""The greatest absolute value of a number."""


@attrs.define(eq=False, repr=False)
class Reader(Cursor):
    """A place in the tokens of a formula."""

    word_kind = NAME
    lexer = Lexer.of
    opening: ClassVar[str] = "["
    closing: ClassVar[str] = "]"

    def wrong(self, token: Token, message: str, code: str = "TIL102") -> AbandonError:
        """Report a token, and return an exception that the caller may raise or ignore."""
        return self.report_and_abandon(message, self.span_of(token), code)

    def expect(self, kind: str, what: str = "") -> Token:
        """Read a token of a kind, which messages call ``what``."""
        return super().expect(kind, what or (f"'{kind}'" if len(kind) == 1 else f"a {kind}"))

    def expect_word(self, *words: str) -> str:
        """Read one of some words."""
        if self.token.kind == NAME and self.token.text in words:
            return self.advance().text
        near = nearest(self.token.text, words) if self.token.kind == NAME else ""
        raise self.refuse(f"expected {' or '.join(map(repr, words))} but found {self.describe()}{near}")

    def describe(self) -> str:
        """Name the next token in a message."""
        named = {LINE: "end of line", END: "end of text", COMMENT: "a comment"}
        return named.get(self.token.kind) or repr(self.token.text)

    def new_name(self) -> str:
        """Read a name that a step, an input or a function may have."""
        token = self.expect(NAME)
        if token.text in WORDS:
            self.wrong(token, f"{token.text!r} is a word of the language")
        return token.text

    def number(self) -> Number:
        """Read a number."""
        token = self.expect(NUMBER)
        value = _number(token.text)
        if abs(value) > LARGEST:
            self.wrong(token, "this number is too large", "TIL104")
            value = 0
        return Number(value, span=self.span_from(token.start))

    def colour(self) -> Colour:
        """Read a colour."""
        token = self.expect(COLOUR)
        digits = token.text[1:]
        try:
            red, green, blue = bytes.fromhex(digits)
        except ValueError:
            self.wrong(token, "a colour is # and six digits from 0 to f", "TIL104")
            raise AbandonError from None
        return Colour(red, green, blue, span=self.span_from(token.start))

    def arguments(self) -> tuple[Argument, ...]:
        """Read the parameters of a call, if there are any."""
        if not self.skip("(") or self.skip(")"):
            return ()
        found = self.list(self.argument)
        self.expect(")", "',' or ')'")
        return found

    def argument(self) -> Argument:
        """Read a parameter and its value."""
        name = self.expect(NAME, "the name of a parameter")
        self.expect("=")
        value = self.value()
        return Argument(name.text, value, span=self.span_from(name.start))

    def value(self) -> Value:
        """Read a value."""
        match self.token.kind:
            case "number":
                return self.number()
            case "name":
                token = self.advance()
                return Word(token.text, span=self.span_from(token.start))
            case "colour":
                return self.colour()
            case self.opening:
                return self.weights()
            case _:
                raise self.unexpected("a number, a word, a colour or weights")

    def weights(self) -> Weights:
        """Read the weights of a window."""
        start = self.advance().start
        rows = [self._row()]
        while self.skip(";"):
            rows.append(self._row())
        self.expect(self.closing, f"a number, ';' or '{self.closing}'")
        if len({len(row) for row in rows}) > 1:
            lengths = ", ".join(str(len(row)) for row in rows)
            span = self.span_from(start)
            self.report(f"all rows have the same length; these have {lengths}", span)
        return Weights(tuple(rows), span=self.span_from(start))

    def _row(self) -> tuple[float, ...]:
        row = [float(self.number().value)]
        while self.token.kind == NUMBER:
            row.append(float(self.number().value))
        return tuple(row)


def _number(text: str) -> int | float:
    whole = text.lstrip("-").isdigit() and len(text) <= MOST_DIGITS
    return int(text) if whole else float(text)
