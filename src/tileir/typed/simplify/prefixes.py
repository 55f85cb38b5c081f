"""Aggregates over prefixes, as running aggregates and a gather of their ends.

``O[i : N / 2] = +(A[k])`` over ``k <= 2·i`` becomes ``S[p : N] = +(A[k])`` over ``k <= p``, which later stages compute
in linear time, and ``O[i] = S[2·i]``. ``k <= i / 2`` becomes ``O[2·q + r] = S[q]``, and ``A[i - 2·k]`` two rows, of the
even and the odd positions, padded to equal lengths by the identity of the aggregation. Results differ by the order of
sums.

:func:`prefix_of` brings contractions over one reduced index to this form: terms are counted independently of the end,
``m`` for ``2·i - k``; an index that shifts terms by a fraction, as i in ``A[i - 2·k]``, is split into quotient and
remainder; the remaining conditions are on ``a·m`` and an expression F of other indices, so that ends are ``F / a``,
rounded. Without a condition, all terms count for every element.

Terms with strides are laid out in rows: the terms of ``O[i] = +(A[i - 2·k])`` are two rows, one of the even positions
of A and one of the odd ones. If A has an odd number of elements, one row is longer: both get its length, and a
condition excludes the padding.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from math import gcd, prod
from typing import Final

from tileir.core import Aggregation, Combination, DType, NameScope, attrs, contraction_types
from tileir.poly.affine import Affine
from tileir.poly.bounds import Domain
from tileir.poly.box import feasible
from tileir.poly.constraint import system
from tileir.poly.coverage import eliminated, injective
from tileir.typed.dataflow import with_bodies
from tileir.typed.ir import Access, Cast, Constant, Constraint, Contraction, Function, Operation, Shape
from tileir.typed.simplify.separation import domain_of, points_of, with_replaced


@attrs.frozen
class Points:
    """The points of a contraction, as in :class:`tileir.poly.bounds.Domain`, possibly in other indices.

    Attributes:
        ranges: The range of each index, from 0 on.
        accesses: Integral polynomials, those of the output first.
        constraints: Integral polynomials that must be >= 0.
    """

    ranges: Mapping[str, int]
    accesses: tuple[tuple[Affine, ...], ...]
    constraints: tuple[Affine, ...]

    def substituted(
        self, values: Mapping[str, Affine], ranges: Mapping[str, int], within: Iterable[Affine] = ()
    ) -> Points:
        """Return the same points in other indices, which have these ranges; ``within`` must be >= 0, too."""
        accesses = tuple(tuple(p.substitute(values) for p in access) for access in self.accesses)
        constraints = (*(c.substitute(values) for c in self.constraints), *within)
        return Points(ranges, accesses, constraints)


@attrs.frozen
class Rows:
    """The points of an aggregation, and its terms in rows.

    Attributes:
        points: The points. None of their conditions has only ``term`` and held indices.
        term: The index that counts terms.
        held: Other indices that terms depend on, in the order of the operands' axes: each value of them is a row.
        padding: Affines that are >= 0 for actual terms; empty if there is no padding.
    """

    points: Points
    term: str
    held: tuple[str, ...]
    padding: tuple[Affine, ...]

    @property
    def extent(self) -> int:
        """Number of terms of a row."""
        return self.points.ranges[self.term]

    @property
    def count(self) -> int:
        """Number of rows."""
        return prod(self.points.ranges[name] for name in self.held)

    @property
    def moving(self) -> tuple[Affine, ...]:
        """Affines that are >= 0 for the terms of an element, beside the padding."""
        return tuple(c for c in self.points.constraints if self.term in c.indices)

    def nonempty(self) -> tuple[Affine, ...] | None:
        """Return affines that are >= 0 exactly where an element has terms; None if they are not easy to find."""
        return eliminated(self.term, self.extent, (*self.padding, *self.moving), self.points.ranges)

    def longer(self, before: int, after: int) -> Rows:
        """Return rows that are padded by ``before`` and ``after`` terms."""
        index = Affine.index(self.term)
        values = {self.term: index - before}
        padding = tuple(c.substitute(values) for c in (*self.padding, index, self.extent - 1 - index))
        ranges = {**self.points.ranges, self.term: before + self.extent + after}
        return attrs.evolve(self, points=self.points.substituted(values, ranges), padding=padding)


def rows_of(points: Points, term: str, held: tuple[str, ...], sizes: Sequence[Sequence[int]]) -> Rows | None:
    """Return the terms of points in the shortest rows, without implied conditions.

    Args:
        points: The points.
        term: The index that counts terms.
        held: All other indices of operands.
        sizes: The extents of operands.

    Returns:
        None if there are no points.
    """
    known = {term, *held}
    axes = [axis for pair in zip(points.accesses[1:], sizes, strict=True) for axis in zip(*pair, strict=True)]
    bounds = [end for p, extent in axes if term in p.indices for end in (p, extent - 1 - p)]
    own = [c for c in points.constraints if term in c.indices and set(c.indices) <= known]
    inside = tuple(dict.fromkeys((*own, *bounds)))
    first, last = 0, points.ranges[term] - 1
    for limit in inside:
        factor = int(limit.coefficient(term))
        most = int((limit - Affine.index(term) * factor).bounds(points.ranges)[1])
        if factor > 0:
            first = max(first, -(most // factor))
        else:
            last = min(last, most // -factor)
    if last < first:
        return None
    ranges = {**points.ranges, term: last - first + 1}
    values = {term: Affine.index(term) + first}
    others = tuple(c for c in points.constraints if c not in own)
    moved = attrs.evolve(points, constraints=others).substituted(values, ranges)
    padding = tuple(c for c in (c.substitute(values) for c in inside) if c.bounds(ranges)[0] < 0)
    return _without_implied(Rows(moved, term, held, padding))


def _without_implied(rows: Rows) -> Rows:
    """Return rows without ends that follow from the other conditions."""
    left = list(rows.points.constraints)
    for end in rows.moving:
        others = [c for c in left if c is not end]
        if _implied(end, (*others, *rows.padding), rows.points.ranges):
            left = others
    return attrs.evolve(rows, points=attrs.evolve(rows.points, constraints=tuple(left)))


def _implied(condition: Affine, others: Iterable[Affine], ranges: Mapping[str, int]) -> bool:
    """Return whether a condition follows from others."""
    if condition.bounds(ranges)[0] >= 0:
        return True
    limits = [(Affine.index(name), extent) for name, extent in ranges.items()]
    given = system(ranges, [*limits, *((other, None) for other in others), (-1 - condition, None)])
    return given is None or feasible(given) is False


NARROWEST: Final = 64
"""Least number of terms of windows that become running aggregates."""

SHORTEST: Final = 16
"""Least number of terms, and of ends."""


@attrs.frozen
class Prefix:
    """A contraction whose terms have one moving end, or two ends that move alike.

    Attributes:
        rows: Its terms. They do not depend on the indices of ``form``, unless these are held.
        place: The position of the end among the held indices, in their order.
        form: The affine that moves the end: terms up to ``(form + offset) / factor``, rounded down, count; if ``rises``
            is false, those from there on, rounded up.
        factor: The divisor of the form.
        offset: The addend of the form, before the division.
        rises: Whether the end is the last term instead of the first one.
        width: Greatest number of terms; None for all up to the other end.
        ends: The first and the last end.
        plain: Whether it is in this form already: each end belongs to one element of an axis.
    """

    rows: Rows
    place: int
    form: Affine
    factor: int
    offset: int
    rises: bool
    width: int | None
    ends: tuple[int, int]
    plain: bool

    @property
    def work(self) -> int:
        """Number of steps to aggregate the terms for all ends, and to read the result of every point."""
        ranges, (first, last) = self.rows.points.ranges, self.ends
        outside = prod(extent for name, extent in ranges.items() if name != self.rows.term)
        terms = self.rows.extent * (2 if self.rows.padding else 1)
        return self.rows.count * (last - first + 1 + terms) + outside


def prefix_of(domain: Domain, sizes: Sequence[Sequence[int]]) -> Prefix | None:
    """Return the prefix form of a contraction over these points; None if it has none, or few terms.

    Args:
        domain: The points.
        sizes: The extents of the operands.
    """
    ranges = dict(domain.ranges)
    written = {name for polynomial in domain.accesses[0] for name in polynomial.indices}
    reduced = [name for name in ranges if name not in written]
    if len(reduced) != 1 or ranges[reduced[0]] < SHORTEST:
        return None
    (term,) = reduced
    shift = _shift(domain.accesses[1:], term)
    if shift is None:
        return None
    # Otherwise every element has all terms, different from its neighbours'.
    ends = any(term in c.indices and len(c.terms) > 1 for c in domain.constraints)
    wide = not shift.is_constant and ranges[term] >= NARROWEST
    if not ends and not wide and written <= {n for access in domain.accesses[1:] for p in access for n in p.indices}:
        return None
    if not injective(domain.accesses[0], {name: ranges[name] for name in ranges if name in written}):
        return None
    points, shift = _freed(Points(ranges, domain.accesses, domain.constraints), term, shift)
    return _ended(points, term, shift, sizes, parted=len(points.ranges) > len(ranges))


def _shift(operands: Iterable[tuple[Affine, ...]], term: str) -> Affine | None:
    """Return the common shift of all terms, in steps of their index; None if accesses shift them differently."""
    moves = [p / p.coefficient(term) for access in operands for p in access if p.coefficient(term)]
    linear = {Affine.of({name: c for name, c in move.terms if name != term}) for move in moves}
    return linear.pop() if len(linear) == 1 else None


def _freed(points: Points, term: str, shift: Affine) -> tuple[Points, Affine]:
    """Return the points with terms counted from their common shift, and the shift."""
    divisors = {name: Fraction(c).denominator for name, c in shift.terms if Fraction(c).denominator > 1}
    if divisors:
        points, shift = _parted(points, divisors, shift)
    if shift.is_constant:
        return points, shift
    ranges = dict(points.ranges)
    low, high = (int(end) for end in shift.bounds(ranges))
    before = Affine.index(term) + low - shift
    within = (before, ranges[term] - 1 - before)
    ranges[term] += high - low
    return points.substituted({term: before}, ranges, within), shift


def _parted(points: Points, divisors: Mapping[str, int], shift: Affine) -> tuple[Points, Affine]:
    """Split indices into quotients, which keep their names, and remainders; return the points and the new shift."""
    ranges, names = dict(points.ranges), NameScope.of(points.ranges)
    values: dict[str, Affine] = {}
    within: list[Affine] = []
    for name, divisor in divisors.items():
        rest = names.fresh(f"{name}_rest")
        values[name] = Affine.index(name) * divisor + Affine.index(rest)
        if ranges[name] % divisor:
            within.append(ranges[name] - 1 - values[name])
        ranges[name], ranges[rest] = -(-ranges[name] // divisor), divisor
    kept = {name: c for name, c in shift.substitute(values).terms if name in points.ranges}
    return points.substituted(values, ranges, within), Affine.of(kept)


def _ended(points: Points, term: str, shift: Affine, sizes: Sequence[Sequence[int]], *, parted: bool) -> Prefix | None:
    """Return the form of points with independent terms; None if their ends move in several ways."""
    held, place = _held(points, term)
    rows = rows_of(points, term, held, sizes)
    end = None if rows is None else _end(rows.moving, term, rows.points.ranges)
    if rows is None or end is None:
        return None
    form, factor, offset, rises, width = end
    low, high = (int(end) + offset for end in form.bounds(rows.points.ranges))
    first, last = (low // factor, high // factor) if rises else (-(-low // factor), -(-high // factor))
    if rows.moving and last - first + 1 < SHORTEST:
        return None
    before, after = _beyond((first, last), rows.extent, width, rises=rises)
    if before + after > (0 if rows.padding else SHORTEST):
        rows = rows.longer(before, after)
        offset, first, last = offset + factor * before, first + before, last + before
    plain = (
        not parted
        and not rows.padding
        and factor == 1
        and len(form.terms) == 1
        and abs(form.terms[0][1]) == 1
        and all(name == form.indices[0] and abs(c) == 1 for name, c in shift.terms)
        and form.indices[0] not in held
    )
    return Prefix(rows, place, form, factor, offset, rises, width, (first, last), plain)


def _beyond(ends: tuple[int, int], terms: int, width: int | None, *, rises: bool) -> tuple[int, int]:
    """Return the numbers of terms to add on both sides so that aggregates differ for each end.

    If all terms counted for many ends, each of these would be aggregated separately.
    """
    first, last = ends
    if width is not None:
        return max(0, width - terms), 0
    return (0, max(0, last - terms + 1)) if rises else (max(0, -first), 0)


def _end(
    moving: Iterable[Affine], term: str, ranges: Mapping[str, int]
) -> tuple[Affine, int, int, bool, int | None] | None:
    """Return form, factor, offset, direction and width of ends, as in :class:`Prefix`; None if there are several."""
    sides: dict[bool, int] = {}
    found: set[tuple[int, Affine]] = set()
    for constraint in moving:
        factor = int(constraint.coefficient(term))
        divisor = gcd(*(int(c) for _, c in constraint.terms))
        rises, sign = factor < 0, 1 if factor < 0 else -1
        form = Affine.of({name: sign * int(c) // divisor for name, c in constraint.terms if name != term})
        found.add((abs(factor) // divisor, form))
        offset = int(constraint.offset) // divisor
        sides[rises] = min(offset, sides.get(rises, offset))
    if not found:
        return Affine.constant(0), 1, ranges[term] - 1, True, None
    if len(found) != 1:
        return None
    ((factor, form),) = found
    rises = True in sides
    # form + high - a·m >= 0, and a·m - form + low >= 0.
    offset = sides[True] if rises else -sides[False]
    width = sides[True] + sides[False] + 1 if len(sides) == 2 else None
    if width is not None and (width % factor or width // factor < NARROWEST):
        return None
    return form, factor, offset, rises, None if width is None else width // factor


def _held(points: Points, term: str) -> tuple[tuple[str, ...], int]:
    """Return the indices of operands other than that of terms, in order, and how many of them precede it."""
    polynomials = (polynomial for access in points.accesses[1:] for polynomial in access)
    order = dict.fromkeys(name for polynomial in polynomials for name in polynomial.indices)
    names = list(order)
    place = names.index(term)
    return tuple(name for name in names if name != term), place


GAIN: Final = 4
"""Least factor by which the steps of a contraction have to shrink."""

_GROWTH: Final = 4
"""Greatest ratio of the aggregates of all ends to the elements of the largest operand and the result."""


def with_ends(function: Function) -> Function:
    """Return an equivalent function whose aggregates over prefixes are read from running aggregates.

    ``function`` itself is returned if it never pays.
    """
    return with_replaced(with_bodies(function, with_ends), _parts)


def work_of(contraction: Contraction, shapes: Mapping[str, Shape]) -> int | None:
    """Return the number of steps of a contraction in the best form; None if it has no points."""
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
    """Return the prefix form of a contraction that may be transformed."""
    if not _merges(contraction):
        return None
    prefix = prefix_of(domain, [shapes[access.tensor] for access in contraction.inputs])
    if prefix is None or not prefix.rows.padding:
        return prefix
    # The sum of a padded row without terms is 0, but other aggregates are not.
    known = contraction.aggregation is Aggregation.SUM or prefix.rows.nonempty() is not None
    return prefix if known and contraction.combination is not Combination.COND else None


def _parts(operation: Operation, shapes: Mapping[str, Shape], names: NameScope) -> list[Operation]:
    """Return the operations that replace one, the last one under its name."""
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
    """Write out the terms in rows; return the operations for this, the contraction that reads them, and its form."""
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
    """Return operations the last of which is a tensor of one value."""
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
    """Return the elements of the original result: the aggregate of the end of each."""
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
