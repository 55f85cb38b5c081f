"""Object code in executable memory."""

from __future__ import annotations

import itertools
from functools import cache
from typing import TYPE_CHECKING, Final

import attrs
import llvmlite.binding as llvm

from tileir.core.errors import BackendError, Diagnostic
from tileir_llvm.modules import target_machine
from tileir_llvm.uninterrupted import uninterrupted

if TYPE_CHECKING:
    from collections.abc import Sequence

_numbers: Final = itertools.count()


@attrs.frozen(eq=False)
class Code:
    """Loaded functions; they stay in memory as long as this object.

    Attributes:
        addresses: Where each requested function starts, in the order of the request.

    """

    addresses: tuple[int, ...]
    _tracker: llvm.ResourceTracker = attrs.field(repr=False)
    _jit: llvm.LLJIT = attrs.field(repr=False)


def load_code(codes: Sequence[bytes], symbols: Sequence[str], features: tuple[str, ...]) -> Code:
    """Link object codes with the process and return the addresses of ``symbols``.

    Raises:
        BackendError: TIL806, the code is broken, for another kind of machine, or lacks a symbol.

    """
    return uninterrupted(lambda: _linked(codes, symbols, features))


def _linked(codes: Sequence[bytes], symbols: Sequence[str], features: tuple[str, ...]) -> Code:
    jit = _linker(features)
    builder = llvm.JITLibraryBuilder().add_current_process()
    for code in codes:
        builder.add_object_img(code)
    for name in symbols:
        builder.export_symbol(name)
    try:
        tracker = builder.link(jit, f"tileir{next(_numbers)}")
    except RuntimeError as error:
        message = f"object code cannot be loaded, compile again: {error}"
        raise BackendError((Diagnostic("TIL806", message),)) from error
    return Code(tuple(tracker[name] for name in symbols), tracker, jit)


@cache
def _linker(features: tuple[str, ...]) -> llvm.LLJIT:
    return llvm.create_lljit_compiler(target_machine(features))
