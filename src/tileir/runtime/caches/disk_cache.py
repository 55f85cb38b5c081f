"""A cache on disk whose entries are content-addressed, verified when read, and shared by processes without locks.

An entry is one file, ``KIND-KEY``, that appears and is replaced as a whole, so that readers, writers and those that
were killed never see or leave half of one. Trust rests on who owns the directory: see
:mod:`tileir.runtime.caches.private_directory`. Whatever goes wrong is a miss, never an error of the caller.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from tileir.core import ArgumentError, Content, attrs
from tileir.runtime.caches.cache_entry import (
    BrokenEntryError,
    decode,
    encode,
    encode_mapped,
    mapped_part,
    table_of,
)
from tileir.runtime.caches.private_directory import OpenDirectory, UntrustedError, opened

if TYPE_CHECKING:
    from logging import Logger

T = TypeVar("T")

DIRECTORY_VARIABLE: Final = "TILEIR_CACHE_DIR"
"""Environment variable that names the directory of the cache."""

SWITCH_VARIABLE: Final = "TILEIR_CACHE"
"""Environment variable that turns the cache on disk off, by ``0``, ``off``, ``no`` or ``false``."""

LIMIT: Final = 1 << 30
"""How many bytes a cache holds where its maker does not say."""

KEPT: Final = 0.8
"""The part of the limit that is still used after entries were dropped."""

BLOCK: Final = 4096
"""Sizes count in such blocks, as on most disks."""

USAGE: Final = "usage"
"""A file with one byte for each block that was stored since somebody last looked at all entries."""

ABANDONED_SECONDS: Final = 600.0
"""Temporary files of this age have no writer any more."""

_ENTRY: Final = re.compile(r"([a-z]+)-([0-9a-f]{64})")
_TEMPORARY: Final = re.compile(r"\.[0-9]+-[0-9a-f]{16}\.tmp")
_TABLE_BYTES: Final = 1 << 16
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_SEALED: Final = "sealed"
_warned: Final[set[Path]] = set()


def cache_log() -> Logger:
    """Return the logger ``tileir.cache``: hits, misses and their reasons as information, refusals as warnings."""
    import logging  # most programs that import tileir never need it

    return logging.getLogger("tileir.cache")


def digest_of(*values: str | bytes) -> str:
    """Return the SHA-256 of a sequence of values, in hexadecimal: a key. No two sequences share one."""
    digest = hashlib.sha256()
    for value in values:
        content = value.encode(errors="surrogatepass") if isinstance(value, str) else value
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.hexdigest()


def cache_directory() -> Path | None:
    """Return where this user's cache is or would be, by environment and platform; None where it is turned off.

    There is none for a user whose home does not exist. Beyond that nothing is made or checked: that is what
    :func:`tileir.runtime.caches.private_directory.opened` does.
    """
    if os.environ.get(SWITCH_VARIABLE, "").lower() in ("0", "off", "no", "false"):
        return None
    named = os.environ.get(DIRECTORY_VARIABLE)
    try:
        return Path(named).expanduser().absolute() if named else _platform_directory() / "tileir"
    except RuntimeError:  # the user has no home
        return None


def _platform_directory() -> Path:
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return Path(local) if local else _home() / "AppData" / "Local"
    if sys.platform == "darwin":
        return _home() / "Library" / "Caches"
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return named if named.is_absolute() else _home() / ".cache"  # relative ones are to be ignored


def _home() -> Path:
    """Return the user's home; a RuntimeError where there is none, as for services, which may not have one made."""
    home = Path.home()
    if not home.is_dir():
        raise RuntimeError(f"there is no directory {home}")
    return home


def _absolute(directory: str | os.PathLike[str]) -> Path:
    if not isinstance(directory, str | os.PathLike):
        raise ArgumentError.of("TIL707", f"the directory of a cache is a path, not {directory!r}")
    return Path(directory).absolute()


@attrs.frozen
class Entry:
    """Facts about an entry that are known without reading all of it.

    Attributes:
        kind: What sort of thing it holds.
        key: What it was stored for.
        size: Bytes on disk.
        stored: When it was stored, in seconds since 1970.
        used: When it was last read or stored.
        about: Facts for people; empty where the file cannot be read.

    """

    kind: str
    key: str
    size: int
    stored: float
    used: float
    about: Mapping[str, str]


@attrs.frozen
class DiskCache:
    """Entries in one directory, which is made when the first one is stored. Any number of threads and processes.

    Attributes:
        directory: Where it is; the user's alone, or it is not used.
        limit: How many bytes it may hold; those that were not used for longest are dropped.

    Raises:
        ArgumentError: TIL707, a value is of the wrong kind.

    """

    directory: Path = attrs.field(converter=_absolute)
    limit: int = attrs.field(default=LIMIT)

    @limit.validator
    def _check_limit(self, _: attrs.Attribute[int], value: object) -> None:
        if not isinstance(value, int) or value < 0:
            raise ArgumentError.of("TIL707", f"the limit of a cache is a number of bytes, not {value!r}")

    def get(self, kind: str, key: str) -> Mapping[str, bytes] | None:
        """Return the parts of an entry; None where there is none that can be trusted, or it exceeds the limit."""
        name = _name(kind, key)

        def whole(descriptor: int) -> Mapping[str, bytes]:
            size = os.fstat(descriptor).st_size
            if size > self.limit:
                raise BrokenEntryError(f"it has {size} bytes, and the whole cache takes {self.limit}")
            with open(descriptor, "rb", buffering=0, closefd=False) as file:
                return decode(bytes.fromhex(key), file.readall())

        content = self._read(name, whole)
        if content is not None:
            cache_log().info("hit: %s, %d bytes", name, sum(map(len, content.values())))
        return content

    def holds(self, kind: str, key: str) -> bool:
        """Return whether there is an entry, which need not be one that can be trusted; a cheap question."""
        try:
            with opened(self.directory) as folder:
                folder.status(_name(kind, key))
        except OSError:
            return False
        return True

    def _read(self, name: str, how: Callable[[int], T]) -> T | None:
        """Return what ``how`` makes of the descriptor of an entry; None where there is none that can be trusted."""
        try:
            with opened(self.directory) as folder:
                try:
                    with folder.reading(name) as descriptor:
                        content = how(descriptor)
                        _mark_used(descriptor, time.time_ns())
                        return content
                except (BrokenEntryError, UntrustedError) as error:
                    cache_log().warning("miss: %s is dropped: %s", name, error)
                    folder.remove(name)
                except MemoryError:  # the limit is larger than what this process may use
                    cache_log().warning("miss: %s does not fit the memory", name)
        except FileNotFoundError:
            cache_log().info("miss: %s is not stored", name)
        except OSError as error:
            cache_log().info("miss: %s: %s", name, error)
            self._warn_once("is not used", error)
        return None

    def put(self, kind: str, key: str, parts: Mapping[str, bytes], about: Mapping[str, str]) -> bool:
        """Store an entry in the place of any that there was; return whether that was possible."""
        return self._store(_name(kind, key), encode(bytes.fromhex(key), about, parts))

    def put_mapped(self, kind: str, key: str, pieces: Sequence[Content], about: Mapping[str, str]) -> bool:
        """Store an entry of many bytes, given in pieces, that :meth:`mapped` is to return; return whether it could."""
        name, now = _name(kind, key), int(time.time())
        if sum(map(len, pieces)) > self.limit // 2:  # asked before all is read for its digest
            cache_log().info("not stored: %s is too large for a cache of %d bytes", name, self.limit)
            return False
        sealed = {**about, _SEALED: _seal(now)}
        return self._store(name, encode_mapped(bytes.fromhex(key), sealed, pieces), now)

    def mapped(self, kind: str, key: str) -> memoryview | None:
        """Return what :meth:`put_mapped` stored, mapped to be read; None where there is none that can be trusted.

        Its digest is not computed while the file is as long as it was and has the time of change that was given to it,
        and the system has been running since then: what a crash may have left half written is read.
        """
        name = _name(kind, key)
        part = self._read(name, lambda descriptor: _mapped(descriptor, bytes.fromhex(key)))
        if part is not None:
            cache_log().info("hit: %s, %d bytes", name, len(part))
        return part

    def _store(self, name: str, pieces: Sequence[Content], changed: int | None = None) -> bool:
        """Write the pieces of an entry, and make room for it."""
        size = sum(map(len, pieces))
        if size > self.limit // 2:
            cache_log().info("not stored: %s has %d bytes, and the cache takes %d", name, size, self.limit)
            return False
        try:
            with opened(self.directory, create=True) as folder:
                blocks = -(-size // BLOCK)
                used = _count(folder, blocks)  # before the entry, so that no kill leaves it uncounted
                folder.write(name, pieces, changed)
                if used == blocks or used * BLOCK > self.limit:
                    self._sweep(folder)
        except OSError as error:
            cache_log().info("not stored: %s: %s", name, error)
            self._warn_once("takes no entries", error)
            return False
        cache_log().info("stored: %s, %d bytes", name, size)
        return True

    def drop(self, kind: str, key: str, reason: str) -> None:
        """Remove an entry that turned out to be of no use."""
        cache_log().warning("%s is dropped: %s", _name(kind, key), reason)
        self.remove(kind, key)

    def remove(self, kind: str, key: str) -> None:
        """Remove an entry, if there is one and that is possible."""
        name = _name(kind, key)
        try:
            with opened(self.directory) as folder:
                folder.remove(name)
        except FileNotFoundError:
            cache_log().info("not dropped: %s is not stored", name)
        except OSError as error:
            cache_log().info("not dropped: %s: %s", name, error)

    def entries(self) -> tuple[Entry, ...]:
        """Return all entries, the most recently used first.

        Raises:
            OSError: The directory cannot be read or must not be trusted; FileNotFoundError where there is none yet.

        """
        with opened(self.directory) as folder:
            found = [_entry(folder, match, status) for match, status in _listed(folder, _ENTRY)]
        return tuple(sorted(found, key=lambda entry: (-entry.used, entry.kind, entry.key)))

    def clear(self) -> tuple[int, int]:
        """Remove all entries, and return how many there were, and of how many bytes. Files of others stay.

        Raises:
            OSError: As for :meth:`entries`, or a file cannot be removed.

        """
        count = size = 0
        with opened(self.directory) as folder:
            for match, status in _listed(folder, _ENTRY):
                folder.remove(match.string)
                count, size = count + 1, size + status.st_size
            for match, _ in _listed(folder, _TEMPORARY):
                _discard(folder, match.string)
            _discard(folder, USAGE)
        return count, size

    def _warn_once(self, effect: str, error: OSError) -> None:
        """Say what is wrong with the directory, the first time that this process finds it so."""
        if self.directory not in _warned:
            _warned.add(self.directory)
            reason = f"{error}" if isinstance(error, UntrustedError) else f"{self.directory}: {error.strerror}"
            cache_log().warning("the cache on disk %s: %s", effect, reason)

    def _sweep(self, folder: OpenDirectory) -> None:
        """Count what is there, and drop what was not used for longest until the limit holds with some room."""
        entries = sorted(_listed(folder, _ENTRY), key=lambda found: found[1].st_atime_ns)
        used = sum(_rounded(status.st_size) for _, status in entries)
        if used > self.limit:
            for match, status in entries:
                if used <= self.limit * KEPT:
                    break
                _discard(folder, match.string)
                cache_log().info("evicted: %s, %d bytes", match.string, status.st_size)
                used -= _rounded(status.st_size)
        for match, status in _listed(folder, _TEMPORARY):
            if time.time() - status.st_mtime > ABANDONED_SECONDS:
                _discard(folder, match.string)
        folder.write(USAGE, (bytes(used // BLOCK),))


def default_disk_cache() -> DiskCache | None:
    """Return the cache that environment and platform name; None where it is turned off."""
    directory = cache_directory()
    return None if directory is None else DiskCache(directory)


def remember(key: str, content: bytes) -> None:
    """Store what is costly to find out, such as what a driver can do, for the next processes of this user.

    Args:
        key: Everything that the answer depends on: versions, device, driver.
        content: The answer.

    """
    cache_of_user = default_disk_cache()
    if cache_of_user is not None:
        cache_of_user.put("note", digest_of(key), {"content": content}, {"note": key})


def recall(key: str) -> bytes | None:
    """Return what :func:`remember` stored for ``key``; None where nothing is stored, or it cannot be trusted."""
    cache_of_user = default_disk_cache()
    parts = None if cache_of_user is None else cache_of_user.get("note", digest_of(key))
    return None if parts is None else parts.get("content")


def _name(kind: str, key: str) -> str:
    name = f"{kind}-{key}"
    if not _ENTRY.fullmatch(name):
        raise ValueError(f"{name!r} is not a kind in lower-case letters and a SHA-256 in hexadecimal")
    return name


def _listed(folder: OpenDirectory, pattern: re.Pattern[str]) -> Iterator[tuple[re.Match[str], os.stat_result]]:
    for name in sorted(folder.names()):
        match = pattern.fullmatch(name)
        if match:
            try:
                yield match, folder.status(name)
            except FileNotFoundError:
                continue


def _entry(folder: OpenDirectory, match: re.Match[str], status: os.stat_result) -> Entry:
    kind, key = match.groups()
    try:
        with folder.reading(match.string) as descriptor:
            about = table_of(bytes.fromhex(key), os.read(descriptor, _TABLE_BYTES)).about
            _mark_used(descriptor, status.st_atime_ns)  # to look is not to use, though some systems think so
    except (OSError, BrokenEntryError):
        about = {}
    return Entry(kind, key, status.st_size, status.st_mtime, status.st_atime, about)


def _mapped(descriptor: int, key: bytes) -> memoryview:
    """Return the part of an entry that is mapped.

    Raises:
        BrokenEntryError: It is not what was stored.
        OSError: It cannot be mapped.

    """
    status = os.fstat(descriptor)
    if not status.st_size:
        raise BrokenEntryError("it is empty")
    content = memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ))
    seal = "" if status.st_mtime_ns % 10**9 else _seal(status.st_mtime_ns // 10**9)
    return mapped_part(key, content, lambda about: bool(seal) and about.get(_SEALED) == seal)


def _seal(changed: int) -> str:
    """Return what tells that a file was written since the system runs and has its time of change from us, or nothing.

    It is a whole number of seconds, as no later change leaves it.
    """
    try:
        return f"{changed} {_BOOT.read_text(encoding='ascii').strip()}"
    except OSError:  # other systems have no such file
        return ""


def _mark_used(descriptor: int, nanoseconds: int) -> None:
    """Set the time of access, which many systems do not keep by themselves."""
    if os.utime in os.supports_fd:
        try:
            os.utime(descriptor, ns=(nanoseconds, os.fstat(descriptor).st_mtime_ns))
        except OSError as error:  # a disk that cannot be written to
            cache_log().debug("time of access not set: %s", error)


def _discard(folder: OpenDirectory, name: str) -> None:
    with suppress(FileNotFoundError):
        folder.remove(name)


def _count(folder: OpenDirectory, blocks: int) -> int:
    try:
        return folder.append(USAGE, bytes(blocks))
    except (UntrustedError, PermissionError):  # such as a file that the super-user made
        folder.remove(USAGE)
        return folder.append(USAGE, bytes(blocks))


def _rounded(size: int) -> int:
    return -(-size // BLOCK) * BLOCK
