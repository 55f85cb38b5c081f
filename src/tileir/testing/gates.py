"""Events that a test completes by hand, and kernels that show whether somebody waited for them."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tileir.runtime.interface import Event

T = TypeVar("T")

SIZE: Final = 1000

GRACE: Final = 0.1
"""Seconds in which what does not wait, though it should, is expected to show; what waits cannot fail by it."""

INCREMENT: Final = f"""
kernel increment(out i32 O[{SIZE}] align(4) noalias, in i32 A[{SIZE}] align(4) noalias) grid({SIZE}) index($index) {{
  O[group_id(0)] = A[group_id(0)] + i32(1);
}}
"""


def numbers(start: int = 0) -> np.ndarray[Any, np.dtype[Any]]:
    """Return what :data:`INCREMENT` takes."""
    return np.arange(start, start + SIZE, dtype=np.int32)


class BoomError(Exception):
    """An error that no back end raises by itself."""


@attrs.define(eq=False)
class Gate:
    """An event with no more than the protocol asks for: no ``then``."""

    _set: threading.Event = attrs.field(factory=threading.Event, init=False)
    _error: Exception | None = attrs.field(default=None, init=False)

    @property
    def done(self) -> bool:
        """Whether it was completed or failed."""
        return self._set.is_set()

    @property
    def duration(self) -> float | None:
        """Nothing is measured."""
        return None

    def wait(self) -> None:
        """Block until it is completed or failed."""
        self._set.wait()
        if self._error is not None:
            raise self._error

    def complete(self) -> None:
        """Open it."""
        self._set.set()

    def fail(self, error: Exception) -> None:
        """Open it for bad news."""
        self._error = error
        self._set.set()


@contextmanager
def elsewhere() -> Iterator[Callable[[Callable[[], T]], Future[T]]]:
    """Yield a function that calls others in a thread beside: an executor may block until it can run."""
    with ThreadPoolExecutor(4) as pool:
        yield pool.submit


def held(future: Future[Event]) -> bool:
    """Return whether an event that is being made is still pending, some time after it was asked for."""
    wait([future], timeout=GRACE)
    if not future.done():
        return True
    event = future.result()
    threading.Event().wait(GRACE)
    return not event.done
