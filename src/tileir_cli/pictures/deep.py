"""Pictures of 16 bits for each channel: read by Pillow, which has no modes for colours of them, and written.

Pillow unpacks a colour of 16 bits to the higher byte, of either order of bytes. A file that is unpacked in both orders
gives both bytes.

Sources: Portable Network Graphics (PNG) Specification, third edition; TIFF, revision 6.0, and its supplement 2.
"""

from __future__ import annotations

import re
import struct
import sys
import zlib
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

_COLOUR: Final = re.compile(r"((?:RGB|RGBA|RGBX|R|G|B|A);16)([BLN])")
"""Pillow's names for how colours of 16 bits are packed; the last letter is the order of the bytes."""

_BITS, _PLANES = 258, 284
"""Tags of TIFF."""

_GREY_WITH_OPACITY: Final = "LA;16B"
_OTHER_ORDER: Final = {"B": "L", "L": "B", "N": "B" if sys.byteorder == "little" else "L"}


def is_deep(opened: Any) -> bool:
    """Return whether a picture that Pillow has opened, and not read, has more than 8 bits for each channel."""
    packings = _packings(opened)
    bits = getattr(opened, "tag_v2", {}).get(_BITS, (8,))
    return opened.mode.startswith(("I", "F")) or max(bits) > 8 or any(";16" in packing for packing in packings)


def colour_levels(opened: Any, again: Callable[[], Any]) -> Array | None:
    """Return the levels of a colour picture of 16 bits, from 0 to 65535; None where it is another one.

    Args:
        opened: The picture that Pillow has opened, and not read.
        again: Opens it once more.

    Raises:
        OSError: It is a TIFF whose colours are compressed one after the other, of which Pillow gives half of the bits.
    """
    packings = _packings(opened)
    if packings == (_GREY_WITH_OPACITY,):
        _unpack(opened, ("RGBA",))  # as four bytes, which these are
        grey, opacity = np.moveaxis(np.asarray(opened).view(">u2").astype(np.uint16), 2, 0)
        return np.stack((grey, grey, grey, opacity), axis=2)
    tags = getattr(opened, "tag_v2", {})
    if tags.get(_PLANES) == 2 and max(tags.get(_BITS, (8,))) == 16:
        if len(packings) == 1:
            raise OSError("a TIFF of 16 bits with compressed planes; save it with the colours of a pixel side by side")
        order = "L" if opened.tag_v2.prefix == b"II" else "B"
        packings = tuple(f"{packing[0]};16{order}" for packing in packings)  # Pillow takes planes for bytes
        _unpack(opened, packings)
    found = [_COLOUR.fullmatch(packing) for packing in packings]
    if not found or None in found:
        return None
    with again() as other:
        _unpack(other, [each[1] + _OTHER_ORDER[each[2]] for each in found if each])
        low = np.asarray(other)
    levels: Array = np.asarray(opened).astype(np.uint16) << 8 | low
    return levels


def _packings(opened: Any) -> tuple[str, ...]:
    """Return the pixel packing of each tile of a file, by Pillow's names."""
    arguments = (tile[3] for tile in opened.tile)
    words = (each if isinstance(each, str) else next(iter(each or ()), "") for each in arguments)
    return tuple(word if isinstance(word, str) else "" for word in words)


def _unpack(opened: Any, packings: Sequence[str]) -> None:
    """Let Pillow unpack each tile of a file in another way."""
    opened.tile = [
        tile._replace(args=packing if isinstance(tile.args, str) else (packing, *tile.args[1:]))
        for tile, packing in zip(opened.tile, packings, strict=True)
    ]


def png_of(levels: Array) -> bytes:
    """Return the file of a picture of 16 bits, [height, width] or [height, width, 3 or 4]."""
    height, width = levels.shape[:2]
    rows = levels.astype(">u2").reshape(height, -1).view(np.uint8)
    differences = np.diff(rows, axis=0, prepend=np.zeros_like(rows[:1]))  # filter 2: to the row above
    filtered = np.insert(differences, 0, 2, axis=1)
    kind = {1: 0, 3: 2, 4: 6}[levels.size // (height * width)]
    header = struct.pack(">IIBBBBB", width, height, 16, kind, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(filtered.tobytes())), (b"IEND", b""))
    chunks = (struct.pack(">I", len(data)) + name + data + _check(name + data) for name, data in parts)
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _check(data: bytes) -> bytes:
    return struct.pack(">I", zlib.crc32(data))


def tiff_of(levels: Array) -> bytes:
    """Return the file of a picture of 16 bits, [height, width] or [height, width, 3 or 4]: one strip, deflated."""
    height, width = levels.shape[:2]
    channels = levels.size // (height * width)
    strip = zlib.compress(levels.astype("<u2").tobytes())
    depths = struct.pack(f"<{channels}H", *(16,) * channels)
    place = 8  # behind the header
    long, short, deflate, opacity = 4, 3, 8, 2
    fields = [
        (256, long, 1, width),
        (257, long, 1, height),
        (258, short, channels, 16 if channels == 1 else place + len(strip)),
        (259, short, 1, deflate),
        (262, short, 1, 1 if channels == 1 else 2),
        (273, long, 1, place),
        (277, short, 1, channels),
        (278, long, 1, height),
        (279, long, 1, len(strip)),
        *([(338, short, 1, opacity)] if channels == 4 else []),
    ]
    directory = struct.pack("<H", len(fields)) + b"".join(struct.pack("<HHII", *field) for field in fields)
    body = strip + depths
    body += b"\0" * (len(body) % 2)  # directories begin at even places
    return struct.pack("<2sHI", b"II", 42, place + len(body)) + body + directory + b"\0" * 4
