"""A call that was submitted and may not be done yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.runtime.events import PendingEvent


@attrs.frozen(eq=False)
class PendingCall:
    """What :meth:`tileir.Executable.submit` returns; as an event, others may wait for it too.

    It keeps the arrays of the call alive. The results must not be read, and the inputs not changed, before it is done.
    """

    _event: PendingEvent
    _results: tuple[Any, ...] = attrs.field(repr=False)

    @property
    def done(self) -> bool:
        """Whether it has completed or failed."""
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

    def result(self) -> Any:
        """Wait, and return what the call itself would have returned."""
        self._event.wait()
        return self._results[0] if len(self._results) == 1 else self._results

    @property
    def pending_results(self) -> Any:
        """The same without waiting, for passing on to other calls of the same context, which wait themselves."""
        return self._results[0] if len(self._results) == 1 else self._results
