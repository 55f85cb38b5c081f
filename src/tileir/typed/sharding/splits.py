"""Splits of the axes of a tensor over the ranks of a mesh, and the kinds of collectives that move its pieces."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import TypeAlias

from tileir.core import Shown, attrs
from tileir.typed.boxes import Interval


@attrs.frozen(cache_hash=True, repr=False)
class Split(Shown):
    """The positions of one axis that each rank has.

    Attributes:
        axes: The axes of the mesh along which ranks have different positions; empty if every rank has all of them.
        intervals: The intervals of ranks by their position along these axes, the last of which runs fastest.
    """

    axes: tuple[str, ...]
    intervals: tuple[tuple[int, int], ...]

    def __str__(self) -> str:
        """Return the axes and the intervals, as in ``x 0:4 4:7``."""
        return " ".join([" * ".join(self.axes)] * bool(self.axes) + [f"{low}:{high}" for low, high in self.intervals])

    @property
    def is_whole(self) -> bool:
        """True if every rank has the same positions."""
        return not self.axes

    @property
    def is_complete(self) -> bool:
        """True if each position up to the last one on any rank is on some rank."""
        reached = 0
        for low, high in sorted(self.intervals):
            if low <= reached:
                reached = max(reached, high)
        return reached == max((high for _, high in self.intervals), default=0)


Layout: TypeAlias = "tuple[Split, ...]"
"""A split of each axis of a tensor."""


def repeated(splits: Iterable[Split]) -> tuple[str, ...]:
    """Return the axes of a mesh in several splits, so that ranks do not have all combinations."""
    axes = [axis for split in splits for axis in split.axes]
    return tuple(axis for axis in dict.fromkeys(axes) if axes.count(axis) > 1)


def whole(shape: tuple[int, ...]) -> Layout:
    """Return the layout of a tensor that every rank has."""
    return tuple(Split((), ((0, size),)) for size in shape)


def balanced(size: int, parts: int) -> tuple[Interval, ...]:
    """Return intervals that cover an axis in order; the first ones are longer by one if it does not divide evenly."""
    short, longer = divmod(size, parts)
    stops = [(number + 1) * short + min(number + 1, longer) for number in range(parts)]
    return tuple(zip([0, *stops], stops, strict=False))


def filled(size: int, parts: int, length: int) -> tuple[Interval, ...]:
    """Return intervals of one length that cover an axis in order, the last of them shorter or empty."""
    return tuple((min(size, number * length), min(size, (number + 1) * length)) for number in range(parts))


class CollectiveKind(enum.Enum):
    """Pattern of the exchange between the ranks of a group, which determines its implementation in an engine."""

    ALL_REDUCE = "all_reduce"  # merge all parts, and give each rank the result
    REDUCE_SCATTER = "reduce_scatter"  # merge, and give each rank its piece
    ALL_GATHER = "all_gather"  # give each rank the pieces of all
    ALL_TO_ALL = "all_to_all"  # split other axes than before
    HALO = "halo"  # give each rank the surroundings of its part
    BROADCAST = "broadcast"  # give each rank the part of one
    PERMUTE = "permute"  # give each rank the piece of another

    __hash__ = object.__hash__

    @property
    def merges(self) -> bool:
        """True if values of several ranks become one."""
        return self in (CollectiveKind.ALL_REDUCE, CollectiveKind.REDUCE_SCATTER)

    @property
    def goes_around(self) -> bool:
        """True if it may give a rank elements around its part; a window to one side reaches beyond it, not back."""
        return self in (CollectiveKind.HALO, CollectiveKind.ALL_TO_ALL)
