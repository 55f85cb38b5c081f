"""Results of works that only depend on constants, cached on disk and mapped by later processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tileir.core.nodes import attrs
from tileir.runtime.caches.disk_cache import DiskCache

RESULTS: Final = "results"

_ALIGNMENT: Final = 64
"""Alignment of each result in bytes."""


@attrs.frozen
class KeptResults:
    """Cache entry of some results.

    Attributes:
        disk: The cache.
        key: Identity of the results: the computation and its constants.
        about: Facts for people.
    """

    disk: DiskCache
    key: str
    about: Mapping[str, str]

    def load(self, sizes: Sequence[int]) -> list[memoryview] | None:
        """Return results of these sizes in mapped, read-only memory; None if they are not cached."""
        content = self.disk.mapped(RESULTS, self.key)
        if content is None:
            return None
        begins = _begins(sizes)
        if len(content) != begins[-1]:
            self.disk.drop(RESULTS, self.key, f"it has {len(content)} bytes of results, and not {begins[-1]}")
            return None
        return [content[begin : begin + size] for begin, size in zip(begins, sizes, strict=False)]

    def store(self, results: Sequence[memoryview]) -> list[memoryview] | None:
        """Store results, each as bytes, and return them like :meth:`load`; None if that is not possible."""
        blanks = (memoryview(bytes(-len(result) % _ALIGNMENT)) for result in results)
        pieces = [piece for pair in zip(results, blanks, strict=True) for piece in pair]
        stored = self.disk.put_mapped(RESULTS, self.key, pieces, self.about)
        return self.load([*map(len, results)]) if stored else None


def _begins(sizes: Sequence[int]) -> list[int]:
    """Return the offset of each result, followed by the end of the last, padding included."""
    begins = [0]
    for size in sizes:
        begins.append(begins[-1] + size + -size % _ALIGNMENT)
    return begins
