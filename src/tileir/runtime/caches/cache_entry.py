"""File format of an entry of the disk cache: a header that verifies the rest, a table, and named parts.

::

    magic   8 bytes   b"tileir" and the version of this format
    key    32 bytes   key of the entry
    digest 32 bytes   SHA-256 of everything after the header
    size    8 bytes   length of that
    length  4 bytes   of the table
    table             JSON: {"about": {name: text}, "parts": [[name, stored size, size]]}
    parts             one after the other, compressed by zlib if the two sizes differ

A mapped entry has one uncompressed part, which is aligned to 64 bytes by blanks at the end of the table.
Numbers are little-endian. Nothing is executed or unpickled.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tileir.core import Content, attrs

FORMAT: Final = 1
MAGIC: Final = b"tileir" + FORMAT.to_bytes(2, "little")
HEADER: Final = struct.Struct("<8s32s32sQ")
LENGTH: Final = struct.Struct("<I")

MAPPED: Final = "mapped"
"""Name of the only part of a mapped entry."""

ALIGNMENT: Final = 64
"""Its alignment in bytes: devices that share the host's memory read it in place."""

COMPRESSED: Final = 1024
"""Minimum number of bytes from which parts are compressed."""

HIGHEST_RATIO: Final = 1032
"""Upper bound of the expansion ratio: a code of two bits for 258 bytes."""


class BrokenEntryError(ValueError):
    """File that is not an entry, not the requested entry, or not complete; the message says which."""


@attrs.frozen
class Table:
    """Head of an entry, before the parts: facts for people, and name, stored size and size of each part."""

    about: Mapping[str, str]
    parts: tuple[tuple[str, int, int], ...]


def encode(key: bytes, about: Mapping[str, str], parts: Mapping[str, bytes]) -> tuple[Content, ...]:
    """Return the content of an entry as pieces to be written in order."""
    stored = [_packed(content) for content in parts.values()]
    rows = [(name, len(piece), len(part)) for (name, part), piece in zip(parts.items(), stored, strict=True)]
    return _entry(key, about, rows, stored)


def encode_mapped(key: bytes, about: Mapping[str, str], pieces: Sequence[Content]) -> tuple[Content, ...]:
    """Return the content of a mapped entry, whose only part is given in pieces."""
    size = sum(map(len, pieces))
    return _entry(key, about, [(MAPPED, size, size)], pieces, ALIGNMENT)


def _entry(
    key: bytes,
    about: Mapping[str, str],
    rows: Sequence[tuple[str, int, int]],
    pieces: Sequence[Content],
    alignment: int = 1,
) -> tuple[Content, ...]:
    """Return the content of an entry, with aligned parts; ``rows`` has name, stored size and size of each."""
    table = json.dumps({"about": dict(about), "parts": rows}, separators=(",", ":")).encode()
    table += b" " * (-(HEADER.size + LENGTH.size + len(table)) % alignment)
    content = (LENGTH.pack(len(table)), table, *pieces)
    digest = hashlib.sha256()
    for piece in content:
        digest.update(piece)
    return HEADER.pack(MAGIC, key, digest.digest(), sum(map(len, content))), *content


def mapped_part(key: bytes, content: memoryview, is_sealed: Callable[[Mapping[str, str]], bool]) -> memoryview:
    """Return the part of an entry that :func:`encode_mapped` made.

    Args:
        key: Key of the entry.
        content: The whole file.
        is_sealed: Decides by the entry's facts whether nobody can have changed it, so that its digest is not checked.

    Raises:
        BrokenEntryError: It is not such an entry, or not complete.
    """
    digest, size = _header(key, bytes(content[: HEADER.size]))
    payload = content[HEADER.size :]
    if len(payload) != size:
        raise BrokenEntryError(f"it has {len(payload)} bytes where {size} were stored")
    (length,) = LENGTH.unpack_from(payload) if size >= LENGTH.size else (0,)
    start = HEADER.size + LENGTH.size + length
    table = table_of(key, bytes(content[:start]))
    if not is_sealed(table.about) and hashlib.sha256(payload).digest() != digest:
        raise BrokenEntryError("its digest is not that of its content")
    part = content[start:]
    if table.parts != ((MAPPED, len(part), len(part)),) or start % ALIGNMENT:
        raise BrokenEntryError("it has no part that can be mapped")
    return part


def decode(key: bytes, content: bytes) -> Mapping[str, bytes]:
    """Return the parts of an entry after verifying that they are those stored for ``key``.

    Raises:
        BrokenEntryError: They are not.
    """
    digest, size = _header(key, content)
    payload = memoryview(content)[HEADER.size :]
    if len(payload) != size:
        raise BrokenEntryError(f"it has {len(payload)} bytes where {size} were stored")
    if hashlib.sha256(payload).digest() != digest:
        raise BrokenEntryError("its digest is not that of its content")
    start, parts = HEADER.size + LENGTH.size + LENGTH.unpack_from(payload)[0], {}
    for name, stored, length in table_of(key, content).parts:
        piece = bytes(content[start : start + stored])
        try:
            parts[name] = piece if stored == length else _unpacked(piece, length)
        except zlib.error as error:
            raise BrokenEntryError(f"part {name!r} cannot be unpacked: {error}") from None
        start += stored
    return parts


def table_of(key: bytes, beginning: bytes) -> Table:
    """Return the table of an entry from at least its header and table, without checking its digest.

    Raises:
        BrokenEntryError: It is not an entry, or has another key.
    """
    _header(key, beginning)
    try:
        (length,) = LENGTH.unpack_from(beginning, HEADER.size)
        start = HEADER.size + LENGTH.size
        document = json.loads(beginning[start : start + length])
        about = {str(name): str(text) for name, text in document["about"].items()}
        return Table(about, tuple((str(name), int(stored), int(size)) for name, stored, size in document["parts"]))
    except (struct.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BrokenEntryError(f"its table cannot be read: {error}") from None


def _header(key: bytes, content: bytes) -> tuple[bytes, int]:
    if len(content) < HEADER.size:
        raise BrokenEntryError(f"it ends after {len(content)} bytes")
    magic, stored_key, digest, size = HEADER.unpack_from(content)
    if magic != MAGIC:
        raise BrokenEntryError(f"it does not begin as an entry of format {FORMAT}")
    if stored_key != key:
        raise BrokenEntryError("it was stored for another key")
    return digest, size


def _unpacked(piece: bytes, length: int) -> bytes:
    """Return a decompressed part; memory is allocated for the actual data, not for the size that a table claims."""
    if not 0 <= length <= HIGHEST_RATIO * len(piece):
        raise zlib.error(f"{len(piece)} bytes cannot become {length}")
    unpacking = zlib.decompressobj()
    part = unpacking.decompress(piece, length + 1)
    if len(part) != length or not unpacking.eof:
        raise zlib.error(f"it does not become {length} bytes")
    return part


def _packed(content: bytes) -> bytes:
    packed = zlib.compress(content, 1) if len(content) >= COMPRESSED else content
    return packed if len(packed) < len(content) else content
