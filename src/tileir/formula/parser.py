"""Text to formula, as docs/formula.md has it. Every fault is reported: the parser goes on at the next line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from tileir.core.errors import ParseError
from tileir.core.names import nearest
from tileir.core.span import Source as Text
from tileir.core.span import Span
from tileir.formula.ir import (
    Argument,
    Boundary,
    Colour,
    Formula,
    Mask,
    Merge,
    Near,
    Number,
    Region,
    Repeat,
    Source,
    Step,
    Subject,
    Weights,
    Word,
)
from tileir.formula.lexer import COLOUR, COMMENT, END, LINE, NAME, NUMBER, Faults, Token, tokens

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.formula.ir import Condition, Value

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

MAX_DEPTH: Final = 20
"""How deep repeated groups may be nested."""


def parse(text: str, name: str = "<formula>") -> Formula:
    """Read a formula.

    Raises:
        ParseError: All faults of the text, with their places.
        ArgumentError: TIL105, the text is too long.

    """
    source = Text(text, name)
    faults = Faults(source)
    formula = _Parser(source, faults, tokens(source, faults)).formula()
    if faults.found:
        raise ParseError(tuple(sorted(faults.found, key=lambda fault: fault.span.start if fault.span else 0)))
    return formula


class _AbandonError(Exception):
    """A line cannot be read; the fault is reported."""


@attrs.define
class _Parser:
    text: Text
    faults: Faults
    tokens: list[Token]
    place: int = 0
    depth: int = 0

    @property
    def token(self) -> Token:
        return self.tokens[self.place]

    def take(self) -> Token:
        taken = self.token
        if taken.kind != END:
            self.place += 1
        return taken

    def at_word(self, word: str) -> bool:
        return self.token.kind == NAME and self.token.text == word

    def skip(self, kind: str) -> bool:
        if self.token.kind != kind:
            return False
        self.take()
        return True

    def skip_word(self, word: str) -> bool:
        if not self.at_word(word):
            return False
        self.take()
        return True

    def expect(self, kind: str, what: str = "") -> Token:
        if self.token.kind != kind:
            raise self.unexpected(what or (f"'{kind}'" if len(kind) == 1 else f"a {kind}"))
        return self.take()

    def expect_word(self, *words: str) -> str:
        if self.token.kind == NAME and self.token.text in words:
            return self.take().text
        near = nearest(self.token.text, words) if self.token.kind == NAME else ""
        raise self.unexpected(" or ".join(map(repr, words)), near)

    def unexpected(self, expected: str, near: str = "") -> _AbandonError:
        token = self.token
        found = token.kind if token.kind in (LINE, END) else "a comment" if token.kind == COMMENT else repr(token.text)
        self.faults.add("TIL102", f"expected {expected} but found {found}{near}", token.start, token.stop)
        return _AbandonError()

    def span(self, start: int) -> Span:
        return Span(self.text, start, self.tokens[self.place - 1].stop if self.place else start)

    def formula(self) -> Formula:
        inputs: tuple[str, ...] | None = None
        results: tuple[Source, ...] | None = None
        steps: list[Step | Repeat] = []
        comments: list[str] = []
        first: tuple[str, ...] = ()
        while self.token.kind != END:
            start = self.token
            try:
                if self.at_word("inputs"):
                    if inputs is not None or steps:
                        self.faults.add("TIL102", "inputs are named once, before all steps", start.start, start.stop)
                    inputs = self.names()
                    first, comments = tuple(comments), []
                elif self.at_word("results"):
                    if results is not None:
                        self.faults.add("TIL102", "results are named once", start.start, start.stop)
                    results = self.results()
                elif self.token.kind == "}":
                    raise self.unexpected("a step")
                else:
                    self.item(steps, comments)
            except _AbandonError:
                self.recover()
        whole = Span(self.text, 0, len(self.text.text))
        return Formula(tuple(steps), inputs or ("image",), results or (), first, tuple(comments), span=whole)

    def item(self, steps: list[Step | Repeat], comments: list[str]) -> None:
        """Read a line, and add what it is to the steps, or to the comments of the next one."""
        if self.token.kind == COMMENT:
            comments.append(_words(self.take()))
            self.line_end()
        elif not self.skip(LINE):
            above = tuple(comments)
            comments.clear()
            steps.append(self.repeat(above) if self.at_word("repeat") else self.step(above))

    def recover(self) -> None:
        """Go to the next line."""
        while self.token.kind not in (LINE, END):
            self.take()
        self.skip(LINE)

    def line_end(self) -> str | None:
        """Read the end of a line, and return the remark before it."""
        remark = _words(self.take()) if self.token.kind == COMMENT else None
        if self.token.kind != END:
            self.expect(LINE, "the end of the line")
        return remark

    def names(self) -> tuple[str, ...]:
        self.take()
        found = self.list(self.new_name)
        self.line_end()
        return found

    def new_name(self) -> str:
        token = self.expect(NAME)
        if token.text in WORDS:
            self.faults.add("TIL102", f"{token.text!r} is a word of the language", token.start, token.stop)
        return token.text

    def results(self) -> tuple[Source, ...]:
        self.take()
        found = self.list(self.source)
        self.line_end()
        return found

    def list(self, item: Callable[[], T]) -> tuple[T, ...]:
        items = [item()]
        while self.skip(","):
            items.append(item())
        return tuple(items)

    def repeat(self, comments: tuple[str, ...]) -> Repeat:
        start = self.take().start
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.faults.add("TIL103", f"groups are nested at most {MAX_DEPTH} deep", start, start + len("repeat"))
            raise _AbandonError
        count = self.number()
        limit = None
        if self.skip_word("until"):
            self.expect_word("change")
            self.expect_word("below")
            limit = self.number()
        self.expect("{")
        remark = self.line_end()
        steps: list[Step | Repeat] = []
        inner: list[str] = []
        while self.token.kind not in ("}", END):
            try:
                self.item(steps, inner)
            except _AbandonError:
                self.recover()
        self.expect("}")
        self.depth -= 1
        span = self.span(start)
        self.line_end()
        return Repeat(count, tuple(steps), limit, comments, remark, tuple(inner), span=span)

    def step(self, comments: tuple[str, ...]) -> Step:
        start = self.token.start
        name, function = None, self.new_name()
        if self.skip("="):
            name, function = function, self.new_name()
        arguments = self.arguments()
        sources = self.list(self.source) if self.skip_word("of") else ()
        boundary = self.boundary() if self.skip_word("outside") else None
        condition = self.condition() if self.skip_word("where") else None
        merge = self.merge() if self.at_word("with") else None
        span = self.span(start)
        remark = self.line_end()
        return Step(function, name, sources, arguments, boundary, condition, merge, comments, remark, span=span)

    def arguments(self) -> tuple[Argument, ...]:
        if not self.skip("(") or self.skip(")"):
            return ()
        found = self.list(self.argument)
        self.expect(")", "',' or ')'")
        return found

    def argument(self) -> Argument:
        name = self.expect(NAME, "the name of a parameter")
        self.expect("=")
        value = self.value()
        return Argument(name.text, value, span=self.span(name.start))

    def value(self) -> Value:
        match self.token.kind:
            case "number":
                return self.number()
            case "name":
                token = self.take()
                return Word(token.text, span=self.span(token.start))
            case "colour":
                return self.colour()
            case "[":
                return self.weights()
            case _:
                raise self.unexpected("a number, a word, a colour or weights")

    def number(self) -> Number:
        token = self.expect(NUMBER)
        value = _number(token.text)
        if abs(value) > 1e300:
            self.faults.add("TIL104", "this number is too large", token.start, token.stop)
            value = 0
        return Number(value, span=self.span(token.start))

    def colour(self) -> Colour:
        token = self.expect(COLOUR)
        digits = token.text[1:]
        try:
            red, green, blue = bytes.fromhex(digits)
        except ValueError:
            self.faults.add("TIL104", "a colour is # and six digits from 0 to f", token.start, token.stop)
            raise _AbandonError from None
        return Colour(red, green, blue, span=self.span(token.start))

    def weights(self) -> Weights:
        start = self.take().start
        rows = [self.row()]
        while self.skip(";"):
            rows.append(self.row())
        self.expect("]", "a number, ';' or ']'")
        if len({len(row) for row in rows}) > 1:
            lengths = ", ".join(str(len(row)) for row in rows)
            span = self.span(start)
            self.faults.add("TIL102", f"all rows have the same length; these have {lengths}", span.start, span.stop)
        return Weights(tuple(rows), span=self.span(start))

    def row(self) -> tuple[float, ...]:
        row = [float(self.number().value)]
        while self.token.kind == NUMBER:
            row.append(float(self.number().value))
        return tuple(row)

    def source(self) -> Source:
        start = self.token.start
        if self.skip("$"):
            number = self.number().value
            if not isinstance(number, int) or number < 1:
                self.faults.add("TIL104", "steps are counted from $1", start, self.span(start).stop)
                number = 1
            return Source(number, span=self.span(start))
        name = self.expect(NAME, "an input, a step or $ and its number")
        if name.text in WORDS and name.text != PREVIOUS:
            self.faults.add("TIL102", f"{name.text!r} is a word of the language", name.start, name.stop)
        return Source(name.text, span=self.span(start))

    def boundary(self) -> Boundary:
        return Boundary(self.expect_word(*(each.value for each in Boundary)))

    def condition(self) -> Condition:
        start = self.token.start
        negated = self.skip_word("not")
        if self.skip_word("mask"):
            return Mask(self.source(), negated, span=self.span(start))
        if self.skip_word("region"):
            self.expect("(")
            sides = self.list(self.number)
            self.expect(")", "',' or ')'")
            if len(sides) != 4:
                span = self.span(start)
                message = f"a region has a top, a left, a height and a width; there are {len(sides)} numbers"
                self.faults.add("TIL102", message, span.start, span.stop)
                raise _AbandonError
            return Region(*sides, negated, span=self.span(start))
        subject = Subject(self.expect_word(*(each.value for each in Subject), "mask", "region"))
        self.expect_word("within")
        limit = self.number()
        relative = self.skip("%")
        self.expect_word("of")
        reference = None if self.skip_word("pixel") else self.colour()
        return Near(subject, limit, relative, reference, negated, span=self.span(start))

    def merge(self) -> Merge:
        start = self.take().start
        function = self.new_name()
        arguments = self.arguments()
        source = self.source()
        return Merge(function, source, arguments, span=self.span(start))


def _words(comment: Token) -> str:
    return comment.text[2:].strip()


def _number(text: str) -> int | float:
    whole = text.lstrip("-").isdigit() and len(text) <= MOST_DIGITS
    return int(text) if whole else float(text)
