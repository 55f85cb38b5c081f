"""Brackets that contradict the layout of lines: the likely place of a superfluous or missing one.

A reader notices such a bracket only at the end of a text or at the next comma. In JSON laid out in lines, the bracket
that closes a block begins a line, with the indentation of the line that opened it; the first bracket that does
otherwise is nearest to the fault.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from tileir.core.nodes import attrs

_CLOSES: Final = {"{": "}", "[": "]"}
_OPENS: Final = {sign: opening for opening, sign in _CLOSES.items()}
_LINE_END: Final = re.compile(r"[ \t]*(?://[^\n]*)?(?:\n|\Z)")
_TOKEN: Final = re.compile(r"""//[^\n]*|"(?:[^"\\\n]|\\.)*"?|(?P<bracket>[\[\]{}])""")


@attrs.frozen
class Misplaced:
    """A bracket that is probably wrong, or lacks its counterpart.

    Attributes:
        start: Its position.
        problem: The fault and its correction.
    """

    start: int
    problem: str


def brackets_of(text: str) -> Iterator[int]:
    """Yield the positions of the brackets of a text, except those in strings and comments."""
    return (token.start() for token in _TOKEN.finditer(text) if token["bracket"])


def misplaced(text: str, brackets: Iterable[int]) -> Misplaced | None:
    """Return the first bracket that contradicts the layout of lines; None if there is none.

    Args:
        text: The text, in which brackets do not match, or something else is wrong.
        brackets: The positions of its brackets, in order.
    """
    opened: list[int] = []
    for place in brackets:
        if text[place] in _CLOSES:
            opened.append(place)
        elif not opened:
            return Misplaced(place, f"this '{text[place]}' closes nothing; drop it, or a bracket too many before it")
        elif (found := _crooked(text, opened[-1], place) or _unequal(text, opened.pop(), place)) is not None:
            return found
    return None


def _unequal(text: str, opening: int, closing: int) -> Misplaced | None:
    """Return the fault of brackets of two kinds."""
    wanted, line = _CLOSES[text[opening]], text.count("\n", 0, opening) + 1
    if text[closing] == wanted:
        return None
    problem = f"the '{text[opening]}' in line {line} is open here, not '{_OPENS[text[closing]]}': "
    return Misplaced(closing, f"{problem}write '{wanted}', or drop this '{text[closing]}'")


def _crooked(text: str, opening: int, closing: int) -> Misplaced | None:
    """Return the fault of a pair of brackets that the lines show."""
    first, last = (text.rfind("\n", 0, place) + 1 for place in (opening, closing))
    line, sign = text.count("\n", 0, opening) + 1, text[closing]
    begins = not text[last:closing].strip(" \t]}")
    if first == last:
        return None
    if not begins:
        if not _LINE_END.match(text, opening + 1):
            return None
        problem = (
            f"this '{sign}' closes the '{text[opening]}' in line {line}, which begins a block of lines; "
            "drop a bracket too many in this line"
        )
        return Misplaced(closing, problem)
    if text[last:closing].strip():  # one of several that begin a line
        return None
    margins = [text[start : start + len(text[start:]) - len(text[start:].lstrip(" \t"))] for start in (first, last)]
    if margins[0] == margins[1] or not margins[0].startswith(margins[1]):
        return None
    end = text.count("\n", 0, closing) + 1
    problem = (
        f"nothing closes this '{text[opening]}': the '{sign}' in line {end} is further to the left; "
        f"write '{_CLOSES[text[opening]]}' behind what belongs to it"
    )
    return Misplaced(opening, problem)
