"""Aggregates over prefixes by their ends: running aggregates first, then what every element asks of them.

``O[i : N / 2] = +(A[k])`` over ``k <= 2·i`` is ``S[p : N] = +(A[k])`` over ``k <= p``, which later stages compute in
linear time, and ``O[i] = S[2·i]``. ``k <= i / 2`` is ``O[2·q + r] = S[q]``. All terms of an element are aggregated
together, as before, so results differ by no more than the order of sums. :mod:`tileir.typed.simplify.prefix_forms` says
which contractions have this form.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

import attrs

from tileir.core.ops import Aggregation, Combination
from tileir.core.text.names import NameScope
from tileir.poly.affine import Affine
from tileir.typed.dataflow import with_bodies
from tileir.typed.ir import Access, Constraint, Contraction, Function, Operation, Shape
from tileir.typed.simplify.prefix_forms import Points, Prefix, prefix_of
from tileir.typed.simplify.replacement import with_replaced
from tileir.typed.simplify.separation import domain_of, points_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


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
    prefix = prefix_of(domain) if _merges(contraction) else None
    return points if prefix is None else min(points, prefix.work)


def constraints_of(conditions: Iterable[Affine], ranges: Mapping[str, int]) -> tuple[Constraint, ...]:
    """Return constraints for polynomials that must be >= 0, and for the ranges of indices."""
    limits = (Constraint(p, max(1, int(p.bounds(ranges)[1]) + 1)) for p in conditions)
    return (*limits, *(Constraint(Affine.index(name), extent) for name, extent in ranges.items()))


def _merges(contraction: Contraction) -> bool:
    return contraction.aggregation is not Aggregation.ASSIGN and contraction.default is None and contraction.reduce


def _parts(operation: Operation, shapes: Mapping[str, Shape], names: NameScope) -> list[Operation]:
    """Return operations that compute one together, the last one under its name."""
    if not isinstance(operation, Contraction) or not _merges(operation):
        return [operation]
    domain = domain_of(operation, shapes)
    prefix = None if domain is None else prefix_of(domain)
    if domain is None or prefix is None or prefix.plain or prefix.work * GAIN > points_of(domain):
        return [operation]
    sizes = [prefix.points.ranges[name] for name in prefix.held]
    sizes.insert(prefix.place, prefix.ends[1] - prefix.ends[0] + 1)
    largest = max(prod(operation.shape), *(prod(shapes[access.tensor]) for access in operation.inputs))
    if prod(sizes) > _GROWTH * largest:
        return [operation]
    first = _running(operation, prefix, names.fresh(f"{operation.name}_ends"), tuple(sizes))
    return [first, _read(operation, prefix, first.name)]


def _running(whole: Contraction, prefix: Prefix, name: str, shape: Shape) -> Contraction:
    """Return the aggregates for all ends."""
    ranges = {each: prefix.points.ranges[each] for each in (*prefix.held, prefix.term)}
    end = NameScope.of(prefix.points.ranges).fresh("end")
    written = list(prefix.held)
    written.insert(prefix.place, end)
    beyond = Affine.index(end) + prefix.ends[0] - Affine.index(prefix.term)
    if not prefix.rises:
        beyond = -beyond
    limits = [beyond] if prefix.width is None else [beyond, prefix.width - 1 - beyond]
    limits += [c for c in prefix.points.constraints if prefix.term in c.indices and set(c.indices) <= set(ranges)]
    constraints = constraints_of(limits, {**ranges, end: prefix.ends[1] - prefix.ends[0] + 1})
    return attrs.evolve(
        whole,
        name=name,
        output=tuple(map(Affine.index, written)),
        inputs=_accesses(whole, prefix.points),
        shape=shape,
        constraints=constraints,
    )


def _accesses(whole: Contraction, points: Points) -> tuple[Access, ...]:
    pairs = zip(whole.inputs, points.accesses[1:], strict=True)
    return tuple(Access(access.tensor, indices) for access, indices in pairs)


def _read(whole: Contraction, prefix: Prefix, source: str) -> Contraction:
    """Return the elements of the whole: the aggregate of the end of each."""
    outside = {name: extent for name, extent in prefix.points.ranges.items() if name != prefix.term}
    end = prefix.form + prefix.offset
    if prefix.factor > 1:
        rest = NameScope.of(outside).fresh("rest")
        outside[rest] = prefix.factor
        end = (end - Affine.index(rest) if prefix.rises else end + Affine.index(rest)) / prefix.factor
    read = list(map(Affine.index, prefix.held))
    read.insert(prefix.place, end - prefix.ends[0])
    limits = (c for c in prefix.points.constraints if prefix.term not in c.indices)
    return attrs.evolve(
        whole,
        output=prefix.points.accesses[0],
        inputs=(Access(source, tuple(read)),),
        aggregation=Aggregation.ASSIGN,
        combination=Combination.NONE,
        operand_dtype=whole.dtype,
        accumulator=whole.dtype,
        constraints=constraints_of(limits, outside),
    )
