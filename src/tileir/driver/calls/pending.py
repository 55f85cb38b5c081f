"""A call that was submitted and may not be done yet."""

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

    R_co = TypeVar("R_co", covariant=True)  # Python 3.11 knows no defaults, and nobody asks for them when running


@attrs.frozen(eq=False)
class PendingCall(Generic[R_co]):
    """Result of :meth:`tileir.Executable.submit`; as an event, others may wait for it too.

    It keeps the arrays of the call alive. The results must not be read, and the inputs not changed, before it is done.
    In a coroutine ``await`` gives the results, without a thread that waits.
    """

    _event: KnownEvent
    _results: tuple[Any, ...] = attrs.field(repr=False)

    @property
    def done(self) -> bool:
        """True if it has completed or failed."""
        return self._event.done

    @property
    def duration(self) -> float | None:
        """Seconds that it ran; None before completion or where it is not measured."""
        return self._event.duration

    def wait(self) -> None:
        """Block until it is done; raise the original error when it, or something it waited for, failed."""
        self._event.wait()

    def then(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once it has completed or failed: now, or later in another thread."""
        self._event.then(callback)

    def add_done_callback(self, callback: Callable[[PendingCall[R_co]], object]) -> None:
        """Do the same with this call as the argument, as futures do; an error of ``callback`` is logged."""

        def tell() -> None:
            try:
                callback(self)
            except Exception:  # it is nobody's who waits
                import logging  # few programs need it

                logging.getLogger(__name__).exception("a callback of a call failed")

        self._event.then(tell)

    def exception(self) -> BaseException | None:
        """Wait, and return the error that it failed with; None where it completed."""
        try:
            self._event.wait()
        except BaseException as error:  # whatever it is, it is what the call failed with
            if self._event.failure is None:  # somebody interrupts who waits
                raise
            return error
        return None

    def result(self) -> R_co:
        """Wait, and return what the call itself would have returned."""
        self._event.wait()
        return self.pending_results

    @property
    def pending_results(self) -> R_co:
        """The same without waiting, for passing on to other calls of the same context, which wait themselves."""
        return cast("R_co", self._results[0] if len(self._results) == 1 else self._results)

    def __await__(self) -> Generator[Any, None, R_co]:
        """Wait in a coroutine of asyncio, whose loop goes on meanwhile, and return the results."""
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
    """Return a call that is done already.

    Args:
        call: Does what a call does, and returns its results; None, with nothing done, for arrays that it cannot take.
        arrays: The inputs.

    """
    start = perf_counter()
    found = call(arrays, None)
    if found is None:
        return None
    event = PendingEvent()
    event.complete(perf_counter() - start)
    return PendingCall(event, found if isinstance(found, tuple) else (found,))
