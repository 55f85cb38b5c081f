"""Resources that the plans of one executor share: spare memory, within a limit, and threads for asynchronous calls."""

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
"""Most memory that all plans together keep for their next runs, where nothing is known of the device."""

SHARE: Final = 16
"""This part of a device's memory they may keep where that is more: plans that take turns, as those of a step of
training do, would make memory and launches anew at each call.
"""


def spare_bytes(memory_bytes: int | None) -> int:
    """Return how much memory plans may keep on a device that has so many bytes; None where that is not known."""
    return max(SPARE_BYTES, (memory_bytes or 0) // SHARE)


class Keepable(Protocol):
    """Memory that a plan keeps for its next run."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory that it holds; they do not change while it is kept."""


W = TypeVar("W", bound=Keepable)


class Spare(list[W]):
    """Memory that a plan has left for its next run; it dies with the plan."""

    __slots__ = ("__weakref__",)


@attrs.define(eq=False)
class Resources(Renewable):
    """Owner of the memory that plans keep from run to run. Thread safe, also in forked children.

    Each plan has a list of its own, which only methods of this class change, and whose memory goes with the plan. The
    least recently used memory is given back first; the most recently used one stays even where it is larger than the
    limit.

    Attributes:
        executor: What allocates and runs.
        threads: How many asynchronous calls run at a time where the executor is not asynchronous.
        calls: Asynchronous calls that are not done.
        spare_bytes: The limit.
        scheduler: What runs them.
        asynchronous: Whether the executor only submits work.
        streams: Whether it also has a queue in whose order all work is done, so that its events tell all there is.
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
        atexit.unregister(_stop_all)  # what is registered last runs first, and drivers have been loaded by now
        atexit.register(_stop_all)
        self.scheduler = Scheduler("tileir-calls", self.threads)
        self.asynchronous = is_asynchronous(self.executor)
        self.streams = self.asynchronous and isinstance(self.executor, StreamingExecutor)
        super().__attrs_post_init__()

    def renew(self) -> None:
        """Start with a lock that no thread of the parent holds, and without the calls of its threads."""
        self._lock = threading.Lock()
        self._stoppable.clear()

    @property
    def parts(self) -> bool:
        """True if a part of a buffer can be a buffer."""
        if self._parts is None:
            self._parts = isinstance(self.executor, PartingExecutor) or self._wraps_parts()
        return self._parts

    @property
    def kept_bytes(self) -> int:
        """Most bytes that are kept for the next runs; plans that died may still count."""
        return self._kept_bytes

    def take(self, home: Spare[W]) -> W | None:
        """Return something that :meth:`keep` put into ``home``, None where there is nothing left."""
        with self._lock:
            found = self.borrow(home)
        if found is not None:
            self.forget(found)
        return found

    def keep(self, item: W, home: Spare[W]) -> None:
        """Put something into ``home`` for the next run, and drop what exceeds the limit."""
        with self._lock:
            if self.closed:
                return
            nbytes = item.nbytes
            self._kept[weakref.ref(item)] = (nbytes, weakref.ref(home))
            home.append(item)
            self._kept_bytes += nbytes
            self._shrink(self.spare_bytes, 1)

    def borrow(self, home: Spare[W]) -> W | None:
        """Do what :meth:`take` does for a short time, at less cost: what is borrowed still counts as kept."""
        try:
            return home.pop()
        except IndexError:
            return None

    def give_back(self, item: W, home: Spare[W]) -> None:
        """Put back what was borrowed."""
        try:
            self._kept.move_to_end(weakref.ref(item))
        except KeyError:  # it was dropped meanwhile, for room or by the end
            self.keep(item, home)
        else:
            home.append(item)

    def make_room(self, nbytes: int) -> None:
        """Drop what would exceed the limit once ``nbytes`` more are in use."""
        with self._lock:
            self._shrink(self.spare_bytes - nbytes, 0)

    def trim(self) -> None:
        """Drop all that is kept for the next runs."""
        with self._lock:
            self._shrink(-1, 0)

    def stop(self) -> None:
        """Let programs whose loops go by conditions, and so might never end, fail before their next turn."""
        self.closed = True

    def run_stoppable(self, work: Callable[[], object]) -> None:
        """Do what :meth:`stop` ends, in a thread of the scheduler: before Python ends, it is stopped and waited for."""
        ended = PendingEvent()
        self._stoppable.add(ended)
        try:
            work()
        finally:
            self._stoppable.discard(ended)
            ended.complete()

    def wait_for_stopped(self) -> None:
        """Wait for what :meth:`stop` ends, and for the calls that fail with it."""
        stopped = tuple(self._stoppable)
        for ended in stopped:
            ended.wait()
        if stopped:
            self.scheduler.wait_until_idle()

    def close(self) -> None:
        """Stop what might never end, wait for all other asynchronous calls, and give all memory back."""
        self.stop()
        self.scheduler.close()
        self.trim()

    def _shrink(self, limit: int, stay: int) -> None:
        """Drop the oldest. Others give back meanwhile, without the lock: so nothing iterates over what is kept."""
        if self._kept_bytes > limit:  # an interrupt may have kept it from being counted right
            self._kept_bytes = sum(nbytes for nbytes, _ in list(self._kept.values()))
        while self._kept_bytes > limit and len(self._kept) > stay:
            oldest, (nbytes, place) = self._kept.popitem(last=False)
            self._kept_bytes -= nbytes
            home = place()
            with suppress(ValueError):  # it is borrowed, or was interrupted on its way
                if home is not None:
                    home.remove(oldest())

    def forget(self, item: Keepable) -> None:
        """Leave what was borrowed to its plan."""
        with self._lock:
            nbytes, _ = self._kept.pop(weakref.ref(item), (0, None))
            self._kept_bytes -= nbytes

    def _wraps_parts(self) -> bool:
        host = self.executor.allocate(2 * ALIGNMENT).host()
        return host is not None and self.executor.wrap(host[ALIGNMENT:]) is not None


weakref.finalize(Resources, int)
"""The first one registers what runs all of them when Python ends: so memory is given back after :func:`_stop_all`."""

_known: Final[weakref.WeakSet[Resources]] = weakref.WeakSet()


def _stop_all() -> None:
    """Stop loops on conditions: drivers do not survive that Python ends while a thread of ours is in one."""
    known = tuple(_known)
    for each in known:
        each.stop()
    for each in known:
        each.wait_for_stopped()
