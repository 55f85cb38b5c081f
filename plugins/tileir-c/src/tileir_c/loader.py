"""Shared objects in executable memory."""

from __future__ import annotations

import ctypes
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from tileir.core.errors import BackendError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FUNCTION: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
"""C type of the entries of :func:`tileir_c.compiler.whole`; calling one releases the GIL."""


@attrs.frozen(eq=False)
class Code:
    """Loaded functions, which stay in memory as long as this object.

    Attributes:
        functions: Entry of each kernel, in order.
    """

    functions: tuple[Callable[[bytes, int, int, int], None], ...]


def load_code(code: bytes, entries: Sequence[str]) -> Code:
    """Load a shared object; its file, which nobody else can write, is gone when this returns.

    Raises:
        BackendError: TIL806, it is broken, for another machine, or lacks an entry; or files cannot be executed.

    """
    try:
        with tempfile.TemporaryDirectory(prefix="tileir-c-") as folder:
            path = Path(folder) / "kernels.so"
            path.write_bytes(code)
            library = ctypes.CDLL(str(path))
    except OSError as error:
        message = (
            f"compiled code cannot be loaded: {error}; compile again, or set TMPDIR to where files may be executed"
        )
        raise BackendError.of("TIL806", message) from error
    handle = library._handle  # ctypes has no other name for the handle of dlclose
    try:
        functions = tuple(FUNCTION((name, library)) for name in entries)
    except AttributeError as error:
        _close(handle)
        raise BackendError.of("TIL806", f"compiled code lacks a kernel, compile again: {error}") from error
    loaded = Code(functions)
    weakref.finalize(loaded, _close, handle).atexit = False
    return loaded


def _close(handle: int) -> None:
    ctypes.CDLL(None).dlclose(ctypes.c_void_p(handle))
