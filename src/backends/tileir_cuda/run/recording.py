"""Recorded work, replayed as one driver graph when its memory occurs again.

A recording has the addresses of all inputs and outputs. Its device memory belongs to its recorder, and results return
there when nothing refers to them. Temporaries belong to their programs, which run one after the other, but live as long
as the recording. Work on given memory is recorded as often as its results are alive at a time; work on new memory, or
too often on memory in use, is left to the caller. In the graph, work depends on earlier users of its memory, so that
messages and kernels may overlap.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Final

from cuda.bindings import driver

from tileir.core import BackendError, attrs
from tileir_cuda.run.capturing import Capture
from tileir_cuda.run.driver import checked, enter, inherited
from tileir_cuda.run.memory import PooledCudaBuffer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tileir_cuda.run.executor import CudaExecutor
    from tileir_cuda.run.memory import CudaBuffer, Loan, Pool
    from tileir_cuda.run.stream import CudaEvent, Stream

MOST: Final = 16
"""Maximum number of recordings of a recorder: steps of a loop need two or three."""

REMEMBERED: Final = 64
"""Maximum number of address sets remembered without a recording."""

REFUSALS: Final = 3
"""Failed attempts after which nothing is recorded any more."""


@attrs.define(eq=False)
class Reserve:
    """Memory only for recordings. Buffers over it return it like to a pool.

    Attributes:
        pieces: Sizes by addresses.
        live: Addresses of results in use.
    """

    pool: Pool
    pieces: dict[int, int] = attrs.field(factory=dict, init=False)
    live: set[int] = attrs.field(factory=set, init=False)

    def __attrs_post_init__(self) -> None:
        weakref.finalize(self, _returned, self.pool, self.pieces).atexit = False

    @property
    def spare(self) -> dict[int, int]:
        """Unused pieces, by addresses."""
        return {address: size for address, size in self.pieces.items() if address not in self.live}

    def settle(self, loan: Loan, results: set[int]) -> None:
        """Take over lent memory that has come back or holds results; the pool gets the rest."""
        for address, size in loan.pieces.items():
            self.pieces[address] = size
            if address in loan.missing - results:
                del self.pieces[address]

    def taken(self, address: int, nbytes: int) -> CudaBuffer:
        """Return a buffer over a piece."""
        self.live.add(address)
        pool: Any = self
        return PooledCudaBuffer(address, nbytes, self.pool.stream, None, False, pool, self.pieces[address])

    def give(self, address: int, _: int, shared: bool) -> None:
        """Take a piece back; pieces that others used in their own streams stay in use."""
        if not shared:
            self.live.discard(address)


def _returned(pool: Pool, pieces: dict[int, int]) -> None:
    if not inherited():
        for address, size in pieces.items():
            pool.give(address, size, False)


@attrs.frozen(eq=False)
class _Recording:
    """Graph of the driver.

    Attributes:
        native: Executable graph.
        memory: Addresses of the pieces that it may use.
        results: For each result the address and size of its memory, or the number of a given buffer.
        held: Owners of further memory that it uses.
    """

    native: Any
    memory: frozenset[int]
    results: tuple[tuple[int, int] | int, ...]
    held: Sequence[object]


@attrs.define(eq=False)
class Recorder:
    """Recordings of one piece of work, by the addresses that it reads. One thread uses it at a time."""

    executor: CudaExecutor
    _reserve: Reserve = attrs.field(init=False)
    _found: dict[tuple[int, ...], list[_Recording]] = attrs.field(factory=dict, init=False)
    _count: int = attrs.field(default=0, init=False)
    _refused: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self._reserve = Reserve(self.executor.pool)

    def run(
        self, given: Sequence[CudaBuffer], work: Callable[[], Sequence[CudaBuffer]]
    ) -> tuple[Sequence[CudaBuffer], CudaEvent] | None:
        """Submit recorded work; see :class:`tileir.runtime.offers.Recorder`.

        Raises:
            BackendError: TIL808, the driver refuses; TIL807, the executor was closed; TIL809, the process was forked.
        """
        self.executor.check_open()
        key = tuple([buffer.address for buffer in given])
        known, reserve = self._found.get(key), self._reserve
        if known is None:
            known = self._remembered(key)
            if reserve.pieces.keys().isdisjoint(key):  # results of recordings come again
                return None
        live = reserve.live
        for recording in known:
            if live.isdisjoint(recording.memory):
                return self._handed_over(recording, given)
        if self._count >= MOST or self._refused >= REFUSALS or any(buffer.shared for buffer in given):
            return None
        try:
            recording = self._recorded(given, work)
        except BackendError:  # without a recording it fails again, or succeeds
            self._refused += 1
            return None
        known.append(recording)
        self._count += 1
        return self._handed_over(recording, given)

    def _remembered(self, key: tuple[int, ...]) -> list[_Recording]:
        if len(self._found) >= REMEMBERED + self._count:
            del self._found[next(old for old, recordings in self._found.items() if not recordings)]
        return self._found.setdefault(key, [])

    def _handed_over(self, recording: _Recording, given: Sequence[CudaBuffer]) -> tuple[list[CudaBuffer], CudaEvent]:
        stream = self.executor.stream
        enter(stream.card)
        checked("recorded work", driver.cuGraphLaunch(recording.native, stream.native))  # it may wait: without the lock
        with stream.lock:
            event = stream.tail or stream.new_tail()
        made: dict[int, CudaBuffer] = {}
        results = []
        for result in recording.results:
            if isinstance(result, int):
                results.append(given[result])
                continue
            address, nbytes = result
            if address not in made:
                made[address] = self._reserve.taken(address, nbytes)
            results.append(made[address])
        return results, event

    def _recorded(self, given: Sequence[CudaBuffer], work: Callable[[], Sequence[CudaBuffer]]) -> _Recording:
        """Record work on given buffers.

        Raises:
            BackendError: TIL808, it waits for the card, or keeps memory other than that of its results.
        """
        pool, reserve = self.executor.pool, self._reserve
        places = {buffer.address: number for number, buffer in enumerate(given)}
        made: Sequence[CudaBuffer] = ()
        try:
            with pool.lent(reserve.spare) as loan:
                native, made, held = _captured(self.executor.stream, work)
        finally:
            own = {buffer.address for buffer in made} - places.keys()
            kept = bool(loan.missing - own or own - loan.missing)
            reserve.settle(loan, set() if kept else own)
        if kept:
            _destroy(native, self.executor.stream.card)
            raise BackendError.of("TIL808", "recorded work keeps memory that is not that of its results")
        for buffer in made:
            if buffer.address in own and isinstance(buffer, PooledCudaBuffer):
                buffer.pool = None
        results = tuple(places.get(buffer.address, (buffer.address, buffer.nbytes)) for buffer in made)
        recording = _Recording(native, frozenset(loan.pieces), results, held)
        weakref.finalize(recording, _destroy, native, self.executor.stream.card).atexit = False
        return recording


def _captured(
    stream: Stream, work: Callable[[], Sequence[CudaBuffer]]
) -> tuple[Any, Sequence[CudaBuffer], Sequence[object]]:
    """Capture work, without running it, as an executable graph, with its results and the objects that it holds.

    Raises:
        BackendError: TIL808, the driver refuses, or the work waits for the card; and errors of the work.
    """
    with stream.lock:
        enter(stream.card)
        relaxed = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        checked("recording", driver.cuStreamBeginCapture(stream.native, relaxed))
        stream.capture = capture = Capture(stream.native)
        try:
            made = work()
        finally:
            stream.capture = None
            ended = driver.cuStreamEndCapture(stream.native)
    graph = checked("recording", ended)
    try:
        return checked("a recording", driver.cuGraphInstantiate(graph, 0)), made, capture.held
    finally:
        driver.cuGraphDestroy(graph)


def _destroy(native: Any, card: int) -> None:
    if not inherited():
        enter(card)
        driver.cuGraphExecDestroy(native)  # the driver waits until it has run
