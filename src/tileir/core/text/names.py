"""Fresh, deterministic names; and suggestions for unknown names."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import Final

import attrs

_LONG: Final = 100
"""Greatest length of a list within the line of a message."""


@attrs.define(eq=False, repr=False)
class NameScope:
    """Names in use in one scope; the only mutable state is the scope itself."""

    _used: set[str] = attrs.field(factory=set)
    _next: dict[str, int] = attrs.field(factory=dict, init=False)

    @classmethod
    def of(cls, names: Iterable[str]) -> NameScope:
        """Return a scope in which ``names`` are taken."""
        return cls(set(names))

    def __contains__(self, name: object) -> bool:
        return name in self._used

    def add(self, *names: str) -> None:
        """Mark ``names`` as taken."""
        self._used.update(names)

    def fresh(self, stem: str) -> str:
        """Return ``stem`` if free, else ``stem_N`` with the least free N, and take it."""
        if stem not in self._used:
            self._used.add(stem)
            return stem
        number = self._next.get(stem, 0)
        while (name := f"{stem}_{number}") in self._used:
            number += 1
        self._next[stem] = number + 1
        self._used.add(name)
        return name


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the advice of a message for an unknown name: the most similar known one, or else all of them."""
    ordered = sorted(known)
    found = most_alike(name, ordered, 0.5)
    if found is not None:
        return f"; did you mean {found}?"
    listed = ", ".join(ordered) or "none"
    return (
        f"; known are {listed}" if len(listed) <= _LONG else f"; known are\n{textwrap.indent(_lines(listed), '    ')}"
    )


def most_alike(name: str, known: Iterable[str], least: float) -> str | None:
    """Return the known name most similar to another one; None if none reaches the similarity ``least``, up to 1.

    Of several equally similar names, those with the same first letter, and then those of equal length, come first.
    """
    ordered = sorted(known)
    for each in ordered:
        if each.casefold() == name.casefold():
            return each
    import difflib  # for faults only, and slow to load

    name = name[:64]
    matcher = difflib.SequenceMatcher(b=name)
    best: tuple[float, bool, int] | None = None
    found = None
    for each in difflib.get_close_matches(name, ordered, 16, least):
        matcher.set_seq1(each)
        rank = matcher.ratio(), each[:1] == name[:1], -abs(len(each) - len(name))
        if best is None or rank > best:
            best, found = rank, each
    return found


def _lines(listed: str) -> str:
    return textwrap.fill(listed, _LONG, break_long_words=False, break_on_hyphens=False)
