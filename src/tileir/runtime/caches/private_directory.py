"""Directories that only their owner can read or change, with files that nobody can swap.

Code from the cache is executed, so anyone who can write there can run code as the user. A directory is used only if its
opened descriptor, which no rename can change, belongs to the user and has mode 0700; files are opened relative to that
descriptor, without following links, and checked likewise.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tileir.core import Content, attrs

OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
"""Permission bits of group and others."""

_HAS_OWNERS: Final = hasattr(os, "geteuid")  # Windows guards %LOCALAPPDATA% by access lists instead
_RELATIVE: Final = os.open in os.supports_dir_fd
_NO_FOLLOW: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_DIRECTORY: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _NO_FOLLOW
_READ: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | _NO_FOLLOW
_APPEND: Final = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0) | _NO_FOLLOW
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | _NO_FOLLOW

_IS_LINK: Final = (errno.ELOOP, errno.EMLINK)  # errors of O_NOFOLLOW on Linux and macOS, and on FreeBSD


class UntrustedError(OSError):
    """Directory or file that others could have written; the message gives the reason and a remedy."""


@attrs.frozen
class OpenDirectory:
    """Directory that was verified as private. Names are relative to its descriptor if the system supports that.

    All methods raise :class:`OSError`.
    """

    path: Path
    descriptor: int | None

    def names(self) -> list[str]:
        """Return the names of its content, unordered."""
        with os.scandir(self.path if self.descriptor is None else self.descriptor) as found:
            return [entry.name for entry in found]

    @contextmanager
    def reading(self, name: str) -> Iterator[int]:
        """Open a file, and yield its descriptor.

        Raises:
            UntrustedError: It is not a regular file, or others may change it.
        """
        try:
            descriptor = os.open(self._place(name), _READ, dir_fd=self.descriptor)
        except OSError as error:
            if error.errno in _IS_LINK:
                raise UntrustedError(f"{name} is a link") from None
            raise
        try:
            _check_file(os.fstat(descriptor), name)
            yield descriptor
        finally:
            os.close(descriptor)

    def write(self, name: str, contents: Iterable[Content], changed: int | None = None) -> None:
        """Create or replace a file atomically: readers see either the old content or all of the new.

        It is not forced to the disk: readers verify content, and a cache may lose entries.

        Args:
            name: Name of the file.
            contents: Content in pieces.
            changed: Modification time to set, in seconds since 1970, if the system supports that.
        """
        temporary = f".{os.getpid()}-{os.urandom(8).hex()}.tmp"
        descriptor = os.open(self._place(temporary), _NEW, 0o600, dir_fd=self.descriptor)
        try:
            try:
                for content in contents:
                    _write_all(descriptor, content)
                if changed is not None and os.utime in os.supports_fd:
                    os.utime(descriptor, (changed, changed))
            finally:
                os.close(descriptor)
            source, destination = self._place(temporary), self._place(name)
            os.replace(source, destination, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
        except BaseException:
            with suppress(OSError):
                self.remove(temporary)
            raise

    def append(self, name: str, content: bytes) -> int:
        """Append to a file, created if missing, and return its size; several processes may do so concurrently."""
        descriptor = os.open(self._place(name), _APPEND, 0o600, dir_fd=self.descriptor)
        try:
            _check_file(os.fstat(descriptor), name)
            _write_all(descriptor, content)
            return os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)

    def status(self, name: str) -> os.stat_result:
        """Return the status of a file, without following a link."""
        return os.stat(self._place(name), dir_fd=self.descriptor, follow_symlinks=False)

    def remove(self, name: str) -> None:
        """Remove a file, or a link but not its target."""
        os.unlink(self._place(name), dir_fd=self.descriptor)

    def _place(self, name: str) -> str:
        return name if self.descriptor is not None else str(self.path / name)


@contextmanager
def opened(path: Path, *, create: bool = False) -> Iterator[OpenDirectory]:
    """Open a directory that is private to the user.

    Args:
        path: Path of the directory.
        create: Whether to create it and missing parents.

    Raises:
        UntrustedError: It is a link, belongs to another user, or is accessible to others.
        OSError: It is missing, or cannot be created or opened.
    """
    if create and not path.is_dir():
        _make(path)
    if not _RELATIVE:
        _check_directory(os.lstat(path), path)
        yield OpenDirectory(path, None)
        return
    try:
        descriptor = os.open(path, _DIRECTORY)
    except OSError as error:
        if error.errno in (*_IS_LINK, errno.ENOTDIR):
            raise _not_a_directory(path) from None
        raise
    try:
        _check_directory(os.fstat(descriptor), path)
        yield OpenDirectory(path, descriptor)
    finally:
        os.close(descriptor)


def _make(path: Path) -> None:
    """Create a directory and its missing parents; the super-user creates none in directories of other users."""
    missing = [place for place in (path, *path.parents) if not place.exists()]
    parent = missing[-1].parent if missing else path.parent
    if _HAS_OWNERS and os.geteuid() == 0:  # the other user could never use it, as after `sudo` with the caller's home
        _check_owner(parent.stat(), str(parent))
    for place in reversed(missing):
        with suppress(FileExistsError):
            place.mkdir(mode=0o700)


def _check_directory(status: os.stat_result, path: Path) -> None:
    """Raise unless the directory is private to the user, and not in a place where others can replace it."""
    if not stat.S_ISDIR(status.st_mode):
        raise _not_a_directory(path)
    if not _HAS_OWNERS:
        return
    _check_owner(status, str(path))
    if status.st_mode & OTHERS:
        mode = stat.S_IMODE(status.st_mode)
        raise UntrustedError(f"{path} has mode {mode:o}, so others may use it; run `chmod 700` on it")
    for parent in path.resolve().parents:
        mode = parent.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise UntrustedError(f"everybody may rename what is in {parent}; put the cache elsewhere")


def _check_file(status: os.stat_result, name: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise UntrustedError(f"{name} is not a regular file")
    if not _HAS_OWNERS:
        return
    _check_owner(status, name)
    if status.st_mode & OTHERS:
        raise UntrustedError(f"{name} has mode {stat.S_IMODE(status.st_mode):o}, so others may use it")


def _check_owner(status: os.stat_result, name: str) -> None:
    if status.st_uid != os.geteuid():
        raise UntrustedError(f"{name} belongs to user {status.st_uid}, and this process to {os.geteuid()}")


def _not_a_directory(path: Path) -> UntrustedError:
    return UntrustedError(f"{path} is a link or no directory; give the place itself")


def _write_all(descriptor: int, content: Content) -> None:
    rest = memoryview(content).cast("B")
    while rest:
        rest = rest[os.write(descriptor, rest) :]
