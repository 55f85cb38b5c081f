"""Operations in rounds between ranks: in each round a rank combines its part with the part of another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tileir.core import DType, attrs
from tileir.core.numbers.arithmetic import order
from tileir.driver.distribution.on_device import room_for
from tileir.typed.boxes import Box, elements, sizes_of
from tileir.typed.ir import Argsort, Function, Gather, Scatter, Shape, Value
from tileir.typed.sharding.collective_operations import KINDS, comparisons, kept
from tileir.typed.sharding.local import CollectiveOperation
from tileir.typed.sharding.messages import window_of
from tileir.typed.sharding.partitioned import Partitioned
from tileir.typed.sharding.rounds import (
    BEFORE,
    KEYS,
    MADE,
    OTHER_KEYS,
    OTHER_PLACES,
    PLACES,
    ROWS,
    SORTED,
    TABLE,
    UPDATES,
    looked_up,
    merged_parts,
    narrowed,
    sorted_part,
    updated,
)

if TYPE_CHECKING:
    from tileir.runtime.devices.home import DeviceMemory
    from tileir.runtime.transports import Transport

Run: TypeAlias = Callable[[Function, Mapping[str, Any]], Mapping[str, Any]]


@attrs.frozen(eq=False, repr=False)
class Rank:
    """Rank in an operation in rounds.

    Attributes:
        program: Program of all ranks.
        transport: Transport between them.
        home: Device of its parts; None for the host.
        run: Computes a function there.
    """

    program: Partitioned
    transport: Transport
    home: DeviceMemory | None
    run: Run

    def met(self, meeting: CollectiveOperation, values: Mapping[str, Any]) -> Any:
        """Return this rank's part of the result of an operation; all ranks take part."""
        operation = meeting.operation
        self.transport.place = f"{KINDS[type(operation)].value} {operation.name!r}"
        group = self.program.mesh.group(self.transport.rank, meeting.axes)
        match operation:
            case Argsort():
                return self._sorted(operation, group, values[operation.input])
            case Gather():
                return self._looked_up(operation, group, values[operation.data], values[operation.indices])
            case Scatter():
                return self._updated(operation, group, values)
            case _:
                raise AssertionError(operation)

    def _box(self, name: str, rank: int | None = None) -> Box:
        mesh = self.program.mesh
        return mesh.box(self.program.layout(name), mesh.coordinates(self.transport.rank if rank is None else rank))

    def _room(self, dtype: DType, shape: Shape) -> Any:
        return np.empty(shape, dtype.numpy) if self.home is None else room_for(self.home, Value("", dtype, shape))

    def _dtype(self, name: str) -> DType:
        function = self.program.function
        return next(each.dtype for each in (*function.inputs, *function.operations) if each.name == name)

    # --- sorts ---

    def _sorted(self, operation: Argsort, group: Sequence[int], part: Any) -> Any:
        axis, own = operation.axis, group.index(self.transport.rank)
        layouts = self.program.layout(operation.input)[axis], self.program.layout(operation.name)[axis]
        sizes = kept(*layouts)
        wanted = [high - low for low, high in layouts[1].intervals]
        box, dtypes = self._box(operation.input), (self._dtype(operation.input), operation.dtype)

        def shape(position: int) -> Shape:
            return (*sizes_of(box[:axis]), sizes[position], *sizes_of(box[axis + 1 :]))

        found = [self._room(dtype, shape(own)) for dtype in dtypes]
        if found[0].nbytes:
            keys = Value(KEYS, dtypes[0], sizes_of(box))
            made = self.run(sorted_part(operation, keys, box[axis][0], sizes[own]), {KEYS: part})
            found = [made[f"{KEYS}{SORTED}"], made[f"{PLACES}{SORTED}"]]
        for pairs in comparisons(sizes, wanted):
            for pair in pairs:
                if own not in (pair.first, pair.first + 1):
                    continue
                is_second = own != pair.first
                other = pair.first if is_second else own + 1
                came = [self._room(dtype, shape(other)) for dtype in dtypes] if pair.keeps[is_second] else []
                sent = found if pair.keeps[not is_second] else []
                self._exchange([(group[other], each) for each in sent], [(group[other], each) for each in came])
                if came and found[0].nbytes:
                    low = sizes[pair.first] if is_second else 0
                    parts = [*came, *found] if is_second else [*found, *came]
                    found = self._merged(operation, parts, (low, low + sizes[own]))
        return self._first(operation, found[1], shape(own), wanted[own])

    def _merged(self, operation: Argsort, parts: Sequence[Any], wanted: tuple[int, int]) -> list[Any]:
        """Return selected elements in order, with their places, of two sorted parts: on the host in linear time."""
        axis = operation.axis
        if self.home is None:
            keys, places = (np.concatenate(each, axis) for each in (parts[::2], parts[1::2]))
            sorted_by = order(keys, axis, descending=operation.descending)
            chosen = sorted_by[(*[slice(None)] * axis, slice(*wanted))]
            return [np.take_along_axis(each, chosen, axis) for each in (keys, places)]
        dtypes = (self._dtype(operation.input), operation.dtype)
        names = (KEYS, PLACES, OTHER_KEYS, OTHER_PLACES)
        values = tuple(
            Value(name, dtype, each.shape) for name, dtype, each in zip(names, dtypes * 2, parts, strict=True)
        )
        made = self.run(merged_parts(operation, values, wanted), dict(zip(names, parts, strict=True)))
        return [made[f"{KEYS}{SORTED}"], made[f"{PLACES}{SORTED}"]]

    def _first(self, operation: Argsort, places: Any, shape: Shape, count: int) -> Any:
        """Return the first places of a rank's elements."""
        axis = operation.axis
        if shape[axis] == count:
            return places
        have = tuple((0, size) for size in shape)
        window = window_of(
            Value(PLACES, operation.dtype, shape), have, (), (*have[:axis], (0, count), *have[axis + 1 :])
        )
        if not count or not elements(have):
            return self._room(operation.dtype, (*shape[:axis], count, *shape[axis + 1 :]))
        return self.run(window, {PLACES: places})[window.outputs[0]]

    # --- rows ---

    def _looked_up(self, operation: Gather, group: Sequence[int], table: Any, rows: Any) -> Any:
        own, shape = group.index(self.transport.rank), sizes_of(self._box(operation.name))
        found = self._room(operation.dtype, shape)
        indices = Value(ROWS, self._dtype(operation.indices), sizes_of(self._box(operation.indices)))
        size = self.program.layout(operation.data)[0].intervals[-1][1]
        for number in range(len(group)):
            owner = (own - number) % len(group)
            box = self._box(operation.data, group[owner])
            if number:
                came = self._room(operation.dtype, sizes_of(box))
                self._exchange([(group[(own + 1) % len(group)], table)], [(group[own - 1], came)])
                table = came
            if elements(box) and found.nbytes:
                part = Value(TABLE, operation.dtype, sizes_of(box))
                function = looked_up(operation, part, box[0], size, indices, shape)
                found = self.run(function, {TABLE: table, ROWS: rows, BEFORE: found})[MADE]
        return found

    def _updated(self, operation: Scatter, group: Sequence[int], values: Mapping[str, Any]) -> Any:
        box = self._box(operation.name)
        before = None if operation.into is None else values[operation.into]
        for updates, rows in self._all_updates(operation, group, values):
            if not elements(box):
                continue
            kinds = (
                Value(UPDATES, operation.dtype, updates.shape),
                Value(ROWS, self._dtype(operation.indices), rows.shape),
            )
            function = updated(operation, *kinds, box[0], sizes_of(box), has_before=before is not None)
            before = self.run(function, {UPDATES: updates, ROWS: rows, BEFORE: before})[MADE]
        if before is None:
            return self._room(operation.dtype, sizes_of(box))
        if operation.accumulator is operation.dtype:
            return before
        return self.run(narrowed(operation, sizes_of(box)), {BEFORE: before})[MADE]

    def _all_updates(
        self, operation: Scatter, group: Sequence[int], values: Mapping[str, Any]
    ) -> Iterator[tuple[Any, Any]]:
        """Yield the updates of all ranks with their indices, in rank order."""
        own, names = self.transport.rank, (operation.updates, operation.indices)
        for sender in group:
            if sender == own:
                given = [values[name] for name in names]
                self._exchange([(rank, each) for rank in group if rank != own for each in given], [])
            else:
                given = [self._room(self._dtype(name), sizes_of(self._box(name, sender))) for name in names]
                self._exchange([], [(sender, each) for each in given])
            yield given[0], given[1]

    def _exchange(self, sent: Sequence[tuple[int, Any]], received: Sequence[tuple[int, Any]]) -> None:
        filled = [(rank, each) for rank, each in sent if each.nbytes]
        if self.home is None:
            filled = [(rank, np.asarray(each, order="C")) for rank, each in filled]
        self.transport.exchange(filled, [(rank, each) for rank, each in received if each.nbytes])
