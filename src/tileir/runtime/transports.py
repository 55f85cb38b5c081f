"""Transports between ranks: the interface of engines such as MPI, and the engine of threads in one process.

Collectives are called by all ranks of a group in one order, which partitioned programs make sure of. So messages need
no tags: of two between the same ranks the first one sent is the first one received.
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
"""A rank, and the contiguous array that is sent to it, or filled by it: of the host, or of the transport's device."""
T = TypeVar("T")


class Merge(NamedTuple):
    """A merge of arrays of devices.

    Attributes:
        parts: What a rank has for each of the group, or one array for all.
        result: What is filled; it may be the one array for all.
        how: How to merge.

    """

    parts: Sequence[DeviceArray]
    result: DeviceArray
    how: Aggregation


_FACTS: Final = 4
"""Texts that ranks compare at a time: messages are of one length, also of ranks that make different calls."""

GRACE: Final = 3.0
"""Seconds that threads have to end when one of them failed."""


class Transport(abc.ABC):
    """One rank's end of an engine.

    Only ``exchange`` and ``abort`` must be written. The other methods are made of them; an engine overrides those that
    it has something faster for. Arrays are contiguous, in the memory of the host, and have one dtype and size on all
    ranks that a message or a merge joins. Where the transport names a device, programs run there, and messages may be
    arrays of that device, which are read and filled in its stream. Dtypes are those of :class:`tileir.DType`, narrow
    floats as ``ml_dtypes`` has them. Merges are of dtypes that are accumulated in: bool, integers, f32 and f64; between
    two ranks of f16 and bf16, too. A group is a sequence of ranks that this one is among, the same on all of its ranks.

    Attributes:
        rank: The number of this rank.
        size: How many ranks there are.
        device: The device on which this rank runs programs and keeps its parts of arrays; None where the caller chooses
            it, and parts are on the host.
        shares_memory: Whether all ranks are in one process, so that results need not be sent to be put together.
        place: The place of the program that this rank has come to, such as a collective, for messages.
        agreed: Texts of the programs that all ranks are known to run, so that they are compared once.
        stepping: Texts of the programs of which all ranks are known to make steps, so that they are compared at the
            first step alone; an engine of processes keeps them from one launch to the next, until one fails.
        channel: The number of the program whose messages come next, below 32,768: engines whose messages have tags do
            not take those of one program for another's.
        alike: Whether all ranks are known to have devices of one target, so that they decide alike by its prices.

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
        """Send arrays to ranks, and fill arrays by what ranks send; arrays may be used again afterwards.

        All ranks that a message joins call it at this place of the program; none may wait for another to receive
        before it receives itself.

        Raises:
            BackendError: TIL814, another rank failed.

        """

    def begin(self, sent: Sequence[Message], received: Sequence[Message]) -> Callable[[], None]:
        """Begin an exchange, and return what waits for its end, which may be called again.

        Until then no array may be used, and nothing that is received later overtakes it. Engines that exchange nothing
        beside what a rank computes do it at once.

        Raises:
            BackendError: TIL814, another rank failed; so does what is returned.

        """
        self.exchange(sent, received)
        return _done

    def go_on(self) -> None:  # noqa: B027  engines whose messages travel by themselves have nothing to do
        """Let messages that were begun travel on, between two pieces of work."""

    @abc.abstractmethod
    def abort(self, error: BaseException) -> None:
        """Let all ranks end, since this one failed; whatever they wait for raises TIL814."""

    def all_gather(self, part: Array, parts: Sequence[Array], group: Sequence[int]) -> None:
        """Fill ``parts``, one for each rank of a group, by the ``part`` of each; sizes may differ."""
        others = [rank for rank in group if rank != self.rank]
        self.exchange(
            [(rank, part) for rank in others],
            [(rank, array) for rank, array in zip(group, parts, strict=True) if rank != self.rank],
        )
        parts[group.index(self.rank)][...] = part

    def reduce_scatter(self, parts: Sequence[Array], how: Aggregation, group: Sequence[int]) -> Array:
        """Return the merge of what all ranks of a group have for this one: ``parts`` has an array for each of them.

        Values are merged in the order of the group, so that results are the same each time.
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
        """Return the merge of the arrays of all ranks of a group: of the same bits on each.

        Each rank merges an equal share of the elements, and shares are handed round.
        """
        shares = np.array_split(array.reshape(-1), len(group))
        merged = self.reduce_scatter(shares, how, group)
        result = np.empty_like(array)
        parts = np.array_split(result.reshape(-1), len(group))
        self.all_gather(merged, parts, group)
        return result

    def merged(self, merges: Sequence[Merge], group: Sequence[int]) -> bool:  # noqa: ARG002  engines look at them
        """Fill arrays of the device by merges of what all ranks of a group have for this one.

        Args:
            merges: What is merged; all at once where that is faster.
            group: The ranks.

        Returns:
            False, on all ranks and with nothing done, where the engine does not merge these; they are exchanged then.

        """
        return False

    def check(self) -> None:  # noqa: B027  engines whose messages are waited for have nothing to do
        """Find out that another rank failed since this end was made; what the device has may be wrong then.

        Raises:
            LostError: TIL814, it did.

        """

    def hand_over_again(self) -> None:
        """Be told that recorded work is handed over again, with what the methods of this end have put into it.

        Raises:
            LostError: TIL814, another rank failed.

        """
        self.check()


def _done() -> None:
    """Wait for nothing."""


class DisagreementError(BackendError):
    """Difference between ranks that must not be; raised by all of them at one place, so that none waits for another."""


class LostError(BackendError):
    """Another rank failed, has ended, or is late, and so this one stops waiting."""


def within(seconds: float, timeout: float | None) -> float:
    """Return seconds of waiting after which to look who is late, which are not beyond the end of all waiting."""
    return seconds if timeout is None else min(seconds, timeout)


def told(error: BaseException) -> str:
    """Return what others are told of the error of a rank."""
    if isinstance(error, LostError):
        return error.diagnostics[0].message
    return f"{type(error).__name__}: {error}"


def agree(transport: Transport, facts: Mapping[str, str]) -> None:
    """Compare texts that all ranks should have in common, by digests; all ranks call it, with texts of equal names.

    Args:
        transport: Between the ranks.
        facts: At most four, by their names, which messages use.

    Raises:
        DisagreementError: TIL815, on every rank: which rank differs from rank 0, and in what; or that it compares
            texts of other names, since it makes another call.

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
    """Runs work on ranks; an entry point of the group ``tileir.transports`` names one."""

    @property
    def name(self) -> str:
        """Its name, which is that of the entry point."""

    def launch(self, size: int, work: Callable[[Transport], T]) -> Mapping[int, T]:
        """Run ``work`` on each of ``size`` ranks, and return what it returns on those in this process, by rank.

        An engine of threads starts all ranks. One of processes, each of which calls this, is called on one rank.

        Raises:
            BackendError: TIL813, there are not as many ranks; TIL814, one failed: which, and its error; a
                :class:`DisagreementError` that all of them raise, as it is.

        """


@attrs.define(eq=False, repr=False)
class _Hub:
    """Messages on their way between the threads of one process, and what each of these does.

    Attributes:
        late: After how many seconds of waiting a rank logs for which others it waits.
        timeout: After how many it gives up; None for never.
        condition: Held where any of the following is read or changed.
        messages: By the ranks that they go from and to, and by their numbers among those.
        failed: The rank that failed first, and its error.
        ended: Ranks whose work is done, or failed.
        places: Where ranks wait, of those that do.

    """

    late: float
    timeout: float | None
    condition: threading.Condition = attrs.field(factory=threading.Condition)
    messages: dict[tuple[int, int, int], Array] = attrs.field(factory=dict)
    failed: tuple[int, BaseException] | None = None
    ended: set[int] = attrs.field(factory=set)
    places: dict[int, str] = attrs.field(factory=dict)

    def wait(self, own: int, place: str, other: int, number: int) -> Array:
        """Return a message from a rank; the condition is held.

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
    """A rank that is a thread. What it sends is copied, so that it never waits for who receives."""

    hub: _Hub
    rank: int
    size: int
    device: str | None = None
    sent: Counter[int] = attrs.field(factory=Counter, init=False)
    received: Counter[int] = attrs.field(factory=Counter, init=False)
    shares_memory = True

    def exchange(self, sent: Sequence[Message], received: Sequence[Message]) -> None:
        """Put copies where the others look for them, then wait for theirs; from device to device by way of the host."""
        self.begin(sent, received)()

    def begin(self, sent: Sequence[Message], received: Sequence[Message]) -> Callable[[], None]:
        """Put copies where the others look for them."""
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
        """Wake all that wait."""
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
    """The engine that runs ranks as threads of this process: for tests, and for devices of one host.

    Attributes:
        devices: The device of each rank, whose parts of arrays stay there; none where the caller chooses one for all.
        late: After how many seconds of waiting the rank is logged that another waits for.
        timeout: After how many seconds of waiting a rank gives up, and all end; by default never.
        name: By which it is found.

    """

    devices: tuple[str, ...] = ()
    late: float = 60.0
    timeout: float | None = None
    name: str = "inprocess"

    def launch(self, size: int, work: Callable[[Transport], T]) -> Mapping[int, T]:
        """Run work on each rank in a thread of its own, and return what it returns, by rank.

        Raises:
            BackendError: TIL814, a rank failed: the others end where they next wait, or are left to themselves if that
                takes them longer than :data:`GRACE`.
            ArgumentError: TIL813, there is another number of devices.

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
        except BaseException as error:  # somebody wants to stop
            _Thread(hub, 0, size).abort(error)
            raise
        if hub.failed is not None:
            raise _failure(*hub.failed) from hub.failed[1]
        return {rank: results[rank] for rank in range(size)}


THREADS: Final = Threads()
