"""Plain JSON values to nodes, by the annotations of their classes, in the format of :mod:`tileir.core.json.codec`."""

from __future__ import annotations

import enum
import math
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Set
from fractions import Fraction
from functools import cache, cached_property
from itertools import repeat
from types import NoneType, UnionType
from typing import Final, TypeAlias, get_args, get_origin, get_type_hints

from tileir.core.json.encoder import added, field_names
from tileir.core.nodes import attrs

Decoder: TypeAlias = Callable[[object], object]

MAX_DEPTH: Final = 512
"""Greatest depth of nested objects and arrays: ample for the deepest expressions that verifiers accept."""

_WIDE: Final = re.compile(r"-?0x[0-9a-f]+")
_FRACTION: Final = re.compile(r"-?[1-9][0-9]*/[1-9][0-9]*")
_LONGEST_FRACTION: Final = 4000  # below the number of digits that Python converts
_NON_FINITE: Final = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


class FormatError(Exception):
    """A fault of JSON; the path to it grows from the inside out."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.path: list[str | int] = []

    def place(self) -> str:
        """Return the path from the root of the document."""
        steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in reversed(self.path))
        return "".join(["$", *steps])


def is_shallow(document: object) -> bool:
    """Return whether objects and arrays of plain JSON nest at most :data:`MAX_DEPTH` levels."""
    level = [document]
    for _ in range(MAX_DEPTH + 1):
        level = [
            child
            for parent in level
            if isinstance(parent, (dict, list))
            for child in (parent.values() if isinstance(parent, dict) else parent)
        ]
        if not level:
            return True
    return False


@attrs.frozen(repr=False)
class _Choice:
    """The alternatives at a place: by the JSON type of the value, and for objects by their tag."""

    expected: str
    by_type: Mapping[type, Decoder]
    by_tag: Mapping[str, Decoder]


@cache
def decoder_of(hint: object) -> Decoder:
    """Return the decoder from plain JSON to a value of the annotation ``hint``; it raises :class:`FormatError`."""
    choice = _choice(hint)
    by_type, by_tag = choice.by_type, choice.by_tag

    def decode(data: object) -> object:
        if type(data) is dict:
            tag = data.get("$")
            decoder = by_tag.get(tag) if isinstance(tag, str) else None
        else:
            decoder = by_type.get(type(data))
        if decoder is None:
            raise FormatError(f"expected {choice.expected} but found {_describe(data)}")
        return decoder(data)

    return decode


def _choice(hint: object) -> _Choice:
    if isinstance(hint, UnionType):
        return _union(tuple(map(_choice, get_args(hint))))
    if get_origin(hint) is tuple:
        return _Choice("an array", {list: _tuple_decoder(get_args(hint))}, {})
    if hint in _LEAVES:
        return _LEAVES[hint]
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _Choice(_one_of(hint), {str: _enum_decoder(hint)}, {})
    if isinstance(hint, type) and attrs.has(hint):
        return _Choice(hint.__name__, {}, {hint.__name__: _NodeDecoder(hint).decode})
    raise TypeError(f"{hint!r} has no JSON form")


def _union(choices: tuple[_Choice, ...]) -> _Choice:
    by_type: dict[type, Decoder] = {}
    by_tag: dict[str, Decoder] = {}
    for choice in choices:
        if choice.by_tag.keys() & by_tag.keys():
            raise TypeError(f"two members of a union have one JSON form: {choice.expected}")
        by_type.update(choice.by_type)
        by_tag.update(choice.by_tag)
    by_type.update({int: _itself} if _LEAVES[int] in choices else {})  # a float takes integers only without int
    return _Choice(" or ".join(dict.fromkeys(choice.expected for choice in choices)), by_type, by_tag)


def _one_of(cls: type[enum.Enum]) -> str:
    return "one of " + ", ".join(repr(member.value) for member in cls)


def _enum_decoder(cls: type[enum.Enum]) -> Decoder:
    members: dict[object, enum.Enum] = {member.value: member for member in cls}

    def decode(data: object) -> object:
        if data not in members:
            raise FormatError(f"expected {_one_of(cls)} but found {_describe(data)}")
        return members[data]

    return decode


def _tuple_decoder(args: tuple[object, ...]) -> Decoder:
    """Return the decoder of a tuple: of any length for a type and ``...``, else of one element for each type."""
    count = None if args[1:] == (...,) else len(args)
    decoders: Iterable[Decoder] = repeat(decoder_of(args[0])) if count is None else tuple(map(decoder_of, args))

    def decode(data: object) -> object:
        assert isinstance(data, list)
        if count is not None and len(data) != count:
            raise FormatError(f"expected an array of {count} but found one of {len(data)}")
        items: list[object] = []  # on a fault, its length is the index of the next one
        try:
            for decoder, item in zip(decoders, data, strict=False):  # one decoder may be for all
                items.append(decoder(item))
        except FormatError as fault:
            fault.path.append(len(items))
            raise
        return tuple(items)

    return decode


@attrs.frozen(slots=False, repr=False)
class _NodeDecoder:
    """Decoder of the nodes of one class."""

    cls: type

    @cached_property
    def fields(self) -> tuple[tuple[str, Decoder], ...]:
        """The decoder of each field, resolved at first use because types may contain themselves."""
        hints = get_type_hints(self.cls)
        return tuple((name, decoder_of(hints[name])) for name in field_names(self.cls))

    @cached_property
    def keys(self) -> frozenset[str]:
        """The keys of an object of this class."""
        return frozenset(("$", *field_names(self.cls)))

    def decode(self, data: object) -> object:
        """Return the node that ``data`` describes."""
        assert isinstance(data, dict)
        fields = self.fields
        if data.keys() != self.keys:
            lacks = self.keys - data.keys()
            if len(self.keys) != len(data) + len(lacks) or not lacks <= added(self.cls).keys():
                raise FormatError(_key_problem(self.cls, data.keys() - {"$"}))
            fields = tuple((name, decoder) for name, decoder in fields if name in data)
        values: dict[str, object] = {}
        name = ""
        try:
            for name, decoder in fields:
                values[name] = decoder(data[name])
        except FormatError as fault:
            fault.path.append(name)
            raise
        return self.cls(**values)


def _key_problem(cls: type, keys: Set[str]) -> str:
    names = set(field_names(cls))
    missing, extra = sorted(names - keys - added(cls).keys()), sorted(keys - names)
    text = f"{cls.__name__} lacks the key {missing[0]!r}" if missing else f"{cls.__name__} has no key {extra[0]!r:.80}"
    return text if len(missing) + len(extra) == 1 else f"{text}; its keys are {', '.join(sorted(names))}"


def _decode_int(data: object) -> object:
    text = _text_of(data)
    if not _WIDE.fullmatch(text):
        raise FormatError(f"expected hexadecimal digits after 0x but found {text!r:.80}")
    return int(text, 16)


def _decode_float(data: object) -> object:
    text = _text_of(data)
    if text not in _NON_FINITE:
        raise FormatError(f"expected one of 'inf', '-inf', 'nan' but found {text!r:.80}")
    return _NON_FINITE[text]


def _text_of(data: object) -> str:
    assert isinstance(data, dict)
    text = data.get("value")
    if len(data) != 2 or not isinstance(text, str):
        raise FormatError('expected an object with the key "value" and a string there')
    return text


def _decode_fraction(data: object) -> object:
    assert isinstance(data, str)
    if len(data) <= _LONGEST_FRACTION and _FRACTION.fullmatch(data):
        value = Fraction(data)
        if value.denominator > 1 and str(value) == data:
            return value
    raise FormatError(f"expected a fraction 'p/q' in lowest terms but found {_describe(data)}")


def _decode_bytes(data: object) -> object:
    assert isinstance(data, str)
    try:
        value = b64decode(data, validate=True)
    except ValueError:  # characters beyond ASCII, of no digit, or a wrong number of them
        value = None
    if value is None or b64encode(value).decode() != data:  # unused bits must be 0
        raise FormatError(f"expected bytes in base64 but found {_describe(data)}")
    return value


def _itself(data: object) -> object:
    return data


def _widen(data: object) -> object:
    assert isinstance(data, int)
    return float(data)


def _describe(data: object) -> str:
    match data:
        case dict():
            tag = data.get("$")
            return f"an object of class {tag!r:.80}" if isinstance(tag, str) else 'an object without the key "$"'
        case list():
            return "an array"
        case None | bool():
            return {None: "null", True: "true", False: "false"}[data]
        case str():
            return f"the string {data!r:.80}"
        case _:
            return f"the number {data!r:.80}"


_LEAVES: Final[Mapping[object, _Choice]] = {
    str: _Choice("a string", {str: _itself}, {}),
    bytes: _Choice("bytes in base64", {str: _decode_bytes}, {}),
    memoryview: _Choice("bytes in base64", {str: _decode_bytes}, {}),
    bool: _Choice("true or false", {bool: _itself}, {}),
    NoneType: _Choice("null", {NoneType: _itself}, {}),
    int: _Choice("an integer", {int: _itself}, {"int": _decode_int}),
    float: _Choice("a number", {float: _itself, int: _widen}, {"float": _decode_float}),
    Fraction: _Choice("a fraction", {str: _decode_fraction}, {}),
}
