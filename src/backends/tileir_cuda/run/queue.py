"""Programs submitted by one native call on device memory, without waiting.

Works of a program are runs: sequences of launches that form a graph, with repetition counts.

A loop of any number of steps is a graph of some steps, launched repeatedly: the time to make or change a graph is
proportional to its launches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from ctypes import addressof, create_string_buffer
from math import prod
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

from tileir.core.nodes import attrs
from tileir.runtime.interface import Choice, Repetition
from tileir.semtree.ir import ParamAccess
from tileir_cuda.run.array_calls import Program, array_call
from tileir_cuda.run.capturing import Capture
from tileir_cuda.run.driver import context_of, fail, status_of
from tileir_cuda.run.entries import Entries
from tileir_cuda.run.following import APART, Use, following
from tileir_cuda.run.launcher import Launch, Launcher, Run, Table, launcher

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.runtime.devices.home import DeviceMemory
    from tileir.runtime.plans.queued import QueuedOperand
    from tileir.semtree.ir import Param
    from tileir_cuda.run.executor import CudaExecutor
    from tileir_cuda.run.kernels import CudaKernel
    from tileir_cuda.run.maps import Maps
    from tileir_cuda.run.memory import CudaBuffer
    from tileir_cuda.run.stream import CudaEvent, Stream

Launched: TypeAlias = tuple[Any, Sequence[Any]]
"""Kernel and its arguments: buffers, or numbers of arrays to be given."""

Work: TypeAlias = Launched | Repetition | Choice
"""Launch or counted loop: programs with conditions are not submitted as a whole."""

MOST: Final = 4096
"""Maximum number of launches in a graph."""

REPEATED: Final = 512
"""Maximum number of launches in a graph of steps: they take a hundred times as long as starting the next graph."""

FILLING: Final = 2
"""Groups for each multiprocessor from which on launches are serialised.

They fill the card: overlapped, they compete for its caches and take longer. Smaller launches leave room at their end.
"""


@attrs.frozen(eq=False)
class Runs:
    """Runs of launches, one after the other.

    Attributes:
        bodies: Sequences of launches.
        order: Numbers of bodies with repetition counts, in order.
    """

    bodies: list[list[Launched]] = attrs.field(factory=list, init=False)
    order: list[tuple[int, int]] = attrs.field(factory=list, init=False)
    _pending: list[Launched] = attrs.field(factory=list, init=False, repr=False)

    @classmethod
    def of(cls, works: Iterable[Work]) -> Runs:
        """Return the runs of works with counted loops."""
        runs = cls()
        runs._add(works)
        runs._flush()
        return runs

    def _add(self, works: Iterable[Work]) -> None:
        for work in works:
            if isinstance(work, Repetition):
                self._repeat(work)
            else:
                self._pending.append(_launch(work))
            if len(self._pending) >= MOST:
                self._flush()

    def _flush(self) -> None:
        """Make a run of the pending launches."""
        if self._pending:
            self._run(self._pending, 1)
            self._pending.clear()

    def _run(self, body: Sequence[Launched], times: int) -> None:
        self.order.append((len(self.bodies), times))
        self.bodies.append([*body])

    def _repeat(self, loop: Repetition) -> None:
        times, length = _times(loop), _length(loop.works)
        if times * length <= REPEATED:
            self._pending.extend(_unrolled((loop,)))
            return
        self._flush()
        if length > REPEATED:
            first = len(self.order)
            self._add(loop.works)
            self._flush()
            self.order.extend(self.order[first:] * (times - 1))
            return
        step = [*_unrolled(loop.works)]
        turns, rest = divmod(times, REPEATED // length)
        self._run(step * (REPEATED // length), turns)
        self._pending.extend(step * rest)


def _times(loop: Repetition) -> int:
    assert isinstance(loop.times, int)  # others are conditional
    return loop.times


def _launch(work: Launched | Choice) -> Launched:
    assert isinstance(work, tuple)  # others are conditional
    return work


def _length(works: Iterable[Work]) -> int:
    """Return the number of launches of works."""
    lengths = (_times(work) * _length(work.works) if isinstance(work, Repetition) else 1 for work in works)
    return sum(lengths)


def _unrolled(works: Iterable[Work]) -> Iterator[Launched]:
    for work in works:
        if isinstance(work, Repetition):
            for _ in range(_times(work)):
                yield from _unrolled(work.works)
        else:
            yield _launch(work)


STATUS_BITS: Final = 32


@attrs.define(eq=False, repr=False)
class _Records:
    """Collected launches.

    Attributes:
        count: Number of arrays to be given, which are the first arguments.
        filling: Number of groups from which on a launch fills the card.
        fixed: Addresses of the other arguments.
        runs: Sequences of launches, and their counts.
        launches: Native descriptions of the launches, and the names of their kernels.
        places: Argument number of each parameter; from -1 down, argument that a parameter points to.
        maps: Makers of tensor maps, and the argument of each of their kernels' parameters.
        after: Predecessors of each launch, by numbers in its run.
        uses: Memory of each launch.
    """

    count: int
    filling: int
    fixed: list[int] = attrs.field(factory=list, init=False)
    runs: list[Run] = attrs.field(factory=list, init=False)
    launches: list[Launch] = attrs.field(factory=list, init=False)
    names: list[str] = attrs.field(factory=list, init=False)
    places: list[int] = attrs.field(factory=list, init=False)
    maps: list[tuple[Maps, tuple[int, ...]]] = attrs.field(factory=list, init=False)
    after: list[tuple[int, ...]] = attrs.field(factory=list, init=False)
    uses: list[list[Use]] = attrs.field(factory=list, init=False)
    _numbers: dict[int, int] = attrs.field(factory=dict, init=False)
    _pointed: int = attrs.field(default=0, init=False)

    def add_runs(self, runs: Runs) -> None:
        """Add all launches and their runs."""
        bodies: list[Run] = []
        graph = 0
        for launched in runs.bodies:
            first, place = len(self.launches), len(self.places)
            for kernel, arguments in launched:
                self._add(kernel, arguments)
            self.after += following(self.uses[first:])
            bodies.append(Run(first, len(self.launches) - first, place, 0, graph))
            graph += len(self.launches) > first
        for number, times in runs.order:
            body = bodies[number]
            if body.count:
                self.runs.append(Run(body.first, body.count, body.place, times, body.graph))

    def _add(self, kernel: CudaKernel, arguments: Sequence[CudaBuffer | int]) -> None:
        """Add a launch, unless its grid is empty."""
        if not all(kernel.shape[:-1]):
            return
        places = [each if isinstance(each, int) else self._number(each.address) for each in arguments]
        pointed = [] if kernel.maps is None else [self._pointed + number for number in range(len(kernel.maps.wanted))]
        if kernel.maps is not None:
            self.maps.append((kernel.maps, tuple(places)))
            self._pointed += len(pointed)
        self.launches.append(Launch(kernel.function, *kernel.shape, len(places) + len(pointed)))
        self.names.append(kernel.kernel.name)
        uses = [_use(*each) for each in zip(kernel.kernel.params, arguments, strict=True)]
        is_apart = kernel.awaits or prod(kernel.shape[:3]) >= self.filling
        self.uses.append([*uses, APART] if is_apart else uses)
        self.places += [*places, *(~number for number in pointed)]

    def _number(self, address: int) -> int:
        """Return the argument number of an address."""
        if address not in self._numbers:
            self._numbers[address] = self.count + len(self.fixed)
            self.fixed.append(address)
        return self._numbers[address]

    def settled_places(self) -> tuple[int, ...]:
        """Return the places, with tensor maps after all addresses."""
        behind = self.count + len(self.fixed)
        return tuple(place if place >= 0 else ~(~place + behind) for place in self.places)


def _use(param: Param, argument: CudaBuffer | int) -> Use:
    writes, nbytes = param.access is not ParamAccess.READ, param.size * param.dtype.itemsize
    if isinstance(argument, int):
        return Use(argument, 0, nbytes, writes)
    return Use(-1, argument.address, argument.address + nbytes, writes)


def _placed(use: Use, addresses: Sequence[int]) -> Use:
    """Return a use with its array's address."""
    start = 0 if use.array < 0 else addresses[use.array]
    return Use(-1, start + use.begin, start + use.end, use.writes)


@attrs.frozen(eq=False)
class CudaQueue:
    """Launches with some arrays given each time. Implements :class:`tileir.runtime.offers.ArrayQueue`.

    Several threads may use it if its own buffers allow it.
    """

    _executor: CudaExecutor
    _stream: Stream
    _names: tuple[str, ...]
    _pack: Callable[..., bytes]
    _fixed: bytes
    _entries: Entries | None
    _table: Table
    _launcher: Launcher
    _uses: Sequence[Sequence[Use]]
    _held: object

    @classmethod
    def of(cls, executor: CudaExecutor, works: Sequence[Work], count: int) -> CudaQueue:
        """Prepare works: kernels with their arguments, buffers or the numbers of ``count`` arrays to be given.

        Raises:
            BackendError: TIL808, the driver refuses; TIL809, the process was forked.
        """
        records, runs = _Records(count, FILLING * executor.device.target.threads), Runs.of(works)
        records.add_runs(runs)
        stream, native = executor.stream, launcher()
        context, handle = context_of(stream.card), int(stream.native)
        places = records.settled_places()
        table = native.table(context, handle, records.runs, records.launches, places, records.after)
        return cls(
            executor,
            stream,
            tuple(records.names),
            Struct(f"{count}Q").pack,
            Struct(f"{len(records.fixed)}Q").pack(*records.fixed),
            Entries.of(stream.card, records.runs, table, native, records.maps),
            table,
            native,
            records.uses,
            runs,
        )

    def launch(self, addresses: Sequence[int], stream: int | None = None) -> CudaEvent:
        """Submit all launches, and return their completion event.

        Args:
            addresses: Addresses of the arrays.
            stream: Foreign stream: the launches follow work in it, and later work there follows them.

        Raises:
            BackendError: TIL804 or TIL808, the driver refuses; TIL807, the executor was closed; TIL809, the process was
                forked.
        """
        own = self._stream
        if self._executor.closed:
            self._executor.check_open()
        key = self._pack(*addresses) + self._fixed
        room = create_string_buffer(key, len(key))
        with own.lock:
            arguments, graphs = addressof(room), 0
            if self._entries is not None:
                entry = self._entries.at(key)
                arguments, graphs = entry.arguments, entry.graphs or 0
            mark = 0 if stream is None else own.crossing()
            if own.capture is not None:
                told = self._recorded(own.capture, arguments, addresses)
            else:
                told = self._launcher.hand_over(addressof(self._table), arguments, stream or 0, mark, graphs)
            if not told:
                return own.tail or own.new_tail()
        return self._fail(told)

    def _recorded(self, capture: Capture, arguments: int, addresses: Sequence[int]) -> int:
        """Submit launches one by one with their dependences by memory, and return the native code's result."""
        capture.held.append(self._held)
        one, alone = Run(0, 1, 0, 1, 0), Table.from_buffer_copy(self._table)
        alone.runs, alone.count = addressof(one), 1
        for run in [each for each in self._table.held[0] for _ in range(each.times)]:
            one.place = run.place
            for one.first in range(run.first, run.first + run.count):
                with capture.following([_placed(use, addresses) for use in self._uses[one.first]]):
                    told = self._launcher.hand_over(addressof(alone), arguments, 0, 0, 0)
                if told:
                    return told
                one.place += self._table.held[1][one.first].taken
        return 0

    def bound(self, addresses: Sequence[int]) -> BoundQueue:
        """Return the launches on arrays at these addresses as one for :meth:`CudaExecutor.run_batch`."""
        return BoundQueue(self, addresses)

    def array_call(self, operands: Sequence[QueuedOperand], read: int, home: DeviceMemory) -> Callable[..., Any] | None:
        """Return the launches as a function of arrays, like :class:`tileir.runtime.offers.ArrayQueue`.

        Raises:
            BackendError: TIL808, the driver refuses.
        """
        program = Program(addressof(self._table), self._launcher.address, self._fixed, self._entries)
        return array_call(program, self._executor, operands, read, home, self._fail)

    def _fail(self, told: int) -> NoReturn:
        """Wait for submitted work, so that arrays are free again, and raise."""
        self._stream.drain()
        number, status = told >> STATUS_BITS, told & (1 << STATUS_BITS) - 1
        fail(f"kernel {self._names[number - 1]}" if number else "a run", status_of(status))


@attrs.frozen(eq=False)
class BoundQueue:
    """All launches of a queue on given arrays."""

    queue: CudaQueue
    addresses: Sequence[int]

    def enqueue(self) -> None:
        """Put them into the stream; raises the errors of :meth:`CudaQueue.launch`."""
        self.queue.launch(self.addresses)
