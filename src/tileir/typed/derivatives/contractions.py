"""Derivatives of contractions: sums over the same index points, in which a result and an operand change places."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from tileir.core.dtype import DType
from tileir.core.ops import Aggregation, Combination
from tileir.poly.coverage import covers
from tileir.typed.derivatives import extrema, products
from tileir.typed.derivatives.sites import ContractionSite
from tileir.typed.derivatives.summation import Reading, aggregate, domain_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from tileir.typed.derivatives.algebra import Algebra
    from tileir.typed.derivatives.sweep import Sweep
    from tileir.typed.inference.values import Tensor
    from tileir.typed.ir import Contraction


def pullback(sweep: Sweep, operation: Contraction, cotangent: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Yield a contribution for each operand that is wanted; the shape of ``cotangent`` broadcasts to the result's.

    A tensor that is read twice gets two contributions.
    """
    site = ContractionSite.of(sweep, operation)
    wanted = [k for k, access in enumerate(operation.inputs) if sweep.wanted(access.tensor)]
    for position, contribution in _contributions(site, cotangent, wanted):
        yield operation.inputs[position].tensor, contribution
    if operation.default is not None and sweep.wanted(operation.default):
        sweep.toward(operation.default)
        rest = unwritten(site, cotangent)
        if rest is not None:
            yield operation.default, rest


def _contributions(site: ContractionSite, cotangent: Tensor, wanted: Collection[int]) -> Iterator[tuple[int, Tensor]]:
    if not wanted:
        return
    match site.operation.aggregation:
        case Aggregation.SUM | Aggregation.ASSIGN:
            yield from site.linear(cotangent, wanted)
        case Aggregation.MAX | Aggregation.MIN:
            yield from extrema.contributions(site, cotangent, wanted)
        case Aggregation.PROD:
            yield from products.contributions(site, cotangent, wanted)
        case _:
            assert_never(site.operation.aggregation)


def pushforward(
    algebra: Algebra, operation: Contraction, tangents: Sequence[Tensor | None], default: Tensor | None
) -> Tensor | None:
    """Return the tangent of a contraction, for those of its operands and of its default; None stands for 0."""
    site = ContractionSite.of(algebra, operation)
    found = _tangent(site, tangents) if any(t is not None for t in tangents) else None
    rest = None if default is None else unwritten(site, default)
    if found is None or rest is None:
        return rest if found is None else found
    return algebra.add(algebra.emission.cast(found, rest.dtype), rest)


def _tangent(site: ContractionSite, tangents: Sequence[Tensor | None]) -> Tensor | None:
    match site.operation.aggregation:
        case Aggregation.SUM | Aggregation.ASSIGN:
            return site.pushed(tangents)
        case Aggregation.MAX | Aggregation.MIN:
            return extrema.pushed(site, tangents)
        case Aggregation.PROD:
            return products.pushed(site, tangents)
        case _:
            assert_never(site.operation.aggregation)


def unwritten(site: ContractionSite, tensor: Tensor) -> Tensor | None:
    """Return ``tensor`` where no point of the contraction writes, and 0 elsewhere; None where that is 0 everywhere."""
    domain = domain_of(site.operation, [operand.shape for operand in site.operands])
    if domain is None:
        return tensor
    if covers(domain, site.operation.shape):
        return None
    true = site.algebra.emission.constant(value=True, dtype=DType.BOOL)
    marks = aggregate(site.algebra, site.points, site.result, [Reading(true, ())], Combination.NONE, Aggregation.MAX)
    return tensor if marks is None else site.algebra.choose(marks, site.algebra.constant(0.0, tensor), tensor)
