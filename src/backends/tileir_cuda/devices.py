"""Cards by id, and architectures that PTX can be compiled for without a card."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

from tileir.core.errors import BackendError, Diagnostic
from tileir.runtime.interface import DeviceInfo
from tileir_cuda.architectures import ARCHITECTURES, Architecture, architecture_for, target_of

NAME: Final = "cuda"

DLPACK_KIND: Final = 2
"""DLPack device kind of CUDA cards."""


def devices() -> Sequence[DeviceInfo]:
    """Return all cards visible to the driver for which LLVM emits code.

    Raises:
        BackendError: TIL801, there are none; TIL802, cuda-bindings or the driver is missing.
    """
    found = tuple(info for info, _ in known().values())
    if not found:
        raise BackendError((Diagnostic("TIL801", "the driver shows no NVIDIA card of capability 8.0 or later"),))
    return found


def described(device_id: str) -> DeviceInfo | None:
    """Return a device only for compiling, such as ``cuda.sm_90a``; None for other ids."""
    name = device_id.removeprefix(f"{NAME}.")
    if name not in ARCHITECTURES or name == device_id:
        return None
    row = ARCHITECTURES[name]
    return DeviceInfo(
        device_id,
        f"{row.card} ({name}), to compile for only",
        NAME,
        None,
        (name,),
        target_of(row, row.card, row.multiprocessors, row.cache_bytes),
    )


def architecture_of(info: DeviceInfo) -> Architecture:
    """Return the architecture for a device.

    Raises:
        BackendError: TIL801, there is no such device.
    """
    for feature in info.features:
        if feature in ARCHITECTURES:
            return ARCHITECTURES[feature]
    raise _missing(info)


def card_number(info: DeviceInfo) -> int:
    """Return the ordinal of a card in the driver.

    Raises:
        BackendError: TIL801, there is no such device; TIL802, as :func:`devices`.
    """
    if info.id not in known():
        raise _missing(info)
    return known()[info.id][1]


@cache
def known() -> dict[str, tuple[DeviceInfo, int]]:
    """Return cards by id, each with its ordinal in the driver.

    Raises:
        BackendError: TIL802, cuda-bindings or the driver is missing.
    """
    try:
        from tileir_cuda.run.driver import Card, cards
    except (ImportError, OSError) as error:
        message = f"cuda-bindings cannot be loaded ({error}); install tileir[cuda]"
        raise BackendError((Diagnostic("TIL802", message),)) from error

    def info(card: Card, row: Architecture, device_id: str) -> DeviceInfo:
        target = target_of(row, card.name, card.multiprocessors, card.cache_bytes)
        major, minor = card.capability
        features = (row.name, f"capability {major}.{minor}")
        return DeviceInfo(device_id, card.name, NAME, card.memory_bytes, features, target, (DLPACK_KIND, card.number))

    result: dict[str, tuple[DeviceInfo, int]] = {}
    for card in cards():
        row = architecture_for(card.capability)
        if row is not None:
            device_id = f"{NAME}.{len(result)}"
            result[device_id] = info(card, row, device_id), card.number
    return result


def _missing(info: DeviceInfo) -> BackendError:
    return BackendError((Diagnostic("TIL801", f"there is no device {info.id!r}; see tileir.devices()"),))
