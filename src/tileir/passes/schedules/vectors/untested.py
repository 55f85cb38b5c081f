"""The inside of an elementwise kernel that tests for the edge of a row, apart from its ends.

Such kernels copy rows into longer ones, or every other element of a row. Where no test fails, lanes may run along the
row; what is left at both ends is a few elements of each row, which keep their tests.
"""

from __future__ import annotations

import attrs

from tileir.passes.kernels import schedule as sch
from tileir.passes.regions.inside import span_inside
from tileir.schedule.nest import Nest


def untested(nest: Nest, index: str, least: int) -> tuple[Nest, ...]:
    """Return a nest of one segment in parts along an index: first the one in which no test on it fails, then the ends.

    Nothing where fewer than ``least`` values of the index, or less than half of them, are inside.
    """
    (segment,) = nest.segments
    loop = next(each for each in nest.indices if each.name == index)
    low, high = span_inside(nest, segment, loop)
    if high - low < max(least, loop.range // 2):
        return ()
    inside = sch.part_of(nest, index, low, high - low)
    (part,) = inside.segments
    tests = tuple(test for test in part.constraints if not test.coefficient(index))
    inside = attrs.evolve(inside, segments=(attrs.evolve(part, constraints=tests),))
    ends = ((0, low), (high, loop.range - high))
    return (inside, *(sch.part_of(nest, index, start, count) for start, count in ends if count))
