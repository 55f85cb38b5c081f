"""Cache entries in a file, in front of the cache on disk: programs and their code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from tileir.core import attrs
from tileir.runtime.caches.cache_entry import BrokenEntryError, decode, encode
from tileir.runtime.caches.disk_cache import cache_log


class Entries(Protocol):
    """Cache of programs and their code, as compiling uses it, such as :class:`tileir.DiskCache`."""

    def get(self, kind: str, key: str) -> Mapping[str, bytes] | None:
        """Return the parts of an entry; None if there is no trustworthy entry."""

    def holds(self, kind: str, key: str) -> bool:
        """Return whether there is an entry."""

    def put(self, kind: str, key: str, parts: Mapping[str, bytes], about: Mapping[str, str]) -> bool:
        """Store an entry; return whether that was possible."""

    def drop(self, kind: str, key: str, reason: str) -> None:
        """Remove a useless entry."""


@attrs.frozen(eq=False)
class CarriedEntries:
    """Entries by ``KIND-KEY``, in their file format, in front of another cache.

    Attributes:
        contents: The entries.
        below: Cache for other entries and for storing; None for no cache.
        collects: Whether to copy entries that ``below`` has or stores.
    """

    contents: dict[str, bytes]
    below: Entries | None = None
    collects: bool = False

    def get(self, kind: str, key: str) -> Mapping[str, bytes] | None:
        """Return the parts of an entry, from here or from ``below``; damaged entries count as missing."""
        content = self.contents.get(f"{kind}-{key}")
        if content is not None:
            try:
                parts: Mapping[str, bytes] | None = decode(bytes.fromhex(key), content)
            except BrokenEntryError as error:
                self.drop(kind, key, str(error))
            else:
                cache_log().info("hit: %s-%s of a file", kind, key)
                return parts
        parts = None if self.below is None else self.below.get(kind, key)
        if parts is not None and self.collects:
            self._take(kind, key, parts, {})
        return parts

    def holds(self, kind: str, key: str) -> bool:
        """Return whether there is an entry, possibly damaged."""
        return f"{kind}-{key}" in self.contents or (self.below is not None and self.below.holds(kind, key))

    def put(self, kind: str, key: str, parts: Mapping[str, bytes], about: Mapping[str, str]) -> bool:
        """Store an entry below, and also here if entries are collected."""
        if self.collects:
            self._take(kind, key, parts, about)
        return self.below is not None and self.below.put(kind, key, parts, about)

    def drop(self, kind: str, key: str, reason: str) -> None:
        """Remove an entry, and log the reason."""
        if self.contents.pop(f"{kind}-{key}", None) is not None:
            cache_log().warning("%s-%s of a file is not used: %s", kind, key, reason)
        elif self.below is not None:
            self.below.drop(kind, key, reason)

    def _take(self, kind: str, key: str, parts: Mapping[str, bytes], about: Mapping[str, str]) -> None:
        self.contents[f"{kind}-{key}"] = b"".join(encode(bytes.fromhex(key), about, parts))
