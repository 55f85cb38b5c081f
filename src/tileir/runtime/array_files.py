"""Arrays in `.npy` files, including arrays of dtypes that NumPy cannot name.

NumPy saves the floats of ``ml_dtypes`` as untyped bytes, ``V1`` or ``V2``, or under a name that it cannot read back.
Readers of these files have to state the dtype.
"""

from __future__ import annotations

import io
from tokenize import TokenError
from typing import TYPE_CHECKING, Final

import numpy as np

from tileir.core.dtype import FORMATS, DType

if TYPE_CHECKING:
    from pathlib import Path

    from tileir.runtime.arrays import Array

REGISTERED: Final = tuple(dtype for dtype, form in FORMATS.items() if form.registered)
"""Floats for which NumPy has no name."""

_ZIP: Final = b"PK"
_ODD: Final = (TokenError, SyntaxError, OverflowError, TypeError, RecursionError)
"""Errors other than ValueError that NumPy raises for an invalid header."""

_MOST_HEADER: Final = 256
"""Bytes at the beginning of a file that contain its dtype."""


def as_saved(array: Array) -> Array:
    """Return an array as a ``.npy`` file can hold it: elements for which NumPy has no name as untyped bytes."""
    return array.view(f"V{array.itemsize}") if DType.of(array.dtype) in REGISTERED else array


def loaded(path: Path, *, mapped: bool = False) -> Array:
    """Return the array of a ``.npy`` file, including dtypes that NumPy writes but cannot read.

    Args:
        path: The file.
        mapped: Whether to map the file, so that elements are read on access.

    Raises:
        OSError: The file does not exist.
        ValueError: It is not a ``.npy`` file, is truncated, or does not fit in memory.
    """
    try:
        with path.open("rb") as file:
            start = file.read(_MOST_HEADER)
            written = _written_unreadably(start)
            file.seek(0)
            if start.startswith(_ZIP):
                raise ValueError("it holds several arrays; save the one that you mean as .npy")
            if written is not None:
                content = file.read().replace(_quoted(written.numpy.str), _quoted(f"|V{written.itemsize}"), 1)
                array: Array = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
                return array.view(written.numpy)
            if not mapped:
                return np.lib.format.read_array(file, allow_pickle=False)
        return np.lib.format.open_memmap(path, mode="r")
    except _ODD as error:
        raise ValueError(f"it is no .npy file: {error}") from error
    except MemoryError as error:
        raise ValueError(str(error)) from error


def _written_unreadably(start: bytes) -> DType | None:
    """Return the dtype of a file that begins with ``start`` if NumPy cannot read the name of that dtype."""
    named = (dtype for dtype in REGISTERED if dtype.numpy.kind != "V")
    return next((dtype for dtype in named if _quoted(dtype.numpy.str) in start), None)


def _quoted(name: str) -> bytes:
    return f"'{name}'".encode()


def is_nameless(array: Array) -> bool:
    """Return whether an array has untyped elements with the size of a float that NumPy cannot name."""
    dtype = array.dtype
    plain = dtype.type is np.void and dtype.names is None and dtype.subdtype is None and DType.of(dtype) is None
    return plain and bool(possible_dtypes(array))


def possible_dtypes(array: Array) -> tuple[DType, ...]:
    """Return the possible dtypes of untyped elements: the floats of their size that NumPy cannot name."""
    return tuple(dtype for dtype in REGISTERED if dtype.itemsize == array.dtype.itemsize)


def declared(array: Array, dtype: DType) -> Array:
    """Return a view of an untyped array with a dtype; the array itself if it cannot have that dtype."""
    return array.view(dtype.numpy) if is_nameless(array) and dtype in possible_dtypes(array) else array
