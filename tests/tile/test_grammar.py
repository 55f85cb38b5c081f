"""The parser against a grammar that was written without it: both accept the same texts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, strategies as st
from lark import Lark
from lark.exceptions import LarkError

from strategies.effort import examples
from strategies.tile_text import functions
from tileir.core.errors import ParseError, TileError
from tileir.core.text.lexing import END, Faults
from tileir.core.text.span import Source
from tileir.tile.text.lexer import Lexer
from tileir.tile.text.parser import parse
from tileir.tile.text.printer import to_text

if TYPE_CHECKING:
    from tileir.tile.ir import Function

GRAMMAR = Lark(
    Path(__file__).with_name("tile.lark").read_text(encoding="utf-8"),
    start=["start", "unused"],
    parser="lalr",
    lexer="basic",
)
WORDS = (
    *"( ) [ ] { } -> : ; , = == != + * < <= > >= << >> & | ^ ~ ? - / ' @ . ! %".split(),  # noqa: SIM905
    *(
        "function",
        "polynomial",
        "default",
        "no_defract",
        "A",
        "#a",
        "N",
        "i",
        "$N",
        "f",
        "exp",
        "2",
        "1.5",
        "2i",
        "1e3",
    ),
)


def oracle(text: str) -> bool:
    try:
        GRAMMAR.parse(text, start="start")
    except LarkError:
        return False
    return True


def accepted(text: str) -> bool:
    try:
        parse(text)
    except ParseError:
        return False
    except TileError:
        return True
    return True


def words(text: str) -> list[str]:
    lexer = Lexer.of(Source(text), Faults())
    found = []
    while (token := lexer.next()).kind != END:
        found.append(text[token.start : token.stop])
    return found


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """The words of a program, a few of which are dropped, doubled, exchanged or replaced."""
    text = words(to_text(draw(functions())))
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(text) - 1))
        match draw(st.integers(0, 3)):
            case 0:
                del text[place]
            case 1:
                text.insert(place, draw(st.sampled_from(WORDS)))
            case 2:
                text[place] = draw(st.sampled_from(WORDS))
            case _:
                other = draw(st.integers(0, len(text) - 1))
                text[place], text[other] = text[other], text[place]
    return " ".join(text)


@examples(100)
@given(functions())
def test_both_accept_programs(function: Function) -> None:
    assert oracle(to_text(function))


@examples(400)
@given(mutated())
@example("function (A) -> (O) { O = polynomial(A); }")
@example("function (A) -> (O) { O[default] = +(A[]); }")
def test_both_accept_the_same_mutations(text: str) -> None:
    assert accepted(text) == oracle(text)


@pytest.mark.parametrize("value", ["1", "A ? B : C ? D : E", "A < B << C", "A ^ B | C & D == E < F", "$f(A)", "F'(A)"])
def test_both_accept_values(value: str) -> None:
    text = f"function (A) -> (O) {{ O = {value}; }}"
    assert accepted(text)
    assert oracle(text)


@examples(200)
@given(st.lists(st.sampled_from(WORDS), max_size=7).map(" ".join))
def test_both_accept_the_same_values(value: str) -> None:
    text = f"function (A) -> (O) {{ O = {value}; }}"
    assert accepted(text) == oracle(text)


@examples(200)
@given(st.lists(st.sampled_from(WORDS), max_size=7).map(" ".join))
def test_both_accept_the_same_polynomials(value: str) -> None:
    text = f"function (A) -> (O) {{ O[{value}] = +(A[]); }}"
    assert accepted(text) == oracle(text)
