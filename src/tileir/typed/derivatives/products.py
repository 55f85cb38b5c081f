"""Derivatives of products, exact to any order where factors are zero.

The derivative of a product by one factor is the product of all others: of those before it times those after it, each of
which is a product again, so that nothing is divided. Along one axis both are running products, which take linear time;
the derivatives of running products are linear recurrences.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from tileir.core import Aggregation, Combination, NameScope
from tileir.poly.affine import Affine, total
from tileir.typed.derivatives import recurrences
from tileir.typed.derivatives.extrema import RunningExtremum
from tileir.typed.derivatives.summation import TensorAccess, aggregate, incoming, spread
from tileir.typed.ir import Access, Constraint, Contraction

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from tileir.typed.derivatives.algebra import Algebra
    from tileir.typed.derivatives.contractions import ContractionSite
    from tileir.typed.inference.values import Tensor


def contributions(site: ContractionSite, cotangent: Tensor, wanted: Collection[int]) -> Iterator[tuple[int, Tensor]]:
    """Yield contributions to operands of a contraction that multiplies.

    Factors are written out, and their cotangents are passed on by the rules of sums.
    """
    found = _running(site)
    if found is not None:
        combined, running = found
        arriving = recurrences.selected(running, cotangent)
        yield from ((0, arriving),) if combined is None else combined.linear(arriving, wanted)
        return
    parts = site.split(wide=True, fill=1.0)
    if parts is not None:
        combined, product = parts
        each = product.into(0, [incoming(cotangent, product.result), _others(product)], Combination.MUL)
        if each is not None:
            yield from combined.linear(each, wanted)


def pushed(site: ContractionSite, tangents: Sequence[Tensor | None]) -> Tensor | None:
    """Return the tangent of the result: the transpose of what :func:`contributions` does."""
    found = _running(site)
    if found is not None:
        combined, running = found
        moved = tangents[0] if combined is None else combined.pushed(tangents)
        return None if moved is None else recurrences.tangent(running, moved)
    parts = site.split(wide=True, fill=1.0)
    if parts is None:
        return None
    combined, product = parts
    moved = combined.pushed(tangents)
    if moved is None:
        return None
    readings = [incoming(moved, product.place(0)), _others(product)]
    return aggregate(product.algebra, product.points, product.result, readings, Combination.MUL)


def _running(site: ContractionSite) -> tuple[ContractionSite | None, RunningExtremum] | None:
    """Return the site that combines the factors, if any, and their running product; None if it does not run."""
    combined: ContractionSite | None = None
    product = site
    if site.operation.combination is not Combination.NONE:
        parts = site.split(wide=True)
        if parts is None:
            return None
        combined, product = parts
    running = RunningExtremum.of(product)
    return None if running is None else (combined, running)


def _others(product: ContractionSite) -> TensorAccess:
    """Return for each factor the product of the others that go to the same element of the result.

    By :meth:`ContractionSite.split`, the axes of the factors that the result has come first. The others become one
    axis, unless the result adds indices.
    """
    algebra, factors = product.algebra, product.operands[0]
    algebra.emission.stem = f"{product.operation.name}_others"
    indices, output = product.operation.inputs[0].indices, product.operation.output
    kept = [p for p in indices if p in output]
    if len(kept) == len(indices):
        return TensorAccess(algebra.constant(1.0, factors), ())
    sums = [p for p in output if p not in indices and not p.is_constant]
    shape = factors.shape
    if sums:
        return TensorAccess(_exclusive(algebra, factors, indices, len(kept), sums), indices)
    flat = algebra.reshaped(factors, (*shape[: len(kept)], prod(shape[len(kept) :])))
    found = _exclusive(algebra, flat, indices[: len(kept) + 1], len(kept), ())
    return TensorAccess(algebra.reshaped(found, shape), indices)


def _exclusive(
    algebra: Algebra, factors: Tensor, indices: Sequence[Affine], kept: int, sums: Sequence[Affine]
) -> Tensor:
    """Return for each factor the product of those before it and those after it.

    Args:
        algebra: The destination of operations.
        factors: The factors.
        indices: An index for each of their axes.
        kept: The number of leading axes along which factors are not multiplied.
        sums: Further polynomials that must be equal for factors of one product.
    """
    names = NameScope.of(p.indices[0] for p in indices)
    others = {p.indices[0]: names.fresh(p.indices[0]) for p in indices[kept:]}
    sizes = factors.shape[kept:]
    strides = [prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    place = total(p * stride for p, stride in zip(indices[kept:], strides, strict=True))
    same = tuple(Constraint(p.rename(others) - p, 1) for p in sums)
    ones = spread(algebra.emission, algebra.constant(1.0, factors), factors.shape)
    halves = [
        algebra.emission.add(
            Contraction(
                algebra.emission.fresh(),
                tuple(indices),
                (Access(factors.name, tuple(p.rename(others) for p in indices)),),
                Aggregation.PROD,
                Combination.NONE,
                factors.dtype,
                factors.dtype,
                factors.dtype,
                factors.shape,
                (*same, Constraint(distance - 1, prod(sizes))),
                ones.name,
            )
        )
        for distance in (place - place.rename(others), place.rename(others) - place)
    ]
    return algebra.mul(*halves)
