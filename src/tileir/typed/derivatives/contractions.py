"""Derivatives of contractions: sums over the same index points, in which the result and an operand trade places.

A site is one contraction with its operands, and the rules of contractions that are linear in each operand.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, assert_never

from tileir.core import Aggregation, Combination, DType, accumulator, arithmetic_type, attrs, contraction_types
from tileir.poly.affine import Affine
from tileir.poly.bounds import unbounded_indices
from tileir.poly.coverage import covers
from tileir.typed.derivatives import extrema, products
from tileir.typed.derivatives.summation import (
    Destination,
    Points,
    TensorAccess,
    aggregate,
    domain_of,
    incoming,
    is_bare,
    spread,
)
from tileir.typed.inference.values import Tensor
from tileir.typed.ir import Access, Constraint, Contraction

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from tileir.typed.derivatives.algebra import Algebra
    from tileir.typed.derivatives.reverse import Sweep


@attrs.frozen
class ContractionSite:
    """A contraction and the destination of its derivatives.

    Attributes:
        algebra: The sweep, in either direction.
        operation: The contraction.
        operands: Its operands, in order.
        is_local: Whether the operands belong to the derivatives, and so are read as they are.
        points: Its index points.
    """

    algebra: Algebra
    operation: Contraction
    operands: tuple[Tensor, ...]
    is_local: bool
    points: Points

    @classmethod
    def of(cls, algebra: Algebra, operation: Contraction) -> ContractionSite:
        """Return the site of a contraction of the function that is differentiated."""
        definitions = [algebra.definition(access.tensor) for access in operation.inputs]
        operands = tuple(Tensor(found.name, found.dtype, found.shape) for found in definitions)
        return cls(algebra, operation, operands, False, Points.of(operation, [t.shape for t in operands]))

    @property
    def result(self) -> Destination:
        """The elements that the contraction writes."""
        return Destination(self.operation.output, self.operation.shape)

    @property
    def is_distinct(self) -> bool:
        """True if no two points aggregate equal elements into the same result; False if in doubt."""
        operation = self.operation
        values = operation.inputs[2:] if operation.combination is Combination.COND else operation.inputs
        accesses = [operation.output, *(access.indices for access in values)]
        known = {name for access in accesses for polynomial in access for name in polynomial.indices}
        return known == self.points.names and not unbounded_indices(accesses)

    def place(self, position: int) -> Destination:
        """Return the elements of an operand that the contraction reads."""
        return Destination(self.operation.inputs[position].indices, self.operands[position].shape)

    def value(self, position: int) -> Tensor:
        """Return the value of an operand."""
        tensor = self.operands[position]
        return tensor if self.is_local else self.algebra.value(tensor.name)

    def reading(self, position: int) -> TensorAccess:
        """Return the access to an operand."""
        return TensorAccess(self.value(position), self.operation.inputs[position].indices)

    def outcome(self) -> TensorAccess:
        """Return the access to the result at the elements that the contraction writes."""
        return TensorAccess(self.algebra.value(self.operation.name), self.operation.output)

    def into(self, position: int, readings: Sequence[TensorAccess], combination: Combination) -> Tensor | None:
        """Sum a combination over the points into the elements of an operand; None for zeros."""
        self.algebra.emission.stem = f"D{self.operands[position].name}"
        return aggregate(self.algebra, self.points, self.place(position), readings, combination)

    def linear(self, cotangent: Tensor, wanted: Collection[int]) -> Iterator[tuple[int, Tensor]]:
        """Yield contributions for a contraction that sums or assigns: the cotangent times the other factor."""
        arriving = incoming(cotangent, self.result)
        for position in wanted:
            found = self._linear(arriving, position)
            if found is not None:
                yield position, found

    def _linear(self, arriving: TensorAccess, position: int) -> Tensor | None:
        match self.operation.combination:
            case Combination.NONE | Combination.ADD:
                return self.into(position, [arriving], Combination.NONE)
            case Combination.MUL:
                return self.into(position, [arriving, self.reading(1 - position)], Combination.MUL)
            case Combination.COND if position == 2:
                return self.into(position, [self.reading(0), self.reading(1), arriving], Combination.COND)
            case Combination.COND | Combination.EQ:
                return None
            case _:
                assert_never(self.operation.combination)

    def pushed(self, tangents: Sequence[Tensor | None]) -> Tensor | None:
        """Return the tangent of a contraction that sums or assigns, for those of its operands; None stands for 0."""
        moved = [None if t is None else incoming(t, self.place(k)) for k, t in enumerate(tangents)]
        terms = [self._sum(readings, combination) for readings, combination in self._varied(moved)]
        found = [term for term in terms if term is not None]
        return reduce(self.algebra.add, found) if found else None

    def _sum(self, readings: Sequence[TensorAccess], combination: Combination) -> Tensor | None:
        found = aggregate(self.algebra, self.points, self.result, readings, combination, self.operation.aggregation)
        return None if found is None else self.algebra.emission.cast(found, arithmetic_type(self.operation.dtype))

    def _varied(self, moved: Sequence[TensorAccess | None]) -> Iterator[tuple[list[TensorAccess], Combination]]:
        """Yield the terms to sum: a combination for each operand that has a tangent."""
        match self.operation.combination:
            case Combination.NONE | Combination.ADD:
                present = [reading for reading in moved if reading is not None]
                if present:
                    yield present, Combination.NONE if len(present) == 1 else Combination.ADD
            case Combination.MUL:
                for position, reading in enumerate(moved):
                    if reading is not None:
                        yield [reading, self.reading(1 - position)], Combination.MUL
            case Combination.COND if moved[2] is not None:
                yield [self.reading(0), self.reading(1), moved[2]], Combination.COND
            case Combination.COND | Combination.EQ:
                return
            case _:
                assert_never(self.operation.combination)

    def split(self, *, wide: bool, fill: float | None = None) -> tuple[ContractionSite, ContractionSite] | None:
        """Split the contraction in two: an assignment of all combined values, and their aggregation.

        Values are combined in the dtype of the result, or if ``wide``, in that of its sums. With ``fill``, the neutral
        element of the aggregation, their axes are those of the index points, first those that are axes of the result,
        and positions without a point hold ``fill``. None if there is no point at all.
        """
        terms = self._terms() if fill is None else self._terms_of_points()
        if terms is None:
            return None
        emission = self.algebra.emission
        emission.stem = f"{self.operation.name}_terms"
        values = [self.value(position) for position in range(len(self.operands))]
        operands = tuple(emission.cast(v, accumulator(v.dtype)) if wide else v for v in values)
        types = contraction_types(Aggregation.ASSIGN, self.operation.combination, [v.dtype for v in operands])
        filled = None
        if fill is not None and terms.constraints:
            filled = spread(emission, emission.constant(fill, types.result), terms.place.shape).name
        first = Contraction(
            emission.fresh(),
            terms.place.indices,
            tuple(Access(v.name, access) for v, access in zip(operands, terms.accesses, strict=True)),
            Aggregation.ASSIGN,
            self.operation.combination,
            types.operand,
            types.accumulator,
            types.result,
            terms.place.shape,
            terms.constraints,
            filled,
            span=self.operation.span,
        )
        combined = emission.add(first)
        second = attrs.evolve(
            self.operation,
            output=terms.output,
            inputs=(Access(combined.name, terms.place.indices),),
            combination=Combination.NONE,
            operand_dtype=combined.dtype,
            constraints=() if fill is not None else terms.all_constraints,
            default=None,
        )
        return self._part(first, operands), self._part(second, (combined,))

    def _terms(self) -> _Terms | None:
        """Return the combined values: of all elements if the operands have plain indices, otherwise of all points."""
        operation = self.operation
        sizes: dict[str, int] = {}
        for polynomial, size in (axis for k in range(len(self.operands)) for axis in self.place(k).axes):
            if not is_bare(polynomial):
                return self._terms_of_points()
            (name,) = polynomial.indices
            sizes[name] = min(size, sizes.get(name, size))
        place = Destination(tuple(map(Affine.index, sizes)), tuple(sizes.values()))
        within = tuple(c for c in operation.constraints if set(c.polynomial.indices) <= sizes.keys())
        accesses = tuple(access.indices for access in operation.inputs)
        return _Terms(place, accesses, within, operation.output, operation.constraints)

    def _terms_of_points(self) -> _Terms | None:
        """Return the combined values of all points; None if there is no point."""
        domain = domain_of(self.operation, [operand.shape for operand in self.operands])
        if domain is None:
            return None
        ranges = dict(domain.ranges)
        constraints = tuple(Constraint(c, int(c.bounds(ranges)[1]) + 1) for c in domain.constraints)
        output, *accesses = domain.accesses
        points = tuple(map(Affine.index, ranges))
        indices = tuple(dict.fromkeys((*(p for p in output if p in points), *points)))
        place = Destination(indices, tuple(ranges[p.indices[0]] for p in indices))
        return _Terms(place, tuple(accesses), constraints, output, constraints)

    def _part(self, operation: Contraction, operands: tuple[Tensor, ...]) -> ContractionSite:
        points = Points.of(operation, [operand.shape for operand in operands])
        return ContractionSite(self.algebra, operation, operands, True, points)


@attrs.frozen(repr=False)
class _Terms:
    """The values that a contraction combines, as a tensor.

    Attributes:
        place: Its indices and shape.
        accesses: Accesses to the operands, in the same indices.
        constraints: Constraints on its elements.
        output: Indices of the result for a value.
        all_constraints: Constraints of the contraction, also on indices that only the output has.
    """

    place: Destination
    accesses: tuple[tuple[Affine, ...], ...]
    constraints: tuple[Constraint, ...]
    output: tuple[Affine, ...]
    all_constraints: tuple[Constraint, ...]


def pullback(sweep: Sweep, operation: Contraction, cotangent: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Yield a contribution for each wanted operand; the shape of ``cotangent`` broadcasts to the result's.

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
    """Return the tangent of a contraction for tangents of its operands and of its default; None stands for 0."""
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
    """Return ``tensor`` at elements that no point of the contraction writes, and 0 elsewhere; None if there is none."""
    domain = domain_of(site.operation, [operand.shape for operand in site.operands])
    if domain is None:
        return tensor
    if covers(domain, site.operation.shape):
        return None
    true = site.algebra.emission.constant(value=True, dtype=DType.BOOL)
    marks = aggregate(
        site.algebra, site.points, site.result, [TensorAccess(true, ())], Combination.NONE, Aggregation.MAX
    )
    return tensor if marks is None else site.algebra.choose(marks, site.algebra.constant(0.0, tensor), tensor)
