"""Weights in the bytes of a model's file, found without parsing them, so that they are never copied or decoded.

Messages of Protocol Buffers are fields one after the other: a number and a kind, then a value. Of these only the way
from the model to the raw elements of its initializers is followed (``ModelProto.graph.initializer.raw_data``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_GRAPH: Final = 7
_INITIALIZER: Final = 5
_RAW_DATA: Final = 9
_VARINT, _EIGHT, _LENGTH, _FOUR = 0, 1, 2, 5
_LONG: Final = 4096
"""Bytes from which on elements stay where they are."""


def stripped(data: memoryview) -> tuple[bytes, dict[int, memoryview]]:
    """Return a model without the elements of its large initializers, and these by the position of the initializer.

    Args:
        data: The bytes of a ``ModelProto``.

    Raises:
        ValueError: They end within a field, or have a field of an unknown kind.

    """
    found: dict[int, memoryview] = {}
    model: list[bytes | memoryview] = []
    position = 0
    for number, whole, content in _fields(data):
        if number != _GRAPH or content is None:
            model.append(whole)
            continue
        graph: list[bytes | memoryview] = []
        for inner, part, tensor in _fields(content):
            if inner != _INITIALIZER or tensor is None:
                graph.append(part)
                continue
            kept, elements = _without_elements(tensor)
            if elements is None:
                graph.append(part)
            else:
                found[position] = elements
                graph.append(_field(_INITIALIZER, kept))
            position += 1
        model.append(_field(_GRAPH, b"".join(graph)))
    return b"".join(model), found


def _without_elements(tensor: memoryview) -> tuple[bytes, memoryview | None]:
    kept: list[memoryview] = []
    elements = None
    for number, whole, content in _fields(tensor):
        if number == _RAW_DATA and content is not None and len(content) >= _LONG:
            elements = content
        else:
            kept.append(whole)
    return b"".join(kept), elements


def _fields(data: memoryview) -> Iterator[tuple[int, memoryview, memoryview | None]]:
    """Yield the number of each field, all of its bytes, and its content where it has a length."""
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
