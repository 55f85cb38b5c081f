"""Choice of shardings: the layout of each value of a program, and the spread of each operation.

A table maps layouts of values that are still to be read to the least seconds to obtain them. An operation joins the
tables of its operands, and a value that is read for the last time leaves its table. If no value is read twice, as in
trees, each table is of one value, and the choice is optimal; otherwise the cheapest rows of a table are kept.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Final, TypeAlias

from tileir.core import attrs
from tileir.typed.dataflow import loop_of
from tileir.typed.ir import Function, Operation, Scan, Value, operands
from tileir.typed.sharding.exchanges import covered, largest, moved, target_of
from tileir.typed.sharding.explanation import loop_seconds
from tileir.typed.sharding.loops import needs_of, result_layout
from tileir.typed.sharding.mesh import Layout, Mesh, whole
from tileir.typed.sharding.needs import reads
from tileir.typed.sharding.partitioned import Partitioned
from tileir.typed.sharding.prices import CALLS, Prices
from tileir.typed.sharding.spreading import OperationSharding, OperationShardings, layouts_of, nameless

_ROWS: Final = 64
"""Greatest number of rows of a table."""

_STEPS: Final = 8_000
"""Rows of all tables together beyond which tables keep fewer, which bounds the time to about a second."""

_LOOPS: Final = 6
"""Number of rows for whose layouts a loop is partitioned."""

Held: TypeAlias = tuple[int, ...]
"""Numbers of the layouts in which a value is available, beginning with the original one."""
Decision: TypeAlias = "Layout | OperationSharding"
Trace: TypeAlias = "tuple[tuple[Trace, ...], str, Decision]"
"""A decision on a value, after earlier decisions."""
Rows: TypeAlias = "dict[tuple[Held, ...], tuple[float, Trace]]"


@attrs.frozen(eq=False)
class Loops:
    """Ways to partition loops.

    Attributes:
        step: Returns the step of a loop for layouts of its arguments, on the part of a rank.
        layouts: Completes layouts of a loop's arguments, some of which are fixed, by those that its step prefers.
    """

    step: Callable[[Scan, tuple[Layout, ...]], Partitioned | None]
    layouts: Callable[[Scan, tuple[Layout | None, ...], Mesh], tuple[Layout, ...]]


@attrs.frozen(eq=False)
class _Table:
    """The least seconds for each combination of layouts of some values, and the decisions that reach it."""

    names: tuple[str, ...]
    rows: Rows


def choose(
    function: Function, live: Sequence[Operation], prices: Prices, wanted: Mapping[str, Layout], loops: Loops
) -> dict[str, Decision]:
    """Return the layout of each input that is read, and the spread of each operation.

    Args:
        function: The program.
        live: The operations to decide on, in order; results of others are available in any layout.
        prices: Prices of work and exchanges.
        wanted: Required layouts of values.
        loops: Partitions loops.
    """
    choice = _Choice(prices, wanted, loops, max(4, min(_ROWS, _STEPS // max(1, len(live)))))
    choice.defined = {each.name: each for each in (*function.inputs, *function.operations)}
    choice.uses.update(name for each in live for name in dict.fromkeys(reads(each)))
    for operation in _read_soon(live):
        choice.add(operation)
    return choice.decisions()


def _read_soon(live: Sequence[Operation]) -> Iterator[Operation]:
    """Yield operations in an order in which few values await their readers, as those in tables do."""
    needs = {each.name: tuple(dict.fromkeys(reads(each))) for each in live}
    readers: dict[str, list[Operation]] = {}
    for each in live:
        for name in needs[each.name]:
            readers.setdefault(name, []).append(each)
    uses = {name: len(each) for name, each in readers.items()}
    ahead, unchosen = set(needs), set(needs)
    for first in live:
        pending = [first] if first.name in unchosen else []
        while pending:
            operation = pending.pop()
            yield operation
            unchosen.discard(operation.name)
            ahead.discard(operation.name)
            for name in needs[operation.name]:
                uses[name] -= 1
            for name in (*needs[operation.name], operation.name):
                for reader in readers.get(name, ()):
                    read = needs[reader.name]
                    ends = sum(uses[each] == 1 for each in read)
                    if reader.name in unchosen and ahead.isdisjoint(read) and ends >= (reader.name in readers):
                        unchosen.discard(reader.name)
                        pending.append(reader)


@attrs.define(eq=False)
class _Choice:
    """Decisions in progress; ``uses`` counts the remaining reads of each value."""

    prices: Prices
    wanted: Mapping[str, Layout]
    loops: Loops
    width: int
    defined: dict[str, Value | Operation] = attrs.field(factory=dict)
    uses: Counter[str] = attrs.field(factory=Counter)
    tables: dict[str, _Table] = attrs.field(factory=dict)
    done: list[_Table] = attrs.field(factory=list)
    spreads: dict[tuple[object, ...], OperationShardings] = attrs.field(factory=dict)
    numbers: dict[Layout, int] = attrs.field(factory=dict)
    layouts: list[Layout] = attrs.field(factory=list)
    looped: dict[tuple[Scan, Partitioned | None], float] = attrs.field(factory=dict)
    moves: dict[tuple[Held, int, int, float], tuple[float, int]] = attrs.field(factory=dict)
    needed: dict[OperationSharding, tuple[int, ...]] = attrs.field(factory=dict)

    def decisions(self) -> dict[str, Decision]:
        """Return the decisions behind the cheapest rows of all tables."""
        found: dict[str, Decision] = {}
        for table in self.done:
            pending = [min(table.rows.values(), key=lambda row: row[0])[1]]
            while pending:
                before, name, found[name] = pending.pop()
                pending += before
        return found

    def add(self, operation: Operation) -> None:
        """Decide on an operation for all layouts of its operands."""
        names = [name for name in dict.fromkeys(reads(operation)) if self._has_layout(name)]
        tables = list({id(self.tables[name]): self.tables[name] for name in names}.values())
        self.uses.subtract(dict.fromkeys(reads(operation), 1))
        through = self._through_loop if isinstance(operation, Scan) else self._through
        rows = through(operation, names, tables)  # type: ignore[arg-type]
        kept = [name for table in tables for name in table.names if self.uses[name]]
        if self.uses[operation.name]:
            kept.append(operation.name)
        made = _Table(tuple(kept), self._cheapest(self._worth(self._cheapest(rows, 4), kept)))
        self.tables.update(dict.fromkeys(kept, made))
        if not kept:
            self.done.append(made)

    def _has_layout(self, name: str) -> bool:
        """Return whether a value has a layout; that of an input is decided now."""
        value = self.defined[name]
        if isinstance(value, Value) and name not in self.tables:
            asked = self.wanted.get(name)
            rows: Rows = {}
            for layout in layouts_of(value.shape, self.prices.mesh) if asked is None else [asked]:
                size = largest(layout) * value.dtype.itemsize * self.prices.mesh.size
                rows[((self._number(layout),),)] = self.prices.exchange(size) / CALLS, ((), name, layout)
            self.tables[name] = _Table((name,), rows)
        return name in self.tables

    def _number(self, layout: Layout) -> int:
        found = self.numbers.setdefault(layout, len(self.layouts))
        if found == len(self.layouts):
            self.layouts.append(layout)
        return found

    def _worth(self, rows: Rows, names: Sequence[str]) -> Rows:
        """Return the rows without those that are reached more cheaply by exchanges from the cheapest row."""
        sizes = [self.defined[name].dtype.itemsize for name in names]
        best, (least, _) = min(rows.items(), key=lambda row: row[1][0])

        def from_best(key: tuple[Held, ...]) -> float:
            return sum(self._move(a, b[0], size, 0.0)[0] for a, b, size in zip(best, key, sizes, strict=True))

        return {key: row for key, row in rows.items() if key is best or row[0] < least + from_best(key)}

    def _cheapest(self, rows: Rows, times: int = 1) -> Rows:
        if len(rows) <= times * self.width:
            return rows
        return dict(heapq.nsmallest(times * self.width, rows.items(), key=lambda row: row[1][0]))

    # --- one operation ---

    def _through(self, operation: Operation, names: Sequence[str], tables: Sequence[_Table]) -> Rows:
        """Return the rows after an operation: the cheapest for each layout of values that are read later."""
        found: Rows = {}
        called = {name: str(number) for number, name in enumerate(dict.fromkeys(operands(operation)))}
        cuts = {
            (called[name], axis, split): None
            for name in names
            for layout in self._first_layouts(name)
            for axis, split in enumerate(layout)
            if split.axes
        }
        for spread in self._spreads(operation, called).beside(tuple(cuts)):
            if spread not in self.needed:  # once for many operations
                self.needed[spread] = tuple(map(self._number, (*spread.needs.values(), spread.target)))
            numbers = self.needed[spread]
            needs = dict(zip(called, numbers, strict=False))
            self._combine(
                found, operation, spread, numbers[-1], [self._laid(table, needs, spread.beside) for table in tables]
            )
        return found

    def _through_loop(self, operation: Scan, names: Sequence[str], tables: Sequence[_Table]) -> Rows:
        """Return the rows after a loop, partitioned for layouts of some rows or for those that its step prefers."""
        found: Rows = {}
        groups = [heapq.nsmallest(_LOOPS, table.rows.items(), key=lambda row: row[1][0]) for table in tables]
        combined = heapq.nsmallest(_LOOPS, product(*groups), key=lambda rows: sum(row[0] for _, row in rows))
        for rows in combined:
            layouts = {
                name: self.layouts[held[0]]
                for table, (key, _) in zip(tables, rows, strict=True)
                for name, held in zip(table.names, key, strict=True)
            }
            passed = tuple(layouts.get(name) or whole(self.defined[name].shape) for name in operands(operation))
            alone = [_Table(table.names, dict([row])) for table, row in zip(tables, rows, strict=True)]
            self._add_loop(found, operation, self.loops.step(operation, passed), names, alone)
        known = {name: self._first_layouts(name) for name in names}
        fixed = tuple(known[each][0] if len(known.get(each, ())) == 1 else None for each in operands(operation))
        liked = self.loops.layouts(loop_of(operation), fixed, self.prices.mesh)
        step = self.loops.step(operation, liked)
        if step is not None:
            self._add_loop(found, operation, step, names, tables)
            self._add_loop(found, operation, None, names, tables)
        return found

    def _add_loop(
        self, found: Rows, operation: Scan, step: Partitioned | None, names: Sequence[str], tables: Sequence[_Table]
    ) -> None:
        """Add the rows after a loop with a partitioned step, or one that every rank runs completely."""
        final = self.wanted.get(operation.name)
        layout = whole(operation.shape) if step is None else result_layout(operation, step)
        needs = {name: whole(self.defined[name].shape) for name in operands(operation)}
        needs |= {} if step is None else dict(needs_of(operation, step))
        spread = OperationSharding(
            layout, (), final or layout, needs, self._loop_seconds(operation, layout, final, step)
        )
        numbers = {name: self._number(spread.needs[name]) for name in names}
        parts = [self._laid(table, numbers, 0.0) for table in tables]
        self._combine(found, operation, spread, self._number(spread.target), parts)

    def _loop_seconds(self, operation: Scan, layout: Layout, final: Layout | None, step: Partitioned | None) -> float:
        """Return the price of all steps, and of bringing the result into its required layout."""
        key = loop_of(operation), step
        if key not in self.looped:
            self.looped[key] = loop_seconds(operation, step, self.prices)
        seconds = self.looped[key]
        if final is not None:
            seconds += self.prices.exchange(moved(layout, final, self.prices.mesh) * operation.dtype.itemsize)
        return seconds

    def _combine(
        self, found: Rows, operation: Operation, spread: OperationSharding, number: int, parts: Sequence[Rows]
    ) -> None:
        """Add a row for each combination of rows of the operands, after an operation with this spread."""
        own = ((number,),) if self.uses[operation.name] else ()
        combined: list[tuple[tuple[Held, ...], float, tuple[Trace, ...]]] = [((), spread.seconds, ())]
        for part in parts:
            rows = self._cheapest(part).items()
            combined = [
                (key + held, seconds + more, (*traces, trace))
                for key, seconds, traces in combined
                for held, (more, trace) in rows
            ]
        for key, seconds, traces in combined:
            key += own
            known = found.get(key)
            if known is None or seconds < known[0]:
                found[key] = seconds, (traces, operation.name, spread)

    def _first_layouts(self, name: str) -> list[Layout]:
        table = self.tables[name]
        place = table.names.index(name)
        return [self.layouts[number] for number in dict.fromkeys(key[place][0] for key in table.rows)]

    def _spreads(self, operation: Operation, called: Mapping[str, str]) -> OperationShardings:
        like, final = nameless(operation), self.wanted.get(operation.name)
        kinds = tuple((self.defined[name].dtype, self.defined[name].shape) for name in called)
        key = (like, kinds, final)
        if key not in self.spreads:
            shapes = {number: shape for number, (_, shape) in zip(called.values(), kinds, strict=True)}
            dtypes = {number: dtype for number, (dtype, _) in zip(called.values(), kinds, strict=True)}
            self.spreads[key] = OperationShardings(like, shapes, dtypes, final, self.prices)
        return self.spreads[key]

    def _laid(self, table: _Table, needs: Mapping[str, int], beside: float) -> Rows:
        """Return the rows after exchanges of operands for their reader, without values that nothing reads again.

        ``beside`` is the seconds of work while halos are on their way.
        """
        moves = []
        for place, name in enumerate(table.names):
            if name in needs:
                size = self.defined[name].dtype.itemsize
                found_in = {key[place] for key in table.rows}
                moves.append((place, {each: self._move(each, needs[name], size, beside) for each in found_in}))
        kept = [place for place, name in enumerate(table.names) if self.uses[name]]
        found: Rows = {}
        for key, (seconds, trace) in table.rows.items():
            held = list(key)
            for place, prices in moves:
                more, copy = prices[key[place]]
                seconds += more
                if copy >= 0:
                    held[place] = (*key[place], copy)
            left = tuple([held[place] for place in kept])
            known = found.get(left)
            if known is None or seconds < known[0]:
                found[left] = seconds, trace
        return found

    def _move(self, held: Held, need: int, itemsize: int, beside: float) -> tuple[float, int]:
        """Return the price of exchanging the missing elements for a reader, and the number of the copy's layout."""
        key = held, need, itemsize, beside
        if key not in self.moves:
            wanted, mesh = self.layouts[need], self.prices.mesh
            if any(covered(self.layouts[each], wanted, mesh) for each in held):
                self.moves[key] = 0.0, -1
            else:
                target = target_of(self.layouts[held[0]], wanted, mesh)
                price = self.prices.move(self.layouts[held[0]], target, itemsize, beside)
                self.moves[key] = price, self._number(target)
        return self.moves[key]
