"""Processes that share a cache, are killed while they use it, or run out of disk or memory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tileir.runtime.caches.disk_cache import BLOCK, USAGE, DiskCache, digest_of

SEED: Final = 7
KILLS: Final = 40
WORKERS: Final = 4
LIMIT: Final = 300 * BLOCK

COMMON: Final = """
import os, random, signal, sys, time
from hashlib import sha256
from pathlib import Path
from tileir.runtime.caches.disk_cache import DiskCache, digest_of
"""

NURSERY: Final = (
    COMMON
    + """
cache = DiskCache(Path(sys.argv[1]), int(sys.argv[2]))
workers, kills, chosen = int(sys.argv[3]), int(sys.argv[4]), random.Random(int(sys.argv[5]))

def work():
    while True:
        key = digest_of(str(chosen.randrange(60)))
        found = cache.get("library", key)
        if found is None:
            noise = os.urandom(chosen.randrange(60_000))
            cache.put("library", key, {"key": key.encode(), "a": noise, "b": sha256(noise).digest()}, {})
        elif found["key"] != key.encode() or sha256(found["a"]).digest() != found["b"]:
            os._exit(3)
        elif chosen.random() < 0.1:
            cache.drop("library", key, "chance")

def start():
    chosen.random()
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(4)
    return child

children = [start() for _ in range(workers)]
for kill in range(kills + workers):
    time.sleep(chosen.random() / 20)
    victim = children.pop(0)
    os.kill(victim, signal.SIGKILL)
    print(os.waitstatus_to_exitcode(os.waitpid(victim, 0)[1]))
    if kill < kills:
        children.append(start())
"""
)


@pytest.mark.sampled(0)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_killed_processes_leave_nothing_wrong(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "cache", LIMIT)
    numbers = map(str, (LIMIT, WORKERS, KILLS, SEED))
    command = [sys.executable, "-c", NURSERY, str(cache.directory), *numbers]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, text=True)
    assert done.stdout.split() == ["-9"] * (KILLS + WORKERS), "none found an entry that nobody wrote, and none failed"
    entries = cache.entries()
    assert entries
    assert all(cache.get(entry.kind, entry.key) for entry in entries)
    assert len(cache.entries()) == len(entries), "none was broken"
    assert sum(entry.size for entry in entries) <= 2 * LIMIT
    cache.clear()
    assert list(cache.directory.iterdir()) == []


LITTLE_DISK: Final = (
    COMMON
    + """
cache = DiskCache(Path(sys.argv[1]))
key, other = digest_of("large"), digest_of("small")
print(cache.put("library", key, {"noise": os.urandom(200_000)}, {}), cache.get("library", key))
print(cache.put("library", other, {"noise": b"x"}, {}), cache.get("library", other))
"""
)


def test_a_file_that_cannot_grow_costs_speed_only(tmp_path: Path) -> None:
    pytest.importorskip("resource")
    script = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n" + LITTLE_DISK
    done = subprocess.run(
        [sys.executable, "-B", "-c", script, str(tmp_path / "cache")], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["False None", "True {'noise': b'x'}"]
    assert done.stderr.count("the cache on disk takes no entries") == 1
    assert {path.name for path in (tmp_path / "cache").iterdir()} == {USAGE, f"library-{digest_of('small')}"}


def test_a_full_disk_costs_speed_only(tmp_path: Path) -> None:
    place = tmp_path / "disk"
    place.mkdir(mode=0o700)
    mount = f"mount -t tmpfs -o size=100k,mode=700 none '{place}'"
    if not shutil.which("unshare") or subprocess.run(["unshare", "-rm", "sh", "-c", mount], check=False).returncode:
        pytest.skip("a small disk cannot be had here")
    command = f"{mount} && '{sys.executable}' -B -c '{LITTLE_DISK}' '{place}' && ls -A '{place}'"
    done = subprocess.run(["unshare", "-rm", "sh", "-c", command], capture_output=True, text=True, check=True)
    answers = ["False None", "True {'noise': b'x'}"]
    assert done.stdout.splitlines() == [*answers, f"library-{digest_of('small')}", USAGE]
    assert "No space left on device" in done.stderr


def test_an_entry_larger_than_the_memory_is_a_miss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise MemoryError

    cache, key = DiskCache(tmp_path / "cache"), digest_of("key")
    cache.put("library", key, {"a": b"x"}, {})
    with monkeypatch.context() as patched:
        patched.setattr("tileir.runtime.caches.disk_cache.decode", full)
        assert cache.get("library", key) is None
    assert cache.get("library", key) == {"a": b"x"}
