from __future__ import annotations

import logging
import os
import stat
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import tileir
from tileir.runtime.caches.disk_cache import (
    BLOCK,
    USAGE,
    DiskCache,
    cache_directory,
    default_disk_cache,
    digest_of,
    recall,
    remember,
)
from tileir.runtime.caches.private_directory import OpenDirectory

posix = pytest.mark.skipif(sys.platform == "win32", reason="owners and modes are those of POSIX")

KEY = digest_of("key")


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    return DiskCache(tmp_path / "cache")


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "tileir.cache")
    return caplog


def _files(cache: DiskCache) -> set[str]:
    return {path.name for path in cache.directory.iterdir()} - {USAGE}


def _entry(cache: DiskCache, key: str = KEY) -> Path:
    return cache.directory / f"library-{key}"


# Where it is


def test_the_environment_names_the_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TILEIR_CACHE_DIR", str(tmp_path / "named"))
    assert cache_directory() == tmp_path / "named"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILEIR_CACHE_DIR", "relative")
    assert cache_directory() == tmp_path / "relative"


@pytest.mark.parametrize("word", ["0", "off", "No", "FALSE"])
def test_the_environment_turns_it_off(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    monkeypatch.setenv("TILEIR_CACHE", word)
    assert cache_directory() is None
    assert default_disk_cache() is None
    remember("key", b"content")
    assert recall("key") is None


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {}, ".cache/tileir"),
        ("linux", {"XDG_CACHE_HOME": ""}, ".cache/tileir"),
        ("linux", {"XDG_CACHE_HOME": "relative"}, ".cache/tileir"),
        ("linux", {"XDG_CACHE_HOME": "~/xdg"}, "xdg/tileir"),
        ("darwin", {"XDG_CACHE_HOME": "~/xdg"}, "Library/Caches/tileir"),
        ("win32", {"LOCALAPPDATA": "~/Local"}, "Local/tileir"),
        ("win32", {}, "AppData/Local/tileir"),
    ],
)
def test_platforms_have_their_places(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, platform: str, variables: dict[str, str], expected: str
) -> None:
    for name in ("TILEIR_CACHE_DIR", "TILEIR_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setattr(sys, "platform", platform)
    for name, value in variables.items():
        monkeypatch.setenv(name, value.replace("~", str(tmp_path)))
    assert cache_directory() == tmp_path / expected
    assert list(tmp_path.iterdir()) == []


def test_a_user_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("no home")

    for name in ("TILEIR_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert cache_directory() is None


# Entries


def test_what_was_put_is_found(cache: DiskCache, log: pytest.LogCaptureFixture) -> None:
    assert cache.get("library", KEY) is None
    assert not cache.directory.exists()
    assert cache.put("library", KEY, {"a": b"x" * 5000, "b": b""}, {"device": "llvm"})
    assert cache.get("library", KEY) == {"a": b"x" * 5000, "b": b""}
    assert cache.get("program", KEY) is None
    assert cache.put("library", KEY, {"a": b"y"}, {})
    assert cache.get("library", KEY) == {"a": b"y"}
    assert [message.split(":")[0] for message in log.messages] == ["miss", "stored", "hit", "miss", "stored", "hit"]
    assert all(KEY in message for message in log.messages)
    assert "5000 bytes" in log.messages[2]


@posix
def test_files_are_for_their_owner_alone(cache: DiskCache) -> None:
    cache.put("library", KEY, {}, {})
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in cache.directory.iterdir()}
    assert modes == {USAGE: 0o600, f"library-{KEY}": 0o600}


@pytest.mark.parametrize("name", ["", "../up", "A", "x" * 10])
def test_only_kinds_and_digests_name_entries(cache: DiskCache, name: str) -> None:
    with pytest.raises(ValueError, match="is not a kind"):
        cache.get(name, "0" * 63)


@pytest.mark.parametrize("content", [b"", b"\x80\x04pickle", b"tileir\1\0" + bytes(72)])
def test_broken_entries_are_misses_and_removed(cache: DiskCache, log: pytest.LogCaptureFixture, content: bytes) -> None:
    cache.put("library", KEY, {"a": b"x"}, {})
    _entry(cache).write_bytes(content)
    assert cache.get("library", KEY) is None
    assert _files(cache) == set()
    assert [record.levelname for record in log.records][-1:] == ["WARNING"]
    assert "is dropped" in log.messages[-1]


def test_an_entry_that_no_cache_could_hold_is_a_miss_unread(
    cache: DiskCache, log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.put("library", KEY, {"a": b"x"}, {})
    os.truncate(_entry(cache), cache.limit + 1)
    monkeypatch.setattr("builtins.open", lambda *_, **__: pytest.fail("nobody reads it"))
    assert cache.get("library", KEY) is None
    assert _files(cache) == set()
    assert "the whole cache takes" in log.messages[-1]


def test_an_entry_under_another_name_is_broken(cache: DiskCache) -> None:
    cache.put("library", KEY, {"a": b"x"}, {})
    other = digest_of("other")
    _entry(cache).rename(_entry(cache, other))
    assert cache.get("library", other) is None
    assert _files(cache) == set()


@posix
@pytest.mark.parametrize("kind", ["link", "mode", "pipe"])
def test_entries_that_are_not_ours_alone_are_removed_unread(cache: DiskCache, tmp_path: Path, kind: str) -> None:
    cache.put("library", KEY, {"a": b"x"}, {})
    entry = _entry(cache)
    if kind == "mode":
        entry.chmod(0o666)
    else:
        elsewhere = entry.rename(tmp_path / "elsewhere")
        entry.symlink_to(elsewhere) if kind == "link" else os.mkfifo(entry, 0o600)
    assert cache.get("library", KEY) is None
    assert _files(cache) == set()


@posix
def test_a_directory_of_others_is_refused_with_one_warning(cache: DiskCache, log: pytest.LogCaptureFixture) -> None:
    cache.put("library", KEY, {"a": b"x"}, {})
    cache.directory.chmod(0o770)
    for _ in range(3):
        assert cache.get("library", KEY) is None
        assert not cache.put("library", KEY, {}, {})
    warnings = [record.getMessage() for record in log.records if record.levelname == "WARNING"]
    assert len(warnings) == 1
    assert "chmod 700" in warnings[0]
    with pytest.raises(OSError, match="mode 770"):
        cache.entries()


def test_a_place_that_cannot_be_made_costs_no_more_than_a_warning(
    tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_bytes(b"")
    cache = DiskCache(tmp_path / "file" / "cache")
    for _ in range(2):
        assert not cache.put("library", KEY, {"a": b"x"}, {})
        assert cache.get("library", KEY) is None
    assert [record.levelname for record in log.records].count("WARNING") == 1


def test_dropping_removes_an_entry(cache: DiskCache, log: pytest.LogCaptureFixture) -> None:
    cache.put("library", KEY, {}, {})
    cache.drop("library", KEY, "it does not run")
    cache.drop("library", KEY, "it is gone")
    assert cache.get("library", KEY) is None
    assert "it does not run" in log.text


@pytest.mark.parametrize("make", [lambda: DiskCache(5), lambda: DiskCache("x", "y"), lambda: DiskCache("x", -1)])  # type: ignore[arg-type]
def test_values_of_the_wrong_kind_are_faults(make: Callable[[], DiskCache]) -> None:
    with pytest.raises(tileir.ArgumentError, match="TIL707"):
        make()
    with pytest.raises(tileir.ArgumentError, match=r"tileir\.DiskCache or None, not a value of type str"):
        tileir.Context(disk_cache="path")  # type: ignore[arg-type]


def test_paths_are_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert DiskCache("here").directory == tmp_path / "here"


# Size


def _put_blocks(cache: DiskCache, name: str, blocks: int = 1, used: float | None = None) -> str:
    key = digest_of(name)
    assert cache.put("library", key, {"noise": os.urandom(blocks * BLOCK - 500)}, {})
    if used is not None:
        os.utime(_entry(cache, key), (used, used))
    return key


def test_those_not_used_for_longest_are_dropped(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "cache", limit=10 * BLOCK)
    keys = [_put_blocks(cache, str(number), used=1000.0 + number) for number in range(10)]
    assert len(_files(cache)) == 10
    assert cache.get("library", keys[0]) is not None  # now the one that was used last
    _put_blocks(cache, "one more")
    kept = [number for number, key in enumerate(keys) if _entry(cache, key).exists()]
    assert kept == [0, 4, 5, 6, 7, 8, 9]


def test_the_limit_holds_whatever_comes(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "cache", limit=16 * BLOCK)
    for number in range(60):
        _put_blocks(cache, str(number), 1 + number % 3)
        assert sum(path.stat().st_size for path in cache.directory.iterdir()) <= 16 * BLOCK


def test_entries_are_looked_at_rarely(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = DiskCache(tmp_path / "cache", limit=100 * BLOCK)
    sweeps = []
    sweep = DiskCache._sweep

    def counted(self: DiskCache, folder: OpenDirectory) -> None:
        sweeps.append(folder)
        sweep(self, folder)

    monkeypatch.setattr(DiskCache, "_sweep", counted)
    for number in range(300):
        _put_blocks(cache, str(number))
    assert len(sweeps) <= 1 + 300 // 20


def test_losing_the_count_makes_it_count_again(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "cache", limit=10 * BLOCK)
    for number in range(9):
        _put_blocks(cache, str(number))
    (cache.directory / USAGE).unlink()
    for number in range(3):
        _put_blocks(cache, f"later {number}")
    assert len(_files(cache)) <= 10


@posix
def test_a_count_of_others_is_replaced(cache: DiskCache) -> None:
    cache.put("library", KEY, {}, {})
    (cache.directory / USAGE).chmod(0o666)
    assert cache.put("library", digest_of("other"), {}, {})
    assert stat.S_IMODE((cache.directory / USAGE).stat().st_mode) == 0o600


def test_entries_as_large_as_the_cache_are_not_stored(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "cache", limit=10 * BLOCK)
    assert not cache.put("library", KEY, {"noise": os.urandom(6 * BLOCK)}, {})
    assert not cache.directory.exists()


def test_files_that_writers_left_behind_go(cache: DiskCache) -> None:
    cache.put("library", KEY, {}, {})
    old, new = (cache.directory / f".1-{digit * 16}.tmp" for digit in "ab")
    old.write_bytes(b"half")
    new.write_bytes(b"half")
    os.utime(old, (0, 0))
    (cache.directory / USAGE).unlink()
    cache.put("library", KEY, {}, {})
    assert _files(cache) == {f"library-{KEY}", new.name}
    cache.clear()
    assert list(cache.directory.iterdir()) == []


# For people


def test_to_list_an_entry_is_not_to_use_it(cache: DiskCache) -> None:
    keys = [digest_of(str(number)) for number in range(3)]
    for number, key in enumerate(keys):
        cache.put("library", key, {"a": b"x"}, {})
        os.utime(_entry(cache, key), (1000 + number, 5000))  # systems that keep times lazily would do it on these
    for _ in range(2):
        assert [(entry.key, entry.used) for entry in cache.entries()] == [(keys[n], 1000 + n) for n in (2, 1, 0)]


def test_entries_are_listed_the_last_used_first(cache: DiskCache) -> None:
    for number in range(3):
        key = digest_of(str(number))
        cache.put("library", key, {"a": b"x"}, {"device": f"d{number}"})
        os.utime(_entry(cache, key), (1000 + number, 500))
    entries = cache.entries()
    assert [entry.about["device"] for entry in entries] == ["d2", "d1", "d0"]
    assert [(entry.kind, entry.used, entry.stored) for entry in entries[:1]] == [("library", 1002, 500)]
    _entry(cache, entries[0].key).write_bytes(b"broken")
    assert cache.entries()[0].about == {}


def test_clearing_leaves_files_of_others(cache: DiskCache) -> None:
    with pytest.raises(FileNotFoundError):
        cache.clear()
    cache.put("library", KEY, {}, {})
    cache.put("program", KEY, {}, {})
    size = sum(entry.size for entry in cache.entries())
    (cache.directory / "notes.txt").write_bytes(b"")
    assert cache.clear() == (2, size)
    assert [path.name for path in cache.directory.iterdir()] == ["notes.txt"]
    assert cache.clear() == (0, 0)


# Threads, and what back ends remember


def test_threads_share_a_cache(cache: DiskCache) -> None:
    wrong = []

    def work(seed: int) -> None:
        for step in range(40):
            key = digest_of(str((seed * step) % 7))
            found = cache.get("library", key)
            if found is None:
                cache.put("library", key, {"a": key.encode() * 50}, {})
            elif found != {"a": key.encode() * 50}:
                wrong.append(key)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(_files(cache)) == 7


def test_back_ends_remember(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TILEIR_CACHE_DIR", str(tmp_path / "cache"))
    assert recall("PoCL 3.0: widths") is None
    assert not (tmp_path / "cache").exists()
    remember("PoCL 3.0: widths", b"8")
    assert recall("PoCL 3.0: widths") == b"8"
    assert recall("PoCL 4.0: widths") is None


def test_keys_tell_sequences_apart() -> None:
    sequences = [(), ("",), ("ab",), ("a", "b"), (b"a", "bc"), ("\ud800",)]
    assert len({digest_of(*values) for values in sequences}) == len(sequences)


def test_entries_can_be_asked_for_and_removed(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "cache")
    key = digest_of("one")
    assert not cache.holds("note", key)
    cache.remove("note", key)
    cache.put("note", key, {"content": b"1"}, {})
    assert cache.holds("note", key)
    cache.remove("note", key)
    assert not cache.holds("note", key)


def test_a_user_whose_home_does_not_exist_has_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TILEIR_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path / "missing"))
    monkeypatch.delenv("TILEIR_CACHE", raising=False)
    assert cache_directory() is None
    assert default_disk_cache() is None
    assert not (tmp_path / "missing").exists()
