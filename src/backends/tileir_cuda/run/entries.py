"""Tensor maps and driver graphs for arrays at given addresses."""

from __future__ import annotations

import ctypes
import weakref
from ctypes import addressof, c_void_p
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, Self

import attrs
from cuda.bindings import driver

from tileir.core.errors import BackendError
from tileir_cuda.run.array_code import Entry, Made
from tileir_cuda.run.driver import checked, enter, fail, inherited, status_of, uncaptured

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileir_cuda.run.launcher import Launch, Launcher, Run, Table
    from tileir_cuda.run.maps import Maps


@attrs.define(eq=False)
class Graph:
    """Launches in order, launchable as one graph while this object lives.

    Attributes:
        number: Handle of the executable graph.
    """

    number: int
    _run: Run
    _table: Table
    _launcher: Launcher
    _nodes: Any

    @classmethod
    def of(cls, card: int, run: Run, table: Table, launcher: Launcher, arguments: Any) -> Self:
        """Make the graph of a run of a table, with overlapping launches if possible; the driver copies the arguments.

        Raises:
            BackendError: TIL708 or TIL808, the driver makes none.
        """
        enter(card)
        graph = checked("a graph", driver.cuGraphCreate(0))
        try:
            handles: list[Any] = []
            _, launches, places, after = table.held
            nodes = (c_void_p * run.count)()
            first = run.place
            for number in range(run.count):
                launch = launches[run.first + number]
                end = first + launch.taken
                pointers = _pointers(arguments, places[first:end])
                before = [handles[earlier] for earlier in after[run.first + number]]
                result = driver.cuGraphAddKernelNode(graph, before, len(before), _node(launch, pointers))
                handles.append(checked("a graph", result))
                first, nodes[number] = end, int(handles[-1])
            native = checked("a graph", driver.cuGraphInstantiate(graph, 0))
        except BaseException:
            driver.cuGraphDestroy(graph)
            raise
        made = cls(int(native), run, table, launcher, nodes)
        weakref.finalize(made, _destroy, native, graph, card).atexit = False
        return made

    def change(self, arguments: Any, before: Any) -> None:
        """Change the arguments of launches; earlier launches of the graph keep theirs.

        Raises:
            BackendError: TIL808, the driver refuses; some launches may have the new arguments then.
        """
        table, run, nodes, *places = map(addressof, (self._table, self._run, self._nodes, arguments, before))
        told = self._launcher.change(table, run, self.number, nodes, *places)
        if told:
            fail("a graph", status_of(told))


def _destroy(native: Any, graph: Any, card: int) -> None:
    if not inherited():
        enter(card)
        driver.cuGraphExecDestroy(native)  # the driver waits until it has run
        driver.cuGraphDestroy(graph)


def _pointers(arguments: Any, places: Sequence[int]) -> Any:
    """Return pointers to the parameters."""
    first = addressof(arguments)
    return (c_void_p * max(1, len(places)))(*(first + 8 * p if p >= 0 else arguments[~p] for p in places))


def _node(launch: Launch, pointers: Any) -> Any:
    node = driver.CUDA_KERNEL_NODE_PARAMS()
    node.func = driver.CUfunction(launch.function)
    node.gridDimX, node.gridDimY, node.gridDimZ = launch.x, launch.y, launch.z
    node.blockDimX, node.blockDimY, node.blockDimZ = launch.wide, launch.high, launch.deep
    node.sharedMemBytes = launch.shared
    node.kernelParams = addressof(pointers)
    return node


FROM: Final = 3
"""Minimum number of launches for a graph: on an H100 two launches took 15 µs, five 26, graphs of ten or fifty 12."""

KEPT: Final = 4
"""Maximum number of graphs kept for a program: buffers come back to earlier addresses, mostly two by two."""

KEPT_MAPS: Final = 16
"""Maximum number of address sets kept with their tensor maps for a program without a graph."""

REMEMBERED: Final = 16
"""Maximum number of address sets remembered for recognising repetitions."""


@attrs.define(eq=False)
class _Held:
    """Memory that an entry refers to, kept for its lifetime; ``arguments`` are addresses, then tensor maps.

    ``numbers`` are the handles of the graphs, one for each distinct run.
    """

    key: bytes
    arguments: Any
    maps: object
    graphs: tuple[Graph, ...] = ()
    numbers: Any = None


@attrs.define(eq=False)
class Entries:
    """Entries of one program. Callers hold the lock of the stream.

    Attributes:
        card: Ordinal of the card in the driver.
        runs: One run of each graph, in graph order.
        table: Native table of the launches.
        launcher: Native code for them.
        maps: Makers of tensor maps, and the argument of each of their kernels' parameters.
        graphs: Whether launches are worth graphs; False after the driver has refused one.
        repeats: Whether some run is repeated, so that graphs pay at once.
        made: Native list of the entries.
    """

    card: int
    runs: tuple[Run, ...]
    table: Table
    launcher: Launcher
    maps: tuple[tuple[Maps, tuple[int, ...]], ...]
    graphs: bool
    repeats: bool
    made: Made = attrs.field(init=False)
    _entries: Any = attrs.field(factory=lambda: (Entry * KEPT_MAPS)(), init=False)
    _held: list[_Held] = attrs.field(factory=list, init=False)
    _once: Entry = attrs.field(factory=Entry, init=False)
    _last: _Held | None = attrs.field(default=None, init=False)
    _seen: dict[bytes, None] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self.made = Made(ctypes.addressof(self._entries), 0, 0)

    @classmethod
    def of(
        cls,
        card: int,
        runs: Sequence[Run],
        table: Table,
        launcher: Launcher,
        maps: Sequence[tuple[Maps, tuple[int, ...]]],
    ) -> Entries | None:
        """Return the entries of a program; None if addresses are the only arguments."""
        firsts = {run.graph: run for run in reversed(runs)}
        launches = sum(run.count * run.times for run in runs)
        graphs, repeats = launches >= FROM, launches > sum(run.count for run in firsts.values())
        if not (graphs or maps):
            return None
        chosen = tuple(firsts[number] for number in sorted(firsts))
        return cls(card, chosen, table, launcher, tuple(maps), graphs, repeats)

    def at(self, key: bytes) -> Entry:
        """Return the entry for addresses."""
        for number, held in enumerate(self._held):
            if held.key == key:
                self._touch(number)
                entry: Entry = self._entries[number]
                return entry
        return Entry.from_address(self.missed(key))

    def missed(self, key: bytes) -> int:
        """Return the address of a new entry: with a graph, once its addresses have occurred before.

        Raises:
            BackendError: TIL808, the driver makes no tensor map.
        """
        wanted = self._complete(key)
        again = key in self._seen
        first = not self._seen
        if not again:
            if len(self._seen) >= REMEMBERED:
                del self._seen[next(iter(self._seen))]
            self._seen[key] = None
        if self.graphs and (self.repeats or not first):
            try:
                with uncaptured():
                    return self._with_graphs(wanted, again)
            except BackendError:  # slower without graphs; fails if the card does
                self._forget()
        if self.graphs or not self.maps:
            self._last, self._once = wanted, Entry(ctypes.addressof(wanted.arguments), None, 0)
            return ctypes.addressof(self._once)
        return self._keep(wanted, self._next(room=True))

    def _with_graphs(self, wanted: _Held, again: bool) -> int:
        """Return an entry whose graphs have these arguments: new or updated graphs."""
        number = self._next(room=again)
        if number == len(self._held):
            made = (Graph.of(self.card, run, self.table, self.launcher, wanted.arguments) for run in self.runs)
            wanted.graphs = tuple(made)
            wanted.numbers = (ctypes.c_void_p * len(self.runs))(*(graph.number for graph in wanted.graphs))
        else:
            old = self._held[number]
            for graph in old.graphs:
                graph.change(wanted.arguments, old.arguments)
            wanted.graphs, wanted.numbers = old.graphs, old.numbers
        return self._keep(wanted, number)

    def _next(self, *, room: bool) -> int:
        """Return the number of the next entry: a new one while there is room, or the least recently used."""
        count = len(self._held)
        if not count or (room and count < (KEPT if self.graphs else KEPT_MAPS)):
            return count
        return min(range(count), key=lambda number: self._entries[number].used)

    def _keep(self, wanted: _Held, number: int) -> int:
        graphs = 0 if wanted.numbers is None else ctypes.addressof(wanted.numbers)
        self._entries[number] = Entry(ctypes.addressof(wanted.arguments), graphs, 0)
        self._held[number : number + 1] = [wanted]
        self.made.count = len(self._held)
        self._touch(number)
        return ctypes.addressof(self._entries) + number * ctypes.sizeof(Entry)

    def _touch(self, number: int) -> None:
        self.made.clock += 1
        self._entries[number].used = self.made.clock

    def _forget(self) -> None:
        """Stop using graphs."""
        self.graphs = False
        self.made.count = 0
        self._held.clear()

    def _complete(self, key: bytes) -> _Held:
        """Return all arguments for addresses; maps stay in place while anything refers to them."""
        count = len(key) // 8
        addresses = Struct(f"{count}Q").unpack(key)
        made = [one for maps, arguments in self.maps for one in maps.at([addresses[each] for each in arguments])]
        arguments = (ctypes.c_uint64 * (count + len(made)))(*addresses, *map(ctypes.addressof, made))
        return _Held(key, arguments, made)
