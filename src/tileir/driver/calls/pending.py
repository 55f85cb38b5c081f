"""Submitted call that may not be done yet."""

from __future__ import annotations

from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING, Any, Generic, cast

from tileir.core.nodes import attrs
from tileir.runtime.events import PendingEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from typing_extensions import TypeVar

    from tileir.runtime.offers import KnownEvent

    R_co = TypeVar("R_co", covariant=True, default=Any)
else:
    from typing import TypeVar

    R_co = TypeVar("R_co", covariant=True)  # Python 3.11 has no defaults, and none are needed at run time


@attrs.frozen(eq=False)
class PendingCall(Generic[R_co]):
    """Result of :meth:`tileir.Executable.submit`; as an event, others may wait for it too.

    It keeps the arrays of the call alive. Before it is done, the results must not be read and the inputs not changed.
    In a coroutine ``await`` returns the results, without a waiting thread.
    """

    _event: KnownEvent
    _results: tuple[Any, ...] = attrs.field(repr=False)

    @property
    def done(self) -> bool:
        """True if it has completed or failed."""
        return self._event.done

    @property
    def duration(self) -> float | None:
        """Seconds that it ran; None before completion or if not measured."""
        return self._event.duration

    def wait(self) -> None:
        """Block until it is done; raise the original error if it, or an event that it waited for, failed."""
        self._event.wait()

    def then(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once it has completed or failed: now, or later in another thread."""
        self._event.then(callback)

    def add_done_callback(self, callback: Callable[[PendingCall[R_co]], object]) -> None:
        """Call ``callback`` with this call when it is done, like a future; an error of ``callback`` is logged."""

        def tell() -> None:
            try:
                callback(self)
            except Exception:  # it does not belong to any waiter
                import logging  # few programs need it

                logging.getLogger(__name__).exception("a callback of a call failed")

        self._event.then(tell)

    def exception(self) -> BaseException | None:
        """Wait, and return the error that it failed with; None on success."""
        try:
            self._event.wait()
        except BaseException as error:  # any error is the failure of the call
            if self._event.failure is None:  # the waiter was interrupted
                raise
            return error
        return None

    def result(self) -> R_co:
        """Wait, and return the result of the call."""
        self._event.wait()
        return self.pending_results

    @property
    def pending_results(self) -> R_co:
        """Results without waiting, for passing on to other calls of the context, which wait themselves."""
        return cast("R_co", self._results[0] if len(self._results) == 1 else self._results)

    def __await__(self) -> Generator[Any, None, R_co]:
        """Wait in an asyncio coroutine, without blocking its loop, and return the results."""
        if not self._event.done:
            import asyncio  # few programs need it

            loop = asyncio.get_running_loop()
            gate = loop.create_future()

            def open_gate() -> None:
                if not gate.done():  # the coroutine may have been cancelled
                    gate.set_result(None)

            def tell() -> None:
                with suppress(RuntimeError):  # the loop may have been closed
                    loop.call_soon_threadsafe(open_gate)

            self._event.then(tell)
            yield from gate
        return self.result()


def called(call: Callable[[Sequence[Any], None], Any], arrays: Sequence[Any]) -> PendingCall[Any] | None:
    """Return a completed call.

    Args:
        call: Runs the call and returns its results; None, with nothing done, for arrays that it cannot take.
        arrays: The inputs.
    """
    start = perf_counter()
    found = call(arrays, None)
    if found is None:
        return None
    event = PendingEvent()
    event.complete(perf_counter() - start)
    return PendingCall(event, found if isinstance(found, tuple) else (found,))
