from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tileir.core.text.quantities import size_text
from tileir.runtime.caches.disk_cache import DiskCache, digest_of
from tileir_cli import main as cli
from tileir_cli.cache import age_text

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run `tileir cache`, and return the exit code, what it printed, and what it printed as errors."""
    monkeypatch.setenv("COLUMNS", "120")

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tileir", "cache", *arguments])
        code = cli.run()
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILEIR_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def filled(place: Path) -> DiskCache:
    cache = DiskCache(place)
    cache.put("library", digest_of("old"), {"a": os.urandom(3000)}, {"device": "llvm: a [cpu]", "kernels": "one, two"})
    old = time.time() - 3 * 3600
    os.utime(place / f"library-{digest_of('old')}", (old, old))
    cache.put("note", digest_of("new"), {"content": b""}, {"note": "PoCL 3.0: widths"})
    return cache


def test_entries_are_listed(command: Command, filled: DiskCache) -> None:
    code, out, _ = command("list")
    assert (code, out.splitlines()[0]) == (0, f"{filled.directory}:")
    note, library = (line.split("│") for line in out.splitlines() if "library" in line or "note" in line)
    assert [cell.strip() for cell in note[1:5]] == [digest_of("new")[:12], "note", "", "PoCL 3.0: widths"]
    assert [cell.strip() for cell in library[2:5]] == ["library", "llvm: a [cpu]", "one, two"]
    assert [cell.strip() for cell in library[5:7]] == [size_text(filled.entries()[1].size), "3 h"]


def test_entries_are_listed_as_json(command: Command, filled: DiskCache) -> None:
    code, out, _ = command("list", "--json")
    note, library = json.loads(out)
    assert code == 0
    assert (note["kind"], note["key"], note["note"]) == ("note", digest_of("new"), "PoCL 3.0: widths")
    assert library["bytes"] == filled.entries()[1].size
    assert library.keys() == {"kind", "key", "bytes", "stored", "used", "device", "kernels"}


def test_entries_that_cannot_be_read_are_listed_too(command: Command, filled: DiskCache) -> None:
    (filled.directory / f"note-{digest_of('new')}").write_bytes(b"")
    assert "not readable" in command("list")[1]


def test_the_size_is_told(command: Command, filled: DiskCache) -> None:
    total = sum(entry.size for entry in filled.entries())
    assert command("size")[:2] == (0, f"{filled.directory}: 2 entries, {size_text(total)} of at most 1 GiB\n")
    facts = json.loads(command("size", "--json")[1])
    assert facts == {"directory": str(filled.directory), "entries": 2, "bytes": total, "limit": 1 << 30}


def test_clearing_empties_it(command: Command, filled: DiskCache) -> None:
    code, out, _ = command("clear")
    assert (code, out.startswith(f"{filled.directory}: removed 2 entries, 3.")) == (0, True)
    assert command("list")[1] == f"{filled.directory}: nothing is stored\n"
    assert command("size")[1].startswith(f"{filled.directory}: 0 entries, 0 B of")


@pytest.mark.parametrize("name", ["list", "size", "clear"])
def test_a_place_where_nothing_was_stored_is_left_alone(command: Command, place: Path, name: str) -> None:
    code, out, _ = command(name)
    assert code == 0
    assert out.startswith(f"{place}: ")
    assert not place.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="modes are those of POSIX")
@pytest.mark.parametrize("name", ["list", "size", "clear"])
def test_a_place_of_others_is_a_fault(command: Command, filled: DiskCache, name: str) -> None:
    filled.directory.chmod(0o777)
    code, out, err = command(name)
    assert (code, out) == (1, "")
    assert "error[TIL905]" in err
    assert "chmod 700" in err
    filled.directory.chmod(0o700)
    assert len(filled.entries()) == 2


def test_a_place_that_cannot_be_read_is_a_fault(command: Command, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: DiskCache) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(DiskCache, "entries", fail)
    code, _, err = command("size")
    assert code == 1
    assert f"error[TIL905]: the cache on disk cannot be used: {place}: Permission denied" in err


def test_a_cache_that_is_turned_off_is_a_fault(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEIR_CACHE", "0")
    code, _, err = command("list")
    assert code == 1
    assert "TILEIR_CACHE" in err


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1234567, "1.18 MiB"),
        (500 << 20, "500 MiB"),
        (5 << 50, "5120 TiB"),
    ],
)
def test_sizes_are_short(size: int, text: str) -> None:
    assert size_text(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1.0, "0 s"), (0.4, "0 s"), (119.0, "119 s"), (120.0, "2 min"), (7200.0, "2 h"), (1e6, "12 days")],
)
def test_ages_are_short(seconds: float, text: str) -> None:
    assert age_text(seconds) == text


def test_entries_of_one_kind_are_listed_and_removed(command: Command, filled: DiskCache) -> None:
    filled.put(
        "winner", digest_of("tuned"), {"passes": b"[]"}, {"device": "llvm: a", "note": "C: 1 ms instead of 2 ms"}
    )
    code, out, _ = command("list", "--kind", "winner", "--json")
    assert (code, [entry["kind"] for entry in json.loads(out)]) == (0, ["winner"])
    code, out, _ = command("clear", "--kind", "winner")
    assert code == 0
    assert "removed 1 entry" in out
    assert sorted(entry.kind for entry in filled.entries()) == ["library", "note"]
