from __future__ import annotations

import gc
import sys
import weakref
from typing import Any

import attrs
import numpy as np
import pytest

from strategies.devices import executor
from strategies.processes import in_forked_child
from tileir.core.errors import BackendError
from tileir.runtime.plans.resources import Resources, Spare


@attrs.define(eq=False)
class Piece:
    nbytes: int


def test_what_is_kept_is_taken_once() -> None:
    resources, home = Resources(executor()), Spare[Piece]()
    piece = Piece(10)
    resources.keep(piece, home)
    assert resources.kept_bytes == 10
    assert resources.take(home) is piece
    assert resources.take(home) is None
    assert resources.kept_bytes == 0


def test_the_least_recently_used_goes_first() -> None:
    resources = Resources(executor(), spare_bytes=100)
    homes = [Spare[Piece]() for _ in range(4)]
    for home in homes:
        resources.keep(Piece(40), home)
    assert [len(home) for home in homes] == [0, 0, 1, 1]
    assert resources.kept_bytes == 80


def test_the_latest_stays_though_it_is_larger_than_the_limit() -> None:
    resources, home = Resources(executor(), spare_bytes=100), Spare[Piece]()
    resources.keep(Piece(10), home)
    resources.keep(Piece(1000), home)
    assert [piece.nbytes for piece in home] == [1000]


def test_room_is_made_before_more_is_allocated() -> None:
    resources, home = Resources(executor(), spare_bytes=100), Spare[Piece]()
    resources.keep(Piece(40), home)
    resources.keep(Piece(50), home)
    resources.make_room(50)
    assert [piece.nbytes for piece in home] == [50]
    resources.make_room(500)
    assert home == []


def test_what_dies_with_its_plan_counts_no_longer_than_needed() -> None:
    resources = Resources(executor(), spare_bytes=100)
    home = Spare[Piece]()
    resources.keep(Piece(60), home)
    del home
    gc.collect()
    other = Spare[Piece]()
    resources.keep(Piece(60), other)
    assert (resources.kept_bytes, len(other)) == (60, 1)


def test_what_is_borrowed_counts_and_was_used_when_it_comes_back() -> None:
    resources = Resources(executor(), spare_bytes=100)
    homes = [Spare[Piece]() for _ in range(3)]
    for home in homes[:2]:
        resources.keep(Piece(40), home)
    piece = resources.borrow(homes[0])
    assert piece is not None
    assert resources.borrow(homes[0]) is None
    assert resources.kept_bytes == 80
    resources.give_back(piece, homes[0])
    assert homes[0] == [piece]
    resources.keep(Piece(40), homes[2])
    assert [len(home) for home in homes] == [1, 0, 1]


def test_what_was_dropped_while_it_was_borrowed_is_kept_anew() -> None:
    resources, home = Resources(executor(), spare_bytes=100), Spare[Piece]()
    resources.keep(Piece(40), home)
    piece = resources.borrow(home)
    assert piece is not None
    resources.make_room(100)
    assert resources.kept_bytes == 0
    resources.give_back(piece, home)
    assert (home, resources.kept_bytes) == ([piece], 40)
    assert resources.borrow(home) is piece
    resources.close()
    resources.give_back(piece, home)
    assert (home, resources.kept_bytes) == ([], 0)


def test_others_borrow_while_room_is_made() -> None:
    """Between any two calls, as threads do that need no lock."""
    resources = Resources(executor(), spare_bytes=100)
    homes = [Spare[Piece]() for _ in range(5)]
    for home in homes:
        resources.keep(Piece(20), home)
    borrowed: list[Piece] = []

    def other_thread(*_: object) -> None:
        for home in homes:
            piece = resources.borrow(home)
            if piece is not None and weakref.ref(piece) in resources._kept:
                resources.give_back(piece, home)
            elif piece is not None:
                borrowed.append(piece)

    sys.setprofile(other_thread)
    try:
        resources.make_room(50)
    finally:
        sys.setprofile(None)
    assert resources.kept_bytes == 40


def test_closing_gives_all_back() -> None:
    resources, home = Resources(executor()), Spare[Piece]()
    resources.keep(Piece(10), home)
    resources.close()
    assert home == []
    resources.keep(Piece(10), home)
    assert home == []
    with pytest.raises(BackendError, match="closed"):
        resources.scheduler.submit(lambda: None)


class Opaque:
    """A device whose memory the host cannot see."""

    def allocate(self, _: int) -> Any:
        return self

    def host(self) -> None:
        return None


class Parting(Opaque):
    part_alignment = 256

    def part(self, buffer: Any, offset: int, nbytes: int) -> Any:
        return buffer, offset, nbytes


class Copying:
    """A device that uses no array in place."""

    def allocate(self, nbytes: int) -> Any:
        return executor().allocate(nbytes)

    def wrap(self, _: np.ndarray[Any, Any]) -> None:
        return None


@pytest.mark.parametrize(("device", "parts"), [(Opaque(), False), (Parting(), True), (Copying(), False)])
def test_memory_is_parted_where_the_device_can(device: Any, parts: bool) -> None:
    assert Resources(device).parts is parts
    assert Resources(executor()).parts


def test_a_forked_child_can_use_them() -> None:
    resources, home = Resources(executor()), Spare[Piece]()
    resources._lock.acquire()

    def child() -> bool:
        resources.keep(Piece(1), home)
        return resources.take(home) is not None

    assert in_forked_child(child)
    resources._lock.release()
