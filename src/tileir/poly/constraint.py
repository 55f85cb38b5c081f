"""Range constraints ``0 <= polynomial < bound``: gathering, merging of parallel constraints, integer rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from math import gcd, lcm
from typing import TypeAlias

from tileir.core import TextNode, attrs
from tileir.poly.affine import Affine, Rational
from tileir.poly.lattice import meet

Terms: TypeAlias = tuple[tuple[str, int], ...]
"""Integral terms of a linear form, sorted by index, without zeros."""

Span: TypeAlias = tuple[int | None, int | None]
"""Least and greatest value, both included; None if there is no limit."""


@attrs.frozen(cache_hash=True, repr=False)
class RangeConstraint(TextNode):
    """``polynomial`` is an integer, and ``0 <= polynomial < bound``."""

    polynomial: Affine
    bound: int

    @property
    def direction(self) -> tuple[tuple[str, Rational], ...]:
        """The linear part, scaled so that its first coefficient is 1: equal exactly for parallel constraints."""
        terms = self.polynomial.terms
        lead = terms[0][1] if terms else 1
        return terms if lead == 1 else tuple((i, Fraction(c) / lead) for i, c in terms)

    def __str__(self) -> str:
        """Print as ``0 <= polynomial < bound``."""
        return f"0 <= {self.polynomial} < {self.bound}"


def gather(
    accesses: Sequence[Sequence[Affine]], sizes: Sequence[Sequence[int]], constraints: Iterable[tuple[Affine, int]]
) -> tuple[RangeConstraint, ...]:
    """Return every condition on a valid index point: the user's constraints, then the accesses in order."""
    users = (RangeConstraint(polynomial, bound) for polynomial, bound in constraints)
    pairs = (zip(access, dims, strict=True) for access, dims in zip(accesses, sizes, strict=True))
    return (*users, *(RangeConstraint(polynomial, bound) for pair in pairs for polynomial, bound in pair))


def intersect(first: RangeConstraint, second: RangeConstraint) -> RangeConstraint | None:
    """Return the constraint that is the conjunction of two parallel ones; None if it never holds.

    Nothing is assumed about the indices: they range over the rationals. Each constraint confines the linear form
    ``second - second.offset`` to an arithmetic progression, and two progressions meet in a third. The result has the
    orientation of ``second``.
    """
    if first.bound <= 0 or second.bound <= 0:
        return None
    linear = second.polynomial - second.polynomial.offset
    ratio = Fraction(first.polynomial.terms[0][1]) / linear.terms[0][1]
    one = _progression(ratio, first)
    two = _progression(Fraction(1), second)
    scale = lcm(*(x.denominator for x in (*one, *two)))
    (start, step, last), (other_start, other_step, other_last) = (
        tuple(int(x * scale) for x in progression) for progression in (one, two)
    )
    met = meet(start, step, other_start, other_step)
    if met is None:
        return None
    residue, period = met
    begin, end = max(start, other_start), min(last, other_last)
    begin += (residue - begin) % period
    if begin > end:
        return None
    polynomial = (linear - Fraction(begin, scale)) / Fraction(period, scale)
    return RangeConstraint(polynomial, (end - begin) // period + 1)


def _progression(ratio: Fraction, constraint: RangeConstraint) -> tuple[Fraction, Fraction, Fraction]:
    """Return (least, step, greatest) of the q with ``ratio·q + offset`` integral in [0, bound)."""
    ends = (-constraint.polynomial.offset / ratio, (constraint.bound - 1 - constraint.polynomial.offset) / ratio)
    return min(ends), abs(1 / ratio), max(ends)


def merge(constraints: Iterable[RangeConstraint]) -> tuple[RangeConstraint, ...] | None:
    """Merge constraints that are parallel or opposed, and drop constants that hold; None if no point is left."""
    merged: dict[tuple[tuple[str, Rational], ...], RangeConstraint] = {}
    for constraint in constraints:
        if constraint.polynomial.is_constant:
            value = constraint.polynomial.offset
            if not (isinstance(value, int) and 0 <= value < constraint.bound):
                return None
            continue
        if constraint.bound <= 0:
            return None
        key = constraint.direction
        both = intersect(merged[key], constraint) if key in merged else constraint
        if both is None:
            return None
        merged[key] = both
    return tuple(merged.values())


@attrs.frozen
class Row:
    """``low <= Σ coefficient·index <= high`` over integer indices.

    Two terms or more, coefficients without a common divisor, the first one positive.
    """

    terms: Terms
    low: int | None
    high: int | None


@attrs.frozen
class System:
    """Integer constraints in normal form: a span for each index, and the rows that link several."""

    box: Mapping[str, Span]
    rows: tuple[Row, ...]


def system(
    names: Iterable[str], constraints: Iterable[tuple[Affine, int | None]], box: Mapping[str, Span] | None = None
) -> System | None:
    """Normalise ``0 <= polynomial < bound`` (a bound of None is none) for integral polynomials and indices.

    Spans start from ``box``; parallel rows are intersected; limits are rounded inwards after division by the greatest
    common divisor. None says that some constraint, or pair of parallel constraints, never holds.
    """
    spans: dict[Terms, Span] = {((name, 1),): (None, None) for name in names}
    if box is not None:
        spans.update({((name, 1),): span for name, span in box.items()})
    for polynomial, bound in constraints:
        low = -int(polynomial.offset)
        high = None if bound is None else low + bound - 1
        if high is not None and high < low:
            return None
        if polynomial.is_constant:
            if low > 0 or (high is not None and high < 0):
                return None
            continue
        terms, span = normalised(polynomial.terms, low, high)  # type: ignore[arg-type] # integral, says the contract
        known = spans.get(terms)
        spans[terms] = span = span if known is None else narrowed(known, span)
        if span[0] is not None and span[1] is not None and span[0] > span[1]:
            return None
    singles = {terms[0][0]: span for terms, span in spans.items() if len(terms) == 1}
    return System(singles, tuple(Row(terms, *span) for terms, span in spans.items() if len(terms) > 1))


def normalised(terms: Terms, low: int | None, high: int | None) -> tuple[Terms, Span]:
    """Divide ``low <= Σ terms <= high`` by the common divisor, round inwards, and make the first term positive."""
    divisor = gcd(*(c for _, c in terms))
    if terms[0][1] < 0:
        divisor, low, high = -divisor, high, low
    if divisor == 1:
        return terms, (low, high)
    reduced = tuple((i, c // divisor) for i, c in terms)
    return reduced, (None if low is None else -(-low // divisor), None if high is None else high // divisor)


def narrowed(first: Span, second: Span) -> Span:
    """Return the intersection of two spans; it may be empty (low > high)."""
    low = second[0] if first[0] is None else first[0] if second[0] is None else max(first[0], second[0])
    high = second[1] if first[1] is None else first[1] if second[1] is None else min(first[1], second[1])
    return low, high
