"""Results of works that depend on constants alone, kept in the cache on disk and mapped by later processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tileir.core.nodes import attrs
from tileir.runtime.caches.disk_cache import DiskCache

RESULTS: Final = "results"

_ALIGNMENT: Final = 64
"""Where each result begins, in bytes."""


@attrs.frozen
class KeptResults:
    """The place of some results in a cache.

    Attributes:
        disk: The cache.
        key: What tells them from all others: what is computed of what, by what.
        about: Facts for people.

    """

    disk: DiskCache
    key: str
    about: Mapping[str, str]

    def load(self, sizes: Sequence[int]) -> list[memoryview] | None:
        """Return results of so many bytes in memory that is mapped to be read; None where they are not kept."""
        content = self.disk.mapped(RESULTS, self.key)
        if content is None:
            return None
        begins = _begins(sizes)
        if len(content) != begins[-1]:
            self.disk.drop(RESULTS, self.key, f"it has {len(content)} bytes of results, and not {begins[-1]}")
            return None
        return [content[begin : begin + size] for begin, size in zip(begins, sizes, strict=False)]

    def store(self, results: Sequence[memoryview]) -> list[memoryview] | None:
        """Keep results, each as bytes, and return them as :meth:`load` does; None where that is not possible."""
        blanks = (memoryview(bytes(-len(result) % _ALIGNMENT)) for result in results)
        pieces = [piece for pair in zip(results, blanks, strict=True) for piece in pair]
        stored = self.disk.put_mapped(RESULTS, self.key, pieces, self.about)
        return self.load([*map(len, results)]) if stored else None


def _begins(sizes: Sequence[int]) -> list[int]:
    """Return where each result begins, and behind them where the last one ends with its blanks."""
    begins = [0]
    for size in sizes:
        begins.append(begins[-1] + size + -size % _ALIGNMENT)
    return begins
