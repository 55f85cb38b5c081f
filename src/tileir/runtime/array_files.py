"""Arrays in `.npy` files, those among them for whose elements NumPy has no name.

NumPy saves the floats of ``ml_dtypes`` as bytes of no type, ``V1`` or ``V2``, or under a name that it cannot read
itself. Whoever reads such a file has to say what the elements are.
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
"""What NumPy raises beside ValueError where the header of a file is none."""

_MOST_HEADER: Final = 256
"""Bytes at the beginning of a file among which its dtype is."""


def as_saved(array: Array) -> Array:
    """Return an array as a ``.npy`` file can hold it: elements for which NumPy has no name as bytes of no type."""
    return array.view(f"V{array.itemsize}") if DType.of(array.dtype) in REGISTERED else array


def loaded(path: Path, *, mapped: bool = False) -> Array:
    """Return the array of a ``.npy`` file, of those as well that NumPy writes and does not read.

    Args:
        path: The file.
        mapped: Whether elements are read when somebody looks at them.

    Raises:
        OSError: There is no such file.
        ValueError: It is no ``.npy`` file, is cut short, or holds more than there is memory for.

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
    """Return the dtype of a file that begins like this if NumPy cannot read the name that it gave to it."""
    named = (dtype for dtype in REGISTERED if dtype.numpy.kind != "V")
    return next((dtype for dtype in named if _quoted(dtype.numpy.str) in start), None)


def _quoted(name: str) -> bytes:
    return f"'{name}'".encode()


def is_nameless(array: Array) -> bool:
    """Return whether the elements of an array are bytes of no type, of which there are as many as some float has."""
    dtype = array.dtype
    plain = dtype.type is np.void and dtype.names is None and dtype.subdtype is None and DType.of(dtype) is None
    return plain and bool(possible_dtypes(array))


def possible_dtypes(array: Array) -> tuple[DType, ...]:
    """Return what nameless elements may be: the floats of their size that NumPy does not know."""
    return tuple(dtype for dtype in REGISTERED if dtype.itemsize == array.dtype.itemsize)


def declared(array: Array, dtype: DType) -> Array:
    """Return an array whose nameless elements have a dtype, without a copy; itself where they cannot have it."""
    return array.view(dtype.numpy) if is_nameless(array) and dtype in possible_dtypes(array) else array
