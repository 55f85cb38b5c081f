"""Tests of the collector that `test_collection` runs in a process of their own, whose heap is small."""

from __future__ import annotations

import contextlib
import gc
import weakref
from typing import TYPE_CHECKING

import pytest

from tileir.core.process import collection
from tileir.core.process.collection import collection_paused

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _thawed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Thaw what was frozen for all tests, as a process starts, and freeze it again."""
    monkeypatch.setattr(collection, "_FROZEN_BY_OTHERS", [])
    gc.unfreeze()
    yield
    gc.freeze()


def test_the_collector_pauses_and_goes_on() -> None:
    assert gc.isenabled()
    with contextlib.suppress(KeyError), collection_paused():
        assert not gc.isenabled()
        raise KeyError
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with collection_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


class _Cycle:
    def __init__(self) -> None:
        self.itself = self


def _is_old(value: object) -> bool:
    return any(value is each for each in gc.get_objects(generation=2))


@pytest.mark.parametrize("frozen", [0, 375], ids=["none frozen", "some frozen, as Python 3.12 starts"])
def test_what_lasts_is_old_at_once(frozen: int) -> None:
    with collection_paused():
        young: list[list[int]] = [[]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gc, "get_freeze_count", lambda: frozen)
        with collection_paused(lasting=True):
            lasting: list[list[int]] = [[]]
    assert gc.isenabled()
    assert not gc.get_freeze_count()
    assert _is_old(lasting)
    assert young


def test_cycles_that_were_left_behind_do_not_become_old() -> None:
    gc.collect()
    cycle = weakref.ref(_Cycle())
    with collection_paused(lasting=True):
        assert cycle() is None


def test_what_somebody_froze_stays_frozen() -> None:
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        with collection_paused(lasting=True):
            pass
        assert gc.get_freeze_count() > frozen // 2 > 0  # a few may have gone with the last reference to them
        assert gc.isenabled()
    finally:
        gc.unfreeze()


def test_what_somebody_froze_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []
    real = gc.get_freeze_count

    def count() -> int:
        counted.append(real())
        return counted[-1]

    monkeypatch.setattr(gc, "get_freeze_count", count)
    gc.freeze()
    try:
        for _ in range(3):
            with collection_paused(lasting=True):
                pass
        assert len(counted) == 1
        assert counted[0] > 1000
    finally:
        gc.unfreeze()


def test_what_is_frozen_meanwhile_stays_frozen() -> None:
    with collection_paused(lasting=True):
        gc.freeze()
    try:
        assert gc.get_freeze_count()
        assert gc.isenabled()
    finally:
        gc.unfreeze()
