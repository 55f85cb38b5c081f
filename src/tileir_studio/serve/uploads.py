"""Uploaded files: bounded, kept for a while under the digest of their content, read as arrays."""

from __future__ import annotations

import hashlib
import io
import math
import re
from pathlib import Path
from tokenize import TokenError
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tileir.core import DType, TileError, fail

if TYPE_CHECKING:
    Array = np.ndarray[Any, np.dtype[Any]]

MOST_BYTES: Final = 16 << 20
"""The most bytes of an upload."""

MOST_PIXELS: Final = 50_000_000
"""The most pixels of a picture."""

MOST_ELEMENT_BYTES: Final = 1 << 30
"""The most bytes of an array, once it is read."""

KEPT: Final = 32
"""Uploads that are kept; then the oldest goes."""

_LASTING: Final = "lasting"
"""The folder of files that the page begins with."""

_NAME: Final = re.compile(r"[0-9a-f]{32}")
_MAGIC: Final = b"\x93NUMPY"


def store(folder: Path, content: bytes) -> str:
    """Keep the content of an upload, and return its name.

    Raises:
        TileError: TIL912, it is too large.
    """
    check_size(content)
    name = _name_of(content)
    (folder / name).write_bytes(content)
    uploads = sorted(filter(Path.is_file, folder.iterdir()), key=lambda path: path.stat().st_mtime_ns)
    for path in uploads[:-KEPT]:
        path.unlink(missing_ok=True)
    return name


def check_size(content: bytes) -> None:
    """Raise TileError, TIL912, if an upload is too large."""
    if len(content) > MOST_BYTES:
        raise fail("TIL912", f"the upload has {len(content)} bytes; at most {MOST_BYTES >> 20} MiB are read")


def keep(folder: Path, content: bytes) -> str:
    """Keep a file that the page begins with, of any size, for the life of the folder; return its name."""
    name = _name_of(content)
    (folder / _LASTING).mkdir(exist_ok=True)
    (folder / _LASTING / name).write_bytes(content)
    return name


def _name_of(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def read(folder: Path, name: str) -> Array:
    """Return the array of an upload: a ``.npy`` file as it is, a picture as f32 from 0 to 1.

    Raises:
        TileError: TIL912, there is no such upload, its form is another one, or it is too large once it is read.
    """
    places = (folder / name, folder / _LASTING / name) if _NAME.fullmatch(name) else ()
    path = next(filter(Path.is_file, places), None)
    if path is None:
        raise fail("TIL912", f"there is no upload {name[:40]!r}; give the file again")
    content = path.read_bytes()
    try:
        return _array(content) if content.startswith(_MAGIC) else _picture(content)
    except (ValueError, OSError, EOFError, SyntaxError, OverflowError, TokenError) as error:
        raise fail("TIL912", f"the file is neither a .npy array nor a picture that can be read: {error}") from None


def _array(content: bytes) -> Array:
    file = io.BytesIO(content)
    version = np.lib.format.read_magic(file)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise fail("TIL912", f"the .npy file is of version {version[0]}.{version[1]}; save it as 1.0 or 2.0")
    shape, _, dtype = readers[version](file)
    if dtype.hasobject or DType.of(dtype) is None:
        raise fail("TIL912", f"an array of dtype {dtype} has no equal in tileir; convert it, then save it again")
    size = math.prod(shape) * dtype.itemsize
    if size > len(content):
        raise fail("TIL912", f"the .npy file says {size} bytes of elements and holds {len(content)} bytes")
    file.seek(0)
    return np.asarray(np.load(file, allow_pickle=False))


def _picture(content: bytes) -> Array:
    from PIL import Image, UnidentifiedImageError  # the worker needs it for pictures only

    from tileir_cli.pictures.files import FORMATS, endings, picture_of, silenced

    def again() -> Image.Image:
        return Image.open(io.BytesIO(content), formats=FORMATS)

    try:
        with silenced(), again() as opened:
            width, height = opened.size
            _check_pixels(width * height)
            array = picture_of(opened, again)
    except UnidentifiedImageError:
        raise OSError(f"pictures are read from {endings()}") from None
    except Image.DecompressionBombError as error:
        raise OSError(str(error)) from error
    if array.nbytes > MOST_ELEMENT_BYTES:
        raise fail("TIL912", f"the picture takes {array.nbytes} bytes as f32; make it smaller")
    return array


def _check_pixels(count: int) -> None:
    if count > MOST_PIXELS:
        raise fail("TIL912", f"the picture has {count} pixels; at most {MOST_PIXELS} are read. Make it smaller")


def described(folder: Path, name: str) -> str:
    """Return dtype and shape of an upload as text.

    Raises:
        TileError: As :func:`read`.
    """
    array = read(folder, name)
    dtype = DType.of(array.dtype)
    if dtype is None:
        raise TileError(())
    return f"{dtype.value}[{', '.join(map(str, array.shape))}]"
