"""Nodes to plain JSON values, by the class of each value alone, in the format of :mod:`tileir.core.json.codec`."""

from __future__ import annotations

import enum
import math
from base64 import b64encode
from collections.abc import Callable
from fractions import Fraction
from operator import attrgetter
from types import NoneType
from typing import Final, TypeAlias

import attrs

from tileir.core.array_value import ArrayValue
from tileir.core.nodes.schema import ADDED

Known: TypeAlias = dict[int, object]
"""Forms of the nodes of a document, by :func:`id`: expressions share their types, and parts of each other."""

Encoder: TypeAlias = Callable[[object, Known], object]


def encode(value: object) -> object:
    """Return the value for the standard library's ``json``; a TypeError if ``value`` has no such form."""
    return _ENCODERS[type(value)](value, {})


def identify(value: object) -> object:
    """Return the result of :func:`encode` with digests in place of arrays, which are hashed once."""
    return _IDENTIFIERS[type(value)](value, {})


class _Encoders(dict[type, Encoder]):
    """Encoders of the classes seen so far."""

    def __missing__(self, cls: type) -> Encoder:
        encoder = self[cls] = self._encoder(cls)
        return encoder

    def _encoder(self, cls: type) -> Encoder:
        if attrs.has(cls):
            return self._node_encoder(cls)
        if issubclass(cls, enum.Enum):
            return _encode_member
        raise TypeError(f"{cls.__qualname__} has no JSON form")

    def _node_encoder(self, cls: type) -> Encoder:
        later = added(cls)
        fields = tuple((name, attrgetter(name), name in later, later.get(name)) for name in field_names(cls))
        tag = cls.__name__

        def encode(node: object, known: Known) -> object:
            if (form := known.get(id(node))) is not None:
                return form
            result: dict[str, object] = {"$": tag}
            for name, value_of, optional, default in fields:
                value = value_of(node)
                if not optional or value != default:
                    result[name] = self[type(value)](value, known)
            known[id(node)] = result
            return result

        return encode

    def encode_tuple(self, value: object, known: Known) -> object:
        """Return a tuple as an array."""
        assert isinstance(value, tuple)
        return [self[type(item)](item, known) for item in value]


def _itself(value: object, _: Known) -> object:
    return value


def _encode_member(value: object, _: Known) -> object:
    assert isinstance(value, enum.Enum)
    return value._value_  # its property takes ten times as long


def _encode_bytes(value: object, _: Known) -> object:
    assert isinstance(value, bytes | memoryview)
    return b64encode(value).decode()


def _identify_array(value: object, _: Known) -> object:
    assert isinstance(value, ArrayValue)
    return {"$": "ArrayValue", "digest": value.digest}


def _encode_int(value: object, _: Known) -> object:
    assert isinstance(value, int)
    return value if -(1 << 63) <= value < 1 << 64 else {"$": "int", "value": hex(value)}


def _encode_float(value: object, _: Known) -> object:
    assert isinstance(value, float)
    return value if math.isfinite(value) else {"$": "float", "value": str(value)}


def _encode_fraction(value: object, _: Known) -> object:
    return str(value)


def field_names(cls: type) -> tuple[str, ...]:
    """Return the fields of a node class that are written, sorted by their keys: those that equality compares."""
    return tuple(sorted(field.name for field in attrs.fields(cls) if field.eq))


def added(cls: type) -> dict[str, object]:
    """Return the fields of a node class that are written only if they differ from these defaults."""
    return {field.name: field.default for field in attrs.fields(cls) if ADDED.items() <= field.metadata.items()}


_LEAVES: Final[dict[type, Encoder]] = {
    str: _itself,
    bool: _itself,
    NoneType: _itself,
    int: _encode_int,
    float: _encode_float,
    Fraction: _encode_fraction,
    bytes: _encode_bytes,
    memoryview: _encode_bytes,
}
_ENCODERS: Final = _Encoders(_LEAVES)
_ENCODERS[tuple] = _ENCODERS.encode_tuple
_IDENTIFIERS: Final = _Encoders({**_LEAVES, ArrayValue: _identify_array})
_IDENTIFIERS[tuple] = _IDENTIFIERS.encode_tuple
