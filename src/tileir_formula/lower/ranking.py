"""Ranks within windows, such as medians, by sorting networks over shifted pictures.

Columns of windows are sorted first, which neighbouring windows share, then what is in one place of all of them; an
element that this shows to lie too low or too high takes part no longer. What is left is sorted, and whatever leads to
another rank than the wanted one is never computed.

Sources: Batcher, "Sorting networks and their applications", 1968; Adams, "Fast median filters using separable sorting
networks", 2021.
"""

from __future__ import annotations

from collections.abc import Iterator

from tileir.ops.shared.foundation import Aggregation, Tensor, aggregate, call, dims_of, indices_of


def ranked(padded: Tensor, rows: int, columns: int, percent: int) -> Tensor:
    """Return for each pixel the element of one rank within its window.

    Args:
        padded: A picture with a border that is as wide as windows reach.
        rows: How many rows windows have, an odd number.
        columns: How many columns they have, an odd number.
        percent: The rank: 0 for the least element, 50 for the median, 100 for the greatest. Between elements, the
            nearest one counts.

    """
    rank = (percent * (rows * columns - 1) + 50) // 100
    lines = _sorted([_shifted(padded, 0, row, rows) for row in range(rows)])
    shifted = [[_shifted(line, 1, column, columns) for column in range(columns)] for line in lines]
    table = [_sorted(places) for places in shifted]
    # Both rows and columns of the table are sorted now, so each element has a rectangle of others on each side of it.
    below, left = 0, []
    for row, line in enumerate(table):
        for column, element in enumerate(line):
            if (rows - row) * (columns - column) > rows * columns - rank:
                below += 1  # so many are not less that this one is left out from below
            elif (row + 1) * (column + 1) <= rank + 1:
                left.append(element)
    return _sorted(left)[rank - below]


def _shifted(padded: Tensor, axis: int, shift: int, length: int) -> Tensor:
    """Return a picture that begins further on along an axis, and is shorter by what windows reach beyond it."""
    indices, sizes = indices_of(padded), list(dims_of(padded))
    sizes[axis] = sizes[axis] - (length - 1)
    moved = [index + shift if place == axis else index for place, index in enumerate(indices)]
    return aggregate(Aggregation.ASSIGN, padded[tuple(moved)], indices, sizes)


def _sorted(pictures: list[Tensor]) -> list[Tensor]:
    """Return pictures whose elements at each place are in ascending order."""
    result = list(pictures)
    for low, high in _network(len(result)):
        first, second = result[low], result[high]
        result[low], result[high] = call("min", first, second), call("max", first, second)
    return result


def _network(count: int) -> Iterator[tuple[int, int]]:
    """Yield the pairs that Batcher's odd-even merge sort compares and exchanges."""
    merged = 1
    while merged < count:
        distance = merged
        while distance >= 1:
            for start in range(distance % merged, count - distance, 2 * distance):
                for low in range(start, min(start + distance, count - distance)):
                    if low // (2 * merged) == (low + distance) // (2 * merged):
                        yield low, low + distance
            distance //= 2
        merged *= 2
