"""Text to formula, as docs/formula.md has it. All faults are reported: the parser goes on at the next line."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import attrs

from tileir.core.text.lexing import END, AbandonError, Token, everything
from tileir.core.text.span import Source as Text, Span
from tileir.core.text.versions import check_version
from tileir_formula.ir import (
    Argument,
    Boundary,
    Condition,
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
    Value,
)
from tileir_formula.text.lexer import COMMENT, LINE, NAME
from tileir_formula.text.reading import PREVIOUS, WORDS, Reader
from tileir_formula.text.spelling import MAX_DEPTH

T = TypeVar("T")


def parse(text: str, name: str = "<formula>") -> Formula:
    """Read a formula.

    Raises:
        ParseError: All faults of the text, with their places; TIL106, it names a newer version.
        ArgumentError: TIL105, the text is too long.

    """
    source = check_version(Text(text, name))
    return everything(_Parser, source, _Parser.formula)


def parse_value(text: str) -> Value:
    """Read the value of a parameter; raises as :func:`parse`, like the functions below."""
    return _part(text, _Parser.value)


def parse_argument(text: str) -> Argument:
    """Read a parameter and its value, with ``=`` between them."""
    return _part(text, _Parser.argument)


def parse_number(text: str) -> Number:
    """Read a number."""
    return _part(text, _Parser.number)


def parse_name(text: str) -> str:
    """Read the name of a step or function."""
    return _part(text, _Parser.new_name)


def parse_source(text: str) -> Source:
    """Read a source of a step."""
    return _part(text, _Parser.reference)


def parse_condition(text: str) -> Condition:
    """Read the condition behind ``where``."""
    return _part(text, _Parser.condition)


def parse_merge(text: str) -> Merge:
    """Read the merge behind ``with``."""
    return _part(text, _Parser.merge)


def _part(text: str, rule: Callable[[_Parser], T]) -> T:
    """Read a text that is exactly one part of a formula."""
    source = Text(text, "<value>")

    def read(parser: _Parser) -> T:
        part = rule(parser)
        parser.expect(END, "the end of the value")
        return part

    return everything(_Parser, source, read)


@attrs.define(eq=False, repr=False)
class _Parser(Reader):
    depth: int = 0

    def formula(self) -> Formula:
        inputs: tuple[str, ...] | None = None
        results: tuple[Source, ...] | None = None
        input_remark = result_remark = None
        steps: list[Step | Repeat] = []
        comments: list[str] = []
        first: tuple[str, ...] = ()
        above_results: tuple[str, ...] = ()
        while self.token.kind != END:
            start = self.token
            try:
                if self.at_word("inputs"):
                    if inputs is not None or steps:
                        self.wrong(start, "inputs are named once, before all steps")
                    inputs, input_remark = self.names()
                    first, comments = tuple(comments), []
                elif self.at_word("results"):
                    if results is not None:
                        self.wrong(start, "results are named once")
                    results, result_remark = self.results()
                    above_results, comments = tuple(comments), []
                elif self.token.kind == "}":
                    raise self.unexpected("a step")
                else:
                    count = len(steps)
                    self.item(steps, comments)
                    if results is not None and len(steps) > count:
                        self.wrong(start, "results are named last, behind all steps")
            except AbandonError:
                self.recover()
        return Formula(
            tuple(steps),
            inputs or ("image",),
            results or (),
            comments=first,
            input_remark=input_remark,
            result_comments=above_results,
            result_remark=result_remark,
            last_comments=tuple(comments),
            span=Span(self.source, 0, len(self.source.text)),
        )

    def item(self, steps: list[Step | Repeat], comments: list[str]) -> None:
        """Read a line into the steps, or into the comments of the next step."""
        if self.token.kind == COMMENT:
            comments.append(_words(self.advance()))
            self.line_end()
        elif not self.skip(LINE):
            above = tuple(comments)
            comments.clear()
            steps.append(self.repeat(above) if self.at_word("repeat") else self.step(above))

    def recover(self) -> None:
        """Skip to the next line."""
        while self.token.kind not in (LINE, END):
            self.advance()
        self.skip(LINE)

    def line_end(self) -> str | None:
        """Read the end of a line, and return the remark before it."""
        remark = _words(self.advance()) if self.token.kind == COMMENT else None
        if self.token.kind != END:
            self.expect(LINE, "the end of the line")
        return remark

    def names(self) -> tuple[tuple[str, ...], str | None]:
        self.advance()
        return self.list(self.new_name), self.line_end()

    def results(self) -> tuple[tuple[Source, ...], str | None]:
        self.advance()
        return self.list(self.reference), self.line_end()

    def repeat(self, comments: tuple[str, ...]) -> Repeat:
        start = self.advance().start
        if self.depth == MAX_DEPTH:
            raise self.report_and_abandon(f"groups are nested at most {MAX_DEPTH} deep", self.last, "TIL103")
        count = self.number()
        limit = None
        if self.skip_word("until"):
            self.expect_word("change")
            self.expect_word("below")
            limit = self.number()
        self.expect("{")
        remark = self.line_end()
        self.depth += 1
        steps: list[Step | Repeat] = []
        inner: list[str] = []
        while self.token.kind not in ("}", END):
            try:
                self.item(steps, inner)
            except AbandonError:
                self.recover()
        self.depth -= 1
        self.expect("}")
        span = self.span_from(start)
        self.line_end()
        return Repeat(count, tuple(steps), limit, comments, remark, tuple(inner), span=span)

    def step(self, comments: tuple[str, ...]) -> Step:
        start = self.token.start
        name, function = None, self.new_name()
        if self.skip("="):
            name, function = function, self.new_name()
        arguments = self.arguments()
        sources = self.list(self.reference) if self.skip_word("of") else ()
        boundary = self.boundary() if self.skip_word("outside") else None
        condition = self.condition() if self.skip_word("where") else None
        place = self.token.start
        merge = self.merge(place) if self.skip_word("with") else None
        span = self.span_from(start)
        remark = self.line_end()
        return Step(function, name, sources, arguments, boundary, condition, merge, comments, remark, span=span)

    def reference(self) -> Source:
        start = self.token.start
        if self.skip("$"):
            number = self.number().value
            if not isinstance(number, int) or number < 1:
                self.report("steps are counted from $1", self.span_from(start), "TIL104")
                number = 1
            return Source(number, span=self.span_from(start))
        name = self.expect(NAME, "an input, a step or $ and its number")
        if name.text in WORDS and name.text != PREVIOUS:
            self.wrong(name, f"{name.text!r} is a word of the language")
        return Source(name.text, span=self.span_from(start))

    def boundary(self) -> Boundary:
        return Boundary(self.expect_word(*(each.value for each in Boundary)))

    def condition(self) -> Condition:
        start = self.token.start
        negated = self.skip_word("not")
        if self.skip_word("mask"):
            return Mask(self.reference(), negated, span=self.span_from(start))
        if self.skip_word("region"):
            sides = self.enclosed(self.number)
            if len(sides) != 4:
                span = self.span_from(start)
                self.report(f"a region has a top, a left, a height and a width; there are {len(sides)} numbers", span)
                raise AbandonError
            return Region(*sides, negated, span=self.span_from(start))
        subject = Subject(self.expect_word(*(each.value for each in Subject), "mask", "region"))
        self.expect_word("within")
        limit = self.number()
        relative = self.skip("%")
        self.expect_word("of")
        reference = None if self.skip_word("pixel") else self.colour()
        return Near(subject, limit, relative, reference, negated, span=self.span_from(start))

    def merge(self, start: int = 0) -> Merge:
        function = self.new_name()
        arguments = self.arguments()
        source = self.reference()
        return Merge(function, source, arguments, span=self.span_from(start))


def _words(comment: Token) -> str:
    return comment.text[2:].strip()
