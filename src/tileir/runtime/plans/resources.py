"""Resources shared by the plans of one executor: spare memory, within a limit, and threads for asynchronous calls."""

from __future__ import annotations

import atexit
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Protocol, TypeVar

import attrs

from tileir.core.process.forking import Renewable
from tileir.runtime.events import PendingEvent, Scheduler
from tileir.runtime.interface import Executor, PartingExecutor
from tileir.runtime.offers import StreamingExecutor, is_asynchronous
from tileir.runtime.plans.calls import Calls
from tileir.runtime.plans.placement import ALIGNMENT

SPARE_BYTES: Final = 256 * 2**20
"""Limit of the memory that all plans together keep for later runs, on a device of unknown size."""

SHARE: Final = 16
"""Reciprocal of the share of a device's memory that plans may keep, if larger than :data:`SPARE_BYTES`: alternating
plans, as in a training step, would otherwise allocate memory and rebuild launches on each call.
"""


def spare_bytes(memory_bytes: int | None) -> int:
    """Return the limit of kept memory on a device with this much memory; None if unknown."""
    return max(SPARE_BYTES, (memory_bytes or 0) // SHARE)


class Keepable(Protocol):
    """Memory that a plan keeps for its next run."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory that it holds, constant while it is kept."""


W = TypeVar("W", bound=Keepable)


class Spare(list[W]):
    """Memory that a plan has left for its next run; it dies with the plan."""

    __slots__ = ("__weakref__",)


@attrs.define(eq=False)
class Resources(Renewable):
    """Owner of the memory that plans keep from run to run. Thread safe, also in forked children.

    Each plan has its own list, which only methods of this class change, and whose memory dies with the plan. The least
    recently used memory is released first; the most recently used stays even if it exceeds the limit.

    Attributes:
        executor: Executor of the plans.
        threads: Number of concurrent asynchronous calls, if the executor is synchronous.
        calls: Asynchronous calls in flight.
        spare_bytes: Limit of kept memory.
        scheduler: Threads for asynchronous calls.
        asynchronous: Whether the executor only submits work.
        streams: Whether its queue also orders all work, so that events of the queue suffice.
        closed: Whether :meth:`stop` or :meth:`close` was called.
    """

    executor: Executor[Any]
    threads: int = 1
    calls: Calls = attrs.field(factory=Calls)
    spare_bytes: int = SPARE_BYTES
    scheduler: Scheduler = attrs.field(init=False, repr=False)
    asynchronous: bool = attrs.field(init=False)
    streams: bool = attrs.field(init=False)
    closed: bool = attrs.field(default=False, init=False)
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False, repr=False)
    _kept: OrderedDict[weakref.ref[Any], tuple[int, weakref.ref[Spare[Any]]]] = attrs.field(
        factory=OrderedDict, init=False, repr=False
    )
    _kept_bytes: int = attrs.field(default=0, init=False)
    _parts: bool | None = attrs.field(default=None, init=False)
    _stoppable: set[PendingEvent] = attrs.field(factory=set, init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        _known.add(self)
        atexit.unregister(_stop_all)  # registered last, it runs first, while drivers are still loaded
        atexit.register(_stop_all)
        self.scheduler = Scheduler("tileir-calls", self.threads)
        self.asynchronous = is_asynchronous(self.executor)
        self.streams = self.asynchronous and isinstance(self.executor, StreamingExecutor)
        super().__attrs_post_init__()

    def renew(self) -> None:
        """Start with a fresh lock and without stoppable work of the parent's threads."""
        self._lock = threading.Lock()
        self._stoppable.clear()

    @property
    def parts(self) -> bool:
        """True if parts of buffers can be buffers."""
        if self._parts is None:
            self._parts = isinstance(self.executor, PartingExecutor) or self._wraps_parts()
        return self._parts

    @property
    def kept_bytes(self) -> int:
        """Upper bound of kept bytes; dead plans may still count."""
        return self._kept_bytes

    def take(self, home: Spare[W]) -> W | None:
        """Return an item that :meth:`keep` put into ``home``, None if it is empty."""
        with self._lock:
            found = self.borrow(home)
        if found is not None:
            self.forget(found)
        return found

    def keep(self, item: W, home: Spare[W]) -> None:
        """Put an item into ``home`` for the next run, and drop items beyond the limit."""
        with self._lock:
            if self.closed:
                return
            nbytes = item.nbytes
            self._kept[weakref.ref(item)] = (nbytes, weakref.ref(home))
            home.append(item)
            self._kept_bytes += nbytes
            self._shrink(self.spare_bytes, 1)

    def borrow(self, home: Spare[W]) -> W | None:
        """Return an item like :meth:`take` for a short time, at less cost: it still counts as kept."""
        try:
            return home.pop()
        except IndexError:
            return None

    def give_back(self, item: W, home: Spare[W]) -> None:
        """Put a borrowed item back."""
        try:
            self._kept.move_to_end(weakref.ref(item))
        except KeyError:  # dropped meanwhile, for room or by the end
            self.keep(item, home)
        else:
            home.append(item)

    def make_room(self, nbytes: int) -> None:
        """Drop items that would exceed the limit once ``nbytes`` more are in use."""
        with self._lock:
            self._shrink(self.spare_bytes - nbytes, 0)

    def trim(self) -> None:
        """Drop all kept items."""
        with self._lock:
            self._shrink(-1, 0)

    def stop(self) -> None:
        """Make programs with loops on conditions, which might never end, fail before their next iteration."""
        self.closed = True

    def run_stoppable(self, work: Callable[[], object]) -> None:
        """Run work that :meth:`stop` can end, in a scheduler's thread; it is stopped and joined before Python exits."""
        ended = PendingEvent()
        self._stoppable.add(ended)
        try:
            work()
        finally:
            self._stoppable.discard(ended)
            ended.complete()

    def wait_for_stopped(self) -> None:
        """Wait for the work that :meth:`stop` ends, and for the calls that fail with it."""
        stopped = tuple(self._stoppable)
        for ended in stopped:
            ended.wait()
        if stopped:
            self.scheduler.wait_until_idle()

    def close(self) -> None:
        """Stop loops that might never end, wait for all other asynchronous calls, and release all memory."""
        self.stop()
        self.scheduler.close()
        self.trim()

    def _shrink(self, limit: int, stay: int) -> None:
        """Drop the oldest items, without iterating over them, as other threads give items back without the lock."""
        if self._kept_bytes > limit:  # an interrupt may have left the count wrong
            self._kept_bytes = sum(nbytes for nbytes, _ in list(self._kept.values()))
        while self._kept_bytes > limit and len(self._kept) > stay:
            oldest, (nbytes, place) = self._kept.popitem(last=False)
            self._kept_bytes -= nbytes
            home = place()
            with suppress(ValueError):  # borrowed, or interrupted on its way
                if home is not None:
                    home.remove(oldest())

    def forget(self, item: Keepable) -> None:
        """Leave a borrowed item to its plan."""
        with self._lock:
            nbytes, _ = self._kept.pop(weakref.ref(item), (0, None))
            self._kept_bytes -= nbytes

    def _wraps_parts(self) -> bool:
        host = self.executor.allocate(2 * ALIGNMENT).host()
        return host is not None and self.executor.wrap(host[ALIGNMENT:]) is not None


weakref.finalize(Resources, int)
"""Registers weakref's exit hook first, so that it runs after :func:`_stop_all` and memory is released last."""

_known: Final[weakref.WeakSet[Resources]] = weakref.WeakSet()


def _stop_all() -> None:
    """Stop loops on conditions: drivers do not survive the exit of Python while one of our threads is in a loop."""
    known = tuple(_known)
    for each in known:
        each.stop()
    for each in known:
        each.wait_for_stopped()
