"""Weights in the bytes of a model's file, located without parsing, so that they are never copied or decoded.

Protocol Buffers messages are sequences of fields: a number and a kind, then a value. Only the paths to raw elements of
tensors are followed: initializers, constant nodes, and attributes, in subgraphs and functions as well. These tensors
are modified so that their elements are external, under a name that no file has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

_VARINT, _EIGHT, _LENGTH, _FOUR = 0, 1, 2, 5
_LONG: Final = 4096
"""Minimum number of bytes from which elements are not parsed."""
_DEPTH: Final = 100
"""Maximum nesting of messages, like that of Protocol Buffers."""
_RAW_DATA, _EXTERNAL_DATA, _DATA_LOCATION = 9, 13, 14
_LOCATION: Final = b"location"

MARK: Final = "\0"
"""Prefix of the location of elements in the model's own file; a number follows."""


class _Message(Enum):
    MODEL = "model"
    GRAPH = "graph"
    FUNCTION = "function"
    NODE = "node"
    ATTRIBUTE = "attribute"
    SPARSE = "sparse tensor"
    TENSOR = "tensor"


_WITHIN: Final[Mapping[_Message, Mapping[int, _Message]]] = MappingProxyType(
    {
        _Message.MODEL: {7: _Message.GRAPH, 25: _Message.FUNCTION},
        _Message.GRAPH: {1: _Message.NODE, 5: _Message.TENSOR, 15: _Message.SPARSE},
        _Message.FUNCTION: {7: _Message.NODE, 11: _Message.ATTRIBUTE},
        _Message.NODE: {5: _Message.ATTRIBUTE},
        _Message.ATTRIBUTE: {
            5: _Message.TENSOR,
            6: _Message.GRAPH,
            10: _Message.TENSOR,
            11: _Message.GRAPH,
            22: _Message.SPARSE,
            23: _Message.SPARSE,
        },
        _Message.SPARSE: {1: _Message.TENSOR, 2: _Message.TENSOR},
    }
)
"""Numbers of fields that lead to tensors."""


def stripped(data: memoryview) -> tuple[bytes, list[memoryview]]:
    """Return a model without the elements of its large tensors, and these elements; the tensors refer to them.

    Args:
        data: Bytes of a ``ModelProto``.

    Raises:
        ValueError: They end within a field, have a field of an unknown kind, or too deep messages.
    """
    found: list[memoryview] = []
    return b"".join(_kept(data, _Message.MODEL, found, 0)), found


def _kept(data: memoryview, message: _Message, found: list[memoryview], depth: int) -> Iterator[bytes | memoryview]:
    """Yield the bytes of a message that are kept."""
    if depth > _DEPTH:
        raise ValueError(f"messages are more than {_DEPTH} deep")
    if message is _Message.TENSOR:
        yield from _without_elements(data, found)
        return
    within = _WITHIN[message]
    for number, whole, content in _fields(data):
        inner = within.get(number)
        if inner is None or content is None or len(content) < _LONG:
            yield whole
        else:
            yield _field(number, b"".join(_kept(content, inner, found, depth + 1)))


def _without_elements(tensor: memoryview, found: list[memoryview]) -> Iterator[bytes | memoryview]:
    elements = None
    for number, whole, content in _fields(tensor):
        if number == _RAW_DATA and content is not None and len(content) >= _LONG:
            elements = content
        else:
            yield whole
    if elements is not None:
        place = f"{MARK}{len(found)}".encode()
        found.append(elements)
        yield _field(_EXTERNAL_DATA, _field(1, _LOCATION) + _field(2, place))
        yield _number(_DATA_LOCATION << 3 | _VARINT) + b"\1"


def _fields(data: memoryview) -> Iterator[tuple[int, memoryview, memoryview | None]]:
    """Yield the number of each field, all of its bytes, and its content if it has a length."""
    end, here = len(data), 0
    while here < end:
        begin = here
        tag, here = _varint(data, here)
        kind = tag & 7
        content = None
        if kind == _VARINT:
            _, here = _varint(data, here)
        elif kind == _LENGTH:
            length, here = _varint(data, here)
            content = data[here : here + length]
            here += length
        elif kind in (_EIGHT, _FOUR):
            here += 8 if kind == _EIGHT else 4
        else:
            raise ValueError(f"a field of kind {kind}")
        if here > end:
            raise ValueError("the file ends within a field")
        yield tag >> 3, data[begin:here], content


def _varint(data: memoryview, here: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if here >= len(data) or shift > 63:
            raise ValueError("the file ends within a number, or has one of more than 64 bits")
        byte = data[here]
        here += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, here
        shift += 7


def _field(number: int, content: bytes) -> bytes:
    return _number(number << 3 | _LENGTH) + _number(len(content)) + content


def _number(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)
