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
"""Instructions that may become calls in linked code, which then serialise products of four warps."""


def linker(card: int) -> Callable[[str], bytes | None]:
    """Return a linker to machine code of a card; None if the driver makes none, for which loading PTX gives the reason.

    None as well for products of four warps beside possible calls in linked code: they would be serialised (``ptxas -c``
    reports C7509).

    Several threads may call it at a time: the driver links programs in parallel, unlike loading modules.
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
    """Return machine code for the card whose context is current.

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
