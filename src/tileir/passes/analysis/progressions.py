"""Elements that a flat kernel touches where one index, or none, leads along each axis of a tensor: every so many."""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd, prod
from typing import TypeAlias

from tileir.stripe.ir import Refinement

Progressions: TypeAlias = tuple[Refinement, tuple[int, ...]]
"""A view, and how many places along each axis it leads to."""


def counts_of(view: Refinement, ranges: Mapping[str, int]) -> tuple[int, ...] | None:
    """Return how many places along each axis a view of an element leads to; None where these are no progressions."""
    terms = [term for place in view.access for term in place.terms]
    distinct = len({name for name, _ in terms}) == len(terms)
    single = all(len(place.terms) < 2 for place in view.access) and all(step > 0 for _, step in terms)
    if not distinct or not single or view.shape.elements != 1:
        return None
    return tuple(prod(ranges[name] for name in place.indices) for place in view.access)


def are_apart(one: Progressions, other: Progressions) -> bool:
    """Return whether it is certain that no element of a tensor is of both."""
    views = zip(one[0].access, other[0].access, one[1], other[1], strict=True)
    for place, there, count, many in views:
        step, stride = (int(sum(by for _, by in each.terms)) for each in (place, there))
        gap = int(there.offset - place.offset)
        if gap % (gcd(step, stride) or 1) or gap > step * (count - 1) or -gap > stride * (many - 1):
            return True
    return False
