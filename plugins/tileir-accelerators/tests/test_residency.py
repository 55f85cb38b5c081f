"""The reverse scan: plans are run against a model of two memories that knows which content is where."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from tileir_accelerators.placement.residency import ALL_BANKS, Item, LiveRange, Memory, Shortage, Slot, Use, plan

if TYPE_CHECKING:
    from collections.abc import Sequence

COUNT = 8


def _uses(draw: st.DrawFn) -> dict[int, Use]:
    found: dict[int, Use] = {}
    numbers = draw(st.lists(st.integers(0, COUNT - 1), min_size=1, max_size=5, unique=True))
    for number in sorted(numbers):
        reads, writes = draw(st.sampled_from(((True, False), (False, True), (True, True))))
        found[number] = Use(reads, writes, draw(st.sampled_from((True, True, True, False))))
    return found


@st.composite
def items(draw: st.DrawFn) -> tuple[Item, ...]:
    """Items whose content exists wherever it is read."""
    made = []
    for number in range(draw(st.integers(1, 5))):
        uses = _uses(draw)
        given = uses[min(uses)].reads or draw(st.booleans())
        made.append(Item(f"v{number}", draw(st.integers(1, 40)), uses, given, draw(st.booleans())))
    return tuple(made)


def _run(items: Sequence[Item], ranges: Sequence[LiveRange]) -> None:
    """Follow the versions of each item through a plan: what is read must be what was written last."""
    for item in items:
        own = [live for live in ranges if live.item is item]
        version = outside = 0 if item.live_in else -1
        inside: dict[int, int] = {}
        for number in range(COUNT):
            for live in own:
                if live.load_before == number:
                    inside[id(live)] = outside
            use = item.uses.get(number)
            if use is not None and not use.inside:
                assert not use.reads or outside == version, f"{item.name} is stale outside at {number}"
                if use.writes:
                    version = outside = number
            elif use is not None:
                (live,) = (live for live in own if number in live.uses)
                assert not use.reads or inside.get(id(live), -1) == version, f"{item.name} is stale inside at {number}"
                if use.writes:
                    version = inside[id(live)] = number
            for live in own:
                if live.store_after == number:
                    outside = inside[id(live)]
        assert not item.live_out or outside == version, f"{item.name} is not brought out"


def _last(live: LiveRange) -> int:
    return max(live.uses)


@given(items(), st.sampled_from((0, 48, 64, 128)), st.integers(1, 3), st.integers(0, 3))
@examples(300)
def test_plans_move_what_is_needed(drawn: tuple[Item, ...], size: int, banks: int, window: int) -> None:
    memory = Memory(size, banks, 4)
    ranges = plan(drawn, COUNT, memory, window, {})
    if isinstance(ranges[0], Shortage) if ranges else False:
        return
    found = [live for live in ranges if isinstance(live, LiveRange)]
    _run(drawn, found)
    for position, one in enumerate(found):
        assert one.slot.offset % 4 == 0
        assert size == 0 or one.slot.end <= size
        for other in found[position + 1 :]:
            apart = _last(one) < other.first or _last(other) < one.first
            assert apart or not one.slot.meets(other.slot)


def test_what_does_not_fit_is_told() -> None:
    uses = {0: Use(reads=True, writes=False)}
    large = Item("large", 50, uses, live_in=True, live_out=False)
    small = Item("small", 20, uses, live_in=True, live_out=False)
    assert plan((large,), 1, Memory(48), 1, {}) == (Shortage(0, 50, large),)
    assert plan((large, small), 1, Memory(64), 1, {}) == (Shortage(0, 70, large),)
    assert len(plan((large, small), 1, Memory(64, banks=2), 1, {})) == 2


@pytest.mark.parametrize(("window", "load"), [(0, 3), (1, 2), (2, 1), (9, 0)])
def test_loads_come_ahead_of_their_use(window: int, load: int) -> None:
    item = Item("v", 4, {3: Use(reads=True, writes=False)}, live_in=True, live_out=False)
    (live,) = plan((item,), 5, Memory(0), window, {})
    assert isinstance(live, LiveRange)
    assert live.load_before == load


def test_what_is_spread_lies_in_all_banks() -> None:
    uses = {0: Use(reads=True, writes=False)}
    wide = Item("wide", 16, uses, live_in=True, live_out=False, spread=True)
    small = Item("small", 8, uses, live_in=True, live_out=False)
    slots = {live.item.name: live.slot for live in _live_ranges(plan((wide, small), 1, Memory(32, banks=2), 1, {}))}
    assert slots["wide"] == Slot(ALL_BANKS, 0, 16)
    assert slots["small"].offset == 16
    assert plan((wide, small), 1, Memory(16, banks=2), 1, {}) == (Shortage(0, 40, wide),)


def _live_ranges(planned: Sequence[LiveRange | Shortage]) -> list[LiveRange]:
    return [live for live in planned if isinstance(live, LiveRange)]


def test_what_statements_keep_for_themselves_is_told_as_a_shortage() -> None:
    uses = {0: Use(reads=True, writes=False)}
    large, small = (
        Item(name, size, uses, live_in=True, live_out=False) for name, size in (("large", 24), ("small", 8))
    )
    assert len(_live_ranges(plan((small, large), 1, Memory(48), 1, {0: (Slot(0, 32, 16),)}))) == 2
    assert plan((small, large), 1, Memory(48), 1, {0: (Slot(0, 16, 16),)}) == (Shortage(0, 32, large),)


def test_places_in_a_memory_of_banks() -> None:
    memory = Memory(64, banks=2, alignment=16)
    taken = [Slot(0, 0, 20), Slot(1, 0, 48)]
    assert memory.place(16, taken) == Slot(0, 32, 16)
    assert memory.place(16, taken, first_bank=1) == Slot(0, 32, 16)
    assert memory.place(16, taken, spread=True) == Slot(-1, 48, 16)
    assert memory.place(17, taken, spread=True) is None
    assert Memory(0).place(1 << 40, [Slot(0, 0, 1)]) == Slot(0, 1, 1 << 40)
