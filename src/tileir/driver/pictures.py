"""Pictures as arrays, by Pillow: grey is [height, width], colour [height, width, channels], values 0 to 1 in f32."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tileir.core.errors import fail

if TYPE_CHECKING:
    from pathlib import Path

    Array = np.ndarray[Any, np.dtype[Any]]

_FORMATS: Final = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".bmp": "BMP", ".tif": "TIFF", ".tiff": "TIFF"}


def is_picture(path: Path) -> bool:
    """Return whether the name of a file ends as that of a picture."""
    return path.suffix.lower() in _FORMATS


def read_picture(path: Path) -> Array:
    """Return a picture as f32 from 0 to 1; palettes become colours.

    Raises:
        TileError: TIL903 where Pillow is not installed.
        OSError: The file cannot be read as a picture.
    """
    image = _pillow()
    with image.open(path) as opened:
        plain = opened if opened.mode in ("L", "RGB", "RGBA") else opened.convert("RGB")
        return np.asarray(plain, np.float32) / np.float32(255)


def write_picture(path: Path, array: Array) -> bytes:
    """Return the bytes of a picture: floats are clipped to 0 to 1, bool is black and white, u8 is taken as it is.

    Raises:
        TileError: TIL903 where Pillow is not installed, TIL904 where the array is not that of a picture.
    """
    image = _pillow()
    flat = np.squeeze(array)
    if flat.ndim not in (2, 3) or (flat.ndim == 3 and flat.shape[2] not in (3, 4)) or 0 in flat.shape:
        raise fail(
            "TIL904",
            f"a result of shape {list(array.shape)} is no picture; that needs [height, width] or "
            "[height, width, 3 or 4]; write a .npy file instead",
        )
    if flat.dtype.kind == "b":
        flat = flat.astype(np.uint8) * 255
    elif flat.dtype != np.uint8:
        clipped = np.clip(np.nan_to_num(flat.astype(np.float64)), 0, 1)
        flat = np.rint(clipped * 255).astype(np.uint8)
    buffer = io.BytesIO()
    image.fromarray(flat).save(buffer, format=_FORMATS[path.suffix.lower()])
    return buffer.getvalue()


def _pillow() -> Any:
    try:
        from PIL import Image
    except ModuleNotFoundError:
        raise fail("TIL903", "pictures need Pillow: pip install 'tileir[image]'") from None
    return Image
