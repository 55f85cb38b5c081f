from __future__ import annotations

import pytest

from tileir_accelerators.placement.residency import ALL_BANKS, Item, Memory, Slot, Use


@pytest.mark.parametrize(
    ("one", "other", "meets"),
    [
        (Slot(0, 0, 4), Slot(0, 3, 4), True),
        (Slot(0, 0, 4), Slot(0, 4, 4), False),
        (Slot(0, 0, 4), Slot(1, 0, 4), False),
        (Slot(ALL_BANKS, 0, 4), Slot(1, 3, 1), True),
        (Slot(ALL_BANKS, 0, 4), Slot(1, 4, 1), False),
        (Slot(2, 0, 8), Slot(2, 2, 1), True),
    ],
)
def test_slots_meet_where_they_share_a_byte(one: Slot, other: Slot, meets: bool) -> None:
    assert one.meets(other) is other.meets(one) is meets


def test_the_lowest_place_is_taken() -> None:
    memory = Memory(64, alignment=8)
    taken = [Slot(0, 24, 8), Slot(0, 0, 10)]
    assert memory.place(8, taken) == Slot(0, 16, 8)
    assert memory.place(9, taken) == Slot(0, 32, 9)
    assert memory.place(32, taken) == Slot(0, 32, 32)
    assert memory.place(33, taken) is None
    assert Memory(0, alignment=8).place(1 << 40, taken) == Slot(0, 32, 1 << 40)
    assert [memory.aligned(offset) for offset in (0, 1, 8, 9)] == [0, 8, 8, 16]
    assert [memory.fits(size) for size in (64, 65)] == [True, False]


def test_banks_are_taken_in_turns() -> None:
    memory = Memory(16, banks=3)
    assert memory.total_bytes == 48
    assert memory.place(4, []) == Slot(0, 0, 4)
    assert memory.place(4, [], first_bank=1) == Slot(1, 0, 4)
    assert memory.place(4, [Slot(1, 0, 4)], first_bank=1) == Slot(2, 0, 4)
    assert memory.place(4, [Slot(1, 0, 4), Slot(2, 0, 4)], first_bank=1) == Slot(0, 0, 4)
    assert memory.place(16, [Slot(0, 0, 1), Slot(1, 15, 1)], first_bank=0) == Slot(2, 0, 16)
    assert memory.place(4, [Slot(1, 0, 4)], spread=True) == Slot(ALL_BANKS, 4, 4)
    assert memory.place(16, [Slot(1, 0, 4)], spread=True) is None


def test_items_know_where_they_are_used() -> None:
    read, written = Use(reads=True, writes=False), Use(reads=False, writes=True)
    outside = Use(reads=True, writes=False, inside=False)
    item = Item("v", 4, {7: read, 1: read, 3: written, 5: outside, 2: outside}, live_in=False, live_out=False)
    assert [item.splits(number) for number in range(8)] == [False] * 5 + [True, False, False]
    assert [item.exists_before(number) for number in (0, 3, 4)] == [False, False, True]
    assert [item.used_before(number) for number in range(9)] == [-1, -1, 1, 1, 3, 3, 5, 5, 7]
    assert item.between(1, 5) == (2, 3)
    assert item.between(1, None) == (2, 3, 5, 7)
    assert item.between(0, 1) == ()
    given = Item("w", 4, {3: Use(reads=False, writes=True, inside=False)}, live_in=True, live_out=False)
    assert given.exists_before(0)
    assert given.splits(3)
