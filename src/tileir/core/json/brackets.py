"""Brackets that do not lie as the lines do: where a text with one too many or too few is likely to be wrong.

A reader notices such a bracket where the text ends, or names the next comma. Whoever lays out JSON in lines begins a
line with what closes a block of lines, as far left as the line that opened it; the first bracket that does otherwise
is nearest to the fault.
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
    """A bracket that is likely to be wrong, or to lack its counterpart.

    Attributes:
        start: Where it stands.
        problem: What is wrong, and what to do about it.

    """

    start: int
    problem: str


def brackets_of(text: str) -> Iterator[int]:
    """Yield where the brackets of a text stand, but those in strings and comments."""
    return (token.start() for token in _TOKEN.finditer(text) if token["bracket"])


def misplaced(text: str, brackets: Iterable[int]) -> Misplaced | None:
    """Return the first bracket that lies in no way that lines do; None where all do.

    Args:
        text: The text, in which brackets do not match, or something else is wrong.
        brackets: Where its brackets stand, in order.
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
    """Return what is wrong with brackets of two kinds."""
    wanted, line = _CLOSES[text[opening]], text.count("\n", 0, opening) + 1
    if text[closing] == wanted:
        return None
    problem = f"the '{text[opening]}' in line {line} is open here, not '{_OPENS[text[closing]]}': "
    return Misplaced(closing, f"{problem}write '{wanted}', or drop this '{text[closing]}'")


def _crooked(text: str, opening: int, closing: int) -> Misplaced | None:
    """Return what is wrong with a pair of brackets, as far as lines tell."""
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
