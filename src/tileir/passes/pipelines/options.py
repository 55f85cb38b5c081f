"""Conversion of written option values to the types that a pass's annotations give.

A written value is a number, a text, true, false, none, a tuple of such values, or a record of them by name. An
annotation may be one of these types, an enumeration (by value), an attrs class (a record of its fields), or tuples
and unions of these. For a union of classes with names, such as the steps of a script, the name precedes the record:
``split{loop=i,by=8}``, which is ``{split={loop=i,by=8}}``.
"""

from __future__ import annotations

import enum
import json
import re
import types
import typing
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final, TypeAlias

from tileir.core import attrs, nearest

Written: TypeAlias = "bool | int | float | str | tuple[Written, ...] | dict[str, Written] | None"
"""A value of an option as text and JSON spell it."""

_WORD: Final = re.compile(r"[^\W\d]\w*\Z")
WORDS: Final[Mapping[str, bool | None]] = types.MappingProxyType({"true": True, "false": False, "none": None})
"""Words that are values of their own."""

_RESERVED: Final = (*WORDS, "inf", "nan")
_PLAIN: Final = {bool: "true or false", int: "an integer", float: "a number", str: "a text", type(None): "none"}


@attrs.frozen
class FitError(Exception):
    """Error for a value that does not fit an option, with the place inside, such as ``[0].idxs[1].size``, or empty."""

    place: str
    problem: str


@cache
def hints_of(kind: type) -> Mapping[str, object]:
    """Return the annotation of each field of an attrs class, in order."""
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in attrs.fields(kind) if field.init}


def field_called(name: str, known: Mapping[str, object]) -> str | None:
    """Return the field of a name, such as ``mem_kib`` for ``mem_KiB``; None if there is none."""
    if name in known:
        return name
    folded = name.casefold()
    return next((field for field in known if field.casefold() == folded), None)


def set_fields(value: object) -> Mapping[str, object]:
    """Return the fields of an attrs value that are not at their defaults."""
    fields = {field.name: field.default for field in attrs.fields(type(value)) if field.init}  # type: ignore[arg-type]
    return {name: held for name, usual in fields.items() if (held := getattr(value, name)) != usual}


def written(value: object) -> Written:
    """Return the plain form of an option's value; :func:`fitted` reads it back."""
    match value:
        case enum.Enum():
            return written(value.value)
        case tuple():
            return tuple(map(written, value))
        case None | bool() | int() | float() | str():
            return value
        case _:
            record: Written = {name: written(held) for name, held in set_fields(value).items()}
            name = vars(type(value)).get("name")
            return {name: record} if isinstance(name, str) else record


def to_text(value: Written) -> str:
    """Return a value as the text of a pipeline spells it."""
    match value:
        case None:
            return "none"
        case bool():
            return "true" if value else "false"
        case str():
            return value if _WORD.match(value) and value not in _RESERVED else json.dumps(value)
        case tuple():
            return f"({','.join(map(to_text, value))})"
        case dict() if len(value) == 1 and isinstance(next(iter(value.values())), dict):
            return "".join(f"{name}{to_text(record)}" for name, record in value.items())
        case dict():
            return record_text(value)
        case _:
            return repr(value)


def record_text(members: Mapping[str, Written]) -> str:
    """Return names with values as the text of a pipeline spells them."""
    return f"{{{','.join(f'{name}={to_text(value)}' for name, value in members.items())}}}"


def fitted(value: Written, hint: object, place: str = "") -> object:
    """Convert a written value to the type of an annotation.

    A single value stands for a tuple of one, an integer for a number, and a text for a record whose
    other fields have defaults.

    Raises:
        FitError: The value does not fit.
    """
    if isinstance(hint, types.UnionType):
        kinds = _named_kinds(hint)
        return _named(value, kinds, place) if kinds else _any_of(value, hint, place)
    if typing.get_origin(hint) is tuple:
        return tuple(_items(value, hint, place))
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        member = next((member for member in hint if member.value == value and type(member.value) is type(value)), None)
        if member is None:
            raise FitError(place, f"takes {described(hint)}")
        return member
    if isinstance(hint, type) and attrs.has(hint):
        return _record(value, hint, place)
    if hint is float and type(value) is int:
        return float(value)
    if type(value) is not hint:
        raise FitError(place, f"takes {described(hint)}")
    return value


def described(hint: object) -> str:
    """Return a description of an annotation in words."""
    if isinstance(hint, types.UnionType) and (kinds := _named_kinds(hint)):
        return f"one of {', '.join(kinds)}, with a record behind it"
    if isinstance(hint, types.UnionType):
        return " or ".join(described(case) for case in typing.get_args(hint))
    if typing.get_origin(hint) is tuple:
        return f"a tuple, each item {described(typing.get_args(hint)[0])}"
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return f"one of {', '.join(str(member.value) for member in hint)}"
    if isinstance(hint, type) and attrs.has(hint):
        return f"a record of {', '.join(hints_of(hint))}"
    return _PLAIN[hint] if isinstance(hint, type) and hint in _PLAIN else str(hint)


def _any_of(value: Written, hint: types.UnionType, place: str) -> object:
    inner: list[FitError] = []
    for case in typing.get_args(hint):
        try:
            return fitted(value, case, place)
        except FitError as error:
            inner += [error] if error.place != place else []
    raise inner[0] if len(inner) == 1 else FitError(place, f"takes {described(hint)}")


def _named_kinds(hint: types.UnionType) -> Mapping[str, type]:
    """Return the classes of a union by name; empty unless each has a name."""
    kinds = typing.get_args(hint)
    names = [vars(kind).get("name") if isinstance(kind, type) else None for kind in kinds]
    return {name: kind for name, kind in zip(names, kinds, strict=True) if isinstance(name, str)} if all(names) else {}


def _named(value: Written, kinds: Mapping[str, type], place: str) -> object:
    """Return the record behind the name of a class."""
    if not isinstance(value, dict) or len(value) != 1:
        raise FitError(place, f"takes one of {', '.join(kinds)}, with a record behind it")
    ((name, record),) = value.items()
    if name not in kinds:
        raise FitError(place, f"takes no {name[:64]}{nearest(name, kinds)}")
    return _record(record, kinds[name], f"{place}.{name}")


def _items(value: Written, hint: object, place: str) -> Iterator[object]:
    items = value if isinstance(value, tuple) else (value,)
    cases = typing.get_args(hint)
    if cases[-1] is Ellipsis:
        cases = cases[:1] * len(items)
    if len(cases) != len(items):
        raise FitError(place, f"takes {len(cases)} items, not {len(items)}")
    for number, (item, case) in enumerate(zip(items, cases, strict=True)):
        yield fitted(item, case, f"{place}[{number}]" if isinstance(value, tuple) else place)


def _record(value: Written, kind: type, place: str) -> object:
    known = hints_of(kind)
    if isinstance(value, str):
        value = {_main_field(kind): value}
    if not isinstance(value, dict):
        raise FitError(place, f"takes {described(kind)}")
    members: dict[str, object] = {}
    for name, item in value.items():
        field = field_called(name, known)
        if field is None:
            raise FitError(place, f"has no field {name[:64]}{nearest(name, known)}")
        if field in members:
            raise FitError(place, f"has field {field} twice; drop one")
        members[field] = fitted(item, known[field], f"{place}.{field}")
    for needed in attrs.fields(kind):
        if needed.init and needed.default is attrs.NOTHING and needed.name not in members:
            raise FitError(place, f"needs the field {needed.name}")
    try:
        result: object = kind(**members)
    except ValueError as refusal:
        raise FitError(place, f"is refused: {refusal}") from None
    return result


def _main_field(kind: type) -> str:
    """Return the field that a lone text sets."""
    names = list(hints_of(kind))
    needed = (field.name for field in attrs.fields(kind) if field.init and field.default is attrs.NOTHING)
    return next(needed, names[0])
