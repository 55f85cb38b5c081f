"""What readers of formulas share: taking tokens one after the other, names, numbers and colours."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

import attrs

from tileir.core.names import nearest
from tileir.core.span import Source as Text
from tileir.core.span import Span
from tileir.formula.ir import Argument, Colour, Number, Weights, Word
from tileir.formula.lexer import COLOUR, COMMENT, END, LINE, NAME, NUMBER, Faults, Token

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.formula.ir import Value

T = TypeVar("T")

PREVIOUS: Final = "previous"
"""The source, inside of a repeated group, that is the result of its last round."""

WORDS: Final = frozenset(
    (
        *("inputs", "results", "repeat", "until", "change", "below", "of", "outside"),
        *("where", "with", "not", "within", "mask", "region", "pixel", PREVIOUS),
    )
)
"""Words that cannot be names of steps, inputs and functions."""

MOST_DIGITS: Final = 15
"""A whole number of more characters is read as a float, as JSON readers do beyond what a double holds."""


LARGEST: Final = 1e300
"""Of numbers, in size."""


class AbandonError(Exception):
    """A part of the text cannot be read; the fault is reported."""


@attrs.define
class Reader:
    """Tokens, and the place of the one that is read next."""

    opening: ClassVar[str] = "["
    closing: ClassVar[str] = "]"

    text: Text
    faults: Faults
    tokens: list[Token]
    place: int = 0

    @property
    def token(self) -> Token:
        """The token that is read next."""
        return self.tokens[self.place]

    def take(self) -> Token:
        """Read a token; the end of the text stays."""
        taken = self.token
        if taken.kind != END:
            self.place += 1
        return taken

    def at_word(self, word: str) -> bool:
        """Return whether a word comes next."""
        return self.token.kind == NAME and self.token.text == word

    def skip(self, kind: str) -> bool:
        """Read a token if it is of a kind, and return whether it was."""
        if self.token.kind != kind:
            return False
        self.take()
        return True

    def skip_word(self, word: str) -> bool:
        """Read a word if it comes next, and return whether it did."""
        if not self.at_word(word):
            return False
        self.take()
        return True

    def expect(self, kind: str, what: str = "") -> Token:
        """Read a token of a kind, which messages call ``what``."""
        if self.token.kind != kind:
            raise self.unexpected(what or (f"'{kind}'" if len(kind) == 1 else f"a {kind}"))
        return self.take()

    def expect_word(self, *words: str) -> str:
        """Read one of some words."""
        if self.token.kind == NAME and self.token.text in words:
            return self.take().text
        near = nearest(self.token.text, words) if self.token.kind == NAME else ""
        raise self.unexpected(" or ".join(map(repr, words)), near)

    def unexpected(self, expected: str, near: str = "") -> AbandonError:
        """Report that the next token is not what was expected; the caller raises what is returned."""
        token = self.token
        found = token.kind if token.kind in (LINE, END) else "a comment" if token.kind == COMMENT else repr(token.text)
        self.faults.add("TIL102", f"expected {expected} but found {found}{near}", token.start, token.stop)
        return AbandonError()

    def span(self, start: int) -> Span:
        """Return the span from an offset to the token that was read last."""
        return Span(self.text, start, self.tokens[self.place - 1].stop if self.place else start)

    def new_name(self) -> str:
        """Read a name that a step, an input or a function may have."""
        token = self.expect(NAME)
        if token.text in WORDS:
            self.faults.add("TIL102", f"{token.text!r} is a word of the language", token.start, token.stop)
        return token.text

    def number(self) -> Number:
        """Read a number."""
        token = self.expect(NUMBER)
        value = _number(token.text)
        if abs(value) > LARGEST:
            self.faults.add("TIL104", "this number is too large", token.start, token.stop)
            value = 0
        return Number(value, span=self.span(token.start))

    def colour(self) -> Colour:
        """Read a colour."""
        token = self.expect(COLOUR)
        digits = token.text[1:]
        try:
            red, green, blue = bytes.fromhex(digits)
        except ValueError:
            self.faults.add("TIL104", "a colour is # and six digits from 0 to f", token.start, token.stop)
            raise AbandonError from None
        return Colour(red, green, blue, span=self.span(token.start))

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
        return Argument(name.text, value, span=self.span(name.start))

    def value(self) -> Value:
        """Read a value."""
        match self.token.kind:
            case "number":
                return self.number()
            case "name":
                token = self.take()
                return Word(token.text, span=self.span(token.start))
            case "colour":
                return self.colour()
            case self.opening:
                return self.weights()
            case _:
                raise self.unexpected("a number, a word, a colour or weights")

    def weights(self) -> Weights:
        """Read the weights of a window."""
        start = self.take().start
        rows = [self._row()]
        while self.skip(";"):
            rows.append(self._row())
        self.expect(self.closing, f"a number, ';' or '{self.closing}'")
        if len({len(row) for row in rows}) > 1:
            lengths = ", ".join(str(len(row)) for row in rows)
            span = self.span(start)
            self.faults.add("TIL102", f"all rows have the same length; these have {lengths}", span.start, span.stop)
        return Weights(tuple(rows), span=self.span(start))

    def _row(self) -> tuple[float, ...]:
        row = [float(self.number().value)]
        while self.token.kind == NUMBER:
            row.append(float(self.number().value))
        return tuple(row)

    def list(self, item: Callable[[], T]) -> tuple[T, ...]:
        """Read items with commas between them."""
        items = [item()]
        while self.skip(","):
            items.append(item())
        return tuple(items)


def _number(text: str) -> int | float:
    whole = text.lstrip("-").isdigit() and len(text) <= MOST_DIGITS
    return int(text) if whole else float(text)
