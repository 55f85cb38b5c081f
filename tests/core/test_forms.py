"""Forms: what classes declare as their text is written, read back, and refused where it is something else."""

from __future__ import annotations

import enum
from typing import Any, ClassVar

import pytest

from tileir.core.errors import ParseError
from tileir.core.nodes import attrs
from tileir.core.text.forms import Field, FormReader, Language, Literal, Option, Spelling, pieces
from tileir.core.text.lexing import Cursor, everything
from tileir.core.text.span import Source
from tileir.typed.text import lexer as typed_lexer


class Colour(enum.Enum):
    """A word."""

    RED = "red"
    BLUE = "blue"


@attrs.frozen
class Inner:
    """A node in another one."""

    form: ClassVar[str] = r"{name}\[{places}\]"
    name: str
    places: tuple[int, ...]


Names = tuple[str, ...]


@attrs.frozen
class Outer:
    """A node with fields of all kinds."""

    head: ClassVar[str] = "{name} = "
    form: ClassVar[str] = (
        "paint {colour} {inner} pair({pair})[, {names}] of {count}"
        "[ wide {width=height} by {height}][ {closed}][ {kept:lost}][ from {origin}]"
    )
    name: str
    colour: Colour
    inner: Inner
    pair: tuple[int, int]
    names: Names
    width: int
    height: int = 1
    closed: bool = False
    kept: bool = True
    origin: str | None = None

    @property
    def count(self) -> int:
        """A value that follows from other fields."""
        return len(self.inner.places)


LANGUAGE = Language(
    types={
        "str": Spelling(lambda _, name: str(name), lambda reader: reader.cursor.name()),
        "int": Spelling(lambda _, value: str(value), lambda reader: reader.cursor.integer()),
    },
    nodes={"Inner": Inner},
    expected={(Outer, "origin"): "where it begins", "Colour": "a colour"},
)


@attrs.define(eq=False)
class Reader(FormReader):
    """Reads nodes of the language."""

    language = LANGUAGE


def read(text: str) -> Outer:
    def whole(cursor: Cursor) -> Any:
        kind, told = LANGUAGE.openings((Outer,))[cursor.advance().text]
        return Reader(cursor).node(kind, {"name": "x", **told}, 1)

    outer = everything(typed_lexer.Cursor, Source(text), whole)
    assert isinstance(outer, Outer)
    return outer


INNER = Inner("a", (1, 2))


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (Outer("x", Colour.RED, INNER, (3, 4), (), 1), "paint red a[1, 2] pair(3, 4) of 2"),
        (Outer("x", Colour.BLUE, Inner("b", ()), (3, 4), ("c", "d"), 1), "paint blue b[] pair(3, 4), c, d of 0"),
        (
            Outer("x", Colour.RED, INNER, (3, 4), (), 5, 6, True, False, "e"),
            "paint red a[1, 2] pair(3, 4) of 2 wide 5 by 6 closed lost from e",
        ),
        (Outer("x", Colour.RED, INNER, (3, 4), (), 1, kept=False), "paint red a[1, 2] pair(3, 4) of 2 lost"),
    ],
)
def test_nodes_are_written_and_read(node: Outer, text: str) -> None:
    assert LANGUAGE.text(None, node) == f"x = {text}"
    assert read(text) == node


@pytest.mark.parametrize(
    ("text", "message", "underlined"),
    [
        ("paint green a[1] pair(3, 4) of 1", "expected a colour: red, blue but found 'green'", "green"),
        ("paint red a{1} pair(3, 4) of 1", "expected '[' but found '{'", "{"),
        ("paint red a[1 pair(3, 4) of 1", "expected ',' or ']' but found 'pair'", "pair"),
        ("paint red a[1] pair(3, 4, 5) of 1", "expected 2 integers, found 3", "3, 4, 5)"),
        ("paint red a[1] pair(3, 4) of 7", "count is 1 for these operands, not 7", "red a[1] pair(3, 4) of 7"),
        ("paint red a[1] pair(3, 4) of 1 from 2", "expected where it begins but found '2'", "2"),
        ("paint red a[1] pair(3, 4) of 1\nlost", "expected the end of the text but found 'lost'", "lost"),
    ],
)
def test_other_text_is_refused(text: str, message: str, underlined: str) -> None:
    with pytest.raises(ParseError) as caught:
        read(text)
    (fault,) = caught.value.diagnostics
    assert (fault.message, fault.underlined) == (message, underlined)


def test_pieces_of_forms() -> None:
    first, second, third = pieces(Outer)[:3]
    assert first == Literal("paint ", ("paint",))
    assert second == Field("colour", "Colour", "", is_property=False)
    assert third == Literal(" ", ())
    assert [piece.like for piece in pieces(Outer) if isinstance(piece, Option)][1] == {"width": "height"}
    assert Field("count", "int", "", is_property=True) in pieces(Outer)
