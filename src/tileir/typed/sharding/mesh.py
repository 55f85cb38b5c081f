"""Meshes of ranks with named axes, and the shardings that users specify."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, TypeAlias

from tileir.core import ArgumentError, TextNode, attrs, nearest
from tileir.typed.boxes import Box, Interval


def _axes(value: object) -> tuple[tuple[str, int], ...]:
    """Return the axes of a mesh from a mapping or pairs.

    Raises:
        ArgumentError: TIL351, it is neither.
    """
    pairs = value.items() if isinstance(value, Mapping) else value
    try:
        axes = tuple((name, size) for name, size in pairs)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        axes = ((None, None),)
    if not all(isinstance(name, str) and type(size) is int for name, size in axes):
        message = f"{value!r:.80} is no mesh; write the ranks along each axis by name, as in {{'x': 2, 'y': 3}}"
        raise ArgumentError.of("TIL351", message)
    return axes


@attrs.frozen(cache_hash=True, repr=False)
class Mesh(TextNode):
    """Ranks in a grid with named axes; the last axis runs fastest through their numbers.

    Attributes:
        axes: The name of each axis, and the number of ranks along it; a mapping is converted.

    Raises:
        ArgumentError: TIL351, an axis has no name or no ranks, or two have one name.
    """

    axes: tuple[tuple[str, int], ...] = attrs.field(converter=_axes)

    def __attrs_post_init__(self) -> None:
        for name, size in self.axes:
            if not name.isidentifier():
                raise ArgumentError.of("TIL351", f"the axis {name!r} of a mesh needs a name such as 'x'")
            if size < 1:
                message = f"the axis {name!r} of a mesh has {size} ranks; it needs at least one"
                raise ArgumentError.of("TIL351", message)
        names = [name for name, _ in self.axes]
        for name in names:
            if names.count(name) > 1:
                raise ArgumentError.of("TIL351", f"two axes of a mesh are called {name!r}; give each its own name")

    @classmethod
    def of(cls, text: str) -> Mesh:
        """Return the mesh with the axes in a text, as in ``x=2,y=3``.

        Raises:
            ArgumentError: TIL351, it has another form, or is no mesh.
        """
        entries = [entry.partition("=") for entry in text.split(",")]
        if not all(name.strip() and size.strip().isdecimal() for name, _, size in entries):
            message = f"{text!r:.80} is no mesh; write the number of ranks along each axis, as in x=2,y=3"
            raise ArgumentError.of("TIL351", message)
        return cls(tuple((name.strip(), int(size)) for name, _, size in entries))

    def __str__(self) -> str:
        """Return the axes as in ``x=2, y=3``."""
        return ", ".join(f"{name}={size}" for name, size in self.axes)

    @property
    def size(self) -> int:
        """Number of ranks."""
        return math.prod(size for _, size in self.axes)

    @property
    def cutting(self) -> tuple[str, ...]:
        """Names of the axes with several ranks."""
        return tuple(name for name, size in self.axes if size > 1)

    def extent(self, axes: Iterable[str]) -> int:
        """Return the number of positions along some axes together."""
        sizes = dict(self.axes)
        return math.prod(sizes[name] for name in axes)

    def coordinates(self, rank: int) -> dict[str, int]:
        """Return the coordinates of a rank."""
        found = {}
        for name, size in reversed(self.axes):
            rank, found[name] = divmod(rank, size)
        return {name: found[name] for name, _ in self.axes}

    def rank(self, coordinates: Mapping[str, int]) -> int:
        """Return the rank at some coordinates."""
        number = 0
        for name, size in self.axes:
            number = number * size + coordinates[name]
        return number

    def position(self, coordinates: Mapping[str, int], axes: Iterable[str]) -> int:
        """Return the position of coordinates along some axes, the last of which runs fastest."""
        sizes, number = dict(self.axes), 0
        for name in axes:
            number = number * sizes[name] + coordinates[name]
        return number

    def places(self, axes: Sequence[str]) -> tuple[dict[str, int], ...]:
        """Return the coordinates along some axes by their positions, with 0 on other axes."""
        sizes, start = dict(self.axes), dict.fromkeys((name for name, _ in self.axes), 0)
        return tuple(
            start | dict(zip(axes, place, strict=True)) for place in product(*(range(sizes[name]) for name in axes))
        )

    def group(self, rank: int, axes: Sequence[str]) -> tuple[int, ...]:
        """Return the ranks, in order, that differ from ``rank`` at most along some axes; it is among them."""
        here = self.coordinates(rank)
        return tuple(self.rank({**here, **{name: place[name] for name in axes}}) for place in self.places(axes))

    def box(self, layout: Layout, coordinates: Mapping[str, int]) -> Box:
        """Return the elements of a tensor of the rank at some coordinates."""
        return tuple(split.intervals[self.position(coordinates, split.axes)] for split in layout)

    def faults(self, layout: Layout) -> Iterator[str]:
        """Yield reasons, sentences without their subject, why ranks of this mesh cannot have this layout."""
        sizes = dict(self.axes)
        for axis in dict.fromkeys(axis for split in layout for axis in split.axes):
            if axis not in sizes:
                yield f"is cut along {axis!r}, which the mesh {self} does not have"
        for split in layout:
            if sizes.keys() >= set(split.axes) and len(split.intervals) != self.extent(split.axes):
                yield f"has {len(split.intervals)} intervals for {self.extent(split.axes)} ranks"
            if any(not 0 <= low <= high for low, high in split.intervals):
                yield f"has the places {split}, which are no intervals"


def _entry(value: Any) -> tuple[str, ...]:
    names = () if value is None else (value,) if isinstance(value, str) else value
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        message = f"{value!r:.80} shards no axis; write None, the name of an axis of the mesh, or a tuple of names"
        raise ArgumentError.of("TIL352", message)
    return tuple(names)


def _entries(value: Any) -> tuple[tuple[str, ...], ...]:
    if isinstance(value, Sharding):
        return value.axes
    if isinstance(value, str) or not isinstance(value, Sequence):
        message = f"{value!r:.80} is no sharding; write an entry for each axis of the tensor, as in ('x', None)"
        raise ArgumentError.of("TIL352", message)
    return tuple(map(_entry, value))


@attrs.frozen(cache_hash=True, repr=False)
class Sharding(TextNode):
    """The mesh axes along which each axis of a tensor is split into parts, whose sizes differ by at most one.

    Attributes:
        axes: For each axis of the tensor None if it is whole, the name of an axis of the mesh, or several.

    Raises:
        ArgumentError: TIL352, an entry has another form.
    """

    axes: tuple[tuple[str, ...], ...] = attrs.field(converter=_entries)

    def __str__(self) -> str:
        """Return the entries as in ``(x, _, x * y)``."""
        return f"({', '.join(' * '.join(names) or '_' for names in self.axes)})"

    def layout(self, name: str, shape: tuple[int, ...], mesh: Mesh) -> Layout:
        """Return the positions of a tensor on each rank; one rank along an axis of the mesh splits nothing.

        Raises:
            ArgumentError: TIL352, its rank differs, the mesh lacks an axis, or an axis is named twice.
        """
        if len(self.axes) != len(shape):
            message = (
                f"the sharding {self} of {name!r} has {len(self.axes)} entries, but the tensor {len(shape)} axes; write"
                " one for each, None where it stays whole"
            )
            raise ArgumentError.of("TIL352", message)
        known = [axis for axis, _ in mesh.axes]
        used = [axis for names in self.axes for axis in names]
        for axis in used:
            if axis not in known:
                message = (
                    f"the sharding {self} of {name!r} names the axis {axis!r}, which the mesh {mesh} does not have"
                )
                raise ArgumentError.of("TIL352", f"{message}{nearest(axis, known)}")
            if used.count(axis) > 1:
                message = f"the sharding {self} of {name!r} names the axis {axis!r} twice; each can cut one axis"
                raise ArgumentError.of("TIL352", message)
        return tuple(
            Split(tuple(axis for axis in names if axis in mesh.cutting), balanced(size, mesh.extent(names)))
            for names, size in zip(self.axes, shape, strict=True)
        )


@attrs.frozen(cache_hash=True, repr=False)
class Split(TextNode):
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
