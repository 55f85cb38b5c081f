"""Transport of one rank: MPI messages and collectives on the bytes of arrays, with checks of notices while waiting."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, Final, TypeAlias

import attrs
import numpy as np
from mpi4py import MPI

from tileir.core import Aggregation, BackendError
from tileir.runtime.transports import LostError, Message, Transport, told, within
from tileir_mpi.peers import LOG, Notice, Peers, poll

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

ANSWER: Final = 1.0
"""Seconds in which waiting ranks answer with their places."""

_ADDED: Final = {f"{sign}int{bits}": getattr(MPI, f"UINT{bits}_T") for sign in ("", "u") for bits in (32, 64)}
"""Unsigned types for wrapping sums and products; Open MPI saturates some narrower types."""

_COMPARED: Final = {f"int{bits}": getattr(MPI, f"INT{bits}_T") for bits in (8, 16, 32, 64)} | {"bool": MPI.UINT8_T}
"""Types of compared elements; MPICH 4.0 compares unsigned ones as signed."""

_OPERATIONS: Final = {
    Aggregation.SUM: MPI.SUM,
    Aggregation.PROD: MPI.PROD,
    Aggregation.MAX: MPI.MAX,
    Aggregation.MIN: MPI.MIN,
}


_OF_BOOLS: Final = {Aggregation.SUM: Aggregation.MAX, Aggregation.PROD: Aggregation.MIN}
"""Equivalent operations on bools: a sum of 0 and 1 is true if any is, a product if all are."""


def _exact(how: Aggregation, dtype: np.dtype[Any]) -> tuple[MPI.Datatype, MPI.Op] | None:
    """Return type and operation by which MPI merges exactly in any order; None if it does not."""
    if dtype.name == "bool":
        how = _OF_BOOLS.get(how, how)
    types = _ADDED if how in {Aggregation.SUM, Aggregation.PROD} else _COMPARED
    if dtype.name not in types or how not in _OPERATIONS:
        return None
    return types[dtype.name], _OPERATIONS[how]


def _bytes(array: Array) -> list[Any]:
    """Return the buffer of a contiguous array of any dtype."""
    return [array.reshape(-1).view(np.uint8), MPI.BYTE]


@attrs.define(eq=False, slots=False)
class MPITransport(Transport):
    """Rank of a communicator.

    MPI's own reductions merge most integers that all ranks need; all others, and types that a library merges wrongly,
    are merged in rank order by NumPy. So results have equal bits with any library.

    Attributes:
        begun: Exchanges in progress, by number: MPI uses their buffers.
        numbers: Numbers of future exchanges.
    """

    peers: Peers
    late: float
    timeout: float | None
    begun: dict[int, Any] = attrs.field(factory=dict, init=False)
    numbers: Iterator[int] = attrs.field(factory=count, init=False)

    def __attrs_post_init__(self) -> None:
        self.rank, self.size = self.peers.rank, self.peers.size

    @property
    def stepping(self) -> frozenset[str]:
        """Texts of the programs that all ranks run in steps."""
        return self.peers.stepping

    @stepping.setter
    def stepping(self, texts: frozenset[str]) -> None:
        self.peers.stepping = texts

    def start(self) -> None:
        """Make the communicator of messages, once for all programs until one fails."""
        if self.peers.data is None:
            made, request = self.peers.notices.Idup()
            self._wait([request], range(self.size), made)
            self.peers.data = made

    def exchange(self, sent: Sequence[Message], received: Sequence[Message]) -> None:
        """Send and receive all messages at once."""
        self.begin(sent, received)()

    def begin(self, sent: Sequence[Message], received: Sequence[Message]) -> Callable[[], None]:
        """Start to send and receive all messages."""
        data = self._data
        requests = [data.Irecv(_bytes(array), rank, self.channel) for rank, array in received]
        requests += [data.Isend(_bytes(array), rank, self.channel) for rank, array in sent]
        ranks = [rank for rank, _ in (*received, *sent)]
        key = next(self.numbers)
        self.begun[key] = requests, sent, received

        def end() -> None:
            if self.begun.pop(key, None) is not None:
                self._wait(requests, ranks, (sent, received))

        return end

    def go_on(self) -> None:
        """Drive MPI's progress of large messages, which some networks need."""
        for requests, _, _ in self.begun.values():
            MPI.Request.Testall(requests)

    def abort(self, error: BaseException) -> None:
        """Notify the others, which raise the error when they next wait."""
        self.peers.kept += self.begun.values()
        self.begun.clear()
        self.peers.fail(told(error))

    def failure(self, error: BaseException) -> BackendError:
        """Return this rank's error, and notify the others of it unless they sent it."""
        self.abort(error)
        if isinstance(error, LostError):
            return LostError(error.diagnostics)
        return BackendError.of("TIL814", f"rank {self.rank} failed: {told(error)}")

    def all_gather(self, part: Array, parts: Sequence[Array], group: Sequence[int]) -> None:
        """Gather bytes, with any number per rank."""
        found = np.empty(sum(each.nbytes for each in parts), np.uint8)
        sizes = [each.nbytes for each in parts]
        request = self._group(group).Iallgatherv(_bytes(part), [found, sizes, MPI.BYTE])
        self._wait([request], group, (part, found))
        start = 0
        for each, size in zip(parts, sizes, strict=True):
            each[...] = found[start : start + size].view(each.dtype).reshape(each.shape)
            start += size

    def all_reduce(self, array: Array, how: Aggregation, group: Sequence[int]) -> Array:
        """Merge integers by MPI, and floats in the order of the group."""
        by = _exact(how, array.dtype)
        if by is None:
            return super().all_reduce(array, how, group)
        kind, operation = by
        result = np.empty_like(array)
        request = self._group(group).Iallreduce([array, kind], [result, kind], operation)
        self._wait([request], group, (array, result))
        return result

    @property
    def _data(self) -> MPI.Intracomm:
        assert self.peers.data is not None
        return self.peers.data

    def _group(self, group: Sequence[int]) -> MPI.Intracomm:
        """Return the communicator of a group, which all its ranks make together on first use."""
        ranks = tuple(group)
        if ranks == tuple(range(self.size)):
            return self._data
        if ranks not in self.peers.groups:
            others = [rank for rank in ranks if rank != self.rank]
            here = np.zeros(1, np.uint8)
            there = [(rank, np.zeros(1, np.uint8)) for rank in others]
            self.exchange([(rank, here) for rank in others], there)  # the following call waits without checking notices
            members = self._data.Get_group().Incl(ranks)
            self.peers.groups[ranks] = self._data.Create_group(members)
        return self.peers.groups[ranks]

    def _wait(self, requests: list[MPI.Request], ranks: Sequence[int], buffers: object) -> None:
        """Wait for requests in which ranks take part; their buffers are kept alive on failure."""
        self.peers.place, self.peers.channel = self.place, self.channel
        others = sorted({rank for rank in ranks if rank != self.rank})
        watch = _Watch(self, others)
        try:
            poll(lambda: MPI.Request.Testall(requests), watch.look)
        except BaseException:
            self.peers.kept.append((requests, buffers))
            raise


@attrs.define(eq=False)
class _Watch:
    """Patience of a rank with others, which it asks for their places before it reports them as late."""

    end: MPITransport
    ranks: Sequence[int]
    asked: float | None = None
    patience: float = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.patience = within(self.end.late, self.end.timeout)

    def look(self, waited: float) -> None:
        """Check whether others failed or are late.

        Raises:
            LostError: TIL814 or TIL816.
        """
        peers = self.end.peers
        peers.check(self.ranks)
        if waited < self.patience:
            return
        if self.asked is None:
            self.asked = time.monotonic()
            peers.answers.clear()
            peers.tell(self.ranks, Notice.ASKED)
        elif time.monotonic() - self.asked > ANSWER:
            self.asked, self.patience = None, within(2 * self.patience, self.end.timeout)
            message = f"rank {peers.rank} waits in {peers.place} for {waited:.0f} s: {self._described()}"
            if self.end.timeout is not None and waited >= self.end.timeout:
                raise LostError.of("TIL816", message)
            LOG.warning("%s", message)

    def _described(self) -> str:
        peers = self.end.peers
        silent = [rank for rank in self.ranks if rank not in peers.answers]
        own = peers.channel, peers.place
        elsewhere = {rank: at for rank in self.ranks if (at := peers.answers.get(rank, own)) != own}
        found = [f"rank {rank} is late, and does not wait for others" for rank in silent]
        for rank, (_, place) in elsewhere.items():
            found.append(f"rank {rank} is in {place}{' of another program' if place == peers.place else ''}")
        return "; ".join(found) or "all others are there, and messages are on their way"
