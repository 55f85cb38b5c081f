"""Disk cache with content-addressed entries that are verified when read and shared by processes without locks.

An entry is one file, ``KIND-KEY``, that is created and replaced atomically, so that no process sees or leaves a partial
entry, even when killed. Trust rests on the ownership of the directory: see
:mod:`tileir.runtime.caches.private_directory`. Any failure counts as a miss, never as an error of the caller.
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
"""Environment variable that turns the cache on disk off: ``0``, ``off``, ``no`` or ``false``."""

LIMIT: Final = 1 << 30
"""Default limit of a cache in bytes."""

KEPT: Final = 0.8
"""Fraction of the limit that remains in use after a sweep."""

BLOCK: Final = 4096
"""Block size in which file sizes are counted, as on most disks."""

USAGE: Final = "usage"
"""File with one byte for each block stored since the last sweep."""

ABANDONED_SECONDS: Final = 600.0
"""Age from which temporary files are considered abandoned."""

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
    """Return the SHA-256 of a sequence of values, in hexadecimal: a key that is distinct for distinct sequences."""
    digest = hashlib.sha256()
    for value in values:
        content = value.encode(errors="surrogatepass") if isinstance(value, str) else value
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.hexdigest()


def cache_directory() -> Path | None:
    """Return the directory of this user's cache, by environment and platform; None if it is turned off.

    A user without an existing home directory has no cache. Nothing else is created or checked here, but by
    :func:`tileir.runtime.caches.private_directory.opened`.
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
    return named if named.is_absolute() else _home() / ".cache"  # relative paths are to be ignored


def _home() -> Path:
    """Return the user's home; raises RuntimeError if there is none, as for services, which must not get one."""
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
    """Facts about an entry that are known from its beginning.

    Attributes:
        kind: Category of its content.
        key: Key of the entry.
        size: Bytes on disk.
        stored: Time of storing, in seconds since 1970.
        used: Time of the last read or store.
        about: Facts for people; empty if the file cannot be read.
    """

    kind: str
    key: str
    size: int
    stored: float
    used: float
    about: Mapping[str, str]


@attrs.frozen
class DiskCache:
    """Cache in one directory, which is created on the first store. Any number of threads and processes may use it.

    Attributes:
        directory: The directory; it must be private to the user, otherwise it is not used.
        limit: Maximum number of bytes; the least recently used entries are dropped.

    Raises:
        ArgumentError: TIL707, a value has a wrong type.
    """

    directory: Path = attrs.field(converter=_absolute)
    limit: int = attrs.field(default=LIMIT)

    @limit.validator
    def _check_limit(self, _: attrs.Attribute[int], value: object) -> None:
        if not isinstance(value, int) or value < 0:
            raise ArgumentError.of("TIL707", f"the limit of a cache is a number of bytes, not {value!r}")

    def get(self, kind: str, key: str) -> Mapping[str, bytes] | None:
        """Return the parts of an entry; None if there is no trustworthy entry, or it exceeds the limit."""
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
        """Return whether there is an entry, without verifying it; cheap."""
        try:
            with opened(self.directory) as folder:
                folder.status(_name(kind, key))
        except OSError:
            return False
        return True

    def _read(self, name: str, how: Callable[[int], T]) -> T | None:
        """Return the result of ``how`` for the descriptor of an entry; None if there is no trustworthy entry."""
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
        """Store or replace an entry; return whether that was possible."""
        return self._store(_name(kind, key), encode(bytes.fromhex(key), about, parts))

    def put_mapped(self, kind: str, key: str, pieces: Sequence[Content], about: Mapping[str, str]) -> bool:
        """Store a large entry, given in pieces, for :meth:`mapped`; return whether that was possible."""
        name, now = _name(kind, key), int(time.time())
        if sum(map(len, pieces)) > self.limit // 2:  # checked before all pieces are read for the digest
            cache_log().info("not stored: %s is too large for a cache of %d bytes", name, self.limit)
            return False
        sealed = {**about, _SEALED: _seal(now)}
        return self._store(name, encode_mapped(bytes.fromhex(key), sealed, pieces), now)

    def mapped(self, kind: str, key: str) -> memoryview | None:
        """Return the mapped content that :meth:`put_mapped` stored; None if there is no trustworthy entry.

        Its digest is not computed if the file has its recorded length and modification time and the system has been
        running since then; otherwise a crash may have left it incomplete.
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
        """Remove a useless entry."""
        cache_log().warning("%s is dropped: %s", _name(kind, key), reason)
        self.remove(kind, key)

    def remove(self, kind: str, key: str) -> None:
        """Remove an entry if possible."""
        name = _name(kind, key)
        try:
            with opened(self.directory) as folder:
                folder.remove(name)
        except FileNotFoundError:
            cache_log().info("not dropped: %s is not stored", name)
        except OSError as error:
            cache_log().info("not dropped: %s: %s", name, error)

    def entries(self) -> tuple[Entry, ...]:
        """Return all entries, most recently used first.

        Raises:
            OSError: The directory cannot be read or trusted; FileNotFoundError if there is none yet.
        """
        with opened(self.directory) as folder:
            found = [_entry(folder, match, status) for match, status in _listed(folder, _ENTRY)]
        return tuple(sorted(found, key=lambda entry: (-entry.used, entry.kind, entry.key)))

    def clear(self) -> tuple[int, int]:
        """Remove all entries, and return their number and size in bytes. Other files stay.

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
        """Log an error of the directory on its first occurrence in this process."""
        if self.directory not in _warned:
            _warned.add(self.directory)
            reason = f"{error}" if isinstance(error, UntrustedError) else f"{self.directory}: {error.strerror}"
            cache_log().warning("the cache on disk %s: %s", effect, reason)

    def _sweep(self, folder: OpenDirectory) -> None:
        """Sum up the sizes, and drop the least recently used entries until the limit holds with some margin."""
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
    """Return the cache by environment and platform; None if it is turned off."""
    directory = cache_directory()
    return None if directory is None else DiskCache(directory)


def remember(key: str, content: bytes) -> None:
    """Store information that is costly to obtain, such as capabilities of a driver, for later processes of this user.

    Args:
        key: Everything that the content depends on: versions, device, driver.
        content: The information.
    """
    cache_of_user = default_disk_cache()
    if cache_of_user is not None:
        cache_of_user.put("note", digest_of(key), {"content": content}, {"note": key})


def recall(key: str) -> bytes | None:
    """Return the content that :func:`remember` stored for ``key``; None if it is missing or not trustworthy."""
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
            _mark_used(descriptor, status.st_atime_ns)  # listing is no use of an entry, though some systems count it
    except (OSError, BrokenEntryError):
        about = {}
    return Entry(kind, key, status.st_size, status.st_mtime, status.st_atime, about)


def _mapped(descriptor: int, key: bytes) -> memoryview:
    """Return the mapped part of an entry.

    Raises:
        BrokenEntryError: It is not the stored content.
        OSError: It cannot be mapped.
    """
    status = os.fstat(descriptor)
    if not status.st_size:
        raise BrokenEntryError("it is empty")
    content = memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ))
    seal = "" if status.st_mtime_ns % 10**9 else _seal(status.st_mtime_ns // 10**9)
    return mapped_part(key, content, lambda about: bool(seal) and about.get(_SEALED) == seal)


def _seal(changed: int) -> str:
    """Return a seal: proof that a file was written since the system started and has our modification time, or nothing.

    That time is a whole number of seconds, which later modifications would not leave.
    """
    try:
        return f"{changed} {_BOOT.read_text(encoding='ascii').strip()}"
    except OSError:  # other systems have no such file
        return ""


def _mark_used(descriptor: int, nanoseconds: int) -> None:
    """Set the access time, which many systems do not maintain."""
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
