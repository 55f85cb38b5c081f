"""Machine code that the driver makes of PTX."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from typing import Final

from cuda.bindings import driver

from tileir.core.errors import BackendError
from tileir_cuda.run.driver import checked, enter

_TOGETHER: Final = "wgmma.mma_async"
_CALLS: Final = re.compile(r"\b(?:div|rcp|sqrt)\.rn\b|\b(?:div|rem)\.[su]64\b|\bcall\b")
"""What may be a call in code that is linked, and then makes products of four warps wait for each other."""


def linker(card: int) -> Callable[[str], bytes | None]:
    """Return what makes machine code for a card; None where the driver makes none, and loading PTX tells why.

    None as well for products of four warps beside what may be a call in code that is linked: they would not go on side
    by side (``ptxas -c`` tells C7509).

    Several threads may call it at a time: other than for modules that it loads, the driver works on programs side by
    side when it links them.
    """

    def link(ptx: str) -> bytes | None:
        if _TOGETHER in ptx and _CALLS.search(ptx):
            return None
        try:
            enter(card)
            return _linked(ptx.encode() + b"\0")
        except BackendError:
            return None

    return link


def _linked(code: bytes) -> bytes:
    """Return machine code for the card whose context the thread has.

    Raises:
        BackendError: TIL805 or TIL808, the driver refuses.

    """
    state = checked("linking", driver.cuLinkCreate(0, [], []))
    try:
        kind = driver.CUjitInputType.CU_JIT_INPUT_PTX
        checked("linking", driver.cuLinkAddData(state, kind, code, len(code), b"kernel", 0, [], []))
        address, size = checked("linking", _pair(driver.cuLinkComplete(state)))
        return ctypes.string_at(int(address), size)
    finally:
        driver.cuLinkDestroy(state)


def _pair(result: tuple[object, ...]) -> tuple[object, ...]:
    """Return a status with two values as one with a pair."""
    return result[0], result[1:]
