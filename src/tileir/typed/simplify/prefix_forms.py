"""Aggregates over prefixes: what of a contraction moves the end of its terms, and where terms are read.

``O[i] = +(A[k])`` over ``k <= 2·i`` takes terms up to an end that moves with i. One number for each end, ``p``, tells
all there is: the aggregate of the terms up to p serves every i whose end is p. :func:`prefix_of` brings contractions of
one reduced index to that form: terms are counted so that they do not depend on the end, ``m`` in place of ``2·i - k``;
an index that moves terms by a fraction, as i does in ``A[i - 2·k]``, is parted into a quotient and a remainder; and
what is left are conditions on ``a·m`` and a form F of other indices, so that ends are ``F / a``, rounded. Where no
condition is left, all terms count everywhere.

Rows of terms need not have one length: of an odd number of elements, more have even places than odd ones. They are
padded then, so that the ends of all rows move alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from math import gcd, prod
from typing import Final

from tileir.core import NameScope, attrs
from tileir.poly.affine import Affine
from tileir.poly.bounds import Domain
from tileir.poly.coverage import injective
from tileir.typed.simplify.term_rows import Points, Rows, rows_of

NARROWEST: Final = 64
"""Windows of fewer terms are aggregated as they are."""

SHORTEST: Final = 16
"""So are the terms of fewer ends."""


@attrs.frozen
class Prefix:
    """A contraction whose terms have an end that moves, or two that move alike.

    Attributes:
        rows: Its terms. They do not depend on the indices of ``form``, unless these are held.
        place: Where among the indices that are held the end stands, in the same order.
        form: What moves the end: terms up to ``(form + offset) / factor`` count, rounded down; those from there on,
            rounded up, where ``rises`` is false.
        factor: By what the form is divided.
        offset: What is added to the form before.
        rises: Whether the end is the last term, not the first one.
        width: So many terms count at most; None for all to the other end.
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
        """Number of steps to aggregate the terms for all ends, and to read what every point asks for."""
        ranges, (first, last) = self.rows.points.ranges, self.ends
        outside = prod(extent for name, extent in ranges.items() if name != self.rows.term)
        terms = self.rows.extent * (2 if self.rows.padding else 1)
        return self.rows.count * (last - first + 1 + terms) + outside


def prefix_of(domain: Domain, sizes: Sequence[Sequence[int]]) -> Prefix | None:
    """Return the form of a contraction over these points; None where it has another one, or few terms.

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
    # Else every element has all terms, and others than its neighbours.
    ends = any(term in c.indices and len(c.terms) > 1 for c in domain.constraints)
    wide = not shift.is_constant and ranges[term] >= NARROWEST
    if not ends and not wide and written <= {n for access in domain.accesses[1:] for p in access for n in p.indices}:
        return None
    if not injective(domain.accesses[0], {name: ranges[name] for name in ranges if name in written}):
        return None
    points, shift = _freed(Points(ranges, domain.accesses, domain.constraints), term, shift)
    return _ended(points, term, shift, sizes, parted=len(points.ranges) > len(ranges))


def _shift(operands: Iterable[tuple[Affine, ...]], term: str) -> Affine | None:
    """Return what moves all terms beside their index, in its steps; None where they move in several ways."""
    moves = [p / p.coefficient(term) for access in operands for p in access if p.coefficient(term)]
    linear = {Affine.of({name: c for name, c in move.terms if name != term}) for move in moves}
    return linear.pop() if len(linear) == 1 else None


def _freed(points: Points, term: str, shift: Affine) -> tuple[Points, Affine]:
    """Return the points with terms counted from what moves them all, and that."""
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
    """Return the points with some indices as quotients, under their names, and remainders; and what moves terms."""
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
    """Return the form of points whose terms are free; None where their ends move in several ways."""
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
    """Return how many terms to add on both sides so that aggregates change with each end.

    Where all terms count for many ends, each of these would be aggregated anew.
    """
    first, last = ends
    if width is not None:
        return max(0, width - terms), 0
    return (0, max(0, last - terms + 1)) if rises else (max(0, -first), 0)


def _end(
    moving: Iterable[Affine], term: str, ranges: Mapping[str, int]
) -> tuple[Affine, int, int, bool, int | None] | None:
    """Return form, factor, offset, direction and width of ends, as :class:`Prefix` has them; None for several ones."""
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
    """Return the indices beside the one of terms that operands have, in order, and how many stand before that."""
    polynomials = (polynomial for access in points.accesses[1:] for polynomial in access)
    order = dict.fromkeys(name for polynomial in polynomials for name in polynomial.indices)
    names = list(order)
    place = names.index(term)
    return tuple(name for name in names if name != term), place
