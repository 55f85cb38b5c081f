"""Derivatives of maxima and minima: what arrives goes to the elements that equal the result.

Ties get all of it each, or even shares. Where the result is NaN nothing equals it, and nobody gets anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.core.dtype import accumulator
from tileir.core.ops import Combination, Op
from tileir.typed.derivatives.runs import Running
from tileir.typed.derivatives.summation import aggregate, incoming

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from tileir.typed.derivatives.sites import ContractionSite
    from tileir.typed.inference.values import Tensor


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
    running = Running.of(site)
    if running is not None:
        return running.selected(cotangent, even=even)
    share = divided(site, cotangent) if even else cotangent
    readings = [site.reading(0), site.outcome(), incoming(share, site.result)]
    return site.into(0, readings, Combination.COND)


def divided(site: ContractionSite, tensor: Tensor) -> Tensor:
    """Return ``tensor``, which goes with the result, divided by the number of points that tie."""
    readings = [site.reading(0), site.outcome()]
    ties = aggregate(site.algebra, site.points, site.result, readings, Combination.EQ)
    if ties is None:
        return tensor
    emission, dtype = site.algebra.emission, accumulator(tensor.dtype)
    ties = site.algebra.compute(Op.MAX, ties, emission.constant(1, ties.dtype))  # NaN has no ties at all
    return site.algebra.div(emission.cast(tensor, dtype), emission.cast(ties, dtype))


def pushed(site: ContractionSite, tangents: Sequence[Tensor | None]) -> Tensor | None:
    """Return the tangent of the result: the transpose of what :func:`contributions` does."""
    even = site.algebra.even_ties or not site.is_distinct
    if site.operation.combination is Combination.NONE:
        return _tangent(site, tangents[0], even=even)
    parts = site.split(wide=False)
    if parts is None:
        return None
    combined, extremum = parts
    return _tangent(extremum, combined.pushed(tangents), even=even)


def _tangent(site: ContractionSite, tangent: Tensor | None, *, even: bool) -> Tensor | None:
    if tangent is None:
        return None
    running = Running.of(site)
    if running is not None:
        return running.tangent(tangent, even=even)
    readings = [site.reading(0), site.outcome(), incoming(tangent, site.place(0))]
    found = aggregate(site.algebra, site.points, site.result, readings, Combination.COND)
    return divided(site, found) if even and found is not None else found
