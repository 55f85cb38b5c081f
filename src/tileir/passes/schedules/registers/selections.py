"""Points at which the sums of a reduction matter: a test of coordinates may select results that ignore them.

Scores under a mask are an example: ``cond(t <= s, sum, -inf)`` needs no sum above the diagonal. Tiles in which the test
holds nowhere skip their reductions, and store the other value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tileir.core.ops import Op
from tileir.passes.rewrites.affine_places import coordinate_tests
from tileir.poly.affine import Affine
from tileir.schedule.nest import Nest, Segment
from tileir.stripe.ir import Index, Intrinsic, Load, Store, scalar_inputs, scalar_output

_NOTHING: Final[frozenset[Affine]] = frozenset()


def selecting(nest: Nest) -> dict[str, frozenset[Affine]]:
    """Return, for each accumulator, affines of outer indices that are >= 0 wherever its value matters."""
    result: dict[str, frozenset[Affine]] = {}
    for allocation in nest.allocations:
        found: list[frozenset[Affine]] = []
        for segment in nest.segments:
            reading = [u for u in segment.uses if u.root == allocation.name and u.direction.reads and not u.merges]
            if segment.loops:
                found.extend(_NOTHING for _ in reading)
            elif reading:
                found.append(_demanded(segment, {use.name for use in reading}, {i.name: i.range for i in nest.indices}))
        if found:
            result[allocation.name] = frozenset.intersection(*found)
    return result


def _demanded(segment: Segment, views: set[str], ranges: Mapping[str, int]) -> frozenset[Affine]:
    """Return affines that are >= 0 at all points where a result depends on loads of a segment from ``views``."""
    tests = coordinate_tests(segment.statements, ranges)
    needs: dict[str, frozenset[Affine]] = {}
    loads: list[frozenset[Affine]] = []

    def note(scalar: str, need: frozenset[Affine]) -> None:
        needs[scalar] = needs[scalar] & need if scalar in needs else need

    for statement in reversed(segment.statements):
        into = scalar_output(statement)
        if into is not None and into not in needs:
            continue  # nothing uses it
        need = _NOTHING if into is None else needs[into]
        if isinstance(statement, Load) and statement.source in views:
            loads.append(need)
        if isinstance(statement, Intrinsic) and statement.op is Op.COND:
            test, chosen, other = statement.inputs
            holds, fails = tests.get(test, ((), ()))
            note(test, need)
            note(chosen, need.union(holds))
            note(other, need.union(fails))
            continue
        for scalar in scalar_inputs(statement):
            note(scalar, need)
    merged = any(isinstance(s, Store) and s.into in views for s in segment.statements)
    return frozenset() if merged or not loads else frozenset.intersection(*loads)


def tests_of_tile(tests: Sequence[Affine], values: Mapping[str, Affine], inner: Sequence[Index]) -> tuple[Affine, ...]:
    """Return affines that are >= 0 for the tiles in which each of some tests holds at some point.

    Args:
        tests: Affines of the indices of a nest.
        values: These indices in terms of the loops.
        inner: The loops inside of a tile.
    """
    result = []
    for test in tests:
        place = test.substitute(values)
        result.append(place.substitute({i.name: i.range - 1 if place.coefficient(i.name) > 0 else 0 for i in inner}))
    return tuple(result)
