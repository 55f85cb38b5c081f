"""Derivatives of maxima and minima: the cotangent goes to the elements that equal the result.

Tied elements each get all of it, or even shares. A result that is NaN equals nothing, so its cotangent is dropped.

Running maxima and minima take sums over runs of equal results instead of sums over triangles.

``O[i] = >(A[k])`` over ``k <= i`` never falls, so that results that equal an element are adjacent, and their run ends
at that element or later. Sums over runs are found in steps: each step multiplies the number of elements of its run that
an element has summed (segmented scans, after Hillis and Steele, "Data parallel algorithms", 1986). That is about n·log
n work; the rule for all maxima takes n².
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from tileir.core import Aggregation, Combination, Op, accumulator, attrs, contraction_types
from tileir.poly.affine import Affine
from tileir.typed.derivatives.recurrences import shifted
from tileir.typed.derivatives.summation import Points, aggregate, alike, incoming, is_bare
from tileir.typed.ir import Access, Constraint, Contraction

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from tileir.typed.derivatives.contractions import ContractionSite
    from tileir.typed.inference.values import Tensor


_LEAST: Final = 64
"""Least length of axes for which several passes over all elements pay off."""

_RADIX: Final = 8
"""Factor by which the summed parts of runs grow in each step."""


@attrs.frozen
class RunningExtremum:
    """A maximum, minimum or product of all elements up to each position of an axis.

    Attributes:
        site: The contraction, or one that includes the last elements, if it leaves them out.
        axis: The axis along which it runs.
        direction: 1 if results include the elements before them, -1 if they include those after them.
        gap: The number of elements that each result leaves out, beginning with its own.
    """

    site: ContractionSite
    axis: int
    direction: int
    gap: int = 0

    @classmethod
    def of(cls, site: ContractionSite) -> Self | None:
        """Return an aggregate of one operand in its running form; None if it has none, or if it is short."""
        if site.operation.combination is not Combination.NONE:
            return None
        operand, result = site.place(0), site.result
        differing = [k for k, (a, b) in enumerate(zip(operand.axes, result.axes, strict=False)) if a != b]
        if operand.shape != result.shape or len(differing) != 1 or any(not is_bare(p) for p in result.indices):
            return None
        axis = differing[0]
        if result.shape[axis] < _LEAST or len({p.terms[0][0] for p in result.indices}) < len(result.indices):
            return None
        found = _ending(site, axis)
        if found is None:
            return None
        direction, gap = found
        return cls(_inclusive(site, axis, direction) if gap else site, axis, direction, gap)

    def arriving(self, cotangent: Tensor) -> Tensor:
        """Return the cotangent of the results of :attr:`site` for that of the contraction's results."""
        return self._shifted(cotangent, self.direction * self.gap)

    def moved(self, tangent: Tensor) -> Tensor:
        """Return the tangent of the contraction's results for that of the results of :attr:`site`."""
        return self._shifted(tangent, -self.direction * self.gap)

    def _shifted(self, moving: Tensor, steps: int) -> Tensor:
        if not steps:
            return moving
        algebra = self.site.algebra
        return shifted(algebra, algebra.expanded(moving, self.site.operation.shape), self.axis, steps, 0.0)

    def selected(self, cotangent: Tensor, *, even: bool) -> Tensor:
        """Return the cotangent of the operand."""
        algebra, emission = self.site.algebra, self.site.algebra.emission
        emission.stem = f"D{self.site.operands[0].name}"
        share = self.arriving(emission.cast(cotangent, accumulator(cotangent.dtype)))
        chosen = self._chosen()
        if even:
            share = algebra.div(share, self._ties(chosen, share))
        return algebra.choose(chosen, self._sums(share, self.direction), algebra.constant(0.0, share))

    def tangent(self, tangent: Tensor, *, even: bool) -> Tensor:
        """Return the tangent of the result for that of the operand."""
        algebra = self.site.algebra
        wide = algebra.emission.cast(tangent, accumulator(tangent.dtype))
        chosen = self._chosen()
        total = self._sums(algebra.choose(chosen, wide, algebra.constant(0.0, wide)), -self.direction)
        return self.moved(algebra.div(total, self._ties(chosen, total)) if even else total)

    def _chosen(self) -> Tensor:
        """Return for each element whether it equals the result at its own position."""
        algebra = self.site.algebra
        return algebra.compute(Op.CMP_EQ, *alike(algebra.emission, [self.site.value(0), self.site.outcome().tensor]))

    def _ties(self, chosen: Tensor, like: Tensor) -> Tensor:
        """Return for each result the number of elements that equal it, but 1 if it is NaN."""
        algebra = self.site.algebra
        one, zero = algebra.constant(1.0, like), algebra.constant(0.0, like)
        return algebra.compute(Op.MAX, self._sums(algebra.choose(chosen, one, zero), -self.direction), one)

    def _sums(self, values: Tensor, direction: int) -> Tensor:
        """Return for each element the sum of its run of equal results, from the element on, in this direction."""
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


def _inclusive(site: ContractionSite, axis: int, direction: int) -> ContractionSite:
    """Emit the aggregate that includes each element in the result at its own position."""
    emission, operation, value = site.algebra.emission, site.operation, site.value(0)
    here = tuple(Affine.index(f"x{k}") for k in range(len(value.shape)))
    term = Affine.index("k")
    read = tuple(term if k == axis else index for k, index in enumerate(here))
    limit = Constraint((here[axis] - term) * direction, value.shape[axis])
    emission.stem = f"{operation.name}_running"
    running = attrs.evolve(
        operation,
        name=emission.fresh(),
        output=here,
        inputs=(Access(value.name, read),),
        constraints=(limit,),
        default=None,
        reduce=True,
    )
    emission.add(running)
    return type(site)(site.algebra, running, (value,), True, Points.of(running, [value.shape]))


def _ending(site: ContractionSite, axis: int) -> tuple[int, int] | None:
    """Return (1, gap) if the points are those with ``read <= written - gap`` along ``axis``.

    (-1, gap) stands for ``read >= written + gap``, and None for all other points.
    """
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
    if any(not set(form.indices) <= {"a", written} or not form.is_integral for form in forms):
        return None
    for direction in (1, -1):
        distances = [form - (row - column) * direction for form in forms]
        gap = max((-int(d.offset) for d in distances if d.is_constant and d.is_integral), default=-1)
        if not 0 <= gap < size:
            continue
        first, last = (0, size - 1 - gap) if direction == 1 else (gap, size - 1)
        shift = gap * direction
        far = {"a": first, written: last + shift} if direction == 1 else {"a": last, written: first + shift}
        corners = [{"a": first, written: first + shift}, {"a": last, written: last + shift}, far]
        if all(form.evaluate(corner) >= 0 for form in forms for corner in corners):
            return direction, gap
    return None


def contributions(site: ContractionSite, cotangent: Tensor, wanted: Collection[int]) -> Iterator[tuple[int, Tensor]]:
    """Yield contributions to operands of a contraction that takes the maximum or minimum.

    Combined values are written out, and their cotangents are passed on by the rules of sums. Ties are always even if
    several points take the same elements to the same result: otherwise these would tie with themselves.
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
    """Return the cotangent of the only operand."""
    running = RunningExtremum.of(site)
    if running is not None:
        return running.selected(cotangent, even=even)
    share = divided(site, cotangent) if even else cotangent
    readings = [site.reading(0), site.outcome(), incoming(share, site.result)]
    return site.into(0, readings, Combination.COND)


def divided(site: ContractionSite, tensor: Tensor) -> Tensor:
    """Return ``tensor``, indexed like the result, divided by the number of points that tie."""
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
    running = RunningExtremum.of(site)
    if running is not None:
        return running.tangent(tangent, even=even)
    readings = [site.reading(0), site.outcome(), incoming(tangent, site.place(0))]
    found = aggregate(site.algebra, site.points, site.result, readings, Combination.COND)
    return divided(site, found) if even and found is not None else found
