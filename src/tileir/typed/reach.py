"""How far around the place of an element a function of pictures looks, where it looks alike at all places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from tileir.typed.footprint import Box, footprint
from tileir.typed.ir import Coordinate, Scan

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tileir.typed.ir import Function

Pair: TypeAlias = tuple[int, int]

_SPARE: Final = 16
"""What reaches over all rows or columns but so many needs all of them."""

_SHIFTS: Final = ((1, 0), (0, 1), (2, 3), (7, 5))
"""By which rows and columns places are compared that have to look alike."""


@attrs.frozen
class Reach:
    """How many rows are read above and below the place of an element, and how many columns left and right of it."""

    above: int
    below: int
    left: int
    right: int


def reach_of(function: Function, pictures: Sequence[str]) -> Reach | None:
    """Return how far a function looks around the place of each element of its results.

    Args:
        function: Prepared or not.
        pictures: Inputs whose first two axes are rows and columns, as many as those of the results.

    Returns:
        None where results have other sizes, where an element depends on its place, or where it may depend on elements
        anywhere.

    """
    shapes = {each.name: each.shape for each in (*function.inputs, *function.operations)}
    sizes = {shapes[name][:2] for name in (*pictures, *function.outputs)}
    if len(sizes) != 1 or any(len(shapes[name]) != 3 for name in function.outputs):
        return None
    rows, columns = sizes.pop()
    if _knows_places(function, min(rows, columns)):
        return None
    middle = (rows // 2, columns // 2)
    alike = _around(function, pictures, middle)
    if any(_around(function, pictures, _shifted(middle, shift)) != alike for shift in _SHIFTS):
        return None
    ends = ((0, 0), (0, columns - 1), (rows - 1, 0), (rows - 1, columns - 1))
    spans = [box for place in (middle, *ends) for boxes in _around(function, pictures, place).values() for box in boxes]
    above, left = (max(0, -min((box[axis][0] for box in spans), default=0)) for axis in range(2))
    below, right = (max(0, max((box[axis][1] for box in spans), default=1) - 1) for axis in range(2))
    whole = above + below + _SPARE > rows or left + right + _SPARE > columns
    return None if whole else Reach(above, below, left, right)


def _shifted(place: Pair, shift: Pair) -> Pair:
    return place[0] + shift[0], place[1] + shift[1]


def _knows_places(function: Function, size: int) -> bool:
    """Return whether something is computed from rows or columns of pictures: coordinates along a long axis."""
    for operation in function.operations:
        if isinstance(operation, Coordinate) and operation.shape[operation.axis] >= size:
            return True
        if isinstance(operation, Scan) and _knows_places(operation.body, size):
            return True
    return False


def _around(function: Function, pictures: Sequence[str], place: Pair) -> dict[str, tuple[Box, ...]]:
    """Return the rows and columns that are read for all channels of an element, counted from its place."""
    row, column = place
    shapes = {each.name: each.shape for each in function.operations}
    found: dict[str, set[Box]] = {}
    for output in function.outputs:
        box = ((row, row + 1), (column, column + 1), (0, shapes[output][2]))
        for name, boxes in footprint(function, output, box).items():
            if name in pictures:
                found.setdefault(name, set()).update(_relative(boxes, place))
    return {name: tuple(sorted(boxes)) for name, boxes in found.items()}


def _relative(boxes: Sequence[Box], place: Pair) -> Iterator[Box]:
    for box in boxes:
        yield tuple((low - start, high - start) for (low, high), start in zip(box, place, strict=False))
