"""Object code in executable memory."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import count
from typing import Final

import llvmlite.binding as llvm

from tileir.core import BackendError, attrs
from tileir_llvm.run.modules import target_machine
from tileir_llvm.run.uninterrupted import uninterrupted

LIBRARIES: Final = 16
"""Number of libraries that share a linker, which needs 110 KiB and keeps 9 KiB of each until it is freed."""


@attrs.frozen(eq=False, repr=False)
class _Linker:
    """LLVM's linker, and numbers for its libraries."""

    jit: llvm.LLJIT
    numbers: Iterator[int] = attrs.field(factory=count, init=False)


_linkers: Final[dict[tuple[str, ...], _Linker]] = {}
"""Linker for the next library, by features. Earlier ones live as long as their libraries."""


@attrs.frozen(eq=False, repr=False)
class _Use:
    """Use of a library, which is unloaded some time after its end."""


@attrs.frozen(eq=False)
class Code:
    """Loaded functions, which stay in memory as long as this object.

    Attributes:
        addresses: Address of each requested function, in the order of the request.
    """

    addresses: tuple[int, ...]
    _use: _Use = attrs.field(repr=False)


_loaded: Final[dict[weakref.ref[_Use], tuple[llvm.ResourceTracker, llvm.LLJIT]]] = {}
_ended: Final[deque[weakref.ref[_Use]]] = deque()
"""Ended uses, whose libraries are unloaded when the next one is loaded. Objects die in any thread, and in the main
thread a signal that raises inside llvmlite would leave its lock taken, so no Python runs when a use ends.
"""


def load_code(codes: Sequence[bytes], symbols: Sequence[str], features: tuple[str, ...]) -> Code:
    """Link object codes with the process and return the addresses of ``symbols``.

    Raises:
        BackendError: TIL806, the code is broken, for another kind of machine, or lacks a symbol.
    """
    return uninterrupted(lambda: _linked(codes, symbols, features))


def _linked(codes: Sequence[bytes], symbols: Sequence[str], features: tuple[str, ...]) -> Code:
    with suppress(IndexError):  # empty, or another thread took the last one
        while True:
            del _loaded[_ended.popleft()]
    jit, name = _place(features)
    builder = llvm.JITLibraryBuilder().add_current_process()
    for code in codes:
        builder.add_object_img(code)
    for symbol in symbols:
        builder.export_symbol(symbol)
    try:
        tracker = builder.link(jit, name)
    except RuntimeError as error:
        raise BackendError.of("TIL806", f"object code cannot be loaded, compile again: {error}") from error
    use = _Use()
    _loaded[weakref.ref(use, _ended.append)] = tracker, jit
    return Code(tuple(tracker[symbol] for symbol in symbols), use)


def _place(features: tuple[str, ...]) -> tuple[llvm.LLJIT, str]:
    """Return a linker with room for a library, and a unique name for the library."""
    linker = _linkers.get(features)
    number = LIBRARIES if linker is None else next(linker.numbers)
    if linker is None or number >= LIBRARIES:
        # JITLink: RuntimeDyld allocates section by section, and aborts the process if these lie 2 GiB apart.
        jit = llvm.create_lljit_compiler(target_machine(features), use_jit_link=True)
        linker = _linkers[features] = _Linker(jit)
        number = next(linker.numbers)
    return linker.jit, f"tileir{number}"
