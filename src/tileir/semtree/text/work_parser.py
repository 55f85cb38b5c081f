"""The text of launches, and of loops and branches around them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tileir.semtree.ir import Branch, Launch, Loop, While, Work
from tileir.semtree.launches import MAX_NESTED_WORKS

if TYPE_CHECKING:
    from tileir.semtree.text.cursor import Cursor

WORDS: Final = ("launch", "repeat", "while", "if")
"""What a work begins with."""


def parse_work(cursor: Cursor, depth: int = 0) -> Work:
    """Read a launch, a loop or a branch, which is inside so many others.

    Raises:
        AbandonError: there is something else, or it is nested too deeply, which is reported.

    """
    word = cursor.token
    if word.text not in WORDS:
        cursor.reject(f"{', '.join(WORDS)} or '}}'")
    if cursor.accept("launch"):
        return _launch(cursor)
    if depth == MAX_NESTED_WORKS:
        message = f"more than {MAX_NESTED_WORKS} loops and branches inside one another"
        cursor.fail("TIL103", message, cursor.span_of(word))
    cursor.advance()
    if word.text == "repeat":
        return Loop(cursor.integer(), _block(cursor, depth))
    condition = cursor.inside(cursor.name).text
    works = _block(cursor, depth)
    if word.text == "while":
        return Loop(While(condition), works)
    return Branch(condition, works, _block(cursor, depth) if cursor.accept("else") else ())


def _block(cursor: Cursor, depth: int) -> tuple[Work, ...]:
    cursor.expect("{")
    works: list[Work] = []
    while not cursor.accept("}"):
        works.append(parse_work(cursor, depth + 1))
    return tuple(works)


def _launch(cursor: Cursor) -> Launch:
    kernel = cursor.integer()
    arguments = cursor.enclosed(cursor.name)
    cursor.expect(";")
    return Launch(kernel, tuple(argument.text for argument in arguments))
