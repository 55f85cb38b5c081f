"""Running maxima and minima: sums over the runs of equal results, instead of over triangles.

``O[i] = >(A[k])`` over ``k <= i`` never falls, so that results that equal an element stand next to each other, and end
with the element that they equal or after it. Sums over runs are found in steps: after each, an element has the
sum over as many times more elements of its run (segmented scans, after Hillis and Steele, "Data parallel algorithms",
1986). That is about n·log n work where the rule for all maxima takes n².
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from tileir.core.dtype import accumulator
from tileir.core.ops import Aggregation, Combination, Op
from tileir.poly.affine import Affine
from tileir.typed.derivatives.summation import is_bare
from tileir.typed.ir import Access, Constraint, Contraction
from tileir.typed.rules import contraction_types

if TYPE_CHECKING:
    from typing import Self

    from tileir.typed.derivatives.sites import ContractionSite
    from tileir.typed.values import Tensor

_LEAST: Final = 64
"""Shorter runs are not worth several passes over all elements."""

_RADIX: Final = 8
"""So many times longer are the parts of runs that are summed after each step."""


@attrs.frozen
class Running:
    """A maximum, minimum or product of all elements up to each one along an axis.

    Attributes:
        site: The contraction.
        axis: Along which it runs.
        direction: 1 where results include the elements before them, -1 where they include those after them.

    """

    site: ContractionSite
    axis: int
    direction: int

    @classmethod
    def of(cls, site: ContractionSite) -> Self | None:
        """Return how an aggregate of one operand runs; None where it does not, or is short."""
        if site.operation.combination is not Combination.NONE:
            return None
        operand, result = site.place(0), site.result
        differing = [k for k, (a, b) in enumerate(zip(operand.axes, result.axes, strict=False)) if a != b]
        if operand.shape != result.shape or len(differing) != 1 or any(not is_bare(p) for p in result.indices):
            return None
        axis = differing[0]
        if result.shape[axis] < _LEAST or len({p.terms[0][0] for p in result.indices}) < len(result.indices):
            return None
        direction = _direction(site, axis)
        return None if direction is None else cls(site, axis, direction)

    def selected(self, cotangent: Tensor, *, even: bool) -> Tensor:
        """Return what arrives at the operand."""
        algebra, emission = self.site.algebra, self.site.algebra.emission
        emission.stem = f"d{self.site.operands[0].name}"
        share = emission.cast(cotangent, accumulator(cotangent.dtype))
        chosen = self._chosen()
        if even:
            share = algebra.div(share, self._ties(chosen, share))
        return algebra.choose(chosen, self._sums(share, self.direction), algebra.constant(0.0, share))

    def tangent(self, tangent: Tensor, *, even: bool) -> Tensor:
        """Return how the result moves with the operand."""
        algebra = self.site.algebra
        wide = algebra.emission.cast(tangent, accumulator(tangent.dtype))
        chosen = self._chosen()
        total = self._sums(algebra.choose(chosen, wide, algebra.constant(0.0, wide)), -self.direction)
        return algebra.div(total, self._ties(chosen, total)) if even else total

    def _chosen(self) -> Tensor:
        """Return for each element whether it is the result at its own place."""
        return self.site.algebra.compute(Op.CMP_EQ, self.site.value(0), self.site.outcome().tensor)

    def _ties(self, chosen: Tensor, like: Tensor) -> Tensor:
        """Return for each result how many elements equal it, but 1 where it is NaN."""
        algebra = self.site.algebra
        one, zero = algebra.constant(1.0, like), algebra.constant(0.0, like)
        return algebra.compute(Op.MAX, self._sums(algebra.choose(chosen, one, zero), -self.direction), one)

    def _sums(self, values: Tensor, direction: int) -> Tensor:
        """Return for each element the sum of its run of equal results from there on, in this direction."""
        algebra, shape = self.site.algebra, self.site.operation.shape
        total, step = algebra.expanded(values, shape), 1
        while step < shape[self.axis]:
            terms = min(_RADIX, -(-shape[self.axis] // step))
            total = self._step(total, direction * step, terms)
            step *= terms
        return total

    def _step(self, values: Tensor, distance: int, terms: int) -> Tensor:
        """Add to each element those at multiples of ``distance`` whose results equal its own."""
        emission, keys = self.site.algebra.emission, self.site.outcome().tensor
        here = tuple(Affine.index(f"x{axis}") for axis in range(len(values.shape)))
        term = Affine.index("t")
        there = tuple(index + term * distance if k == self.axis else index for k, index in enumerate(here))
        types = contraction_types(Aggregation.SUM, Combination.COND, [keys.dtype, keys.dtype, values.dtype])
        return emission.add(
            Contraction(
                emission.fresh(),
                here,
                (Access(keys.name, there), Access(keys.name, here), Access(values.name, there)),
                Aggregation.SUM,
                Combination.COND,
                types.operand,
                types.accumulator,
                types.result,
                values.shape,
                (Constraint(term, terms),),
                span=self.site.operation.span,
            )
        )


def _direction(site: ContractionSite, axis: int) -> int | None:
    """Return 1 where the points are those with ``read <= written`` along ``axis``, -1 for the opposite, else None."""
    (written,) = site.result.indices[axis].indices
    read, size = site.place(0).axes[axis]
    known = {name for p in site.result.indices for name in p.indices}
    unknown = site.points.names - known
    if len(unknown) != 1 or not set(read.indices) <= {written, *unknown}:
        return None
    (name,) = unknown
    factor = read.coefficient(name)
    if factor not in (1, -1) or not read.is_integral:
        return None
    # In coordinates i, which is written, and a, which is read.
    column, row = Affine.index("a"), Affine.index(written)
    moved = {name: (column - read.substitute({name: 0})) * factor}
    along = [axis for axis in site.points.axes if set(axis[0].indices) & {written, name}]
    forms = [
        form
        for polynomial, bound in (*along, *((c.polynomial, c.bound) for c in site.points.constraints))
        for form in (polynomial.substitute(moved), bound - 1 - polynomial.substitute(moved))
    ]
    for direction in (1, -1):
        corners = [{"a": 0, written: 0}, {"a": size - 1, written: size - 1}]
        corners.append({"a": 0, written: size - 1} if direction == 1 else {"a": size - 1, written: 0})
        inside = all(set(f.indices) <= {"a", written} and f.evaluate(c) >= 0 for f in forms for c in corners)
        if inside and (row - column) * direction in forms:
            return direction
    return None
