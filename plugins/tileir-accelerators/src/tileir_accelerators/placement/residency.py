"""Residency of data in an inner memory, in time and place: a reverse linear scan over statements.

The scan goes from the last statement to the first. An item that a statement needs gets a slot if it has none, and keeps
it back to its definition or load. Under memory pressure, the item with the most distant use is spilled and reloaded
later. Free slots are reused. This is linear-scan register allocation (Poletto and Sarkar, 1999) with Belady's choice of
victims, in the direction of PlaidML's SchedulePass: uses precede definitions in the scan, so that only needed items
hold memory.

Also slots in a memory of several banks, and the search for free slots.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Final

from tileir.core import attrs, grouped


@attrs.frozen
class Use:
    """Use of an item by one statement.

    Attributes:
        reads: Whether earlier content matters, also because only some elements are written.
        writes: Whether the item is changed.
        inside: Whether the statement uses it in the inner memory; otherwise, at its origin.
    """

    reads: bool
    writes: bool
    inside: bool = True


@attrs.frozen(eq=False)
class Item:
    """Data that statements use in the inner memory.

    Attributes:
        name: Name of the item.
        size: Size in bytes, in each bank if it is spread.
        uses: Use by each statement that accesses it, by ascending number.
        live_in: Whether it has content before the first statement.
        live_out: Whether its content is needed after the last statement.
        merges: Whether it is stored by merging: each statement then has its own part.
        spread: Whether it is spread over all banks.
    """

    name: str
    size: int
    uses: Mapping[int, Use]
    live_in: bool
    live_out: bool
    merges: bool = False
    spread: bool = False
    _numbers: tuple[int, ...] = attrs.field(init=False)
    _made: int | None = attrs.field(init=False)
    _shared: tuple[int, ...] = attrs.field(init=False)

    @_numbers.default
    def _sorted_numbers(self) -> tuple[int, ...]:
        return tuple(sorted(self.uses))

    @_made.default
    def _first_write(self) -> int | None:
        return next((number for number in self._numbers if self.uses[number].writes), None)

    @_shared.default
    def _uses_that_matter(self) -> tuple[int, ...]:
        return tuple(number for number in self._numbers if self.uses[number].inside or self.splits(number))

    def splits(self, number: int) -> bool:
        """Return whether no live range may cross a statement that changes the item outside, or reads changes there.

        Reading unchanged data outside does not split a live range.
        """
        use = self.uses.get(number)
        return use is not None and not use.inside and self._made is not None and self._made <= number

    def exists_before(self, number: int) -> bool:
        """Return whether there is content before statement ``number``."""
        return self.live_in or (self._made is not None and self._made < number)

    def used_before(self, number: int) -> int:
        """Return the last statement before ``number`` that uses the item inside, or splits its range; -1 for none."""
        place = bisect_left(self._shared, number)
        return self._shared[place - 1] if place else -1

    def between(self, first: int, end: int | None) -> tuple[int, ...]:
        """Return the statements after ``first`` and, unless that is None, before ``end`` that use the item."""
        stop = len(self._numbers) if end is None else bisect_left(self._numbers, end)
        return self._numbers[bisect_left(self._numbers, first + 1) : stop]


@attrs.define(eq=False)
class LiveRange:
    """A live range: statements over which an item is in one slot.

    Attributes:
        item: The item.
        slot: Its slot.
        uses: The statements that use it there, in descending order during the scan.
        load_before: The statement before which it is loaded; None if the first use defines it.
        store_after: The statement after which it is stored; None if it is not needed outside.
    """

    item: Item
    slot: Slot
    uses: list[int] = attrs.field(factory=list)
    load_before: int | None = None
    store_after: int | None = None

    @property
    def first(self) -> int:
        """The first statement during which the slot is taken."""
        return self.uses[-1] if self.load_before is None else self.load_before


@attrs.frozen
class Shortage:
    """Statement whose data do not fit: number of bytes that it needs, and its largest item."""

    statement: int
    needed: int
    largest: Item


def plan(
    items: Sequence[Item], count: int, memory: Memory, window: int, reserved: Mapping[int, Sequence[Slot]]
) -> tuple[LiveRange, ...] | tuple[Shortage, ...]:
    """Return the live ranges and slots of items in the inner memory, in the order of their loads or definitions.

    Args:
        items: Items of the statements.
        count: Number of statements.
        memory: The inner memory.
        window: Number of statements by which loads precede the first use, if memory allows; slots of stored items stay
            unused as long, if there are others.
        reserved: Slots that statements use for themselves.

    Returns:
        The live ranges; or all shortages, if statements need more memory than there is.
    """
    shortages = tuple(_shortages(items, count, memory))
    if shortages:
        return shortages
    scan = _Scan(items, memory, window, reserved)
    for number in reversed(range(count)):
        shortage = scan.visit(number)
        if shortage is not None:
            return (shortage,)
    ranges = sorted(scan.done, key=lambda live: (live.first, live.item.name))
    for live in ranges:
        live.uses.sort()
    _store(ranges)
    return tuple(ranges)


def _shortages(items: Sequence[Item], count: int, memory: Memory) -> Iterable[Shortage]:
    """Yield the statements that need more memory than there is, or an item that no bank can hold."""
    needed: list[list[Item]] = [[] for _ in range(count)]
    for item in items:
        for number, use in item.uses.items():
            if use.inside:
                needed[number].append(item)
    for number, own in enumerate(needed):
        total = sum(memory.aligned(item.size) * (memory.banks if item.spread else 1) for item in own)
        largest = max(own, key=lambda item: item.size, default=None)
        if largest is None:
            continue
        if (memory.bank_bytes and total > memory.total_bytes) or not memory.fits(largest.size):
            yield Shortage(number, total, largest)


@attrs.define(eq=False, repr=False)
class _Scan:
    """State of the scan: live items at the current statement."""

    items: Sequence[Item]
    memory: Memory
    window: int
    reserved: Mapping[int, Sequence[Slot]]
    done: list[LiveRange] = attrs.field(factory=list, init=False)
    _live: dict[str, LiveRange] = attrs.field(factory=dict, init=False)
    _by_statement: dict[int, list[Item]] = attrs.field(factory=dict, init=False)
    _bank: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self._by_statement = grouped((number, item) for item in self.items for number in item.uses)

    def visit(self, number: int) -> Shortage | None:
        """Go back over one statement; return a shortage if its data do not fit."""
        used = self._by_statement.get(number, [])
        wanted = [item for item in used if item.uses[number].inside]
        held = self.reserved.get(number, ())
        for live in tuple(self._live.values()):
            if live.item.splits(number) or any(live.slot.meets(slot) for slot in held):
                self._close(live, number + 1)
        if not self._admit(wanted, number):
            total = sum(item.size for item in wanted)
            return Shortage(number, total, max(wanted, key=lambda item: item.size))
        for item in wanted:
            live = self._live[item.name]
            live.uses.append(number)
            if item.merges or not item.uses[number].reads or not item.exists_before(number):
                self._close(live, None)
        self._bring_in(number)
        return None

    def _bring_in(self, number: int) -> None:
        """End, going back, the live ranges that no earlier statement shares and that have begun early enough."""
        for live in tuple(self._live.values()):
            before = live.item.used_before(number)
            shared = before >= 0 and live.item.uses[before].inside
            if number == 0 or (not shared and (live.uses[-1] - number >= self.window or before == number - 1)):
                self._close(live, number)

    def _close(self, live: LiveRange, load_before: int | None) -> None:
        del self._live[live.item.name]
        live.load_before = load_before
        self.done.append(live)

    def _admit(self, wanted: Sequence[Item], number: int) -> bool:
        """Assign slots to all items that a statement needs; False if that is impossible."""
        missing = sorted((item for item in wanted if item.name not in self._live), key=lambda i: (-i.size, i.name))
        kept = {item.name for item in wanted}
        for item in missing:
            while not self._open(item, number):
                victim = self._victim(number, kept)
                if victim is None:
                    return self._admit_anew(wanted, number)
                self._close(victim, number + 1)
        return True

    def _admit_anew(self, wanted: Sequence[Item], number: int) -> bool:
        """Assign slots in an empty memory, since fragmentation by later statements is in the way."""
        for live in tuple(self._live.values()):
            if live.uses:
                self._close(live, number + 1)
            else:
                del self._live[live.item.name]
        ordered = sorted(wanted, key=lambda item: (-item.size, item.name))
        return all(self._open(item, number) for item in ordered)

    def _open(self, item: Item, number: int) -> bool:
        """Begin a live range, if there is room, preferably in a slot that is unused before and after."""
        taken = [live.slot for live in self._live.values()]
        taken.extend(self.reserved.get(number, ()))
        latest = takewhile(lambda live: live.first <= number + self.window + 1, reversed(self.done))
        recent = [live.slot for live in latest if live.first <= number + self.window]
        for before in range(max(0, number - self.window), number):
            recent.extend(self.reserved.get(before, ()))
        slot = None
        for avoided in ([*taken, *recent], taken):
            slot = slot or self.memory.place(item.size, avoided, spread=item.spread, first_bank=self._bank)
        if slot is None:
            return False
        self._bank = (slot.bank + 1) % self.memory.banks
        self._live[item.name] = LiveRange(item, slot)
        return True

    def _victim(self, number: int, kept: set[str]) -> LiveRange | None:
        """Return the live range to spill, at least cost: one that is loaded anyway, or has the most distant use."""
        others = [live for live in self._live.values() if live.item.name not in kept]
        return min(others, key=lambda live: (live.item.used_before(number), live.item.name), default=None)


def _store(ranges: Iterable[LiveRange]) -> None:
    """Determine the statement after which each live range is stored, if its results are needed outside."""
    for own in grouped((live.item.name, live) for live in ranges).values():
        for live, following in zip(own, [*own[1:], None], strict=True):
            written = [number for number in live.uses if live.item.uses[number].writes]
            if written and (live.item.merges or _is_needed(live, written[-1], following)):
                live.store_after = written[-1]


def _is_needed(live: LiveRange, written: int, following: LiveRange | None) -> bool:
    """Return whether the results of a live range are needed at the item's origin."""
    end = following.uses[0] if following is not None else None
    if any(not live.item.uses[number].inside for number in live.item.between(written, end)):
        return True
    return live.item.live_out if following is None else following.load_before is not None


ALL_BANKS: Final = -1
"""Bank number of items spread over all banks, with equal offsets in each."""


@attrs.frozen
class Slot:
    """Bytes ``offset`` to ``offset + size`` of one bank, or of each."""

    bank: int
    offset: int
    size: int

    @property
    def end(self) -> int:
        """End, exclusive."""
        return self.offset + self.size

    def meets(self, other: Slot) -> bool:
        """Return whether two slots share a byte."""
        banks = self.bank == other.bank or ALL_BANKS in (self.bank, other.bank)
        return banks and self.offset < other.end and other.offset < self.end


@attrs.frozen
class Memory:
    """A memory of equal banks.

    Attributes:
        bank_bytes: Size of a bank; 0 for unlimited.
        banks: Number of banks.
        alignment: Alignment of offsets.
    """

    bank_bytes: int
    banks: int = 1
    alignment: int = 1

    @property
    def total_bytes(self) -> int:
        """Size of all banks together."""
        return self.bank_bytes * self.banks

    def fits(self, size: int) -> bool:
        """Return whether an item of ``size`` bytes, in one bank, fits at all."""
        return self.bank_bytes == 0 or size <= self.bank_bytes

    def place(self, size: int, taken: Iterable[Slot], *, spread: bool = False, first_bank: int = 0) -> Slot | None:
        """Return the lowest free slot for ``size`` bytes, in the first suitable bank from ``first_bank`` on.

        With ``spread`` it takes these bytes in each bank. None if there is no free slot.
        """
        others = sorted(taken, key=lambda slot: slot.offset)
        banks = [ALL_BANKS] if spread else [(first_bank + n) % self.banks for n in range(self.banks)]
        best: Slot | None = None
        for bank in banks:
            slot = self._lowest(size, bank, others)
            if slot is not None and (best is None or slot.offset < best.offset):
                best = slot
        return best

    def _lowest(self, size: int, bank: int, taken: Iterable[Slot]) -> Slot | None:
        """Return the lowest free slot in one bank; ``taken`` are sorted by offset."""
        slot = Slot(bank, 0, size)
        for other in taken:
            if slot.meets(other):
                slot = Slot(bank, self.aligned(other.end), size)
        return slot if self.fits(slot.end) else None

    def aligned(self, offset: int) -> int:
        """Return the lowest aligned offset from ``offset`` on."""
        return -(-offset // self.alignment) * self.alignment
