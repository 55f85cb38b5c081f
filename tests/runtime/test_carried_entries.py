"""Entries that a file carries, in front of the cache on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from tileir.runtime.caches.carried_entries import CarriedEntries
from tileir.runtime.caches.disk_cache import DiskCache, digest_of

KEY, OTHER = digest_of("one"), digest_of("other")
PARTS = {"code": bytes(range(256)) * 8, "name": b"f"}


@pytest.fixture
def disk(tmp_path: Path) -> DiskCache:
    return DiskCache(tmp_path / "cache")


def test_what_is_read_or_stored_is_collected_and_given_back(disk: DiskCache) -> None:
    disk.put("library", KEY, PARTS, {})
    collecting = CarriedEntries({}, disk, collects=True)
    assert collecting.get("library", KEY) == PARTS
    assert collecting.get("library", OTHER) is None
    assert collecting.put("program", OTHER, {"p": b"1"}, {"note": "x"})
    assert sorted(collecting.contents) == [f"library-{KEY}", f"program-{OTHER}"]
    assert disk.get("program", OTHER) == {"p": b"1"}
    carried = CarriedEntries(dict(collecting.contents))
    assert carried.holds("library", KEY)
    assert not carried.holds("library", OTHER)
    assert carried.get("library", KEY) == PARTS
    assert carried.get("program", OTHER) == {"p": b"1"}
    assert not carried.put("program", KEY, {"p": b"2"}, {})
    assert not carried.holds("program", KEY)


def test_nothing_is_collected_unasked(disk: DiskCache) -> None:
    disk.put("library", KEY, PARTS, {})
    carried = CarriedEntries({}, disk)
    assert carried.holds("library", KEY)
    assert carried.get("library", KEY) == PARTS
    assert carried.put("library", OTHER, PARTS, {})
    assert carried.contents == {}


def test_what_is_damaged_or_of_no_use_is_not_there(disk: DiskCache, caplog: pytest.LogCaptureFixture) -> None:
    collecting = CarriedEntries({}, disk, collects=True)
    collecting.put("library", KEY, PARTS, {})
    content = collecting.contents[f"library-{KEY}"]
    for damaged in (content[:-1], b"", content[:100] + b"x" + content[101:], content[:8] + bytes(32) + content[40:]):
        assert CarriedEntries({f"library-{KEY}": damaged}).get("library", KEY) is None
    assert "of a file is not used" in caplog.text
    carried = CarriedEntries({f"library-{KEY}": content}, disk)
    carried.drop("library", KEY, "it cannot be loaded")
    assert carried.contents == {}
    assert carried.get("library", KEY) == PARTS  # of the disk
    carried.drop("library", KEY, "it cannot be loaded")
    assert disk.get("library", KEY) is None
