"""Derivatives of products, exact where factors are zero.

The derivative of a product by one factor is the product of all others. That is the whole product divided by the factor
where no factor is zero; where one is, it is 0 for the others, and for that one the product of the others; where several
are it is 0. So the zeros of each product are counted, and left out of it.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import attrs

from tileir.core.dtype import accumulator
from tileir.core.ops import Aggregation, Combination, Op
from tileir.typed.derivatives.summation import Reading, aggregate, incoming
from tileir.typed.values import Tensor

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from tileir.typed.derivatives.sites import ContractionSite


def contributions(site: ContractionSite, cotangent: Tensor, wanted: Collection[int]) -> Iterator[tuple[int, Tensor]]:
    """Yield contributions to operands of a contraction that multiplies.

    Combined values are written out, and what arrives at each is handed on by the rules of sums.
    """
    if site.operation.combination is Combination.NONE:
        found = _factors(site, cotangent)
        if found is not None:
            yield 0, found
        return
    parts = site.split(wide=True)
    if parts is not None:
        combined, product = parts
        arriving = _factors(product, cotangent)
        if arriving is not None:
            yield from combined.linear(arriving, wanted)


@attrs.frozen
class Factors:
    """What a product consists of, in the dtype in which it is computed.

    Attributes:
        is_zero: For each element of the operand whether it is 0.
        others: The operand with ones in place of zeros.
        without: For each element of the result, the product of factors that are not zero where there are no others,
            else 0.
        but_one: The same where exactly one other factor is zero.

    """

    is_zero: Tensor
    others: Tensor
    without: Tensor
    but_one: Tensor

    @classmethod
    def of(cls, site: ContractionSite) -> Factors | None:
        """Return the factors of a contraction with one operand; None where there is no point."""
        algebra, emission = site.algebra, site.algebra.emission
        emission.stem = f"{site.operation.name}_factors"
        value = site.value(0)
        value = emission.cast(value, accumulator(value.dtype))
        zero, one = (algebra.constant(number, value) for number in (0.0, 1.0))
        indices = site.place(0).indices
        is_zero = algebra.compute(Op.CMP_EQ, value, zero)
        others = algebra.choose(is_zero, one, value)
        zeros = aggregate(
            algebra, site.points, site.result, [Reading(value, indices), Reading(zero, ())], Combination.EQ
        )
        product = aggregate(
            algebra, site.points, site.result, [Reading(others, indices)], Combination.NONE, Aggregation.PROD
        )
        if zeros is None or product is None:
            return None
        without, but_one = (
            algebra.choose(algebra.compute(Op.CMP_EQ, zeros, emission.constant(count, zeros.dtype)), product, zero)
            for count in (0, 1)
        )
        return cls(is_zero, others, without, but_one)


def _factors(site: ContractionSite, cotangent: Tensor) -> Tensor | None:
    """Return what arrives at the one operand."""
    factors = Factors.of(site)
    if factors is None:
        return None
    algebra, emission = site.algebra, site.algebra.emission
    wide = emission.cast(cotangent, factors.others.dtype)
    sums = []
    for product in (factors.without, factors.but_one):
        emission.stem = f"d{site.operation.name}_factors"
        arriving = incoming(algebra.mul(wide, product), site.result)
        sums.append(site.into(0, [arriving], Combination.NONE))
    quotients, alone = sums
    if quotients is None or alone is None:
        return None
    return algebra.choose(factors.is_zero, alone, algebra.div(quotients, factors.others))


def pushed(site: ContractionSite, tangents: Sequence[Tensor | None]) -> Tensor | None:
    """Return the tangent of the result: the transpose of what :func:`contributions` does."""
    if site.operation.combination is Combination.NONE:
        return _tangent(site, tangents[0])
    parts = site.split(wide=True)
    if parts is None:
        return None
    combined, product = parts
    return _tangent(product, combined.pushed(tangents))


def _tangent(site: ContractionSite, tangent: Tensor | None) -> Tensor | None:
    factors = None if tangent is None else Factors.of(site)
    if tangent is None or factors is None:
        return None
    algebra = site.algebra
    wide = algebra.emission.cast(tangent, factors.others.dtype)
    zero = algebra.constant(0.0, wide)
    terms = (
        (algebra.choose(factors.is_zero, zero, algebra.div(wide, factors.others)), factors.without),
        (algebra.choose(factors.is_zero, wide, zero), factors.but_one),
    )
    products = []
    for term, product in terms:
        total = aggregate(algebra, site.points, site.result, [incoming(term, site.place(0))], Combination.NONE)
        if total is not None:
            products.append(algebra.mul(product, total))
    return reduce(algebra.add, products) if products else None
