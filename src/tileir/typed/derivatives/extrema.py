"""Derivatives of maxima and minima: what arrives goes to the elements that equal the result.

Ties get all of it each, or even shares. Where the result is NaN nothing equals it, and nobody gets anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.core.dtype import accumulator
from tileir.core.ops import Aggregation, Combination
from tileir.typed.derivatives.summation import aggregate, incoming

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tileir.typed.derivatives.sites import ContractionSite
    from tileir.typed.values import Tensor


def contributions(site: ContractionSite, cotangent: Tensor, wanted: Collection[int]) -> Iterator[tuple[int, Tensor]]:
    """Yield contributions to operands of a contraction that takes the maximum or minimum.

    Combined values are written out, and what arrives at each is handed on by the rules of sums. Ties are always even
    where several points take the same elements to the same result: those do not tie with themselves.
    """
    even = site.algebra.even_ties or not site.is_distinct
    if site.operation.combination is Combination.NONE:
        found = _selected(site, cotangent, even=even)
        if found is not None:
            yield 0, found
        return
    parts = site.split(wide=False)
    if parts is not None:
        combined, extremum = parts
        arriving = _selected(extremum, cotangent, even=even)
        if arriving is not None:
            yield from combined.linear(arriving, wanted)


def _selected(site: ContractionSite, cotangent: Tensor, *, even: bool) -> Tensor | None:
    """Return what arrives at the one operand."""
    share = divided(site, cotangent) if even else cotangent
    readings = [site.reading(0), site.outcome(), incoming(share, site.result)]
    return site.into(0, readings, Combination.COND)


def divided(site: ContractionSite, tensor: Tensor) -> Tensor:
    """Return ``tensor``, which goes with the result, divided by the number of points that tie."""
    ties = aggregate(
        site.algebra, site.points, site.result, [site.reading(0), site.outcome()], Combination.EQ, Aggregation.SUM
    )
    if ties is None:
        return tensor
    emission, dtype = site.algebra.emission, accumulator(tensor.dtype)
    return site.algebra.div(emission.cast(tensor, dtype), emission.cast(ties, dtype))
