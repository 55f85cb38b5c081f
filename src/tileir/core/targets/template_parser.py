"""Parser of templates: text, values to fill in, loops, choices and assignments."""

from __future__ import annotations

import ast
import re
from typing import Final, TypeAlias

from tileir.core.errors import TileError, fail
from tileir.core.nodes import attrs
from tileir.core.targets.template_expressions import ExpressionError, parse
from tileir.core.text.span import Source, Span

TAG: Final = (
    r"(?P<value>\{\{(?:[^{}]|\{(?!\{)|\}(?!\}))*+\}\})"
    r"|(?P<remark>\{\#(?:[^#{]|\#(?!\})|\{(?!\#))*+\#\})"
    r"|(?P<block>\{%(?:[^%{]|%(?!\})|\{(?!%))*+%\}|\[%(?:[^%\[]|%(?!\])|\[(?!%))*+%\])"
)
"""Tags between the texts of a template. None extends over the start of another, so that a search is linear."""

_TAG: Final = re.compile(TAG)
_OPEN: Final = re.compile(r"[{\[]%-?\s*[a-z]+\b|\{\#")
_SPACE: Final = re.compile(r"\s*")
_STATEMENT: Final = re.compile(r"(?P<word>[a-z]+)\b\s*(?P<rest>.*)", re.DOTALL)
_LOOP: Final = re.compile(r"(?P<name>[^\W\d]\w*)\s+in\s+(?P<items>.+)", re.DOTALL)
_SETTING: Final = re.compile(r"(?P<name>[^\W\d]\w*)\s*=(?P<value>[^=].*)", re.DOTALL)

_MOST_PARTS: Final = 10_000
_MOST_DEPTH: Final = 16


@attrs.frozen
class Text:
    """Verbatim characters."""

    span: Span


@attrs.frozen
class Output:
    """A value to fill in."""

    span: Span
    value: ast.expr


@attrs.frozen
class Setting:
    """An assignment of a name for the rest of the template."""

    span: Span
    name: str
    value: ast.expr


@attrs.frozen
class Choice:
    """Parts for a test that holds, and for one that does not."""

    span: Span
    test: ast.expr
    body: tuple[Part, ...]
    other: tuple[Part, ...]


@attrs.frozen
class Loop:
    """Parts that are repeated for each item of a list."""

    span: Span
    name: str
    items: ast.expr
    body: tuple[Part, ...]


Part: TypeAlias = Text | Output | Setting | Choice | Loop


def parse_template(source: Source, start: int, stop: int) -> tuple[Part, ...]:
    """Return the parts of the template in characters ``start`` to ``stop`` of a text.

    Raises:
        TileError: TIL546, the template is invalid, with the place.
    """
    return _Parser(source, _pieces(source, start, stop)).template()


def _pieces(source: Source, start: int, stop: int) -> list[tuple[str, Span]]:
    """Return texts and tags in order, each with its kind, without comments and space removed by ``-``."""
    pieces: list[tuple[str, Span]] = []
    position = start
    for tag in _TAG.finditer(source.text, start, stop):
        if len(pieces) > 2 * _MOST_PARTS:
            raise fail("TIL546", f"a template has at most {_MOST_PARTS} parts", Span(source, *tag.span()))
        first, last = tag.span()
        pieces.append(("text", _trimmed(Span(source, position, first), right=tag[0][2] == "-")))
        if tag.lastgroup != "remark":
            pieces.append((str(tag.lastgroup), Span(source, first, last)))
        position = _SPACE.match(source.text, last, stop).end() if tag[0][-3] == "-" else last  # type: ignore[union-attr]
    pieces.append(("text", Span(source, position, stop)))
    for kind, span in pieces:
        if kind == "text" and (left_open := _OPEN.search(source.text, span.start, span.stop)):
            close = {"{%": "%}", "[%": "%]", "{#": "#}"}[left_open[0][:2]]
            raise fail("TIL546", f"this is no template: close this by {close}", Span(source, *left_open.span()))
    return [(kind, span) for kind, span in pieces if span.start < span.stop]


def _trimmed(span: Span, *, right: bool) -> Span:
    return Span(span.source, span.start, span.start + len(span.text.rstrip())) if right else span


@attrs.define(eq=False, repr=False)
class _Parser:
    """Recursive descent over the pieces of one template; the only mutable state is the position."""

    source: Source
    pieces: list[tuple[str, Span]]
    position: int = 0
    depth: int = 0

    def template(self) -> tuple[Part, ...]:
        parts = self.parts()
        if self.position < len(self.pieces):
            word, _ = self.statement()
            raise self.fault(f"there is nothing that '{word[:40]}' could belong to")
        return parts

    def parts(self) -> tuple[Part, ...]:
        """Go past everything before the next block that ends or divides another."""
        parts: list[Part] = []
        while self.position < len(self.pieces):
            kind, span = self.pieces[self.position]
            if kind == "text":
                parts.append(Text(span))
                self.position += 1
            elif kind == "value":
                parts.append(Output(span, self.expression(_inner(span))))
                self.position += 1
            elif (part := self.block(span)) is not None:
                parts.append(part)
            else:
                break
        return tuple(parts)

    def block(self, span: Span) -> Part | None:
        """Go past a block; None if it belongs to another."""
        word, rest = self.statement()
        match word:
            case "set" if found := _SETTING.fullmatch(rest):
                self.position += 1
                return Setting(span, found["name"], self.expression(found["value"]))
            case "for" if found := _LOOP.fullmatch(rest):
                items = self.expression(found["items"])
                loop = Loop(span, found["name"], items, self.inside())
                self.close("endfor", span)
                return loop
            case "if":
                return self.choice(span, rest)
            case "elif" | "else" | "endif" | "endfor":
                return None
            case "set" | "for":
                form = "set NAME = VALUE" if word == "set" else "for NAME in LIST"
                raise self.fault(f"write {form} here")
            case _:
                raise self.fault(f"there is no block '{word[:40]}'; known are for, if and set")

    def choice(self, span: Span, rest: str) -> Choice:
        """Go past ``if``, or ``elif``, and all that belongs to it."""
        test, body = self.expression(rest), self.inside()
        word, rest = self.statement() if self.position < len(self.pieces) else ("", "")
        if word == "elif":
            place = self.pieces[self.position][1]
            self.depth += 1
            other: tuple[Part, ...] = (self.choice(place, rest),)
            self.depth -= 1
            return Choice(span, test, body, other)
        other = self.inside() if word == "else" else ()
        self.close("endif", span)
        return Choice(span, test, body, other)

    def inside(self) -> tuple[Part, ...]:
        """Go past the block that opens, and the parts inside."""
        if self.depth == _MOST_DEPTH:
            raise self.fault(f"blocks are nested at most {_MOST_DEPTH} deep")
        self.position += 1
        self.depth += 1
        parts = self.parts()
        self.depth -= 1
        return parts

    def close(self, word: str, opened: Span) -> None:
        """Go past the block that must come next."""
        if self.position == len(self.pieces):
            raise fail("TIL546", f"this is no template: {word} is missing behind this", opened)
        if self.statement()[0] != word:
            raise self.fault(f"write {word} here")
        self.position += 1

    def statement(self) -> tuple[str, str]:
        """Return the word of the block that comes next, and the rest of its text."""
        found = _STATEMENT.fullmatch(_inner(self.pieces[self.position][1]))
        if found is None:
            raise self.fault("write a block such as for, if or set here")
        return found["word"], found["rest"]

    def expression(self, text: str) -> ast.expr:
        try:
            return parse(text)
        except ExpressionError as error:
            raise self.fault(str(error)) from None

    def fault(self, problem: str) -> TileError:
        """Return the error for the piece that comes next."""
        return fail("TIL546", f"this is no template: {problem}", self.pieces[self.position][1])


def _inner(span: Span) -> str:
    return span.text[2:-2].removeprefix("-").removesuffix("-").strip()
