"""Calls of compiled graphs with PyTorch tensors, which stay in place."""

from __future__ import annotations

import logging
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
import torch
from attrs import define, field, frozen
from sympy import sympify
from torch.fx import Graph, Node

import tileir
from tileir import ArgumentError, DeviceInfo, DType, Executable, TensorType, TileError
from tileir_torch.dtypes import DTYPES, TORCH
from tileir_torch.importing import Computed, Imported, Known, Order, Packed, Passed, Result, Seen, Viewed, imported
from tileir_torch.rooms import Room, Rooms, chosen, inverse

KEPT: Final = 32
"""Number of size classes of a graph that are kept compiled."""
_MANY: Final = 8
"""Number of size classes without a warning."""
_INTEGERS: Final = {torch.bfloat16: torch.int16, torch.float8_e4m3fn: torch.uint8, torch.float8_e5m2: torch.uint8}
"""Integer dtypes by which elements unknown to NumPy are passed to it."""

_LOGGER: Final = logging.getLogger("tileir")


class SizesWarning(UserWarning):
    """A graph is compiled for many size classes."""


def host() -> DeviceInfo | None:
    """Return the device for tensors in host memory; None for the context's choice."""
    return next((each for each in tileir.devices() if each.backend == "llvm"), None)


def array_seen(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """Return the memory of a contiguous host tensor as a NumPy array."""
    integers = _INTEGERS.get(tensor.dtype)
    array: np.ndarray[Any, Any]
    if integers is None:
        array = tensor.numpy()
        return array
    array = tensor.view(integers).numpy()
    return array.view(DTYPES[tensor.dtype].numpy)


def tensor_over(array: np.ndarray[Any, Any]) -> torch.Tensor:
    """Return a NumPy array as a tensor over its memory, if PyTorch allows that."""
    if array.dtype.kind != "V" and array.dtype.isbuiltin:
        return torch.from_numpy(np.ascontiguousarray(array) if any(s < 0 for s in array.strides) else array)
    dtype = tileir.DType.of(array.dtype)
    if dtype is None or dtype not in TORCH:
        raise ArgumentError.of("TIL702", f"PyTorch has no elements of type {array.dtype}")
    integers = np.int16 if array.dtype.itemsize == 2 else np.uint8
    return torch.from_numpy(np.ascontiguousarray(array).view(integers)).view(TORCH[dtype])


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """Return a plain tensor, not of a subclass, whose memory is its elements, and without a gradient."""
    tensor = tensor.detach() if tensor.requires_grad or type(tensor) is not torch.Tensor else tensor
    return tensor.resolve_neg() if tensor.is_neg() else tensor


def _guards_of(tensors: Sequence[torch.Tensor]) -> tuple[Any, ...]:
    """Return a guard of tensors' layouts, in one call; nothing if PyTorch has none."""
    kind = getattr(torch._C._dynamo.guards, "TensorGuards", None)
    return () if kind is None else (kind(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None),)


@frozen(eq=False)
class Specialised:
    """Graph compiled for some sizes. Several threads may call it.

    Attributes:
        imported: The function, and the meaning of its inputs and results.
        fixed: Positions of placeholders that are usually the same tensors at each call.
        together: Positions of outputs with similar lifetimes: small ones share memory.
    """

    imported: Imported
    fixed: frozenset[int] = frozenset()
    together: frozenset[int] = frozenset()
    _seen: dict[int, tuple[Any, tuple[int, torch.Tensor]]] = field(factory=dict, init=False)
    _others: dict[torch.device, Callable[..., Any]] = field(factory=dict, init=False)
    _told: set[int] = field(factory=set, init=False)
    _guards: list[Any] = field(factory=list, init=False)

    @cached_property
    def _executable(self) -> Executable[Any] | None:
        return None if self.imported.function is None else self._compiled(host())

    def _compiled(self, device: DeviceInfo | str | None) -> Executable[Any]:
        function = self.imported.function
        assert function is not None
        types = [
            TensorType(each.dtype or "f32", tuple(_literal(size) for size in each.dims or ()))
            for each in function.inputs
        ]
        return tileir.compile(function, types, device=device)

    def _elsewhere(self, device: torch.device) -> Callable[..., Any]:
        """Return the runner for tensors of a device other than the host."""
        found = self._others.get(device)
        if found is None:
            assert self.imported.function is not None
            is_card = device.type == "cuda"
            found = self._compiled(f"cuda.{device.index or 0}") if is_card else tileir.jit(self.imported.function)
            self._others[device] = found
        return found

    @cached_property
    def _taken(self) -> tuple[tuple[int, int | None, Room], ...]:
        """For each input of the function, its tensor, its offset in bytes, and its memory layout."""
        imported = self.imported
        assert imported.function is not None
        numbers = {at: number for number, at in enumerate(dict.fromkeys(imported.inputs))}
        found = []
        rows = zip(imported.inputs, imported.orders, imported.parts, imported.function.inputs, strict=True)
        for at, order, part, each in rows:
            sizes = tuple(map(_literal, each.dims or ()))
            room = Room.of(TORCH[each.dtype or DType.F32], sizes, inverse(order))
            found.append((numbers[at], None if part is None else part[0], room))
        return tuple(found)

    @cached_property
    def _inputs(self) -> tuple[tuple[int, Order | None, Room], ...]:
        """Positions of tensors, orders of their axes in memory, and layouts of tensors that are used in place."""
        found: dict[int, tuple[int, Order | None, Room]] = {}
        for at, part, (_, _, room) in zip(self.imported.inputs, self.imported.parts, self._taken, strict=True):
            room = room if part is None else Room.of_bytes(part[1])
            found[at] = at, room.order, room
        return tuple(found.values())

    @cached_property
    def _rooms(self) -> tuple[Room, ...]:
        """Layouts of results in memory."""
        return tuple(
            Room.of(each.dtype, tuple(each.sizes[axis] for axis in each.order), inverse(each.order))
            for each in self.imported.computed
        )

    @cached_property
    def _whole(self) -> tuple[Room, ...]:
        """Layouts of tensors that a call makes: results that are not parts, and tensors that have parts."""
        within = {position for each in self._packs for position, _ in each.parts}
        own = (room for position, room in enumerate(self._rooms) if position not in within)
        return (*own, *(Room.of_bytes(each.nbytes) for each in self._packs))

    @cached_property
    def _packs(self) -> tuple[Packed, ...]:
        return tuple(each for each in self.imported.results if isinstance(each, Packed))

    @cached_property
    def _given_out(self) -> tuple[tuple[int, int | None], ...]:
        """For each result, its tensor among those that a call makes, and its offset in bytes."""
        first = len(self._whole) - len(self._packs)
        found = {at: (first + n, offset) for n, each in enumerate(self._packs) for at, offset in each.parts}
        own = iter(range(first))
        return tuple(found[at] if at in found else (next(own), None) for at in range(len(self._rooms)))

    @cached_property
    def _made(self) -> Rooms:
        others = (each for at, each in enumerate(self.imported.results) if at not in self.together)
        apart = {each.position for each in others if isinstance(each, Computed | Viewed)}
        own = ((position, at) for position, (at, offset) in enumerate(self._given_out) if offset is None)
        return Rooms.of(self._whole, {at for position, at in own if position not in apart})

    @cached_property
    def _tensors_of(self) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
        """Function that selects the input tensors from all values."""
        return chosen([at for at, *_ in self._inputs])

    @cached_property
    def _is_plain(self) -> bool:
        places = [each.position if isinstance(each, Computed) else -1 for each in self.imported.results]
        return places == list(range(len(self._whole)))

    def compile(self) -> None:
        """Compile now instead of at the first call."""
        self._executable  # noqa: B018  it is made by being asked for

    def __call__(self, values: Sequence[Any]) -> list[Any]:
        """Return the outputs of the graph.

        Args:
            values: Values of its placeholders: tensors, and numbers for sizes.
        """
        results: list[torch.Tensor] = []
        if self.imported.function is not None:
            there = (each.device for each in values if isinstance(each, torch.Tensor) and not each.is_cpu)
            device = next(there, None)
            if self.imported.draws:
                values = [*values, _state_of_generator(device)]
            results = self._made.made(device)
            if not self._runs_at(values, results, device):
                self._run(values, results, device)
        if self._is_plain:
            return results
        known = (*results, *values)
        outputs = [None if place is None else known[place] for place in self._places]
        for number, each in self._other_results:
            if isinstance(each, Viewed):
                whole = results[self._given_out[each.position][0]]
                # detached: a view of a result that has a gradient would have one, too, once it is written to
                outputs[number] = whole.detach().as_strided(each.sizes, each.strides, each.offset)
            else:
                outputs[number] = each.of(values[each.position]) if isinstance(each, Seen) else each.value
        return outputs

    @cached_property
    def _places(self) -> tuple[int | None, ...]:
        """Positions of unchanged outputs among all made tensors followed by all placeholders."""
        count, packs = len(self._whole), iter(range(len(self._whole) - len(self._packs), len(self._whole)))

        def place(each: Result) -> int | None:
            if isinstance(each, Packed):
                return next(packs)
            if isinstance(each, Computed):
                return self._given_out[each.position][0]
            return count + each.position if isinstance(each, Passed) else None

        return tuple(map(place, self.imported.results))

    @cached_property
    def _other_results(self) -> tuple[tuple[int, Viewed | Seen | Known], ...]:
        pairs = enumerate(self.imported.results)
        return tuple((number, each) for number, each in pairs if isinstance(each, Viewed | Seen | Known))

    def _runs_at(self, values: Sequence[Any], results: list[torch.Tensor], device: torch.device | None) -> bool:
        """Run on memory by addresses, in the order of PyTorch's current stream; False, with nothing done, if not."""
        run = self._executable if device is None else self._elsewhere(device)
        if not isinstance(run, Executable):
            return False
        tensors = self._tensors_of(values)
        if self._guards and self._guards[0].check(*tensors):
            addresses = [each.data_ptr() for each in tensors]
        else:
            given = self._given(values, device)
            if given is None:
                return False
            addresses = [address for address, _ in given]
            if all(held is each for (_, held), each in zip(given, tensors, strict=True)) and not self.fixed:
                self._guards[:] = _guards_of(tensors)
        leaving = [each.data_ptr() for each in results]
        if len(self._taken) > len(tensors):
            addresses = [addresses[number] + (offset or 0) for number, offset, _ in self._taken]
        if self._packs:
            leaving = [leaving[number] + (offset or 0) for number, offset in self._given_out]
        stream = None if device is None else torch.cuda.current_stream(device).cuda_stream
        return bool(run.run_at(addresses + leaving, stream))

    def _run(self, values: Sequence[Any], results: list[torch.Tensor], device: torch.device | None) -> None:
        """Run on arrays, which may be copies."""
        places = zip(self._rooms, self._given_out, strict=True)
        rooms = [room.within(results[number], offset) for room, (number, offset) in places]
        whole = [self._contiguous(at, values[at], order, device) for at, order, _ in self._inputs]
        given = [
            whole[number] if offset is None else room.within(whole[number], offset)
            for number, offset, room in self._taken
        ]
        if device is None:
            executable = self._executable
            assert executable is not None
            executable(*map(array_seen, given), out=[array_seen(each) for each in rooms])
        else:
            self._elsewhere(device)(*given, out=rooms[0] if len(rooms) == 1 else rooms)

    def _given(self, values: Sequence[Any], device: torch.device | None) -> list[tuple[int, torch.Tensor]] | None:
        """Return addresses of inputs, with the tensors that hold the memory; None if one does not match."""
        given: list[tuple[int, torch.Tensor]] = []
        for at, order, (dtype, sizes, strides, _, shape) in self._inputs:
            tensor = values[at]
            seen = self._seen.get(at)
            if seen is not None and seen[0] is tensor:
                given.append(seen[1])
                continue
            if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided or tensor.dtype is not dtype:
                return None
            is_there = tensor.is_cpu if device is None else tensor.device == device
            is_whole = tensor.shape == sizes and tensor.stride() == strides and not tensor.is_neg()
            if not (is_there and is_whole):
                tensor = self._contiguous(at, tensor, order, device)
                if tensor.shape != shape:
                    return None
            given.append((tensor.data_ptr(), tensor))
            if at in self.fixed:
                self._seen[at] = values[at], given[-1]
        return given

    def _contiguous(self, at: int, tensor: Any, order: Order | None, device: torch.device | None) -> torch.Tensor:
        """Return a tensor with contiguous device memory, axes in an order: a copy if it is not contiguous."""
        if order is not None and tensor.dim() == len(order):
            tensor = tensor.permute(order)
        if device is not None and tensor.device != device:
            if tensor.dim():
                self._tell_of_copy(at, tensor, f"as others are on {device}")
            tensor = tensor.to(device)
        return self._copied(at, tensor)

    def _copied(self, at: int, tensor: torch.Tensor) -> torch.Tensor:
        """Return a tensor with contiguous memory: a copy if it is not contiguous."""
        if tensor.is_neg():
            self._tell_of_copy(at, tensor, "as its elements are kept with the other sign")
        tensor = _plain(tensor)
        if not tensor.is_contiguous():
            self._tell_of_copy(at, tensor, "as its axes lie with gaps in memory")
            tensor = tensor.contiguous()
        return tensor

    def _tell_of_copy(self, at: int, tensor: torch.Tensor, why: str) -> None:
        """Log, once for each input, that it is copied at each call."""
        if at not in self._told:
            self._told.add(at)
            assert self.imported.function is not None
            name = self.imported.function.inputs[self.imported.inputs.index(at)].name
            message = "input %s of sizes %s and strides %s is copied at each call, %s"
            _LOGGER.info(message, name, tuple(tensor.shape), tensor.stride(), why)


def _state_of_generator(device: torch.device | None) -> torch.Tensor:
    """Return a random generator state, like :func:`tileir.ops.random_state`, from PyTorch's own."""
    return torch.randint(-(2**31), 2**31, (4,), dtype=torch.int32, device=device or "cpu").view(torch.uint32)


def _literal(size: Any) -> int:
    return int(size.value)


@define(eq=False)
class Specialising:
    """Graph compiled for each size class on demand. Calls are thread safe.

    Attributes:
        graph: Graph of ATen operations.
        owner: Module with its constants.
        what: Its name in warnings.
        fixed: Positions of placeholders that are usually the same tensors at each call.
        together: Positions of outputs with similar lifetimes: small ones share memory.
    """

    graph: Graph
    owner: Any = field(repr=False)
    what: str = "the graph"
    fixed: frozenset[int] = frozenset()
    together: frozenset[int] = frozenset()
    _known: OrderedDict[tuple[int, ...], Specialised] = field(factory=OrderedDict, init=False)
    _lock: threading.RLock = field(factory=threading.RLock, init=False)
    _symbols: list[tuple[Any, int, int | None]] = field(init=False)
    _count: int = field(default=0, init=False)

    @_symbols.default
    def _symbols_of_placeholders(self) -> list[tuple[Any, int, int | None]]:
        """Return the source of each symbol's value: a placeholder, and an axis, or None for a number."""
        found: dict[Any, tuple[Any, int, int | None]] = {}
        placeholders = [node for node in self.graph.nodes if node.op == "placeholder"]
        for at, node in enumerate(placeholders):
            for value, axis in _sizes_of(node):
                if isinstance(value, torch.SymInt) and value.node.expr.is_Symbol:
                    found.setdefault(value.node.expr, (value.node.expr, at, axis))
        return list(found.values())

    @property
    def is_dynamic(self) -> bool:
        """True if sizes may differ from call to call."""
        return bool(self._symbols)

    def runs(self) -> bool:
        """Return whether tileir runs all of the graph. With constant sizes, the first call need not import it again."""
        try:
            if self._symbols:
                imported(self.graph, self.owner)
            else:
                self.specialised(())
        except TileError:
            return False
        return True

    def __call__(self, values: Sequence[Any]) -> list[Any]:
        """Return the outputs for values of the placeholders."""
        return self.specialised(values)(values)

    def specialised(self, values: Sequence[Any]) -> Specialised:
        """Return the specialisation for the sizes of some values, which compiles on its first call."""
        key: tuple[int, ...] = ()
        if self._symbols:
            key = tuple(
                int(values[at]) if axis is None else int(values[at].shape[axis]) for _, at, axis in self._symbols
            )
        found = self._known.get(key)
        if found is None:
            with self._lock:
                found = self._known.get(key) or self._made(key)
        return found

    def _made(self, key: tuple[int, ...]) -> Specialised:
        symbols = {symbol: sympify(size) for (symbol, _, _), size in zip(self._symbols, key, strict=True)}
        made = self._known[key] = Specialised(imported(self.graph, self.owner, symbols), self.fixed, self.together)
        self._count += 1
        if self._count == _MANY + 1:
            told = f"{self.what} is compiled for the {self._count}th class of sizes, which takes time for each"
            warnings.warn(f"{told}; the latest {KEPT} are kept", SizesWarning, stacklevel=5)
        while len(self._known) > KEPT:
            self._known.popitem(last=False)
        return made


def _sizes_of(node: Node) -> Iterator[tuple[Any, int | None]]:
    value = node.meta.get("val")
    if isinstance(value, torch.SymInt):
        yield value, None
    elif isinstance(value, torch.Tensor):
        yield from ((size, axis) for axis, size in enumerate(value.shape))
