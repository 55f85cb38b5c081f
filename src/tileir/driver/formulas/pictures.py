"""Pictures as arrays, by Pillow: grey is [height, width], colour [height, width, channels], values 0 to 1 in f32."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, Final

import numpy as np

from tileir.core.errors import fail

Array = np.ndarray[Any, np.dtype[Any]]

_FORMATS: Final = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".bmp": "BMP", ".tif": "TIFF", ".tiff": "TIFF"}


def is_picture(path: Path) -> bool:
    """Return whether the name of a file ends as that of a picture."""
    return path.suffix.lower() in _FORMATS


def read_picture(path: Path) -> Array:
    """Return a picture as f32 from 0 to 1, as deep as it is; palettes become colours, grey with alpha RGBA.

    Raises:
        TileError: TIL903 where Pillow is not installed.
        OSError: The file cannot be read as a picture.
    """
    image = _pillow()
    try:
        with image.open(path) as opened:
            return picture_of(opened)
    except (SyntaxError, image.DecompressionBombError) as error:  # what Pillow says of some broken files
        raise OSError(str(error)) from error


def picture_of(opened: Any) -> Array:
    """Return a picture that Pillow has opened as f32 from 0 to 1; see :func:`read_picture`."""
    if opened.mode == "F":
        return np.asarray(opened, np.float32)
    if opened.mode.startswith("I"):  # 16 bits; Pillow's conversions to other modes cut them off at 255
        return np.asarray(opened, np.float32) / np.float32(65535)
    mode = {"1": "L", "LA": "RGBA", "PA": "RGBA"}.get(opened.mode, opened.mode)
    plain = opened.convert(mode if mode in ("L", "RGB", "RGBA") else "RGB")
    return np.asarray(plain, np.float32) / np.float32(255)


def write_picture(path: Path, array: Array) -> bytes:
    """Return the bytes of a picture: floats are clipped to 0 to 1, integers to 0 to 255, bool is black and white.

    Raises:
        TileError: TIL903 where Pillow is not installed, TIL904 where the array is not that of a picture.
    """
    image = _pillow()
    buffer = io.BytesIO()
    image.fromarray(as_levels(array)).save(buffer, format=_FORMATS[path.suffix.lower()])
    return buffer.getvalue()


def as_levels(array: Array) -> Array:
    """Return an array as the bytes of pixels; see :func:`write_picture`.

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
    if flat.dtype.kind == "b":
        return flat.astype(np.uint8) * np.uint8(255)
    if flat.dtype.kind in "iu":
        return np.clip(flat, 0, 255).astype(np.uint8)
    clipped = np.clip(np.nan_to_num(flat.astype(np.float64)), 0, 1)
    return np.rint(clipped * 255).astype(np.uint8)


def _fits(array: Array) -> bool:
    colours = array.ndim == 3 and array.shape[2] in (3, 4)
    return (array.ndim == 2 or colours) and array.size > 0


def _pillow() -> Any:
    try:
        from PIL import Image
    except ModuleNotFoundError:
        raise fail("TIL903", "pictures need Pillow: pip install 'tileir[image]'") from None
    return Image
