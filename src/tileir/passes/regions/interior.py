"""Interior of an index, where no constraint fails, and splits of kernels there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tileir.core import NameScope, attrs
from tileir.passes.analysis.rows import Rows, rows_written
from tileir.passes.rewrites.affine_places import computed_tests, decided
from tileir.passes.rewrites.canonicalise import simplified
from tileir.poly.affine import Affine
from tileir.schedule import Nest, Segment, reindexed
from tileir.stripe import ir as stripe


def inside(index: stripe.Index, tests: Sequence[Affine], ranges: Mapping[str, int]) -> tuple[int, int]:
    """Return the values of an index, from the first to beyond the last, for which no test on it ever fails.

    ``ranges`` holds the number of values of all other indices of the tests.
    """
    low, high = 0, index.range
    for test in tests:
        step = int(test.coefficient(index.name))
        if step == 0:
            continue
        others = (min(0, int(each) * (ranges[name] - 1)) for name, each in test.terms if name != index.name)
        least = int(test.offset) + sum(others)
        # step * value + least >= 0
        if step > 0:
            low = max(low, -(least // step))
        else:
            high = min(high, least // -step + 1)
    return (low, high) if low < high else (0, 0)


def inside_evenly(index: stripe.Index, tests: Sequence[Affine], ranges: Mapping[str, int]) -> tuple[int, int]:
    """Return :func:`inside` trimmed so that equally many values are outside at both ends, or at none."""
    low, high = inside(index, tests, ranges)
    ends = max(low, index.range - high)
    low, high = (ends if low else 0), (index.range - ends if high < index.range else high)
    return (low, high) if low < high else (0, 0)


def divided(kernel: stripe.Block, index: stripe.Index, low: int, high: int) -> tuple[stripe.Block, stripe.Block]:
    """Return a kernel for the values of an index from ``low`` to before ``high``, and one for the others.

    The second has an index for the side, and one for the place there; if one end has fewer values than the other, it
    also takes interior values until both have equally many.
    """
    name, size = index.name, index.range
    names = NameScope.of(i.name for i in kernel.indices)
    ends = max(low, size - high)
    side = stripe.Index(names.fresh(f"{name}_side"), 2 if low and high < size else 1)
    place = stripe.Index(names.fresh(f"{name}_edge"), ends)
    outside = Affine.of({side.name: size - ends, place.name: 1}, 0 if low else high)
    within = attrs.evolve(index, range=high - low)
    return _over(kernel, index, (within,), Affine.index(name) + low), _over(kernel, index, (side, place), outside)


def affine_rows(kernel: stripe.Block, strides: Mapping[str, int]) -> tuple[Rows | None, tuple[stripe.Block, ...]]:
    """Return the rows of a kernel in which places do not depend on the row, and kernels for the others.

    Kernels that split off border columns go over all rows.
    """
    rows = rows_written(kernel, strides)
    if rows is None:
        return None, (kernel,)
    low, high = inside(rows.index, computed_tests(kernel), kernel.ranges)
    if (low, high) == (0, rows.index.range):
        return rows, ()
    if low >= high:
        return None, (kernel,)
    parts = divided(kernel, rows.index, low, high)
    within, outside = (simplified(decided(part)) for part in parts)
    left = () if outside is None else (outside,)
    found = None if within is None else rows_written(within, strides)
    return (found, left) if found is not None else (None, (kernel,))


def _over(kernel: stripe.Block, index: stripe.Index, new: tuple[stripe.Index, ...], value: Affine) -> stripe.Block:
    indices = tuple(i for old in kernel.indices for i in (new if old is index else (old,)))
    return reindexed(kernel, indices, {index.name: value})


def span_inside(nest: Nest, segment: Segment, loop: stripe.Index) -> tuple[int, int]:
    """Return the values of a segment's loop for which no constraint on it ever fails."""
    ranges = {i.name: i.range for i in (*nest.indices, *segment.loops)}
    return inside(loop, segment.constraints, ranges)
