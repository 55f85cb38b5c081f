"""Programs that are handed over in one native call, on memory of their card; nobody waits for them."""

from __future__ import annotations

from ctypes import addressof
from struct import Struct
from typing import TYPE_CHECKING, Final, NoReturn

import attrs

from tileir_cuda.run.driver import context_of, fail, status_of
from tileir_cuda.run.graphs import FROM, Graphs
from tileir_cuda.run.launcher import Launch, launcher

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tileir_cuda.run.executor import CudaExecutor
    from tileir_cuda.run.kernels import CudaKernel
    from tileir_cuda.run.maps import Maps
    from tileir_cuda.run.memory import CudaBuffer
    from tileir_cuda.run.stream import CudaEvent, Stream

STATUS_BITS: Final = 32


@attrs.define(repr=False)
class _Records:
    """What is collected of launches.

    Attributes:
        count: How many arrays come later; they are the first arguments.
        fixed: Addresses of the other arguments.
        launches: What the native code reads of each launch, and the names of their kernels.
        places: Which argument each parameter is; from -1 down, which one points to it.
        maps: What makes tensor maps, and which argument each of its kernel's parameters is.

    """

    count: int
    fixed: list[int] = attrs.field(factory=list, init=False)
    launches: list[Launch] = attrs.field(factory=list, init=False)
    names: list[str] = attrs.field(factory=list, init=False)
    places: list[int] = attrs.field(factory=list, init=False)
    maps: list[tuple[Maps, tuple[int, ...]]] = attrs.field(factory=list, init=False)
    _numbers: dict[int, int] = attrs.field(factory=dict, init=False)
    _pointed: int = attrs.field(default=0, init=False)

    def add(self, kernel: CudaKernel, arguments: Sequence[CudaBuffer | int]) -> None:
        """Add a launch; a grid without groups is none."""
        if not all(kernel.shape[:-1]):
            return
        places = [each if isinstance(each, int) else self._number(each.address) for each in arguments]
        pointed = [] if kernel.maps is None else [self._pointed + number for number in range(len(kernel.maps.wanted))]
        if kernel.maps is not None:
            self.maps.append((kernel.maps, tuple(places)))
            self._pointed += len(pointed)
        self.launches.append(Launch(kernel.function, kernel.shape, len(places) + len(pointed)))
        self.names.append(kernel.kernel.name)
        self.places += [*places, *(~number for number in pointed)]

    def _number(self, address: int) -> int:
        """Return which argument an address is."""
        if address not in self._numbers:
            self._numbers[address] = self.count + len(self.fixed)
            self.fixed.append(address)
        return self._numbers[address]

    def settled_places(self) -> tuple[int, ...]:
        """Return the places, tensor maps behind all addresses."""
        behind = self.count + len(self.fixed)
        return tuple(place if place >= 0 else ~(~place + behind) for place in self.places)


@attrs.frozen(eq=False)
class CudaQueue:
    """Launches of which some arrays are given each time. It fulfils :class:`tileir.runtime.offers.Queue`.

    Several threads may use it where its own buffers allow it.
    """

    _executor: CudaExecutor
    _stream: Stream
    _names: tuple[str, ...]
    _pack: Callable[..., bytes]
    _fixed: bytes
    _addresses: tuple[int, ...]
    _maps: tuple[tuple[Maps, tuple[int, ...]], ...]
    _graphs: Graphs | None
    _table: int
    _hand_over: Callable[[int, bytes, int, int, int], int]
    _alone: Callable[..., int] | None
    _held: object

    @classmethod
    def of(
        cls, executor: CudaExecutor, works: Sequence[tuple[CudaKernel, Sequence[CudaBuffer | int]]], count: int
    ) -> CudaQueue:
        """Ready launches: kernels with their arguments, buffers or the numbers of ``count`` arrays that come later.

        Raises:
            BackendError: TIL808, the driver refuses; TIL809, the process was forked.

        """
        records = _Records(count)
        for kernel, arguments in works:
            records.add(kernel, arguments)
        places, stream, native = records.settled_places(), executor.stream, launcher()
        table = native.table(context_of(stream.card), int(stream.native), records.launches, places)
        fixed = Struct(f"{len(records.fixed)}Q").pack(*records.fixed)
        graphs = Graphs(stream.card, tuple(records.launches), places) if len(records.launches) >= FROM else None
        alone = native.function(table, count, fixed)
        return cls(
            executor,
            stream,
            tuple(records.names),
            Struct(f"{count}Q").pack,
            fixed,
            tuple(records.fixed),
            tuple(records.maps),
            graphs,
            addressof(table),
            native.hand_over,
            None if graphs or records.maps else alone,
            (table, native, tuple(works)),
        )

    def launch(self, addresses: Sequence[int], stream: int | None = None) -> CudaEvent:
        """Hand all launches over, and return an event that completes behind them.

        Args:
            addresses: Where the arrays are that come later.
            stream: A stream of others: the launches follow what is in it, and what comes later there follows them.

        Raises:
            BackendError: TIL804 or TIL808, the driver refuses; TIL807, the executor was closed; TIL809, the process was
                forked.

        """
        own, alone = self._stream, self._alone
        if self._executor.closed:
            self._executor.check_open()
        if alone is None or stream is not None:
            return self._launch(addresses, stream)
        with own.lock:
            told = alone(*addresses)
            if not told:
                return own.tail or own.new_tail()
        return self._fail(told)

    def _launch(self, addresses: Sequence[int], stream: int | None) -> CudaEvent:
        """Do so with tensor maps, as a graph, or beside another stream."""
        own = self._stream
        arguments = key = self._pack(*addresses) + self._fixed
        maps: object = None
        if self._maps:
            maps, arguments = self._mapped(addresses, key)
        with own.lock:
            graph = 0 if self._graphs is None else self._graphs.at(key, arguments)
            mark = 0 if stream is None else own.crossing()
            told = self._hand_over(self._table, arguments, stream or 0, mark, graph)
            if not told:
                return own.tail or own.new_tail()
        del maps  # until now the driver had them to copy
        return self._fail(told)

    def _mapped(self, addresses: Sequence[int], key: bytes) -> tuple[object, bytes]:
        """Return tensor maps for these addresses, and the arguments with where they are."""
        places = (*addresses, *self._addresses)
        made = [one for maps, arguments in self._maps for one in maps.at([places[each] for each in arguments])]
        return made, key + Struct(f"{len(made)}Q").pack(*map(addressof, made))

    def _fail(self, told: int) -> NoReturn:
        """Wait for what was handed over, so that arrays are free again, and raise."""
        self._stream.drain()
        number, status = told >> STATUS_BITS, told & (1 << STATUS_BITS) - 1
        fail(f"kernel {self._names[number - 1]}" if number else "a run", status_of(status))
