"""What a stage has that the one before has not, line by line."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import Final

MOST_COMPARED: Final = 4000
"""Lines that are compared one by one: beyond, all between the first and the last difference counts as changed."""


def changed_lines(before: str, after: str) -> tuple[tuple[int, int], ...]:
    """Return ranges, first to last (exclusive, from 0), of the lines of ``after`` that are new or stand elsewhere."""
    old, new = before.split("\n"), after.split("\n")
    head = _common(zip(old, new, strict=False))
    most = min(len(old), len(new)) - head
    tail = min(most, _common(zip(reversed(old), reversed(new), strict=False)))
    old, new = old[head : len(old) - tail], new[head : len(new) - tail]
    if not new:
        return ()
    if len(old) + len(new) > MOST_COMPARED:
        return ((head, head + len(new)),)
    codes = SequenceMatcher(None, old, new).get_opcodes()
    return tuple((head + first, head + last) for kind, _, _, first, last in codes if kind in ("insert", "replace"))


def _common(pairs: zip[tuple[str, str]]) -> int:
    count = 0
    for one, other in pairs:
        if one != other:
            break
        count += 1
    return count
