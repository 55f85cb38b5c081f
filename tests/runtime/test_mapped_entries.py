"""Entries of the cache on disk that are mapped rather than read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tileir.runtime.caches import disk_cache
from tileir.runtime.caches.cache_entry import (
    ALIGNMENT,
    HEADER,
    MAPPED,
    BrokenEntryError,
    encode,
    encode_mapped,
    mapped_part,
)
from tileir.runtime.caches.disk_cache import DiskCache, digest_of

KEY = digest_of("key")
CONTENT = np.random.default_rng(0).bytes(100_000)
linux = pytest.mark.skipif(sys.platform != "linux", reason="no other system tells one start from the next")


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    cache = DiskCache(tmp_path / "cache")
    assert cache.put_mapped("results", KEY, [CONTENT[:70], memoryview(CONTENT)[70:]], {"results": "lay_out"})
    return cache


def _file(cache: DiskCache) -> Path:
    return cache.directory / f"results-{KEY}"


def _content(cache: DiskCache, key: str) -> bytes | None:
    part = cache.mapped("results", key)
    return None if part is None else bytes(part)


def _damage(cache: DiskCache, place: int = -1) -> os.stat_result:
    """Change a byte of the file of an entry, and return what the system knew of it before."""
    status = _file(cache).stat()
    with _file(cache).open("r+b") as file:
        content = bytearray(file.read())
        content[place] ^= 1
        file.seek(0)
        file.write(content)
    return status


@given(st.dictionaries(st.text(max_size=8), st.text(max_size=8)), st.lists(st.binary(max_size=99)), st.data())
def test_no_changed_bit_goes_unseen(about: dict[str, str], pieces: list[bytes], data: st.DataObject) -> None:
    key = bytes.fromhex(KEY)
    stored = bytearray(b"".join(encode_mapped(key, about, pieces)))
    part = mapped_part(key, memoryview(bytes(stored)), lambda _: False)
    assert part == b"".join(pieces)
    assert (len(stored) - len(part)) % ALIGNMENT == 0
    bit = data.draw(st.integers(0, 8 * len(stored) - 1))
    stored[bit // 8] ^= 1 << bit % 8
    with pytest.raises(BrokenEntryError):
        mapped_part(key, memoryview(bytes(stored)), lambda _: False)


@pytest.mark.parametrize("size", [0, 7, HEADER.size, HEADER.size + 3, -1])
def test_files_of_another_length_are_refused_even_where_nobody_changed_them(size: int) -> None:
    key = bytes.fromhex(KEY)
    stored = b"".join(encode_mapped(key, {}, [CONTENT]))
    with pytest.raises(BrokenEntryError):
        mapped_part(key, memoryview(stored)[:size], lambda _: True)


def test_entries_that_are_read_cannot_be_mapped() -> None:
    key = bytes.fromhex(KEY)
    for name in ("library", MAPPED):  # of the second, the part begins anywhere
        with pytest.raises(BrokenEntryError, match="no part that can be mapped"):
            mapped_part(key, memoryview(b"".join(encode(key, {}, {name: b"content"}))), lambda _: False)


def test_what_is_mapped_lies_where_devices_read_it_and_outlives_its_file(cache: DiskCache) -> None:
    part = cache.mapped("results", KEY)
    assert part is not None
    assert part.readonly
    assert np.frombuffer(part, np.uint8).ctypes.data % ALIGNMENT == 0
    (entry,) = cache.entries()
    assert entry.about["results"] == "lay_out"
    cache.clear()
    assert part == CONTENT
    assert cache.mapped("results", KEY) is None


@pytest.mark.parametrize("place", [-1, HEADER.size + 20, 70, 9])
def test_damaged_entries_are_dropped(cache: DiskCache, place: int) -> None:
    _damage(cache, place)
    assert cache.mapped("results", KEY) is None
    assert not _file(cache).exists()


def test_entries_that_were_cut_short_are_dropped(cache: DiskCache) -> None:
    for size in (99_000, 0):
        assert cache.put_mapped("results", KEY, [CONTENT], {})
        status = _file(cache).stat()
        os.truncate(_file(cache), size)
        os.utime(_file(cache), ns=(status.st_atime_ns, status.st_mtime_ns))
        assert cache.mapped("results", KEY) is None
        assert not _file(cache).exists()


def test_the_digest_of_copied_entries_is_checked(cache: DiskCache) -> None:
    os.utime(_file(cache))
    assert _content(cache, KEY) == CONTENT
    _damage(cache)
    assert cache.mapped("results", KEY) is None


@linux
def test_unchanged_entries_are_trusted_until_the_system_starts_again(
    cache: DiskCache, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    boot = tmp_path / "boot"
    boot.write_text("first", encoding="ascii")
    monkeypatch.setattr(disk_cache, "_BOOT", boot)
    assert cache.put_mapped("results", KEY, [CONTENT], {})
    status = _damage(cache)
    os.utime(_file(cache), ns=(status.st_atime_ns, status.st_mtime_ns))  # as no accident does
    part = cache.mapped("results", KEY)
    assert part is not None
    assert part[:-1] == CONTENT[:-1]
    boot.write_text("second", encoding="ascii")
    assert cache.mapped("results", KEY) is None


def test_digests_are_checked_where_starts_are_not_told(
    cache: DiskCache, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(disk_cache, "_BOOT", tmp_path / "missing")
    assert cache.put_mapped("results", KEY, [CONTENT], {})
    assert _content(cache, KEY) == CONTENT
    status = _damage(cache)
    os.utime(_file(cache), ns=(status.st_atime_ns, status.st_mtime_ns))
    assert cache.mapped("results", KEY) is None


def test_large_entries_are_not_stored_and_old_ones_make_room(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "cache", 250_000)
    assert not cache.put_mapped("results", KEY, [CONTENT, CONTENT], {})
    for number in range(4):
        assert cache.put_mapped("results", digest_of(str(number)), [CONTENT], {})
    assert sum(entry.size for entry in cache.entries()) <= 250_000
    assert _content(cache, digest_of("3")) == CONTENT
    assert cache.mapped("results", digest_of("0")) is None


@pytest.mark.sampled(0)
def test_processes_that_write_one_entry_leave_a_whole_one(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from tileir.runtime.caches.disk_cache import DiskCache\n"
        "cache = DiskCache(Path(sys.argv[1]))\n"
        "for turn in range(30):\n"
        "    part = cache.mapped('results', sys.argv[2])\n"
        "    assert part is None or len(set(part)) == 1 and len(part) == 200_000, part[:9]\n"
        "    assert cache.put_mapped('results', sys.argv[2], [bytes([int(sys.argv[3])]) * 200_000], {})\n"
    )
    command = [sys.executable, "-W", "error", "-c", code, str(tmp_path / "cache"), KEY]
    workers = [subprocess.Popen([*command, str(number)]) for number in range(3)]
    assert [worker.wait() for worker in workers] == [0, 0, 0]
    part = DiskCache(tmp_path / "cache").mapped("results", KEY)
    assert part is not None
    assert len(set(part)) == 1
