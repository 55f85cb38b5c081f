"""NVIDIA's driver as functions that raise tileir's errors; its state belongs to the process.

The primary context of each card is shared with all users of the card in the process. Drivers do not survive a fork: in
a forked child of a process that used a driver, all functions here raise TIL809.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NoReturn

from cuda.bindings import driver

from tileir.core import BackendError, Diagnostic, attrs

_RESULT: Final = driver.CUresult
SUCCESS: Final = _RESULT.CUDA_SUCCESS
NOT_READY: Final = _RESULT.CUDA_ERROR_NOT_READY

_STICKY: Final = frozenset(
    {
        _RESULT.CUDA_ERROR_ILLEGAL_ADDRESS,
        _RESULT.CUDA_ERROR_LAUNCH_FAILED,
        _RESULT.CUDA_ERROR_LAUNCH_TIMEOUT,
        _RESULT.CUDA_ERROR_ILLEGAL_INSTRUCTION,
        _RESULT.CUDA_ERROR_MISALIGNED_ADDRESS,
        _RESULT.CUDA_ERROR_INVALID_ADDRESS_SPACE,
        _RESULT.CUDA_ERROR_INVALID_PC,
        _RESULT.CUDA_ERROR_HARDWARE_STACK_ERROR,
        _RESULT.CUDA_ERROR_ASSERT,
        _RESULT.CUDA_ERROR_ECC_UNCORRECTABLE,
    }
)
"""Errors after which every call on the context fails alike."""

_ATTRIBUTE: Final = driver.CUdevice_attribute


@attrs.frozen
class Card:
    """Card, as the driver counts them."""

    number: int
    name: str
    capability: tuple[int, int]
    multiprocessors: int
    cache_bytes: int
    memory_bytes: int


@attrs.define(eq=False, repr=False)
class _Process:
    """State of the driver in this process: use by it and by its parent, contexts, streams.

    ``alien`` tells whether a failed card failed in work of another library.
    """

    used: bool = False
    forked: bool = False
    contexts: dict[int, Any] = attrs.field(factory=dict)
    alien: bool | None = None
    streams: weakref.WeakValueDictionary[int, Any] = attrs.field(factory=weakref.WeakValueDictionary)
    lock: threading.Lock = attrs.field(factory=threading.Lock)


PROCESS: Final = _Process()


def checked(what: str, result: Sequence[Any]) -> Any:
    """Return the result of a driver call beside its status.

    Args:
        what: Purpose of the call, for messages.
        result: The status, and one value or none.

    Raises:
        BackendError: TIL708, there is not enough memory; TIL804, a launch asks for too much; TIL805, the driver refused
            the code; TIL808, any other failure.
    """
    if result[0] is not SUCCESS:
        fail(what, result[0])
    return result[1] if len(result) > 1 else None


def fail(what: str, status: Any) -> NoReturn:
    """Raise the error of a status; see :func:`checked`."""
    raise fault(what, status)


def status_of(number: int) -> Any:
    """Return the driver status with a number, if known."""
    try:
        return _RESULT(number)
    except ValueError:
        return _RESULT.CUDA_ERROR_UNKNOWN


def fault(what: str, status: Any) -> BackendError:
    """Return the error of a status; see :func:`checked`."""
    name = f"{_RESULT(status).name}, {int(status)}"
    match status:
        case _RESULT.CUDA_ERROR_OUT_OF_MEMORY:
            message = f"{what}: there is not enough memory on the device ({name}); make the arrays smaller"
            return BackendError((Diagnostic("TIL708", message),))
        case _RESULT.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES | _RESULT.CUDA_ERROR_INVALID_VALUE if what.startswith("kernel"):
            message = f"{what}: the launch asks for more than the device has ({name}); compile with another pipeline"
            return BackendError((Diagnostic("TIL804", message),))
        case (
            _RESULT.CUDA_ERROR_INVALID_PTX
            | _RESULT.CUDA_ERROR_UNSUPPORTED_PTX_VERSION
            | _RESULT.CUDA_ERROR_NO_BINARY_FOR_GPU
            | _RESULT.CUDA_ERROR_INVALID_IMAGE
        ):
            return BackendError((Diagnostic("TIL805", f"{what}: the driver refused the code ({name})"),))
        case _ if status in _STICKY:
            return _lost(what, name, alien=status is _RESULT.CUDA_ERROR_ASSERT)
        case _:
            return BackendError((Diagnostic("TIL808", f"{what}: the driver refused it ({name})"),))


def _lost(what: str, name: str, *, alien: bool) -> BackendError:
    """Return the error of a failed card: of another library's work if none of ours was running."""
    if PROCESS.alien is None:  # later calls find nothing running
        streams = [reference() for reference in PROCESS.streams.valuerefs()]
        PROCESS.alien = alien or not any(stream is not None and stream.in_use for stream in streams)
    if PROCESS.alien:
        message = (
            f"{what}: the device failed before ({name}), in work of another library of this process; what the process"
            " had on it is lost. Mend what failed there, and start the process again"
        )
        return BackendError((Diagnostic("TIL810", message),))
    message = (
        f"{what}: the device failed while it worked ({name}), and what the process had on it is lost. Start the process"
        " again; if it happens again where no other library uses the device, it is a defect of tileir"
    )
    return BackendError((Diagnostic("TIL808", message),))


def use_driver() -> None:
    """Record that the driver is about to be used.

    Raises:
        BackendError: TIL809, the parent of this forked process used it before.
    """
    if PROCESS.forked:
        message = (
            "CUDA was used before this process was forked, and its driver does not survive that; "
            "start processes with the method 'spawn' or 'forkserver', or use CUDA only after the fork"
        )
        raise BackendError((Diagnostic("TIL809", message),))
    PROCESS.used = True


def inherited() -> bool:
    """Return whether the driver in use is the parent's, which this process must not touch."""
    return PROCESS.forked


def version() -> int:
    """Return the CUDA version of the driver, as 12040 for 12.4.

    Raises:
        BackendError: TIL808, it does not tell.
    """
    return int(checked("the version of the driver", driver.cuDriverGetVersion()))


def cards() -> list[Card]:
    """Return all cards visible by CUDA_VISIBLE_DEVICES.

    Raises:
        BackendError: TIL802, there is no driver, or it does not start; TIL809, the process was forked.
    """
    if not os.environ.get("CUDA_VISIBLE_DEVICES", "all"):
        return []  # without visible cards, the driver crashes in children of a process that started it
    use_driver()
    try:
        status = driver.cuInit(0)[0]
    except Exception as error:  # cuda-bindings raises errors of several kinds if the driver's library is missing
        message = f"the driver of NVIDIA's cards cannot be loaded ({type(error).__name__}: {error}); install it"
        raise BackendError((Diagnostic("TIL802", message),)) from error
    if status is _RESULT.CUDA_ERROR_NO_DEVICE:
        return []
    if status is not SUCCESS:
        message = f"the driver of NVIDIA's cards does not start ({_RESULT(status).name})"
        raise BackendError((Diagnostic("TIL802", message),))
    return [_card(number) for number in range(checked("counting cards", driver.cuDeviceGetCount()))]


def enter(number: int) -> None:
    """Make the primary context of a card current in the calling thread.

    Raises:
        BackendError: TIL808, the driver refuses it; TIL809, the process was forked.
    """
    use_driver()
    context = PROCESS.contexts.get(number)
    if context is None:
        context = _opened(number)
    checked("entering the context of a card", driver.cuCtxSetCurrent(context))


@contextmanager
def uncaptured() -> Iterator[None]:
    """Allow this thread to make graphs and allocate memory during stream capture, which would fail otherwise."""
    relaxed = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    before = checked("leaving a capture alone", driver.cuThreadExchangeStreamCaptureMode(relaxed))
    try:
        yield
    finally:
        driver.cuThreadExchangeStreamCaptureMode(before)


def context_of(number: int) -> int:
    """Return the primary context of a card as a number; raises the errors of :func:`enter`."""
    enter(number)
    return int(PROCESS.contexts[number])


def _opened(number: int) -> Any:
    with PROCESS.lock:
        if number not in PROCESS.contexts:
            device = checked("a card", driver.cuDeviceGet(number))
            PROCESS.contexts[number] = checked("opening a card", driver.cuDevicePrimaryCtxRetain(device))
        return PROCESS.contexts[number]


def _card(number: int) -> Card:
    device = checked("a card", driver.cuDeviceGet(number))

    def attribute(which: Any) -> int:
        return int(checked("asking a card", driver.cuDeviceGetAttribute(which, device)))

    name = checked("asking a card", driver.cuDeviceGetName(256, device))
    return Card(
        number,
        name.split(b"\0")[0].decode(errors="replace"),
        (
            attribute(_ATTRIBUTE.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
            attribute(_ATTRIBUTE.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
        ),
        attribute(_ATTRIBUTE.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
        attribute(_ATTRIBUTE.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE),
        int(checked("asking a card", driver.cuDeviceTotalMem(device))),
    )


def _after_fork() -> None:
    PROCESS.forked = PROCESS.used


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
