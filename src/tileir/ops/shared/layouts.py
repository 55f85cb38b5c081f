"""Layouts: letters for the batch, channel and spatial axes of a tensor; and axes composed of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

from tileir.core.nodes import attrs
from tileir.ops.shared.foundation import (
    Aggregation,
    CombinedElements,
    Constraint,
    Dim,
    Operand,
    Polynomial,
    Tensor,
    aggregate,
    call,
    dims_of,
    mistaken,
    narrowed,
    rank_of,
)
from tileir.tile.building.recording import mistake

T = TypeVar("T")

SPACE: Final = "x"
"""The letter that stands for all spatial axes at once."""


@attrs.frozen
class Axis:
    """Position on an axis that is read or written: a single axis, or several parts, the last the innermost.

    When it is read, its parts become one position; when it is written, each is an axis, and a reshape joins them
    afterwards.
    """

    places: tuple[Polynomial, ...]
    sizes: tuple[Dim, ...]

    @property
    def parts(self) -> tuple[Axis, ...]:
        """Its parts, as axes."""
        return tuple(Axis((place,), (size,)) for place, size in zip(self.places, self.sizes, strict=True))

    @property
    def place(self) -> Polynomial:
        """The position on the joint axis."""
        place, *rest = self.places
        for part, size in zip(rest, self.sizes[1:], strict=True):
            place = place * size + part
        return place

    @property
    def size(self) -> Dim:
        """The size of the joint axis."""
        size, *rest = self.sizes
        for part in rest:
            size = size * part
        return size

    def within(self, size: Dim) -> tuple[Constraint, ...]:
        """Return constraints that keep each part in its size, and demand that the axis that is read has this size."""
        joint = self.size
        inner = [place < part for place, part in zip(self.places[1:], self.sizes[1:], strict=True)]
        return tuple(inner) if joint == size else (*inner, self.place < joint.call("match", size))


def joined(*axes: Axis) -> Axis:
    """Return the axis composed of these, the last the innermost."""
    return Axis(
        tuple(place for axis in axes for place in axis.places), tuple(size for axis in axes for size in axis.sizes)
    )


def read(x: Tensor, axes: Sequence[Axis]) -> CombinedElements:
    """Return the element of ``x`` at these axes; when compiling, TIL312 if a size differs."""
    sizes = dims_of(x)
    constraints = (c for axis, size in zip(axes, sizes, strict=True) for c in axis.within(size))
    element: CombinedElements = x[tuple(axis.place for axis in axes)]
    return element.given(*constraints)


def written(
    aggregation: Aggregation, value: CombinedElements, axes: Sequence[Axis], *, like: Sequence[Operand | None] = ()
) -> Tensor:
    """Return the aggregate of ``value`` at these axes, in the dtype to which the operands ``like`` are promoted."""
    places = [place for axis in axes for place in axis.places]
    sizes = [size for axis in axes for size in axis.sizes]
    result = narrowed(aggregate(aggregation, value, places, sizes), *like)
    return result if len(places) == len(axes) else call("reshape", result, *(axis.size for axis in axes))


@attrs.frozen
class Layout:
    """The letters of a tensor's axes in order, with one ``x`` for each spatial axis."""

    letters: str

    @property
    def space(self) -> int:
        """The number of spatial axes."""
        return self.letters.count(SPACE)

    def axes(self, letter: str) -> tuple[int, ...]:
        """Return the axes with this letter."""
        return tuple(axis for axis, name in enumerate(self.letters) if name == letter)

    def sizes(self, tensor: Tensor, letter: str) -> tuple[Dim, ...]:
        """Return the sizes of the axes with this letter, of a tensor in this layout."""
        dims = dims_of(tensor)
        return tuple(dims[axis] for axis in self.axes(letter))

    def arranged(self, parts: Mapping[str, Sequence[T]]) -> tuple[T, ...]:
        """Return the entries for each letter, in the order of the letters."""
        order = dict.fromkeys(self.letters)
        return tuple(part for letter in order for part in parts[letter])


def layout_of(tensor: Tensor, layout: str, letters: str, needed: str) -> Layout:
    """Return the layout of a tensor whose axes have some of ``letters``, at least those ``needed``.

    Raises:
        TileError: TIL217, the layout has other letters; TIL305, the tensor has too few axes for it.

    """
    if len(set(layout)) != len(layout) or not set(needed) <= set(layout) <= set(letters):
        raise mistaken(f"a layout has letters of {letters!r}, each at most once, among them {needed!r}; not {layout!r}")
    rank = rank_of(tensor)
    if rank < len(layout):
        raise mistake("TIL305", f"layout {layout!r} needs {len(layout)} axes or more, but the tensor has {rank}")
    return Layout(layout.replace(SPACE, SPACE * (rank - len(layout) + 1)))


def beside(vector: Tensor, layout: Layout) -> Tensor:
    """Return a vector with an element for each channel in a shape that broadcasts with tensors of this layout."""
    if rank_of(vector) != 1:
        raise mistake("TIL305", f"what is given for each channel has rank 1, not {rank_of(vector)}")
    behind = len(layout.letters) - 1 - layout.axes("c")[0]
    return call("reshape", vector, *dims_of(vector), *(1,) * behind) if behind else vector
