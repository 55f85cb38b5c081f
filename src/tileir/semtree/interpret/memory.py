"""Arrays of a running kernel, and the interpreter's checks of accesses to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np

from tileir.core import DType, TileError, attrs, fail
from tileir.core.numbers.number_system import REAL, NumberSystem
from tileir.semtree.interpret.orders import AccessHistory, Clock, Known, Order

Array: TypeAlias = np.ndarray[Any, Any]
Place: TypeAlias = int | slice | Array
"""The elements of an access: a single one, a contiguous run, or those of a vector of offsets."""

Changed: TypeAlias = Callable[[], Array | bool]
"""Function that returns which elements a write changes. It is called only after another access to some of them."""

_NOBODY: Final = -1
_MANY: Final = -2
_NEVER: Final = -1
"""Time of elements without accesses: before all times."""

COPIER: Final = -3
"""Writer of copies of the first channel of a kernel; further channels count down from there."""

_UPDATING: Final = 1 << 62
"""Writer of atomic updates, which come in any order."""


@attrs.frozen
class Checks:
    """Checks beyond bounds, at the cost of speed.

    Attributes:
        races: Fail if two groups access one element of a parameter and one of them writes it, or if two threads of a
            group do so, in any array that they share, without a barrier in between.
        undefined: Fail if an undefined element of a declared array, or of a write-only parameter, is read.
    """

    races: bool = False
    undefined: bool = False


NO_CHECKS: Final = Checks()
ALL_CHECKS: Final = Checks(races=True, undefined=True)


@attrs.define(eq=False)
class Agent:
    """A thread as it accesses memory, at a time that advances at barriers and releases of messages.

    Attributes:
        group: The number of the group.
        thread: The number of the thread.
        clock: The clock of its party: of the threads with its role.
        known: For each party, the time before which this thread knows its work is done.
        released: Number of channel messages that it has released.
        received: Number of messages of each channel that it has received, by copier.
        party: The number of its party.
        order: Knowledge of its group about others, in kernels with flags.
    """

    group: int
    thread: int
    clock: Clock
    known: list[int]
    released: int = 0
    received: dict[int, int] = attrs.field(factory=dict)
    party: int = 0
    order: Order | None = None

    @property
    def time(self) -> int:
        """The time of its accesses."""
        return self.clock.stretch + self.released

    def tells(self, known: list[int]) -> None:
        """Merge this thread's knowledge, and its own progress, into ``known``."""
        known[:] = map(max, known, self.known)
        known[self.party] = max(known[self.party], self.time)

    def learns(self, known: list[int]) -> None:
        """Merge ``known`` into this thread's knowledge."""
        self.known = list(map(max, known, self.known))


@attrs.define(eq=False)
class Stores:
    """The box stores begun by the threads of a party together.

    Attributes:
        party: The number of the party.
        begun: Number of stores.
        waited: Number of these that had read local memory when threads waited, by the stretch of statements.
    """

    party: int
    begun: int = 0
    waited: dict[int, int] = attrs.field(factory=dict)

    def known(self, agent: Agent) -> int:
        """Return the number of stores that a thread knows to have read local memory."""
        if agent.party != self.party:
            return 0
        return max((count for stretch, count in self.waited.items() if stretch < agent.clock.stretch), default=0)


@attrs.define(eq=False, repr=False)
class Memory:
    """The elements of one array, with the knowledge of groups that have arrived at flags in it."""

    name: str
    data: Array
    arrivals: dict[int, Known] = attrs.field(factory=dict, init=False)

    def outside(self, kernel: str, first: int, last: int) -> TileError:
        """Return the error of an access out of bounds."""
        place = str(first) if first == last else f"{first} to {last}"
        size = len(self.data)
        return fail(
            "TIL553", f"kernel {kernel!r} touches element {place} of {self.name!r}, which has {size}: bound the offset"
        )

    def neighbours(self, kernel: str, first: int, count: int) -> slice:
        """Return ``count`` contiguous places from ``first`` on.

        Raises:
            TileError: One is out of bounds.
        """
        if not 0 <= first <= len(self.data) - count:
            raise self.outside(kernel, first, first + count - 1)
        return slice(first, first + count)

    def check_span(self, kernel: str, places: Array) -> None:
        """Check that all elements exist; the fault names the first and the last of them."""
        low, high = int(places.min()), int(places.max())
        if low < 0 or high >= len(self.data):
            raise self.outside(kernel, low, high)

    def check_inside(self, kernel: str, places: Array) -> None:
        """Check that all elements exist; the fault names the first and the last that do not."""
        outside = places[(places < 0) | (places >= len(self.data))]
        if len(outside):
            raise self.outside(kernel, int(outside.min()), int(outside.max()))

    def reads(self, place: Place, agent: Agent) -> None:
        """Record that a thread reads; only in watched memory."""

    def writes(self, place: Place, agent: Agent, new: Array) -> None:
        """Record that a thread is about to write ``new``; only in watched memory."""

    def updates(self, place: int, agent: Agent) -> None:
        """Record that a thread updates an element atomically; only in watched memory."""

    def forget(self, place: Place) -> None:
        """Record that elements become undefined; only in watched memory."""

    def copied(self, place: Place, agent: Agent, copier: int, message: int) -> None:
        """Record the begin of a copy for a message of a channel, requested by an agent; only in watched memory."""

    def arrived(self, place: Place) -> None:
        """Record the arrival of a copy; only in watched memory."""

    def stored(self, place: Place, stores: Stores) -> None:
        """Record that the last of some stores reads elements until a wait; only in watched memory."""


@attrs.define(eq=False, repr=False)
class WatchedMemory(Memory):
    """Memory that reports reads of undefined elements, and races.

    Attributes:
        kernel: The kernel's name, for messages.
        defined: Mask of the elements with a value; None if all have one.
        groups: Whether several groups can access the array, and are watched.
        threads: Number of threads of a group that can access the array, and are watched; 1 for none.
        parties: Number of their parties, each with its own clock.
    """

    kernel: str
    defined: Array | None
    groups: bool
    threads: int = 1
    parties: int = 1
    _shared: bool = attrs.field(init=False)
    _among_groups: _Watch = attrs.field(init=False)
    _touched: AccessHistory = attrs.field(factory=AccessHistory, init=False)
    _among_threads: tuple[_Watch, ...] = attrs.field(init=False)
    _stored: dict[Stores, Array] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        size = len(self.data)
        self._shared = self.groups or self.threads > 1
        self._among_groups = _Watch.of(size if self.groups else 0)
        self._among_threads = tuple(_Watch.of(size if self.threads > 1 else 0) for _ in range(self.parties))

    def reads(self, place: Place, agent: Agent) -> None:
        """Check that the elements are defined and that no other thread writes them."""
        if self._shared:
            self._check_received(place, agent, "reads")
        if self.defined is not None:
            written = self.defined[place]
            if not (written if type(place) is int else written.all()):  # mostly one, without a reduction
                raise fail("TIL557", f"kernel {self.kernel!r} reads elements of {self.name!r} that nothing has written")
        if self._shared:
            self._note(place, agent, None)

    def writes(self, place: Place, agent: Agent, new: Array) -> None:
        """Check that no other thread or copy reads the elements, or writes other values there."""
        if self.defined is not None and not self._shared and not self._stored:
            self.defined[place] = True
            return
        self._check_received(place, agent, "writes")
        self._check_stored(place, agent)
        if self.defined is not None:
            self.defined[place] = True

        def changed() -> Array | bool:
            old = self.data[place]
            return np.asarray((old != new) & ((old == old) | (new == new)))  # a NaN is like others

        self._note(place, agent, changed)

    def updates(self, place: int, agent: Agent) -> None:
        """Check that the element is defined, and that no other thread reads it or writes it non-atomically."""
        if self.defined is not None and not self.defined[place]:
            raise fail("TIL557", f"kernel {self.kernel!r} updates elements of {self.name!r} that nothing has written")
        self._check_received(place, agent, "updates")
        self._check_stored(place, agent)
        self._note(place, agent, changed=lambda: True, updates=True)

    def forget(self, place: Place) -> None:
        """Mark elements as undefined."""
        if self.defined is not None:
            self.defined[place] = False

    def copied(self, place: Place, agent: Agent, copier: int, message: int) -> None:
        """Check that no thread may still access the target of a copy, and mark it as undefined."""
        self._check_stored(place, agent)
        if self.threads > 1:
            clashes = [
                watch.copied(place, known, copier)
                for watch, known in zip(self._among_threads, agent.known, strict=True)
            ]
            self._among_threads[0].note_copy(place, copier, message)
            for clash in clashes:
                if clash is not None:
                    advice = "acquire the channel when all have released what they read"
                    raise self._race("a copy of a channel", clash, advice)
        self.forget(place)

    def arrived(self, place: Place) -> None:
        """Mark the target of a copy as defined."""
        if self.defined is not None:
            self.defined[place] = True

    def stored(self, place: Place, stores: Stores) -> None:
        """Mark elements as being read."""
        if stores not in self._stored:
            self._stored[stores] = np.zeros(len(self.data), np.int64)
        self._stored[stores][place] = stores.begun

    def _check_stored(self, place: Place, agent: Agent) -> None:
        for stores, last in self._stored.items():
            if np.any(last[place] > stores.known(agent)):
                who = f"thread {agent.thread} of a group of kernel {self.kernel!r}"
                message = f"{who} writes elements of {self.name!r} that are being stored as a box"
                raise fail("TIL558", f"{message}: wait for the store, and meet at a barrier behind")

    def _check_received(self, place: Place, agent: Agent, touches: str) -> None:
        early = self._among_threads[0].unreceived(place, agent.received) if self.threads > 1 else None
        if early is not None:
            who = f"thread {agent.thread} of a group of kernel {self.kernel!r}"
            message = f"{who} {touches} element {early} of {self.name!r}, which is being copied"
            raise fail("TIL558", f"{message}: receive the message before")

    def _note(self, place: Place, agent: Agent, changed: Changed | None, *, updates: bool = False) -> None:
        group, thread = (_UPDATING, _UPDATING) if updates else (agent.group, agent.thread)
        if self.groups:
            if agent.order is None:
                clash, advice = self._among_groups.clash(place, 0, 0, group, changed), "groups are unordered"
            else:
                elements = np.atleast_1d(np.arange(len(self.data))[place]).tolist()
                new = None if changed is None else changed()
                clash, advice = self._touched.clash(elements, agent.order, new), "await a flag between"
            if clash is not None:
                raise self._race(f"group {agent.group}", clash, advice)
        if self.threads > 1:
            own, known = agent.party, agent.known
            clash = self._among_threads[own].clash(place, agent.time, known[own], thread, changed)
            for party in range(self.parties) if self.parties > 1 else ():
                if party != own and clash is None:
                    clash = self._among_threads[party].other(place, known[party], thread, changed)
            if clash is not None:
                between = "put a barrier between" if self.parties == 1 else "put a barrier or a message between"
                raise self._race(f"thread {agent.thread} of a group", clash, between)

    def _race(self, who: str, element: int, advice: str) -> TileError:
        return fail(
            "TIL558",
            f"{who} of kernel {self.kernel!r} and another one touch element {element} of {self.name!r}, "
            f"and one of them writes it: {advice}",
        )


@attrs.define(eq=False, repr=False)
class _Watch:
    """For each element the last writer, and the readers since (one, several, or nobody), with their times.

    Attributes:
        copies: Whether a copy of a channel has written anything.
        last_write: Time of the last write of any element by a thread: later knowledge covers all elements.
        last_read: Time of the last read by a thread.
    """

    writer: Array
    writer_time: Array
    reader: Array
    reader_time: Array
    copies: bool = False
    last_write: int = _NEVER
    last_read: int = _NEVER

    @classmethod
    def of(cls, size: int) -> _Watch:
        nobody, never = np.full(size, _NOBODY), np.full(size, _NEVER)
        return cls(nobody, never, nobody.copy(), never.copy())

    def clash(self, place: Place, time: int, known: int, who: int, changed: Changed | None) -> int | None:
        """Record an access, and return an element with a conflicting access since ``known``.

        ``changed`` is None for a read. For a write it returns which values are new: all may write equal values.
        """
        if not isinstance(place, slice | np.ndarray):
            return place if self._clash_of_one(place, time, known, who, changed) else None
        clash = self.other(place, known, who, changed)
        if changed is not None:
            self.writer[place], self.writer_time[place] = who, time
            self.last_write = max(self.last_write, time)
        elif self.last_read < time:
            self.reader[place], self.reader_time[place] = who, time
            self.last_read = time
        else:
            before, when = self.reader[place], self.reader_time[place]
            readers = np.where((before == who) | (when < time), who, _MANY)
            self.reader[place] = np.where(when > time, before, readers)
            self.reader_time[place] = np.maximum(when, time)
        return clash

    def other(self, place: Place, known: int, who: int, changed: Changed | None) -> int | None:
        """Return an element with a conflicting access since ``known``, as :meth:`clash`, without recording."""
        clash: Array | np.bool_ = np.False_
        if self.last_write >= known:
            clash = self._other(self.writer, self.writer_time, place, known, who)
            if changed is not None and clash.any():
                clash = clash & changed()
        if changed is not None and self.last_read >= known:
            clash = clash | self._other(self.reader, self.reader_time, place, known, who)
        return self._first(place, clash)

    def _clash_of_one(self, place: int, time: int, known: int, who: int, changed: Changed | None) -> bool:
        """Run :meth:`clash` for one element, the common case, without the overhead of NumPy."""
        other: int = self.writer.item(place)
        written = other > COPIER and other != who and int(self.writer_time.item(place)) >= known
        reader: int = self.reader.item(place)
        when: int = self.reader_time.item(place)
        if changed is not None:
            self.writer[place], self.writer_time[place] = who, time
            self.last_write = max(self.last_write, time)
            return (written and bool(changed())) or (reader != who and when >= known)
        if when < time:
            self.reader[place], self.reader_time[place] = who, time
            self.last_read = max(self.last_read, time)
        elif when == time and reader != who:
            self.reader[place] = _MANY
        return written

    def copied(self, place: Place, known: int, copier: int) -> int | None:
        """Reset the target of a copy, and return an element that a thread has accessed since ``known``."""
        clash = self._other(self.writer, self.writer_time, place, known, copier)
        clash |= self._other(self.reader, self.reader_time, place, known, copier)
        self.writer[place], self.writer_time[place] = _NOBODY, _NEVER
        self.reader[place], self.reader_time[place] = _NOBODY, _NEVER
        return self._first(place, clash)

    def note_copy(self, place: Place, copier: int, message: int) -> None:
        """Record the begin of a copy."""
        self.writer[place], self.writer_time[place] = copier, message
        self.copies = True

    def unreceived(self, place: Place, received: Mapping[int, int]) -> int | None:
        """Return an element last written by a copy for a message after the first ``received`` messages."""
        if not self.copies:
            return None
        writer = np.atleast_1d(self.writer[place])
        early = np.zeros(writer.shape, np.bool_)
        for copier in range(COPIER, int(writer.min(initial=0)) - 1, -1):
            early |= (writer == copier) & (np.atleast_1d(self.writer_time[place]) >= received.get(copier, 0))
        return self._first(place, early)

    def _first(self, place: Place, found: Array | np.bool_) -> int | None:
        if not found.any():
            return None
        return int(np.atleast_1d(np.arange(len(self.writer))[place])[np.argmax(np.atleast_1d(found))])

    def _other(self, found: Array, times: Array, place: Place, known: int, who: int) -> Array:
        others = found[place]
        touched = (others != who) & (times[place] >= known)
        return np.asarray(touched & (others > COPIER) if self.copies else touched)


def poisoned(dtype: DType, size: int, numbers: NumberSystem = REAL) -> Array:
    """Return elements whose use is likely to be noticed: NaN, an odd bit pattern, or true."""
    if dtype.is_float:
        return np.full(size, numbers.constant(np.nan, dtype))
    if dtype.is_bool:
        return np.ones(size, np.bool_)
    return np.full(size * dtype.itemsize, 0xA5, np.uint8).view(dtype.numpy)
