"""Transports between ranks: the interface of engines such as MPI, and the engine of threads in one process.

All ranks of a group call its collectives in one order, which partitioned programs guarantee. So messages need no tags:
messages between two ranks are received in the order of sending.
"""

from __future__ import annotations

import abc
import hashlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np

from tileir.core import Aggregation, ArgumentError, BackendError, attrs
from tileir.core.numbers.arithmetic import merge

if TYPE_CHECKING:
    from tileir.runtime.devices.array import DeviceArray

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Message: TypeAlias = tuple[int, Any]
"""A rank, and a contiguous array to send to it, or to fill from it: of the host, or of the transport's device."""
T = TypeVar("T")


class Merge(NamedTuple):
    """Merge of device arrays.

    Attributes:
        parts: A rank's array for each rank of the group, or one array for all.
        result: Destination; may be the only array.
        how: Aggregation.
    """

    parts: Sequence[DeviceArray]
    result: DeviceArray
    how: Aggregation


_FACTS: Final = 4
"""Maximum number of texts that ranks compare at a time: messages have one length, even of ranks with different calls.
"""

GRACE: Final = 3.0
"""Seconds that threads have to end after a failure of one."""


class Transport(abc.ABC):
    """Connection of one rank to an engine.

    Only ``exchange`` and ``abort`` are required. The other methods use them; an engine overrides those that it can do
    faster. Arrays are contiguous, in host memory, and have one dtype and size on all ranks of a message or a merge. If
    the transport names a device, programs run there, and messages may be arrays of that device, which are read and
    filled in its stream. Dtypes are those of :class:`tileir.DType`, with narrow floats from ``ml_dtypes``. Merges are
    of accumulator dtypes: bool, integers, f32 and f64; between two ranks also f16 and bf16. A group is a sequence of
    ranks that includes this one, equal on all of its ranks.

    Attributes:
        rank: Number of this rank.
        size: Number of ranks.
        device: Device of this rank's programs and parts of arrays; None if the caller chooses it, and parts are on the
            host.
        shares_memory: Whether all ranks are in one process, so that results can be assembled without messages.
        place: Current place of this rank in the program, such as a collective, for messages.
        agreed: Texts of the programs that all ranks are known to run, so that they are compared once.
        stepping: Texts of the programs that all ranks are known to run in steps, so that they are only compared at the
            first step; an engine of processes keeps them between launches, until one fails.
        channel: Number of the program whose messages come next, below 32,768, for engines with tagged messages.
        alike: Whether all ranks are known to have devices of one target, so that cost-based decisions agree.
    """

    rank: int
    size: int
    device: str | None = None
    shares_memory: bool = False
    place: str = "the start"
    agreed: frozenset[str] = frozenset()
    stepping: frozenset[str] = frozenset()
    channel: int = 0
    records: bool = False
    waits: bool = True
    turn: int = 0
    alike: bool = False

    @abc.abstractmethod
    def exchange(self, sent: Sequence[Message], received: Sequence[Message]) -> None:
        """Send arrays to ranks, and receive arrays from ranks; arrays may be reused afterwards.

        All ranks of a message call this at one place of the program; none may wait for another to receive before it
        receives itself.

        Raises:
            BackendError: TIL814, another rank failed.
        """

    def begin(self, sent: Sequence[Message], received: Sequence[Message]) -> Callable[[], None]:
        """Begin an exchange, and return a function that waits for it, which may be called repeatedly.

        Until then no array may be used, and no later message overtakes it. Engines without overlap of exchanges and
        computation do it at once.

        Raises:
            BackendError: TIL814, another rank failed; the returned function raises it too.
        """
        self.exchange(sent, received)
        return _done

    def go_on(self) -> None:  # noqa: B027  engines whose messages travel by themselves have nothing to do
        """Drive the progress of messages in transit, between two pieces of work."""

    @abc.abstractmethod
    def abort(self, error: BaseException) -> None:
        """End all ranks, since this one failed; their waits raise TIL814."""

    def all_gather(self, part: Array, parts: Sequence[Array], group: Sequence[int]) -> None:
        """Fill ``parts``, one for each rank of a group, with the ``part`` of each; sizes may differ."""
        others = [rank for rank in group if rank != self.rank]
        self.exchange(
            [(rank, part) for rank in others],
            [(rank, array) for rank, array in zip(group, parts, strict=True) if rank != self.rank],
        )
        parts[group.index(self.rank)][...] = part

    def reduce_scatter(self, parts: Sequence[Array], how: Aggregation, group: Sequence[int]) -> Array:
        """Return the merge of all ranks' arrays for this one: ``parts`` has an array for each rank of the group.

        Values are merged in group order, so that results are reproducible.
        """
        own = parts[group.index(self.rank)]
        found = {rank: np.empty_like(own) for rank in group if rank != self.rank}
        sent = [(rank, array) for rank, array in zip(group, parts, strict=True) if rank != self.rank]
        self.exchange(sent, list(found.items()))
        found[self.rank] = own
        result = found[group[0]]
        for rank in group[1:]:
            result = merge(how, result, found[rank])
        return np.asarray(result, order="C")

    def all_reduce(self, array: Array, how: Aggregation, group: Sequence[int]) -> Array:
        """Return the merge of the arrays of all ranks of a group, with equal bits on each.

        Each rank merges an equal share of the elements, and distributes it.
        """
        shares = np.array_split(array.reshape(-1), len(group))
        merged = self.reduce_scatter(shares, how, group)
        result = np.empty_like(array)
        parts = np.array_split(result.reshape(-1), len(group))
        self.all_gather(merged, parts, group)
        return result

    def merged(self, merges: Sequence[Merge], group: Sequence[int]) -> bool:  # noqa: ARG002  engines look at them
        """Fill device arrays with merges of the values of all ranks of a group.

        Args:
            merges: The merges, done at once if that is faster.
            group: The ranks.

        Returns:
            False, on all ranks and with nothing done, if the engine does not support them; they are exchanged then.
        """
        return False

    def check(self) -> None:  # noqa: B027  engines whose messages are waited for have nothing to do
        """Check whether another rank failed since this transport was made; data on the device may be wrong then.

        Raises:
            LostError: TIL814, a rank failed.
        """

    def hand_over_again(self) -> None:
        """Take note of a replay of recorded work, including the calls of this transport in it.

        Raises:
            LostError: TIL814, another rank failed.
        """
        self.check()


def _done() -> None:
    """Wait for nothing."""


class DisagreementError(BackendError):
    """Forbidden difference between ranks; all of them raise it at one place, so that none waits for another."""


class LostError(BackendError):
    """Failure, exit or lateness of another rank, because of which this one stops waiting."""


def within(seconds: float, timeout: float | None) -> float:
    """Return the seconds until late ranks are reported, limited by the time-out."""
    return seconds if timeout is None else min(seconds, timeout)


def told(error: BaseException) -> str:
    """Return the text about a rank's error for other ranks."""
    if isinstance(error, LostError):
        return error.diagnostics[0].message
    return f"{type(error).__name__}: {error}"


def agree(transport: Transport, facts: Mapping[str, str]) -> None:
    """Compare texts that must be equal on all ranks, by digests; all ranks call it, with equal names.

    Args:
        transport: Transport between the ranks.
        facts: At most four texts, by their names in messages.

    Raises:
        DisagreementError: TIL815, on every rank: the rank that differs from rank 0, and the text; or a rank with texts
            of other names, in another call.
    """
    transport.place = "the start of a program"
    texts = ["\n".join(facts), *facts.values(), *[""] * (_FACTS - len(facts))]
    own = b"".join(hashlib.sha256(text.encode()).digest() for text in texts)
    parts = [np.empty(len(own), np.uint8) for _ in range(transport.size)]
    transport.all_gather(np.frombuffer(own, np.uint8), parts, range(transport.size))
    digests = [part.reshape(len(texts), -1) for part in parts]
    for rank, found in enumerate(digests):
        call, *are_equal = (found == digests[0]).all(1)
        if not call:
            message = f"rank {rank} makes another call than rank 0; all ranks must make the same calls in one order"
            raise DisagreementError.of("TIL815", message)
        differing = [name for name, same in zip(facts, are_equal, strict=False) if not same]
        if differing:
            message = f"rank {rank} differs from rank 0 in {' and '.join(differing)}; all ranks must run one program"
            raise DisagreementError.of("TIL815", message)


class Engine(Protocol):
    """Runner of work on ranks; an entry point of the group ``tileir.transports`` names one."""

    @property
    def name(self) -> str:
        """Name of the engine and its entry point."""

    def launch(self, size: int, work: Callable[[Transport], T]) -> Mapping[int, T]:
        """Run ``work`` on each of ``size`` ranks, and return its results on those in this process, by rank.

        An engine of threads starts all ranks. An engine of processes is called in each of them, on one rank.

        Raises:
            BackendError: TIL813, there are not as many ranks; TIL814, one failed: its number and error; a
                :class:`DisagreementError` that all of them raise, unchanged.
        """


@attrs.define(eq=False, repr=False)
class _Hub:
    """Messages in transit between the threads of one process, and the state of each thread.

    Attributes:
        late: Seconds of waiting after which late ranks are logged.
        timeout: Seconds after which a rank gives up; None for never.
        condition: Held while the following are read or changed.
        messages: Messages by sender, receiver, and number.
        failed: The rank that failed first, and its error.
        ended: Ranks whose work is done, or failed.
        places: Places of waiting ranks.
    """

    late: float
    timeout: float | None
    condition: threading.Condition = attrs.field(factory=threading.Condition)
    messages: dict[tuple[int, int, int], Array] = attrs.field(factory=dict)
    failed: tuple[int, BaseException] | None = None
    ended: set[int] = attrs.field(factory=set)
    places: dict[int, str] = attrs.field(factory=dict)

    def wait(self, own: int, place: str, other: int, number: int) -> Array:
        """Return a message from a rank; the caller holds the condition.

        Raises:
            BackendError: TIL814, a rank failed, or the other has ended; TIL816, it is late.
        """
        key = other, own, number
        self.places[own] = place
        start, waited = time.monotonic(), 0.0
        patience = within(self.late, self.timeout)

        def ready() -> bool:
            return key in self.messages or self.failed is not None or other in self.ended

        while not self.condition.wait_for(ready, patience - waited):
            waited = time.monotonic() - start
            there = self.places.get(other)
            state = "is late, and does not wait for others" if there is None else f"is in {there}"
            message = f"rank {own} waits in {place} for {waited:.0f} s: rank {other} {state}"
            if self.timeout is not None and waited >= self.timeout:
                raise BackendError.of("TIL816", message)
            import logging  # most programs never need it

            logging.getLogger("tileir.distributed").warning("%s", message)
            patience = within(2 * patience, self.timeout)
        del self.places[own]
        if self.failed is not None:
            raise _failure(*self.failed)
        if key not in self.messages:
            raise BackendError.of("TIL814", f"rank {other} has ended, and rank {own} waits in {place}")
        return self.messages.pop(key)


@attrs.define(eq=False, repr=False)
class _Thread(Transport):
    """Rank that is a thread. Sent data are copied, so that it never waits for receivers."""

    hub: _Hub
    rank: int
    size: int
    device: str | None = None
    sent: Counter[int] = attrs.field(factory=Counter, init=False)
    received: Counter[int] = attrs.field(factory=Counter, init=False)
    shares_memory = True

    def exchange(self, sent: Sequence[Message], received: Sequence[Message]) -> None:
        """Send copies, then wait for received messages; device arrays pass through the host."""
        self.begin(sent, received)()

    def begin(self, sent: Sequence[Message], received: Sequence[Message]) -> Callable[[], None]:
        """Send copies."""
        copies = [(rank, np.array(array, copy=True)) for rank, array in sent]
        with self.hub.condition:
            for rank, copy in copies:
                self.hub.messages[self.rank, rank, self.sent[rank]] = copy
                self.sent[rank] += 1
            self.hub.condition.notify_all()
        waiting = []
        for rank, array in received:
            waiting.append((rank, self.received[rank], array))
            self.received[rank] += 1

        def end() -> None:
            while waiting:
                rank, number, array = waiting[0]
                with self.hub.condition:
                    found = self.hub.wait(self.rank, self.place, rank, number).reshape(array.shape)
                if isinstance(array, np.ndarray):
                    array[...] = found
                else:
                    array.fill(found)
                del waiting[0]

        return end

    def abort(self, error: BaseException) -> None:
        """Wake all waiting threads."""
        with self.hub.condition:
            if self.hub.failed is None:
                self.hub.failed = self.rank, error
            self.hub.condition.notify_all()


def _failure(rank: int, error: BaseException) -> BackendError:
    if isinstance(error, DisagreementError):
        return DisagreementError(error.diagnostics)
    return BackendError.of("TIL814", f"rank {rank} failed, and so the others stopped: {type(error).__name__}: {error}")


@attrs.frozen
class Threads:
    """Engine that runs ranks as threads of this process: for tests, and for devices of one host.

    Attributes:
        devices: Device of each rank, which keeps its parts of arrays; none if the caller chooses one for all.
        late: Seconds of waiting after which late ranks are logged.
        timeout: Seconds of waiting after which a rank gives up, and all end; by default never.
        name: Name of the engine.
    """

    devices: tuple[str, ...] = ()
    late: float = 60.0
    timeout: float | None = None
    name: str = "inprocess"

    def launch(self, size: int, work: Callable[[Transport], T]) -> Mapping[int, T]:
        """Run work on each rank in a separate thread, and return its results, by rank.

        Raises:
            BackendError: TIL814, a rank failed: the others end at their next wait, or are abandoned after
                :data:`GRACE`.
            ArgumentError: TIL813, the number of devices differs.
        """
        if self.devices and len(self.devices) != size:
            message = f"the program is for {size} ranks, and the context has {len(self.devices)} devices"
            raise ArgumentError.of("TIL813", f"{message}; name one for each rank, the same one again if need be")
        hub = _Hub(self.late, self.timeout)
        results: dict[int, T] = {}

        def run(rank: int) -> None:
            end = _Thread(hub, rank, size, self.devices[rank] if self.devices else None)
            try:
                results[rank] = work(end)
            except BaseException as error:  # other threads would wait forever
                end.abort(error)
            with hub.condition:
                hub.ended.add(rank)
                hub.condition.notify_all()

        threads = [
            threading.Thread(target=run, args=(rank,), name=f"tileir rank {rank}", daemon=True) for rank in range(size)
        ]
        for thread in threads:
            thread.start()
        try:
            with hub.condition:
                hub.condition.wait_for(lambda: len(hub.ended) == size or hub.failed is not None)
                hub.condition.wait_for(lambda: len(hub.ended) == size, GRACE)
        except BaseException as error:  # an interrupt
            _Thread(hub, 0, size).abort(error)
            raise
        if hub.failed is not None:
            raise _failure(*hub.failed) from hub.failed[1]
        return {rank: results[rank] for rank in range(size)}


THREADS: Final = Threads()
