"""Operators as data: expressions are read and written by the ranks and sides of a table."""

from __future__ import annotations

from typing import Any, ClassVar

import attrs
import pytest

from tileir.core.errors import ParseError
from tileir.core.text.lexing import AbandonError, everything
from tileir.core.text.pratt import Infix, Operators, Pratt, Side
from tileir.core.text.span import Source
from tileir.typed.text.lexer import Cursor

OPERATORS = Operators(
    (
        Infix("less", "<", 2, Side.NEITHER),
        Infix("plus", "+", 3),
        Infix("minus", "-", 3),
        Infix("times", "*", 4),
    ),
    conditional=1,
)


@attrs.define(eq=False)
class Reader(Pratt[Any]):
    """Reads names and operators as tuples."""

    most: ClassVar[int] = 20
    operators: Operators = attrs.field(default=OPERATORS, init=False)

    def operand(self) -> Any:
        assert isinstance(self.cursor, Cursor)
        if self.cursor.skip("("):
            inner = self.climb()
            self.cursor.expect(")")
            return inner
        return self.cursor.name()

    def joined(self, operator: Any, left: Any, right: Any, start: int) -> Any:  # noqa: ARG002
        return operator, left, right

    def chosen(self, test: Any, then: Any, otherwise: Any, start: int) -> Any:  # noqa: ARG002
        return "?", test, then, otherwise

    def too_deep(self) -> AbandonError:
        return self.cursor.report_and_abandon("too deep", self.cursor.here, "TIL103")

    def chained(self) -> None:
        self.cursor.report("no chains", self.cursor.here)


def read(text: str) -> Any:
    return everything(Cursor, Source(text), lambda cursor: Reader(cursor).climb())


def write(node: Any, outer: int = 0) -> str:
    if isinstance(node, str):
        return node
    operator, *operands = node
    if operator == "?":
        return OPERATORS.conditional_text(write, tuple(operands), outer)
    return OPERATORS.infix_text(operator, write, tuple(operands), outer)


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("a - b - c", ("minus", ("minus", "a", "b"), "c")),
        ("a - (b - c)", ("minus", "a", ("minus", "b", "c"))),
        ("a + b * c < d", ("less", ("plus", "a", ("times", "b", "c")), "d")),
        ("(a + b) * c", ("times", ("plus", "a", "b"), "c")),
        ("(a < b) < c", ("less", ("less", "a", "b"), "c")),
        ("a < b ? c : d ? e : f", ("?", ("less", "a", "b"), "c", ("?", "d", "e", "f"))),
        ("(a ? b : c) ? d : e", ("?", ("?", "a", "b", "c"), "d", "e")),
        ("(a ? b : c) + d", ("plus", ("?", "a", "b", "c"), "d")),
    ],
)
def test_texts_are_read_and_written(text: str, node: Any) -> None:
    assert read(text) == node
    assert write(node) == text


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("a < b < c", "TIL102", "no chains"),
        ("a ? b", "TIL102", "expected ':' but found the end of the text"),
        ("(" * 19 + "a" + ")" * 19, "", ""),
        ("(" * 20 + "a" + ")" * 20, "TIL103", "too deep"),
    ],
)
def test_other_texts_are_refused(text: str, code: str, message: str) -> None:
    if not code:
        assert read(text) == "a"
        return
    with pytest.raises(ParseError) as caught:
        read(text)
    assert [(fault.code, fault.message) for fault in caught.value.diagnostics] == [(code, message)]


def test_a_language_within_has_some_of_the_operators() -> None:
    assert set(OPERATORS.only(("plus", "times")).infix) == {"+", "*"}
    assert OPERATORS.only(("plus",)).conditional is None
