"""Aggregates over the index points of a contraction, written to the elements of any of its tensors.

Derivatives of contractions visit the points of the original contraction, but read and write other tensors. Conditions
that tensors imposed on the points remain when these are no longer read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from tileir.core import (
    Aggregation,
    Combination,
    Op,
    Span,
    accumulator,
    arithmetic_type,
    attrs,
    contraction_types,
    promote_all,
)
from tileir.core.numbers import arithmetic
from tileir.poly.affine import Affine
from tileir.poly.bounds import Domain, solve
from tileir.poly.coverage import covers
from tileir.typed.ir import Access, Constraint, Contraction, Shape

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tileir.typed.derivatives.algebra import Algebra
    from tileir.typed.inference.emission import Emission
    from tileir.typed.inference.values import Tensor

    Axis: TypeAlias = tuple[Affine, int]
    """A polynomial and the size of the axis that it indexes: it is an integer and ``0 <= polynomial < size``."""


@attrs.frozen
class TensorAccess:
    """``tensor[indices…]``."""

    tensor: Tensor
    indices: tuple[Affine, ...]

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Each polynomial with the size of its axis."""
        return tuple(zip(self.indices, self.tensor.shape, strict=True))


@attrs.frozen
class Destination:
    """The elements that an aggregate writes: one polynomial for each axis of ``shape``."""

    indices: tuple[Affine, ...]
    shape: Shape

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Each polynomial with the size of its axis."""
        return tuple(zip(self.indices, self.shape, strict=True))

    @property
    def is_plain(self) -> bool:
        """True if every axis longer than 1 has an index of its own: without other indices, points are its elements."""
        long = [p for p, size in self.axes if p != Affine() or size != 1]
        names = {p.terms[0][0] for p in long if is_bare(p)}
        return len(names) == len(long) and 0 not in self.shape


@attrs.frozen
class Points:
    """The valid index points of a contraction: conditions of all its tensors, its constraints and promises."""

    axes: tuple[Axis, ...]
    constraints: tuple[Constraint, ...]
    span: Span | None = None
    finite: bool = False

    @classmethod
    def of(cls, contraction: Contraction, shapes: Sequence[Shape]) -> Points:
        """Return the points of ``contraction``, whose inputs have these shapes."""
        accesses = [contraction.output, *(access.indices for access in contraction.inputs)]
        sizes = [contraction.shape, *shapes]
        axes = (pair for access, shape in zip(accesses, sizes, strict=True) for pair in zip(access, shape, strict=True))
        return cls(tuple(dict.fromkeys(axes)), contraction.constraints, contraction.span, contraction.finite)

    @property
    def names(self) -> set[str]:
        """The indices in use."""
        polynomials = (*(p for p, _ in self.axes), *(c.polynomial for c in self.constraints))
        return {name for polynomial in polynomials for name in polynomial.indices}

    @property
    def is_empty(self) -> bool:
        """True if it is obvious that there is no point."""
        return any(size == 0 or (p.is_constant and not _holds(p, size)) for p, size in self.axes)


def incoming(tensor: Tensor, place: Destination) -> TensorAccess:
    """Return the access at ``place`` to a tensor that broadcasts to its shape."""
    lead = len(place.shape) - len(tensor.shape)
    indices = (
        index if size == extent else Affine.constant(0)
        for size, (index, extent) in zip(tensor.shape, place.axes[lead:], strict=True)
    )
    return TensorAccess(tensor, tuple(indices))


def aggregate(
    algebra: Algebra,
    points: Points,
    place: Destination,
    readings: Sequence[TensorAccess],
    combination: Combination,
    aggregation: Aggregation = Aggregation.SUM,
) -> Tensor | None:
    """Aggregate a combination of ``readings`` over ``points``; elements that no point writes are 0.

    None stands for zeros if there is no point. The shape is that of ``place`` or broadcasts to it. Conditions remain of
    tensors that ``points`` has and ``readings`` does not. An index that only occurs in such a tensor is counted: a
    tensor of ones keeps it.
    """
    if points.is_empty:
        return None
    if place.is_plain:
        points, place = _narrowed(points, place, readings)
        for form in (_elementwise, _factored):
            found = form(algebra, points, place, readings, combination, aggregation)
            if found is not None:
                return found
    readings, combination = _without_one(algebra, readings, combination)
    present = (*place.axes, *(axis for reading in readings for axis in reading.axes))
    missing = [axis for axis in points.axes if not axis[0].is_constant and not _implied(axis, present)]
    times, missing = _counted(points, missing, present)
    if times == 0:
        return None
    kept = _witnesses(points, missing, present)
    readings, combination = _with_witnesses(algebra.emission, readings, combination, kept)
    conditions = tuple(Constraint(p, size) for p, size in missing if (p, size) not in kept)
    types = contraction_types(aggregation, combination, [reading.tensor.dtype for reading in readings])
    result = algebra.emission.add(
        Contraction(
            algebra.emission.fresh(),
            place.indices,
            tuple(Access(reading.tensor.name, reading.indices) for reading in readings),
            aggregation,
            combination,
            types.operand,
            types.accumulator,
            types.result,
            place.shape,
            tuple(dict.fromkeys((*points.constraints, *conditions))),
            finite=points.finite,
            span=points.span,
        )
    )
    return result if times == 1 or aggregation is not Aggregation.SUM else _scaled(algebra, result, times)


def without_ones(shape: Shape) -> Shape:
    """Return ``shape`` without leading sizes of 1, which broadcasting adds."""
    while shape and shape[0] == 1:
        shape = shape[1:]
    return shape


def domain_of(contraction: Contraction, shapes: Sequence[Shape]) -> Domain | None:
    """Return the domain of a contraction over inputs of these shapes; None if it is empty."""
    accesses = [contraction.output, *(access.indices for access in contraction.inputs)]
    constraints = [(c.polynomial, c.bound) for c in contraction.constraints]
    return solve(accesses, [contraction.shape, *shapes], constraints, contraction.reduce)


def _without_one(
    algebra: Algebra, readings: Sequence[TensorAccess], combination: Combination
) -> tuple[Sequence[TensorAccess], Combination]:
    """Leave out a factor that is the constant 1."""
    if combination is Combination.MUL:
        for one, rest in (readings, readings[::-1]):
            if algebra.known(one.tensor) == 1 and one.tensor.dtype is rest.tensor.dtype:
                return (rest,), Combination.NONE
    return readings, combination


def is_bare(polynomial: Affine) -> bool:
    """Return whether a polynomial is just an index."""
    return len(polynomial.terms) == 1 and polynomial.terms[0][1] == 1 and polynomial.offset == 0


def _holds(polynomial: Affine, size: int) -> bool:
    return polynomial.is_integral and 0 <= polynomial.offset < size


def _implied(axis: Axis, present: Iterable[Axis]) -> bool:
    return any(p == axis[0] and size <= axis[1] for p, size in present)


def _narrowed(points: Points, place: Destination, readings: Sequence[TensorAccess]) -> tuple[Points, Destination]:
    """Leave out axes of ``place`` along which all elements are equal, since nothing else depends on their index."""
    used = [name for reading in readings for p in reading.indices for name in p.indices]
    used.extend(name for p, size in points.axes if (p, size) not in place.axes for name in p.indices)
    used.extend(name for c in points.constraints for name in c.polynomial.indices)
    alike = [axis for axis in place.axes if axis[0].indices and set(axis[0].indices).isdisjoint(used)]
    if not alike:
        return points, place
    axes = [(Affine(), 1) if axis in alike else axis for axis in place.axes]
    while axes and axes[0] == (Affine(), 1):
        axes.pop(0)
    kept = attrs.evolve(points, axes=tuple(axis for axis in points.axes if axis not in alike))
    return kept, Destination(tuple(p for p, _ in axes), tuple(size for _, size in axes))


def _elementwise(
    algebra: Algebra,
    points: Points,
    place: Destination,
    readings: Sequence[TensorAccess],
    combination: Combination,
    _: Aggregation,
) -> Tensor | None:
    """Return the aggregate as elementwise operations if exactly one point belongs to each element."""
    ranges = {name: size for p, size in place.axes for name in p.indices}
    conditions = [*points.axes, *((c.polynomial, c.bound) for c in points.constraints)]
    if any(name not in ranges for p, _ in conditions for name in p.indices):
        return None
    for polynomial, size in conditions:
        low, high = polynomial.bounds(ranges)
        if not polynomial.is_integral or low < 0 or high >= size:
            return None
    shapes = [_fitted(reading, place) for reading in readings]
    fitted = [(reading, shape) for reading, shape in zip(readings, shapes, strict=True) if shape is not None]
    if len(fitted) < len(readings):
        return None
    tensors = [algebra.reshaped(reading.tensor, without_ones(shape)) for reading, shape in fitted]
    return _combined(algebra, combination, tensors)


def _combined(algebra: Algebra, combination: Combination, tensors: Sequence[Tensor]) -> Tensor | None:
    emission = algebra.emission
    match combination:
        case Combination.NONE:
            return tensors[0]
        case Combination.MUL:
            return algebra.mul(*alike(emission, tensors))
        case Combination.COND:
            equal = algebra.compute(Op.CMP_EQ, *alike(emission, tensors[:2]))
            return algebra.choose(equal, tensors[2], algebra.constant(0.0, tensors[2]))
        case Combination.ADD | Combination.EQ:
            return None


def alike(emission: Emission, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return tensors in the dtype of their common computation."""
    dtype = arithmetic_type(promote_all(tensor.dtype for tensor in tensors))
    return [emission.cast(tensor, dtype) for tensor in tensors]


def _fitted(reading: TensorAccess, place: Destination) -> Shape | None:
    """Return the shape in which a reading broadcasts to ``place``: its axes are some of those, in order."""
    shape = [1] * len(place.shape)
    next_axis = 0
    for polynomial, size in reading.axes:
        if polynomial.is_constant and size == 1:
            continue
        found = next((k for k in range(next_axis, len(shape)) if place.axes[k] == (polynomial, size)), None)
        if found is None:
            return None
        shape[found] = size
        next_axis = found + 1
    return tuple(shape)


def _factored(
    algebra: Algebra,
    points: Points,
    place: Destination,
    readings: Sequence[TensorAccess],
    combination: Combination,
    aggregation: Aggregation,
) -> Tensor | None:
    """Factor a sum of products: take out a factor that all terms of an element share.

    This takes fewer products, and sums over triangles remain running sums. Not done where an element without points
    might become NaN instead of 0, or where a sum might not fit its dtype.
    """
    if combination is not Combination.MUL or aggregation is not Aggregation.SUM:
        return None
    dtype = promote_all(reading.tensor.dtype for reading in readings)
    if accumulator(dtype) is not dtype:
        return None
    for factor, rest in (readings, readings[::-1]):
        shape = _fitted(factor, place)
        if shape is not None and _is_covered(points, place):
            # Integers are summed in the dtype of the other factor: in their own, sums might wrap around.
            terms = attrs.evolve(rest, tensor=algebra.emission.cast(rest.tensor, dtype))
            total = aggregate(algebra, points, place, [terms], Combination.NONE)
            if total is None:
                return None
            return algebra.mul(*alike(algebra.emission, [algebra.reshaped(factor.tensor, without_ones(shape)), total]))
    return None


def _is_covered(points: Points, place: Destination) -> bool:
    """Return whether every element of ``place`` certainly has a point."""
    constraints = [(c.polynomial, c.bound) for c in points.constraints]
    accesses = [place.indices, [p for p, _ in points.axes]]
    domain = solve(accesses, [place.shape, [size for _, size in points.axes]], constraints)
    return domain is not None and covers(domain, place.shape)


def _counted(points: Points, missing: Sequence[Axis], present: Iterable[Axis]) -> tuple[int, list[Axis]]:
    """Remove conditions that are the only ones on their index: the number of its values becomes a factor."""
    taken = {name for p, _ in present for name in p.indices}
    taken.update(name for c in points.constraints for name in c.polynomial.indices)
    times, rest = 1, []
    for polynomial, size in missing:
        others = {name for p, s in missing if (p, s) != (polynomial, size) for name in p.indices}
        names = polynomial.indices
        if len(names) == 1 and polynomial.is_integral and names[0] not in taken | others:
            times *= _values(polynomial, size)
        else:
            rest.append((polynomial, size))
    return times, rest


def _values(polynomial: Affine, size: int) -> int:
    """Return the number of integers for which a polynomial in one index lies in [0, size)."""
    step, offset = abs(int(polynomial.terms[0][1])), int(polynomial.offset)
    return max(0, (size - 1 - offset) // step + offset // step + 1)


def _witnesses(points: Points, missing: Sequence[Axis], present: Iterable[Axis]) -> tuple[Axis, ...]:
    """Return conditions that only an access can state: one for each index without another condition."""
    kept: list[Axis] = []
    used = {name for p, _ in present for name in p.indices}
    for name in _names(points, missing):
        if name not in used:
            axis = min((axis for axis in missing if name in axis[0].indices), key=lambda axis: axis[1])
            kept.append(axis)
            used.update(axis[0].indices)
    return tuple(kept)


def _names(points: Points, missing: Iterable[Axis]) -> Iterator[str]:
    for polynomial in (*(p for p, _ in missing), *(c.polynomial for c in points.constraints)):
        yield from polynomial.indices


def _with_witnesses(
    emission: Emission, readings: Sequence[TensorAccess], combination: Combination, kept: Sequence[Axis]
) -> tuple[tuple[TensorAccess, ...], Combination]:
    """Add an access with these polynomials: to ones, or if no more operands fit, to the last one, repeated."""
    if not kept:
        return tuple(readings), combination
    indices, sizes = tuple(p for p, _ in kept), tuple(size for _, size in kept)
    *others, last = readings
    if combination is Combination.NONE and last.tensor.shape:
        one = emission.constant(arithmetic.rounded(1.0, last.tensor.dtype), last.tensor.dtype)
        return (last, TensorAccess(spread(emission, one, sizes), indices)), Combination.MUL
    wide = spread(emission, last.tensor, sizes)
    return (*others, TensorAccess(wide, (*last.indices, *indices))), combination


def spread(emission: Emission, tensor: Tensor, sizes: Shape) -> Tensor:
    """Return ``tensor`` repeated along new axes of these sizes, after its own."""
    shape = (*tensor.shape, *sizes)
    indices = tuple(Affine.index(f"i{axis}") for axis in range(len(shape)))
    types = contraction_types(Aggregation.ASSIGN, Combination.NONE, [tensor.dtype])
    return emission.add(
        Contraction(
            emission.fresh(),
            indices,
            (Access(tensor.name, indices[: len(tensor.shape)]),),
            Aggregation.ASSIGN,
            Combination.NONE,
            types.operand,
            types.accumulator,
            types.result,
            shape,
        )
    )


def _scaled(algebra: Algebra, tensor: Tensor, times: int) -> Tensor:
    """Return ``times · tensor``; the factor may not fit the dtype."""
    wide = algebra.emission.cast(tensor, accumulator(tensor.dtype))
    return algebra.emission.cast(algebra.mul(wide, algebra.constant(times, wide)), tensor.dtype)
