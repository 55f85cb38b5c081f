"""Messages of the disk cache for each of its actions, and its exact bounds."""

from __future__ import annotations

import errno
import os
import sys
import time
from pathlib import Path

import pytest

import tileir
from tileir.runtime.caches import disk_cache as module
from tileir.runtime.caches.disk_cache import BLOCK, USAGE, DiskCache, digest_of, recall, remember

posix = pytest.mark.skipif(sys.platform == "win32", reason="owners and modes are those of POSIX")

KEY, OTHER = digest_of("key"), digest_of("other")
NAME = f"library-{KEY}"


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    return DiskCache(tmp_path / "cache", limit=10 * BLOCK)


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level("DEBUG", "tileir.cache")
    return caplog


def _said(log: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Return level and text of all messages since the last call."""
    said = [(record.levelname, record.getMessage()) for record in log.records]
    log.clear()
    return said


def _size(cache: DiskCache, name: str = NAME) -> int:
    return (cache.directory / name).stat().st_size


def test_hits_misses_and_what_is_stored_are_information(cache: DiskCache, log: pytest.LogCaptureFixture) -> None:
    cache.get("library", KEY)
    assert _said(log) == [("INFO", f"miss: {NAME} is not stored")]
    assert cache.put("library", KEY, {"a": b"x" * 10, "b": b"yz"}, {})
    assert _said(log) == [("INFO", f"stored: {NAME}, {_size(cache)} bytes")]
    cache.get("library", KEY)
    assert _said(log) == [("INFO", f"hit: {NAME}, 12 bytes")]
    cache.remove("library", KEY)
    cache.remove("library", KEY)
    assert _said(log) == [("INFO", f"not dropped: {NAME} is not stored")]


def test_what_is_dropped_is_a_warning_with_its_reason(cache: DiskCache, log: pytest.LogCaptureFixture) -> None:
    cache.put("library", KEY, {}, {})
    (cache.directory / NAME).write_bytes(b"tileir")
    _said(log)
    cache.get("library", KEY)
    assert _said(log) == [("WARNING", f"miss: {NAME} is dropped: it ends after 6 bytes")]
    cache.put("library", KEY, {}, {})
    os.truncate(cache.directory / NAME, cache.limit + 1)
    _said(log)
    cache.get("library", KEY)
    reason = f"it has {cache.limit + 1} bytes, and the whole cache takes {cache.limit}"
    assert _said(log) == [("WARNING", f"miss: {NAME} is dropped: {reason}")]
    cache.put("library", KEY, {}, {})
    _said(log)
    cache.drop("library", KEY, "it does not run")
    assert _said(log) == [("WARNING", f"{NAME} is dropped: it does not run")]
    assert not cache.holds("library", KEY)


def test_entries_of_half_the_limit_are_stored_and_larger_ones_not(
    cache: DiskCache, log: pytest.LogCaptureFixture
) -> None:
    cache.put("library", KEY, {"a": b""}, {})
    most = cache.limit // 2 - _size(cache) - 3  # the table has the size twice, in four digits and not one
    noise = os.urandom(most + 4)
    while not cache.put("library", KEY, {"a": noise}, {}):
        noise = noise[1:]
    assert _size(cache) == cache.limit // 2
    _said(log)
    assert not cache.put("library", OTHER, {"a": noise + b"1"}, {})
    size = cache.limit // 2 + 1
    assert _said(log) == [("INFO", f"not stored: library-{OTHER} has {size} bytes, and the cache takes {cache.limit}")]
    assert DiskCache(cache.directory, _size(cache)).get("library", KEY) == {"a": noise}
    assert DiskCache(cache.directory, _size(cache) - 1).get("library", KEY) is None


@posix
def test_a_directory_of_others_is_told_once_with_its_effect(tmp_path: Path, log: pytest.LogCaptureFixture) -> None:
    shared = [tmp_path / "read", tmp_path / "written"]
    for directory in shared:
        directory.mkdir(mode=0o777)
        directory.chmod(0o777)
    reading, writing = map(DiskCache, shared)
    assert reading.get("library", KEY) is None
    (_, why), (level, text) = _said(log)
    assert why.startswith(f"miss: {NAME}: ")
    assert (level, text) == ("WARNING", f"the cache on disk is not used: {why.removeprefix(f'miss: {NAME}: ')}")
    assert not writing.put("library", KEY, {}, {})
    (_, why), (level, text) = _said(log)
    assert why.startswith(f"not stored: {NAME}: ")
    assert text == f"the cache on disk takes no entries: {why.removeprefix(f'not stored: {NAME}: ')}"
    for cache in (reading, writing):
        assert cache.get("library", KEY) is None
        assert not cache.put("library", KEY, {}, {})
        cache.remove("library", KEY)
        assert not cache.holds("library", KEY)
    assert {level for level, _ in _said(log)} == {"INFO"}


@posix
def test_what_the_system_refuses_is_told_with_the_directory(tmp_path: Path, log: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_bytes(b"")
    cache = DiskCache(tmp_path / "file" / "cache")
    assert not cache.put("library", KEY, {}, {})
    warnings = [text for level, text in _said(log) if level == "WARNING"]
    assert warnings == [f"the cache on disk takes no entries: {cache.directory}: {os.strerror(errno.ENOTDIR)}"]


def test_evictions_are_told_and_the_count_begins_anew(cache: DiskCache, log: pytest.LogCaptureFixture) -> None:
    keys = [digest_of(str(number)) for number in range(11)]
    for number, key in enumerate(keys[:10]):
        cache.put("library", key, {"a": b"x"}, {})
        os.utime(cache.directory / f"library-{key}", (1000.0 + number, 1000.0))
    assert len(cache.entries()) == 10, "the limit itself may be used"
    assert _size(cache, USAGE) == 10
    size = _size(cache, f"library-{keys[0]}")
    _said(log)
    cache.put("library", keys[10], {"a": b"x"}, {})
    evicted = [("INFO", f"evicted: library-{key}, {size} bytes") for key in keys[:3]]
    assert _said(log) == [*evicted, ("INFO", f"stored: library-{keys[10]}, {size} bytes")]
    assert _size(cache, USAGE) == 8


def test_files_without_a_writer_go_after_ten_minutes(cache: DiskCache) -> None:
    cache.put("library", KEY, {}, {})
    ages = {f".1-{letter * 16}.tmp": age for letter, age in (("a", 620), ("b", 580), ("c", -5))}
    for name, age in ages.items():
        (cache.directory / name).write_bytes(b"half")
        os.utime(cache.directory / name, (time.time() - age,) * 2)
    (cache.directory / USAGE).unlink()
    cache.put("library", KEY, {}, {})
    assert {path.name for path in cache.directory.glob(".1-*")} == {name for name, age in ages.items() if age < 600}


def test_reading_is_using_and_changes_nothing_else(cache: DiskCache) -> None:
    cache.put("library", KEY, {"a": b"x"}, {"device": "llvm"})
    os.utime(cache.directory / NAME, (1000.0, 500.0))
    before = time.time()
    assert cache.get("library", KEY) == {"a": b"x"}
    (entry,) = cache.entries()
    assert before - 1 <= entry.used <= time.time() + 1
    assert (entry.kind, entry.key, entry.stored, entry.size) == ("library", KEY, 500.0, _size(cache))
    assert entry.about == {"device": "llvm"}


def test_values_of_the_wrong_kind_are_named() -> None:
    with pytest.raises(tileir.ArgumentError, match=r"the directory of a cache is a path, not 5"):
        DiskCache(5)  # type: ignore[arg-type]
    with pytest.raises(tileir.ArgumentError, match=r"the limit of a cache is a number of bytes, not -1"):
        DiskCache("x", -1)
    assert DiskCache("x", 0).limit == 0
    with pytest.raises(ValueError, match=r"'UP-.*' is not a kind in lower-case letters and a SHA-256 in hexadecimal"):
        DiskCache("x").get("UP", KEY)


def test_what_is_remembered_is_listed_with_its_question(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(module.DIRECTORY_VARIABLE, str(tmp_path / "cache"))
    remember("PoCL 3.0: widths", b"8")
    (entry,) = DiskCache(tmp_path / "cache").entries()
    assert (entry.kind, entry.about) == ("note", {"note": "PoCL 3.0: widths"})
    assert DiskCache(tmp_path / "cache").limit == module.LIMIT == 1 << 30
    assert recall("PoCL 3.0: widths") == b"8"
