"""Optional parts of protocols: those that an object has, and those that it seems to mean."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, Final

_ALIKE: Final = 0.8
"""Least similarity of two names, by :mod:`difflib`, for one to be the other misspelt."""


@cache
def members(protocol: type) -> tuple[str, ...]:
    """Return the names that a protocol requires, including those of the protocols that it extends."""
    kinds = (kind for kind in protocol.__mro__ if getattr(kind, "_is_protocol", False))
    found = dict.fromkeys(name for kind in kinds for name in (*vars(kind), *inspect.get_annotations(kind)))
    return tuple(name for name in found if not name.startswith("_"))


def wrong_offer(protocol: type, name: str) -> Callable[[object], str | None]:
    """Return a check of objects that implement a protocol under a name: it returns the reason against one, or None."""

    def wrong(offer: Any) -> str | None:
        if missing := [member for member in members(protocol) if not hasattr(offer, member)]:
            return f"is a {type(offer).__name__} without {' and '.join(missing)}"
        return None if offer.name == name else f"calls itself {offer.name!r:.64}"

    return wrong


def mistakes(value: object, required: type, optional: Sequence[type]) -> Iterator[str]:
    """Yield faults of the optional parts of a value, in sentences: misspelt or incomplete parts.

    Otherwise an optional part that is not found would silently not be used.

    Args:
        value: An object, or a class whose objects are meant.
        required: The protocol that it implements.
        optional: The protocols that it may implement beside that.
    """
    public = {name for name in dir(value) if not name.startswith("_")}
    settled = set(members(required))
    settled.update(name for part in optional if public.issuperset(members(part)) for name in members(part))
    kind = value if isinstance(value, type) else type(value)
    for part in optional:
        present = [name for name in members(part) if name in public and name not in settled]
        missing = [name for name in members(part) if name not in public]
        if present and missing:
            settled.update(present)
            yield f"{kind.__name__} has {_listed(present)}, not used without {_listed(missing)}: see {part.__name__}"
    absent = [name for part in optional for name in members(part) if name not in public]
    known = {*members(required), *(name for part in optional for name in members(part))}
    for name in sorted(public - known):
        import difflib  # for faults only, and slow to load

        for meant in difflib.get_close_matches(name, absent, 1, _ALIKE):
            yield f"{kind.__name__} has {name!r}, which is not used; did you mean {meant!r}?"


def _listed(names: Sequence[str]) -> str:
    return " and ".join(map(repr, names))
