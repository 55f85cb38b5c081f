"""Work that is given up: who starts it says when, and at its checkpoints it stops."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final


class CancelledError(BaseException):
    """Nobody wants what was computed; no fault, so that what goes on after faults does not go on after this."""


_given_up: Final[ContextVar[Callable[[], bool] | None]] = ContextVar("given_up", default=None)


@contextmanager
def cancelled_if(given_up: Callable[[], bool]) -> Iterator[None]:
    """Let checkpoints that this thread meets inside raise :class:`CancelledError` once ``given_up`` returns True.

    What was given up around is given up inside, too.
    """
    around = _given_up.get()
    token = _given_up.set(given_up if around is None else lambda: given_up() or around())
    try:
        yield
    finally:
        _given_up.reset(token)


def checkpoint() -> None:
    """Stop here if the work was given up: between the passes of a compilation, say.

    Raises:
        CancelledError: It was.
    """
    given_up = _given_up.get()
    if given_up is not None and given_up():
        raise CancelledError
