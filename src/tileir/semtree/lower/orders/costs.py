"""What the ways to sort a row cost, in cycles of a processor with vectors: only which is the least matters."""

from __future__ import annotations

from math import log, log2
from typing import TYPE_CHECKING, Final

from tileir.core.integers import network_comparisons
from tileir.semtree.lower.orders.selection import is_inserted

if TYPE_CHECKING:
    from tileir.core.dtype import DType

_COMPARED: Final = {4: 5.0, 8: 8.0, 16: 14.0}
"""Cycles in which vectors of elements of so many bytes are loaded, compared, exchanged and stored."""

_MOVED: Final = 14.0
"""Cycles for each digit of each element to be counted, and to be moved to its place."""

_ADDED: Final = 3.0 * 256
"""Cycles for the counts of one digit to become places."""

_PASSED: Final = 0.5
"""Cycles for one element to be compared with the last one that is wanted."""

_TAKEN: Final = 4.0
"""Cycles for one element of a block that has one that comes before."""

_INSERTED: Final = 10.0
"""Cycles for an element to be put among those in a vector."""


def network_cost(size: int, lanes: int, words: tuple[DType, ...]) -> float:
    """Return what a network costs whose elements are such words."""
    return network_comparisons(size) / lanes * _COMPARED[sum(dtype.itemsize for dtype in words)]


def digits_cost(size: int, digits: int) -> float:
    """Return what sorting by digits costs."""
    return digits * (_ADDED + size * _MOVED)


def selection_cost(size: int, kept: int, lanes: int, words: tuple[DType, ...]) -> float:
    """Return what it costs to find the first of a row in no order, of which ``kept`` are kept."""
    seen = size * _PASSED + network_cost(kept, lanes, words)
    if is_inserted(kept, lanes):
        inserted = kept * log(size / kept)
        return seen + inserted * (kept / lanes * _INSERTED + 16 * _TAKEN)
    merges = 1 + log2(size / kept)
    return seen + merges * (1.3 * network_cost(kept, lanes, words) + 2 * kept * _TAKEN)
