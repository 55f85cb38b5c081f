"""Pictures as arrays, by Pillow: grey is [height, width], colour [height, width, channels], values 0 to 1 in f32."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np

from tileir.core.errors import fail
from tileir_cli.pictures import deep

Array = np.ndarray[Any, np.dtype[Any]]

_FORMATS: Final = {
    ".bmp": "BMP",
    ".gif": "GIF",
    ".jpeg": "JPEG",
    ".jpg": "JPEG",
    ".pbm": "PPM",
    ".pgm": "PPM",
    ".png": "PNG",
    ".pnm": "PPM",
    ".ppm": "PPM",
    ".tif": "TIFF",
    ".tiff": "TIFF",
    ".webp": "WEBP",
}
"""What Pillow calls the formats; for some others it starts programs, or has code that few have looked at."""

FORMATS: Final = tuple(sorted(set(_FORMATS.values())))
_ONLY_READ: Final = {".gif": "256 colours", ".pbm": "black and white"}
"""Formats that would lose most of a picture, and what they have."""

_OPAQUE: Final = ("JPEG", "PPM")
_DEEP: Final[dict[str, Callable[[Array], bytes]]] = {"PNG": deep.png_of, "TIFF": deep.tiff_of}
_OPTIONS: Final = {"WEBP": {"lossless": True}}

_ORIENTATION: Final = 0x0112
_MOST: Final = {np.dtype(np.int16): 2**15 - 1, np.dtype(np.int32): 2**31 - 1, np.dtype(np.uint32): 2**32 - 1}


def is_picture(path: Path) -> bool:
    """Return whether the name of a file ends as that of a picture."""
    return path.suffix.lower() in _FORMATS


def endings(*, written: bool = False) -> str:
    """Return the endings of pictures that are read, or written, for people."""
    *others, last = (ending for ending in _FORMATS if not written or ending not in _ONLY_READ)
    return f"{', '.join(others)} and {last}"


def unwritable(path: Path) -> str | None:
    """Return the reason why no result can be written to a file of this name; None where one can."""
    if not is_picture(path):
        return f"the name must end in .npy or in that of a picture: {endings(written=True)} are written"
    has = _ONLY_READ.get(path.suffix.lower())
    return f"pictures are read from {path.suffix}, which has {has}, and not written; write .png" if has else None


def read_picture(path: Path) -> Array:
    """Return a picture as f32 from 0 to 1, as deep as it is, and as its EXIF orientation says that it is looked at.

    Palettes become colours, grey with opacity RGBA. Of several pictures in a file it is the first one. Floats stay as
    they are; signed integers may be negative.

    Raises:
        TileError: TIL903 where Pillow is not installed.
        OSError: The file cannot be read as a picture.
    """
    image = _pillow()
    try:
        with silenced(), image.open(path, formats=FORMATS) as opened:
            return picture_of(opened, lambda: image.open(path, formats=FORMATS))
    except (SyntaxError, image.DecompressionBombError) as error:  # what Pillow says of some broken files
        raise OSError(str(error)) from error


@contextmanager
def silenced() -> Iterator[None]:
    """Drop Pillow's warnings on broken EXIF, which is ignored, and on large pictures, which are allowed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def picture_of(opened: Any, again: Callable[[], Any]) -> Array:
    """Return a picture that Pillow has opened, and can open ``again``; see :func:`read_picture`."""
    array: Array
    colours = deep.colour_levels(opened, again)
    if colours is not None:
        array = colours / np.float32(65535)
    elif opened.mode == "F":
        array = np.asarray(opened, np.float32)
    elif opened.mode.startswith("I"):  # Pillow's conversions to other modes cut these off at 255
        levels = _integers(opened)
        array = (levels / np.float64(_MOST.get(levels.dtype, 65535))).astype(np.float32)
    else:
        mode = {"1": "L", "LA": "RGBA", "PA": "RGBA"}.get(opened.mode, opened.mode)
        plain = opened.convert(mode if mode in ("L", "RGB", "RGBA") else "RGB")
        array = np.asarray(plain, np.float32) / np.float32(255)
    return _turned(array, _orientation(opened))


def _integers(opened: Any) -> Array:
    """Return grey levels of 16 or 32 bits, of the type whose range is that of the file."""
    levels: Array = np.asarray(opened)
    if levels.dtype.itemsize < 4:
        return levels.astype(np.uint16)
    tags = getattr(opened, "tag_v2", {})  # of TIFF; what else Pillow reads into 32 bits, has 16
    bits, signed = tags.get(258, (16,))[0], tags.get(339, (1,))[0] == 2
    if bits <= 16:
        return levels.astype(np.int16 if signed else np.uint16)
    return levels.astype(np.int32) if signed else levels.astype(np.int32).view(np.uint32)


def _orientation(opened: Any) -> int:
    """Return the number by which EXIF says how a picture is looked at, from 1 to 8; broken EXIF says nothing."""
    try:
        number = opened.getexif().get(_ORIENTATION, 1)
    except Exception:  # Pillow raises many kinds of errors for broken EXIF, and the picture has been read
        return 1
    return number if isinstance(number, int) else 1


def _turned(array: Array, orientation: int) -> Array:
    """Return a picture as it is looked at.

    Source: Exif 2.32, 4.6.4 A, Orientation.
    """
    if orientation in (5, 6, 7, 8):
        array = array.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        array = array[::-1]
    if orientation in (2, 3, 6, 7):
        array = array[:, ::-1]
    return np.ascontiguousarray(array)


def depth_of(path: Path) -> int:
    """Return the bits per channel for writing a result computed from a picture: 8 or 16.

    Unreadable files and other files count as 8; the reader reports them.
    """
    if not is_picture(path):
        return 8
    image = _pillow()
    try:
        with silenced(), image.open(path, formats=FORMATS) as opened:
            return 16 if deep.is_deep(opened) else 8
    except (OSError, SyntaxError, ValueError, image.DecompressionBombError):
        return 8


def write_picture(path: Path, array: Array, depth: int = 8) -> bytes:
    """Return the bytes of a picture: floats are clipped to 0 to 1, integers to 0 to 255, bool is black and white.

    Args:
        path: Its ending says the format.
        array: The picture. Of u16, white is 65535, and the file has 16 bits where its format can.
        depth: Bits of each channel of floats: 16 is for PNG and TIFF, and 8 elsewhere.

    Raises:
        TileError: TIL903 where Pillow is not installed, TIL904 where the array is not that of a picture, or the format
            has no opacity.
    """
    kind = _FORMATS[path.suffix.lower()]
    picture = _plain(array)
    if kind in _OPAQUE and picture.shape[2:] == (4,):
        advice = "write .png, or a result of three channels"
        raise fail("TIL904", f"a result of four channels has opacity, which {path.suffix} files have not; {advice}")
    has_deep_levels = picture.dtype == np.uint16 or (depth > 8 and picture.dtype.kind not in "biu")
    if kind in _DEEP and has_deep_levels:
        return _DEEP[kind](_deep_levels(picture))
    buffer = io.BytesIO()
    _pillow().fromarray(as_levels(picture)).save(buffer, format=kind, **_OPTIONS.get(kind, {}))
    return buffer.getvalue()


def as_levels(array: Array) -> Array:
    """Return an array as the bytes of pixels; see :func:`write_picture`.

    Raises:
        TileError: TIL904, its shape is not that of a picture.
    """
    flat = _plain(array)
    if flat.dtype.kind == "b":
        return flat.astype(np.uint8) * np.uint8(255)
    if flat.dtype == np.uint16:
        flat = (flat.astype(np.uint32) + 128) // 257
    if flat.dtype.kind in "iu":
        return np.clip(flat, 0, 255).astype(np.uint8)
    levels: Array = np.rint(_clipped(flat) * 255).astype(np.uint8)
    return levels


def _deep_levels(picture: Array) -> Array:
    if picture.dtype == np.uint16:
        return picture
    levels: Array = np.rint(_clipped(picture) * 65535).astype(np.uint16)
    return levels


def _clipped(picture: Array) -> Array:
    return np.clip(np.nan_to_num(picture.astype(np.float64)), 0, 1)


def _plain(array: Array) -> Array:
    """Return an array of [height, width] or [height, width, 3 or 4], without axes of 1 that it may have.

    Raises:
        TileError: TIL904, its shape is not that of a picture.
    """
    flat = next(
        (shown for shown in (array, array[..., 0] if array.shape[2:] == (1,) else array.squeeze()) if _fits(shown)),
        None,
    )
    if flat is None:
        raise fail(
            "TIL904",
            f"a result of shape {list(array.shape)} is no picture; that needs [height, width] or "
            "[height, width, 3 or 4]; write a .npy file instead",
        )
    return flat


def _fits(array: Array) -> bool:
    colours = array.ndim == 3 and array.shape[2] in (3, 4)
    return (array.ndim == 2 or colours) and array.size > 0


def _pillow() -> Any:
    try:
        from PIL import Image
    except ModuleNotFoundError:
        raise fail("TIL903", "pictures need Pillow: pip install 'tileir[image]'") from None
    return Image
