"""JSON for people: with comments and trailing commas, and with all faults reported at once."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from tileir.core.errors import Diagnostic, fail
from tileir.core.json.brackets import brackets_of, misplaced
from tileir.core.json.decoder import MAX_DEPTH, is_shallow
from tileir.core.nodes import attrs
from tileir.core.text.names import nearest
from tileir.core.text.span import Source, Span

Path: TypeAlias = tuple["str | int", ...]
"""The path to a value of JSON: names of members and numbers of items."""

_BEYOND_JSON: Final = re.compile(
    r"""(?P<string>"(?:[^"\\\n]|\\.)*"?)|(?P<comment>//[^\n]*)"""
    r"""|(?<=[\w"\]}])(?P<comma>,)(?=(?:\s|//[^\n]*(?:\n|\Z))*[\]}])"""
)
"""Text that a strict reader refuses: comments, and commas after the last item. Strings are matched to be skipped."""


_ABOUT_BRACKETS: Final = frozenset(
    {"Extra data", "Expecting ',' delimiter", "Expecting property name enclosed in double quotes", "Expecting value"}
)
"""Messages of a strict reader that a superfluous or missing bracket causes."""

Places: TypeAlias = "Callable[[], Mapping[Path, Span]]"
"""Finds the places of the values of a text, by the path to them."""

_PART: Final = re.compile(r"\[\d+\]|[^.\[\]]+")
_TOKEN: Final = re.compile(r"""//[^\n]*|(?P<value>"(?:[^"\\\n]|\\.)*"|[^\s"\[\]{},:/]+)|(?P<sign>[\[\]{},:])""")


def read_json(text: str, name: str = "<json>", place: Callable[[int, int], Span] | None = None) -> object:
    """Return the value of a text.

    Comments run from ``//`` to the end of the line; a comma may follow the last item of a list or object.

    Args:
        text: The text.
        name: The name of the text in messages.
        place: Maps a range of its characters to its origin, if it was made from another text.

    Raises:
        TileError: TIL601, it is not JSON, with the place; TIL602, a name occurs twice in an object, or JSON is nested
            more
            than 500 deep.
    """

    def members(pairs: list[tuple[str, object]]) -> dict[str, object]:
        seen: dict[str, object] = {}
        for key, value in pairs:
            if key in seen:
                raise fail("TIL602", f"{name}: {key[:64]!r} stands twice in one object; drop one")
            seen[key] = value
        return seen

    strict = _BEYOND_JSON.sub(lambda match: match[0] if match["string"] else " " * len(match[0]), text)
    try:
        value: object = json.loads(strict, object_pairs_hook=members)
    except json.JSONDecodeError as error:
        found = misplaced(text, brackets_of(text)) if error.msg in _ABOUT_BRACKETS else None
        start = min(error.pos if found is None else found.start, max(0, len(text) - 1))
        stop = min(start + 1, len(text))
        span = Span(Source(text, name), start, stop) if place is None else place(start, stop)
        raise fail("TIL601", f"this is not JSON: {error.msg if found is None else found.problem}", span) from None
    except (ValueError, RecursionError) as error:  # numbers with too many digits, and hostile nesting
        raise fail("TIL601", f"{name}: this is not JSON: {error}") from None
    if not is_shallow(value):
        raise fail("TIL602", f"{name}: the JSON is nested more than {MAX_DEPTH} deep")
    return value


def places_of(text: str) -> dict[Path, tuple[int, int]]:
    """Return the character ranges of the values in a text for :func:`read_json`, by the path to them.

    The path to the value of a member, followed by ``":"``, is that of its name.
    """
    places: dict[Path, tuple[int, int]] = {}
    path: list[str | int | None] = []  # None where a name comes next
    inside: list[tuple[str, int]] = []  # the bracket, and its position
    for token in _TOKEN.finditer(text):
        sign, in_object = token["sign"], bool(inside) and inside[-1][0] == "{"
        if token["value"] and in_object and path[-1] is None:
            path[-1] = str(json.loads(token[0]))
            places[_way((*path, ":"))] = token.span()
        elif token["value"]:
            places[_way(path)] = token.span()
        elif sign in ("{", "["):
            inside.append((sign, token.start()))
            path.append(None if sign == "{" else 0)
        elif sign in ("}", "]"):
            path.pop()
            places[_way(path)] = (inside.pop()[1], token.end())
        elif sign == ",":
            path[-1] = path[-1] + 1 if isinstance(path[-1], int) else None
    return places


def _way(path: Iterable[str | int | None]) -> Path:
    return tuple(part for part in path if part is not None)


@attrs.frozen
class Reader:
    """Reader of values of known shape, which collects faults; after one, results are meaningless.

    Attributes:
        root: The place of the value as a whole, with which those of its parts begin.
        places: Finds the text of the value (:func:`places_of`), for messages.
        faults: The faults so far; the only state.
    """

    root: str = ""
    places: Places | None = None
    faults: list[Diagnostic] = attrs.field(factory=list)

    def fault(self, place: str, problem: str, key: str | None = None) -> None:
        """Add a fault at a place such as ``mem_units.SRAM``, or at the name of a member there."""
        span = None
        if self.places is not None:
            found = self.places()
            path: Path = tuple(
                int(part[1:-1]) if part[0] == "[" else part
                for part in _PART.findall(place[len(self.root) :].lstrip(": "))
            )
            span = None if key is None else found.get((*path, key, ":"))
            while span is None and path not in found and path:
                path = path[:-1]  # a missing part has no place, but its parent has
            span = span or found.get(path)
        self.faults.append(Diagnostic("TIL602", f"{place}: {problem}", span))

    def members(self, value: object, place: str, known: Iterable[str] | None = None) -> Mapping[str, object]:
        """Return the members of an object; with ``known``, no others are permitted."""
        if not isinstance(value, dict):
            self.fault(place, f"write an object {{…}} here, not {_kind(value)}")
            return {}
        if known is not None:
            names = tuple(known)
            for key in value:
                if key not in names:
                    self.fault(place, f"there is no key {key[:64]!r}{nearest(key, names)}", key)
        return value

    def items(self, value: object, place: str) -> list[object]:
        """Return the items of a list."""
        if not isinstance(value, list):
            self.fault(place, f"write a list […] here, not {_kind(value)}")
            return []
        return value

    def text(self, members: Mapping[str, object], key: str, place: str, default: str | None = None) -> str:
        """Return a member that is a text; without a default it must be there."""
        value = members.get(key, default)
        if isinstance(value, str):
            return value
        self._wrong(members, key, place, "a text")
        return ""

    def texts(self, members: Mapping[str, object], key: str, place: str) -> tuple[str, ...]:
        """Return a member that is a list of texts."""
        value = members.get(key)
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
        self._wrong(members, key, place, "a list of texts")
        return ()

    def flag(self, members: Mapping[str, object], key: str, place: str) -> bool:
        """Return a member that is true or false; false if it is missing."""
        value = members.get(key, False)
        if isinstance(value, bool):
            return value
        self._wrong(members, key, place, "true or false")
        return False

    def number(self, members: Mapping[str, object], key: str, place: str, default: float | None = None) -> float:
        """Return a member that is a number, an integer if it has no fraction."""
        value = members.get(key, default)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return int(value) if isinstance(value, float) and value.is_integer() else value
        self._wrong(members, key, place, "a number")
        return 1

    def integer(self, members: Mapping[str, object], key: str, place: str, default: int | None = None) -> int:
        """Return a member that is a number without a fraction."""
        value = self.number(members, key, place, default)
        if isinstance(value, int):
            return value
        self.fault(f"{place}.{key}", f"write a number without a fraction here, not {value:g}")
        return 1

    def _wrong(self, members: Mapping[str, object], key: str, place: str, wanted: str) -> None:
        if key in members:
            self.fault(f"{place}.{key}", f"write {wanted} here, not {_kind(members[key])}")
        else:
            self.fault(place, f'the key "{key}" is missing; it takes {wanted}')


def _kind(value: object) -> str:
    match value:
        case None | bool():
            return {None: "null", True: "true", False: "false"}[value]
        case dict():
            return "an object"
        case list():
            return "a list"
        case str():
            return f"the text {value[:40]!r}"
        case _:
            return f"the number {value!r:.40}"
