"""Separation of aggregations over products of index sets, one factor after the other.

``O[i, j] = +(I[k, l])`` over ``k <= i`` and ``l <= j`` sums a rectangle for each element, M·N points each. No condition
has both ``k`` and ``l``, so the points of an element are all pairs of a ``k`` and an ``l``: the sums over ``l`` are
equal for all ``i``, and computed once. Two running sums remain. Likewise, a sum over a K·K window becomes sums over a
row and over a column, and an index beside a running one is summed before.

This changes the order of sums; maxima and minima remain equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Final, TypeAlias

from tileir.core import Aggregation, Combination, NameScope, attrs, contraction_types, grouped
from tileir.poly.affine import Affine
from tileir.poly.bounds import Domain, solve
from tileir.poly.coverage import covers
from tileir.typed.dataflow import with_bodies
from tileir.typed.ir import Access, Cast, Contraction, Function, Operation, Shape

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

GAIN: Final = 4
"""Least factor by which the points of a contraction have to shrink."""

_GROWTH: Final = 4
"""Greatest ratio of the intermediate result to the elements of the operand and the result."""


def separated(function: Function) -> Function:
    """Return an equivalent function whose aggregations are separated into factors of their points, if that pays.

    ``function`` itself is returned if it never pays.
    """
    return with_replaced(with_bodies(function, separated), _parts)


def _parts(operation: Operation, shapes: Mapping[str, Shape], names: NameScope) -> list[Operation]:
    return _sums(operation, shapes, names) if isinstance(operation, Contraction) else [operation]


def _sums(contraction: Contraction, shapes: Mapping[str, Shape], names: NameScope) -> list[Operation]:
    """Return the operations that replace a contraction, the last one under its name."""
    wide = contraction if contraction.aggregation is not Aggregation.SUM else _widened(contraction)
    contractions = _contractions(wide, shapes, names)
    if len(contractions) == 1:
        return [contraction]
    if wide is contraction:
        return list(contractions)
    source, span = contraction.inputs[0].tensor, contraction.span
    operand, total = names.fresh(f"{source}_wide"), names.fresh(f"{contraction.name}_wide")
    operand_cast = Cast(operand, source, wide.dtype, shapes[source], span=span)
    contractions = [
        attrs.evolve(part, inputs=(Access(operand, part.inputs[0].indices),))
        if part.inputs[0].tensor == source
        else part
        for part in contractions
    ]
    contractions[-1] = attrs.evolve(contractions[-1], name=total)
    return [operand_cast, *contractions, Cast(contraction.name, total, contraction.dtype, contraction.shape, span=span)]


def _widened(contraction: Contraction) -> Contraction:
    """Return a sum whose operand and result have the dtype of the accumulator, so that partial sums are not rounded."""
    wide = contraction.accumulator
    if contraction.dtype is wide:
        return contraction
    return attrs.evolve(contraction, operand_dtype=wide, dtype=wide)


def _contractions(contraction: Contraction, shapes: Mapping[str, Shape], names: NameScope) -> list[Contraction]:
    """Return the contractions that replace one, the last one under its name."""
    parts: list[Contraction] = []
    while (pair := _split(contraction, shapes, names)) is not None:
        first, contraction = pair
        shapes = {**shapes, first.name: first.shape}
        parts.extend(_contractions(first, shapes, names))
    return [*parts, contraction]


def _split(
    contraction: Contraction, shapes: Mapping[str, Shape], names: NameScope
) -> tuple[Contraction, Contraction] | None:
    """Return the aggregation over the best factor, and the one over the others; None if none pays."""
    factors = index_factors(contraction)
    if len(factors) < 2:
        return None
    domain = domain_of(contraction, shapes)
    if domain is None:
        return None
    points = points_of(domain)
    best: tuple[int, Contraction, Contraction] | None = None
    for factor in factors:
        attempt = without_factor(contraction, factor, shapes, names)
        cost = _cost(attempt, contraction, shapes)
        if cost is not None and cost * GAIN <= points and (best is None or cost < best[0]):
            best = cost, *attempt
    return None if best is None else best[1:]


def index_factors(contraction: Contraction) -> list[frozenset[str]]:
    """Return sets of reduced indices such that no condition has two; fewer than two for contractions of other forms.

    Each axis of the result must have an index of its own, or size 1.
    """
    if contraction.aggregation not in (Aggregation.SUM, Aggregation.MAX, Aggregation.MIN):
        return []
    if contraction.combination is not Combination.NONE or contraction.default is not None or not contraction.reduce:
        return []
    written = [name for polynomial in contraction.output for name in polynomial.indices]
    if len(set(written)) < len(written) or not all(map(_is_bare, contraction.output, contraction.shape)):
        return []
    conditions = [*contraction.inputs[0].indices, *(c.polynomial for c in contraction.constraints)]
    if not all(polynomial.is_integral for polynomial in conditions):
        return []
    sets: list[frozenset[str]] = []
    for polynomial in conditions:
        together = frozenset(polynomial.indices) - set(written)
        if together:
            touching = [known for known in sets if known & together]
            sets = [known for known in sets if not known & together]
            sets.append(together.union(*touching))
    return sets


def _is_bare(polynomial: Affine, size: int) -> bool:
    """Return whether an axis of the result is written by an index that covers all of it."""
    if polynomial.is_constant:
        return size == 1 and polynomial.offset == 0
    return len(polynomial.terms) == 1 and polynomial.terms[0][1] == 1 and polynomial.offset == 0


def without_factor(
    contraction: Contraction, factor: frozenset[str], shapes: Mapping[str, Shape], names: NameScope
) -> tuple[Contraction, Contraction]:
    """Return the aggregation over a factor, for all elements that the second one reads, and the second one.

    The intermediate axes have the order of the operand's axes, so that both run through memory in order.
    """
    access = contraction.inputs[0]
    inner = [c for c in contraction.constraints if factor & set(c.polynomial.indices)]
    outer = [c for c in contraction.constraints if not factor & set(c.polynomial.indices)]
    own = [axis for axis, p in enumerate(access.indices) if factor & set(p.indices)]
    kept = [axis for axis in range(len(access.indices)) if axis not in own]
    sizes = {p.indices[0]: size for p, size in zip(contraction.output, contraction.shape, strict=True) if p.indices}
    conditions = [*(access.indices[axis] for axis in own), *(c.polynomial for c in inner)]
    coupled = dict.fromkeys(name for p in conditions for name in p.indices if name in sizes)
    taken = NameScope.of((*sizes, *factor))
    through = {axis: taken.fresh(f"x{axis}") for axis in kept}
    source = shapes[access.tensor]
    sizes |= {name: source[axis] for axis, name in through.items()}
    held: dict[str, None] = {}
    for axis, polynomial in enumerate(access.indices):
        held |= dict.fromkeys([through[axis]] if axis in through else [n for n in polynomial.indices if n in coupled])
    held |= coupled
    read = tuple(Affine.index(through[axis]) if axis in through else p for axis, p in enumerate(access.indices))
    first = attrs.evolve(
        contraction,
        name=names.fresh(f"{contraction.name}_part"),
        output=tuple(map(Affine.index, held)),
        inputs=(Access(access.tensor, read),),
        shape=tuple(sizes[name] for name in held),
        constraints=tuple(inner),
    )
    outside = {name: access.indices[axis] for axis, name in through.items()}
    read = tuple(outside.get(name, Affine.index(name)) for name in held)
    types = contraction_types(contraction.aggregation, contraction.combination, [first.dtype])
    last = attrs.evolve(
        contraction, inputs=(Access(first.name, read),), operand_dtype=types.operand, constraints=tuple(outer)
    )
    return first, last


def _cost(parts: tuple[Contraction, Contraction], whole: Contraction, shapes: Mapping[str, Shape]) -> int | None:
    """Return the points of both parts; None if they are not equivalent, or need much more memory."""
    first, _ = parts
    shapes = {**shapes, first.name: first.shape}
    largest = max(prod(whole.shape), prod(shapes[whole.inputs[0].tensor]))
    domains = [domain_of(part, shapes) for part in parts]
    if prod(first.shape) > _GROWTH * largest or domains[0] is None or domains[1] is None:
        return None
    # A sum of no terms is the neutral 0 of the other sum, but the 0 of an empty maximum would win.
    if whole.aggregation is not Aggregation.SUM and not covers(domains[0], first.shape):
        return None
    return sum(points_of(domain) for domain in domains if domain is not None)


def domain_of(contraction: Contraction, shapes: Mapping[str, Shape]) -> Domain | None:
    """Return the points of a contraction; None if it has none."""
    accesses = [contraction.output, *(access.indices for access in contraction.inputs)]
    sizes = [contraction.shape, *(shapes[access.tensor] for access in contraction.inputs)]
    return solve(accesses, sizes, [(c.polynomial, c.bound) for c in contraction.constraints])


def points_of(domain: Domain) -> int:
    """Return the number of points of the box around a domain."""
    return prod(extent for _, extent in domain.ranges)


if TYPE_CHECKING:
    Replacement: TypeAlias = Callable[[Operation, Mapping[str, Shape], NameScope], Sequence[Operation]]
    """From an operation, the shapes of all values before it and the names in use, to operations that end with its
    value.
    """


def with_replaced(function: Function, replacement: Replacement) -> Function:
    """Return a function with each operation replaced; itself if each one became a single operation.

    The replacement gets the labels of the operation.
    """
    shapes = {value.name: value.shape for value in function.inputs}
    names = NameScope.of((*shapes, *(operation.name for operation in function.operations)))
    labels = grouped(function.labels)
    operations: list[Operation] = []
    handed: list[tuple[str, str]] = []
    for operation in function.operations:
        parts = replacement(operation, shapes, names)
        shapes.update((part.name, part.shape) for part in parts)
        operations.extend(parts)
        handed.extend((part.name, label) for part in parts[:-1] for label in labels.get(operation.name, ()))
    if len(operations) == len(function.operations):
        return function
    return attrs.evolve(function, operations=tuple(operations), labels=(*function.labels, *handed))
