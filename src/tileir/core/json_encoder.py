"""Nodes to plain JSON values, by the class of each value alone. :mod:`tileir.core.codec` tells the format."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from fractions import Fraction
from operator import attrgetter
from types import NoneType
from typing import Final, TypeAlias

import attrs

Encoder: TypeAlias = Callable[[object], object]


def encode(value: object) -> object:
    """Return what the standard library's ``json`` writes for ``value``; a TypeError where it has no such form."""
    return _ENCODERS[type(value)](value)


class _Encoders(dict[type, Encoder]):
    """Encoders of the classes seen so far."""

    def __missing__(self, cls: type) -> Encoder:
        encoder = self[cls] = _encoder(cls)
        return encoder


def _encoder(cls: type) -> Encoder:
    if attrs.has(cls):
        return _node_encoder(cls)
    if issubclass(cls, enum.Enum):
        return attrgetter("value")
    raise TypeError(f"{cls.__qualname__} has no JSON form")


def _node_encoder(cls: type) -> Encoder:
    fields = tuple((name, attrgetter(name)) for name in field_names(cls))
    tag = cls.__name__

    def encode(node: object) -> object:
        result: dict[str, object] = {"$": tag}
        for name, value_of in fields:
            value = value_of(node)
            result[name] = _ENCODERS[type(value)](value)
        return result

    return encode


def _itself(value: object) -> object:
    return value


def _encode_tuple(value: object) -> object:
    assert isinstance(value, tuple)
    return [_ENCODERS[type(item)](item) for item in value]


def _encode_int(value: object) -> object:
    assert isinstance(value, int)
    return value if -(1 << 63) <= value < 1 << 64 else {"$": "int", "value": hex(value)}


def _encode_float(value: object) -> object:
    assert isinstance(value, float)
    return value if math.isfinite(value) else {"$": "float", "value": str(value)}


def _encode_fraction(value: object) -> object:
    return str(value)


def field_names(cls: type) -> tuple[str, ...]:
    """Return the fields of a node class that are written, in the order of their keys: those that equality sees."""
    return tuple(sorted(field.name for field in attrs.fields(cls) if field.eq))


_ENCODERS: Final = _Encoders(
    {
        str: _itself,
        bool: _itself,
        NoneType: _itself,
        tuple: _encode_tuple,
        int: _encode_int,
        float: _encode_float,
        Fraction: _encode_fraction,
    }
)
