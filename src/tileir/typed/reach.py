"""How far around the place of an element a function of pictures looks, where it looks alike at all places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from tileir.typed.footprint import Box, Steps, footprint
from tileir.typed.ir import Coordinate, Scan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileir.typed.ir import Function

Pair: TypeAlias = tuple[int, int]

_SPARE: Final = 16
"""What reaches over all rows or columns but so many needs all of them."""

_SHIFTS: Final = ((1, 2), (7, 5))
"""By which rows and columns places are compared that have to look alike: no period divides all of either's."""


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
    here, spans = _around(function, pictures, middle)
    for shift in _SHIFTS:
        there, spans_there = _around(function, pictures, (middle[0] + shift[0], middle[1] + shift[1]))
        if spans_there != spans or not _alike(here, there, shift, pictures):
            return None
    for end in ((0, 0), (rows - 1, columns - 1)):
        spans = spans | _around(function, pictures, end)[1]
    above, left = (max(0, -min((box[axis][0] for box in spans), default=0)) for axis in range(2))
    below, right = (max(0, max((box[axis][1] for box in spans), default=1) - 1) for axis in range(2))
    whole = above + below + _SPARE > rows or left + right + _SPARE > columns
    return None if whole else Reach(above, below, left, right)


def _knows_places(function: Function, size: int) -> bool:
    """Return whether something is computed from rows or columns of pictures: coordinates along a long axis."""
    for operation in function.operations:
        if isinstance(operation, Coordinate) and operation.shape[operation.axis] >= size:
            return True
        if isinstance(operation, Scan) and _knows_places(operation.body, size):
            return True
    return False


def _around(function: Function, pictures: Sequence[str], place: Pair) -> tuple[Steps, frozenset[Box]]:
    """Return what all operations read for all channels of a place, and the rows and columns that are read around it."""
    row, column = place
    shapes = {each.name: each.shape for each in function.operations}
    steps: Steps = []
    spans: set[Box] = set()
    for output in function.outputs:
        box = ((row, row + 1), (column, column + 1), (0, shapes[output][2]))
        for name, boxes in footprint(function, output, box, steps).items():
            if name in pictures:
                spans.update(
                    tuple((low - start, high - start) for (low, high), start in zip(each, place, strict=False))
                    for each in boxes
                )
    return steps, frozenset(spans)


def _alike(here: Steps, there: Steps, shift: Pair, pictures: Sequence[str]) -> bool:
    """Return whether each operation reads the same, moved by a shift, or what does not move at all.

    Steps are compared, not what they read in the end: what depends on the place would be lost among what lies around.
    """
    if [name for name, _ in here] != [name for name, _ in there]:
        return False
    for (name, box), (_, moved) in zip(here, there, strict=True):
        by = [now[0] - before[0] for before, now in zip(box, moved, strict=True)]
        if by != [now[1] - before[1] for before, now in zip(box, moved, strict=True)]:
            return False
        if not set(by) <= {0, *shift} or (name in pictures and tuple(by[:2]) != shift):
            return False
    return True
