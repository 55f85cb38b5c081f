"""Engines by name: the threads of one process, and those of installed distributions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import Any, Final, NoReturn

from tileir.core import ArgumentError, BackendError, nearest
from tileir.core.extensions import EXTENSIONS, Kind
from tileir.core.protocols import members, wrong_offer
from tileir.runtime.transports import THREADS, Engine, Threads, Transport

_WHEELS: Final[Mapping[str, str]] = MappingProxyType({"mpi": "tileir-mpi", "nccl": "tileir-nccl"})
"""Distributions of engines that tileir's developers maintain."""


def engine_called(name: str | Engine) -> Engine:
    """Return an engine by name, ``inprocess`` or an entry point of ``tileir.transports``, or a given engine.

    Raises:
        ArgumentError: TIL707, it is neither.
        BackendError: TIL811, it is not installed or cannot be loaded; TIL812, two distributions provide it.
    """
    if not isinstance(name, str):
        if any(not hasattr(name, member) for member in members(Engine)):
            message = f"the transport is of type {type(name).__name__}, not the name of an engine, nor one itself"
            raise ArgumentError.of("TIL707", message)
        return name
    if name == THREADS.name:
        return THREADS
    if name not in EXTENSIONS.entries(Kind.TRANSPORT):
        known = (THREADS.name, *EXTENSIONS.names(Kind.TRANSPORT))
        wheel = _WHEELS.get(name)
        advice = nearest(name, known) if wheel is None else f": pip install {wheel}"
        raise BackendError.of("TIL811", f"there is no transport {name!r:.64}{advice}")
    found: Any = EXTENSIONS.get(Kind.TRANSPORT, name, wrong_offer(Engine, name))
    engine: Engine = found
    return engine


@contextmanager
def refusing(engine: Engine, size: int) -> Iterator[None]:
    """Make all ranks end a call that this rank refuses before its first exchange.

    Otherwise, if the error is caught, it would be in its next call while the others are in this one, and messages of
    the two calls would be confused.
    """
    try:
        yield
    except Exception as error:
        if not isinstance(engine, Threads):  # all ranks are here, and none has begun
            _refuse(engine, size, error)
        raise


def _refuse(engine: Engine, size: int, error: Exception) -> None:
    def work(_: Transport) -> NoReturn:
        raise error

    with suppress(BackendError):  # this rank raises the error itself
        engine.launch(size, work)


def pickled(engine: Engine) -> str | Engine:
    """Return the pickled form of an engine: its name if that finds it, since it has process-local state."""
    try:
        return engine.name if engine_called(engine.name) is engine else engine
    except BackendError:
        return engine
