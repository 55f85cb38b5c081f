"""Messages between the server and its workers: a length, JSON, and the pictures that it names, one after the other."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final, Protocol

import orjson

READY: Final = "ready"
"""The message of a worker before the first request."""

DONE: Final = "done"
"""The message of a worker after the last event of each request."""

NUMBER: Final = "number"
"""The key of the number of a request, which counts up."""

GIVEN_UP: Final = "given_up"
"""The key of a message with the number of a stale request."""

_LENGTH: Final = struct.Struct("<I")


class Reader(Protocol):
    """An asynchronous stream of bytes."""

    async def readexactly(self, n: int) -> bytes:
        """Return the next ``n`` bytes."""


def encoded(message: Mapping[str, Any], pictures: Mapping[str, bytes] | None = None) -> bytes:
    """Return the bytes of a message."""
    attached = pictures or {}
    header = {**message, "pictures": {name: len(content) for name, content in attached.items()}}
    document = orjson.dumps(header)
    return b"".join((_LENGTH.pack(len(document)), document, *attached.values()))


def read(stream: Any) -> dict[str, Any] | None:
    """Return the next message without pictures from a blocking stream; None at its end."""
    length = stream.read(_LENGTH.size)
    if len(length) < _LENGTH.size:
        return None
    document = stream.read(_LENGTH.unpack(length)[0])
    message: dict[str, Any] = orjson.loads(document)
    return message


async def received(reader: Reader) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the next message with its pictures.

    Raises:
        asyncio.IncompleteReadError: The stream ended.
    """
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    message: dict[str, Any] = orjson.loads(await reader.readexactly(length))
    sizes: dict[str, int] = message.pop("pictures")
    return message, {name: await reader.readexactly(size) for name, size in sizes.items()}
