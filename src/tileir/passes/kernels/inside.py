"""Where along an index no constraint ever fails, and loops cut there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from tileir.passes.kernels import schedule as sch
from tileir.passes.kernels.nest import Nest, Segment, leaf

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tileir.core.names import NameScope
    from tileir.poly.affine import Affine
    from tileir.stripe import ir as stripe


def inside(index: stripe.Index, tests: Sequence[Affine], ranges: Mapping[str, int]) -> tuple[int, int]:
    """Return the values of an index, from the first to beyond the last, for which no test on it fails, ever.

    ``ranges`` holds the number of values of all other indices of the tests.
    """
    low, high = 0, index.range
    for test in tests:
        step = int(test.coefficient(index.name))
        if step == 0:
            continue
        least = int(test.offset)
        for name, coefficient in test.terms:
            if name != index.name:
                least += min(0, int(coefficient) * (ranges[name] - 1))
        # step * value + least >= 0
        if step > 0:
            low = max(low, -(least // step))
        else:
            high = min(high, least // -step + 1)
    return (low, high) if low < high else (0, 0)


def span_inside(nest: Nest, segment: Segment, loop: stripe.Index) -> tuple[int, int]:
    """Return the values of a loop of a segment for which no constraint on it ever fails."""
    ranges = {i.name: i.range for i in (*nest.indices, *segment.loops)}
    return inside(loop, segment.constraints, ranges)


def cut(nest: Nest, segment: Segment, loop: stripe.Index, names: NameScope) -> Iterator[Segment]:
    """Yield a segment for the values of a loop inside, without tests on it, and one for those at either end."""
    low, high = span_inside(nest, segment, loop)
    for start, end in ((low, high), (0, low), (high, loop.range)):
        if start < end:
            part = attrs.evolve(loop, name=names.fresh(loop.name), range=end - start)
            node = leaf(segment, {loop.name: sch.part(part) + start}, ())
            tests = tuple(c for c in segment.constraints if not c.coefficient(loop.name))
            tests = tests if (start, end) == (low, high) else node.constraints
            loops = sch.present(part if i is loop else i for i in segment.loops)
            yield Segment(loops, tests, node.uses, node.statements, segment.tags)
