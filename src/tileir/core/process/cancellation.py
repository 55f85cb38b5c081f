"""Cancellation of work: its caller sets a condition, and the work stops at its checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final


class CancelledError(BaseException):
    """The result is no longer wanted; no fault, so that handlers of faults do not catch it."""


_given_up: Final[ContextVar[Callable[[], bool] | None]] = ContextVar("given_up", default=None)


@contextmanager
def cancelled_if(given_up: Callable[[], bool]) -> Iterator[None]:
    """Let checkpoints that this thread reaches inside raise :class:`CancelledError` once ``given_up`` returns True.

    Conditions of surrounding calls remain in effect.
    """
    around = _given_up.get()
    token = _given_up.set(given_up if around is None else lambda: given_up() or around())
    try:
        yield
    finally:
        _given_up.reset(token)


def checkpoint() -> None:
    """Stop here if the work was cancelled, for example between the passes of a compilation.

    Raises:
        CancelledError: It was.
    """
    given_up = _given_up.get()
    if given_up is not None and given_up():
        raise CancelledError
