"""Aggregates over prefixes by their ends: running aggregates first, then what every element asks of them.

``O[i : N / 2] = +(A[k])`` over ``k <= 2·i`` is ``S[p : N] = +(A[k])`` over ``k <= p``, which later stages compute in
linear time, and ``O[i] = S[2·i]``. ``k <= i / 2`` is ``O[2·q + r] = S[q]``, and ``A[i - 2·k]`` are two rows, one of the
even places and one of the odd ones. Where rows have other lengths they are written out first, padded with what leaves
every aggregate unchanged. All terms of an element are aggregated together, as before, so results differ by no more than
the order of sums. :mod:`tileir.typed.simplify.prefix_forms` says which contractions have this form.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import Final

from tileir.core import Aggregation, Combination, DType, NameScope, attrs, contraction_types
from tileir.poly.affine import Affine
from tileir.poly.bounds import Domain
from tileir.typed.dataflow import with_bodies
from tileir.typed.ir import Access, Cast, Constant, Constraint, Contraction, Function, Operation, Shape
from tileir.typed.simplify.prefix_forms import Prefix, prefix_of
from tileir.typed.simplify.replacement import with_replaced
from tileir.typed.simplify.separation import domain_of, points_of
from tileir.typed.simplify.term_rows import Points

GAIN: Final = 4
"""A contraction is taken apart where that leaves a fraction of its steps as small as one in so many."""

_GROWTH: Final = 4
"""The aggregates of all ends are at most so many times the elements of the largest operand and the result."""


def with_ends(function: Function) -> Function:
    """Return an equivalent function whose aggregates over prefixes are running ones, read where they are asked for.

    ``function`` itself is returned where it pays nowhere.
    """
    return with_replaced(with_bodies(function, with_ends), _parts)


def work_of(contraction: Contraction, shapes: Mapping[str, Shape]) -> int | None:
    """Return how many steps a contraction takes once it has the best form; None where it has no points."""
    domain = domain_of(contraction, shapes)
    if domain is None:
        return None
    points = points_of(domain)
    prefix = _prefix(contraction, domain, shapes)
    return points if prefix is None else min(points, prefix.work)


def constraints_of(conditions: Iterable[Affine], ranges: Mapping[str, int]) -> tuple[Constraint, ...]:
    """Return constraints for polynomials that must be >= 0, and for the ranges of indices."""
    limits = (Constraint(p, max(1, int(p.bounds(ranges)[1]) + 1)) for p in conditions)
    return (*limits, *(Constraint(Affine.index(name), extent) for name, extent in ranges.items()))


def _merges(contraction: Contraction) -> bool:
    return contraction.aggregation is not Aggregation.ASSIGN and contraction.default is None and contraction.reduce


def _prefix(contraction: Contraction, domain: Domain, shapes: Mapping[str, Shape]) -> Prefix | None:
    """Return the form of a contraction that may be taken apart."""
    if not _merges(contraction):
        return None
    prefix = prefix_of(domain, [shapes[access.tensor] for access in contraction.inputs])
    if prefix is None or not prefix.rows.padding:
        return prefix
    # The sum of a padded row that has no terms is 0, but other aggregates are not.
    known = contraction.aggregation is Aggregation.SUM or prefix.rows.nonempty() is not None
    return prefix if known and contraction.combination is not Combination.COND else None


def _parts(operation: Operation, shapes: Mapping[str, Shape], names: NameScope) -> list[Operation]:
    """Return operations that compute one together, the last one under its name."""
    if not isinstance(operation, Contraction) or not _merges(operation):
        return [operation]
    domain = domain_of(operation, shapes)
    prefix = None if domain is None else _prefix(operation, domain, shapes)
    if domain is None or prefix is None or prefix.plain or prefix.work * GAIN > points_of(domain):
        return [operation]
    rows = prefix.rows
    sizes = [rows.points.ranges[name] for name in rows.held]
    sizes.insert(prefix.place, prefix.ends[1] - prefix.ends[0] + 1)
    largest = max(prod(operation.shape), *(prod(shapes[access.tensor]) for access in operation.inputs))
    if max(prod(sizes), rows.count * rows.extent if rows.padding else 0) > _GROWTH * largest:
        return [operation]
    made: list[Operation] = []
    whole = operation
    if rows.padding:
        made, whole, prefix = _padded(operation, prefix, shapes, names)
    first = _running(whole, prefix, names.fresh(f"{operation.name}_ends"), tuple(sizes))
    last = _read(whole, prefix, first.name)
    if whole.dtype is operation.dtype:
        return [*made, first, last]
    last = attrs.evolve(last, name=names.fresh(f"{operation.name}_wide"))
    return [*made, first, last, Cast(operation.name, last.name, operation.dtype, operation.shape, span=operation.span)]


def _padded(
    whole: Contraction, prefix: Prefix, shapes: Mapping[str, Shape], names: NameScope
) -> tuple[list[Operation], Contraction, Prefix]:
    """Write out the terms in rows; return what does so, the contraction that reads these instead, and its form."""
    made: list[Operation] = []
    rows = prefix.rows
    inputs, wide = _accesses(whole, rows.points), whole.operand_dtype
    if whole.combination in (Combination.ADD, Combination.MUL) and wide is not whole.dtype:
        # Narrow numbers are combined in a wider dtype, and terms must not be rounded.
        casts = {
            name: Cast(names.fresh(f"{name}_wide"), name, wide, shapes[name], span=whole.span)
            for name in dict.fromkeys(access.tensor for access in inputs)
        }
        made += casts.values()
        inputs = tuple(Access(casts[access.tensor].name, access.indices) for access in inputs)
    indices = list(rows.held)
    indices.insert(prefix.place, rows.term)
    ranges = {name: rows.points.ranges[name] for name in indices}
    dtype = DType.BOOL if whole.combination is Combination.EQ else wide
    terms = attrs.evolve(
        whole,
        name=names.fresh(f"{whole.name}_rows"),
        output=tuple(map(Affine.index, indices)),
        inputs=inputs,
        aggregation=Aggregation.ASSIGN,
        accumulator=dtype,
        dtype=dtype,
        shape=tuple(ranges.values()),
        constraints=constraints_of(rows.padding, ranges),
    )
    if whole.aggregation is not Aggregation.SUM:
        filling = _filled(terms, whole.aggregation.identity(dtype), names)
        made += filling
        terms = attrs.evolve(terms, default=filling[-1].name)
    made.append(terms)
    read = Access(terms.name, terms.output)
    points = attrs.evolve(rows.points, accesses=(rows.points.accesses[0], read.indices))
    types = contraction_types(whole.aggregation, Combination.NONE, [dtype])
    padded = attrs.evolve(
        whole,
        inputs=(read,),
        combination=Combination.NONE,
        operand_dtype=types.operand,
        accumulator=types.accumulator,
        dtype=types.result,
    )
    return made, padded, attrs.evolve(prefix, rows=attrs.evolve(rows, points=points))


def _filled(like: Contraction, value: float, names: NameScope) -> list[Operation]:
    """Return operations of which the last one is a tensor of one value."""
    one = Constant(names.fresh("neutral"), like.dtype, like.dtype.typed(value), span=like.span)
    inputs = (Access(one.name, ()),)
    name = names.fresh(f"{like.name}_neutral")
    filled = attrs.evolve(
        like, name=name, inputs=inputs, combination=Combination.NONE, operand_dtype=like.dtype, constraints=()
    )
    return [one, filled]


def _running(whole: Contraction, prefix: Prefix, name: str, shape: Shape) -> Contraction:
    """Return the aggregates for all ends."""
    rows = prefix.rows
    ranges = {each: rows.points.ranges[each] for each in (*rows.held, rows.term)}
    end = NameScope.of(rows.points.ranges).fresh("end")
    written = list(rows.held)
    written.insert(prefix.place, end)
    beyond = Affine.index(end) + prefix.ends[0] - Affine.index(rows.term)
    if not prefix.rises:
        beyond = -beyond
    limits = [beyond] if prefix.width is None else [beyond, prefix.width - 1 - beyond]
    constraints = constraints_of(limits, {**ranges, end: prefix.ends[1] - prefix.ends[0] + 1})
    return attrs.evolve(
        whole,
        name=name,
        output=tuple(map(Affine.index, written)),
        inputs=_accesses(whole, rows.points),
        shape=shape,
        constraints=constraints,
    )


def _accesses(whole: Contraction, points: Points) -> tuple[Access, ...]:
    pairs = zip(whole.inputs, points.accesses[1:], strict=True)
    return tuple(Access(access.tensor, indices) for access, indices in pairs)


def _read(whole: Contraction, prefix: Prefix, source: str) -> Contraction:
    """Return the elements of the whole: the aggregate of the end of each."""
    rows = prefix.rows
    outside = {name: extent for name, extent in rows.points.ranges.items() if name != rows.term}
    end = prefix.form + prefix.offset
    if prefix.factor > 1:
        rest = NameScope.of(outside).fresh("rest")
        outside[rest] = prefix.factor
        end = (end - Affine.index(rest) if prefix.rises else end + Affine.index(rest)) / prefix.factor
    read = list(map(Affine.index, rows.held))
    read.insert(prefix.place, end - prefix.ends[0])
    limits = [c for c in rows.points.constraints if rows.term not in c.indices]
    if whole.aggregation is not Aggregation.SUM:
        limits += rows.nonempty() or ()
    return attrs.evolve(
        whole,
        output=rows.points.accesses[0],
        inputs=(Access(source, tuple(read)),),
        aggregation=Aggregation.ASSIGN,
        combination=Combination.NONE,
        operand_dtype=whole.dtype,
        accumulator=whole.dtype,
        constraints=constraints_of(limits, outside),
    )
