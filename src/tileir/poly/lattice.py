"""Exact integer and rational linear algebra: Hermite normal form, kernel, inverse, dual lattice.

Matrices are sequences of rows. The methods are those of H. Cohen, "A Course in Computational
Algebraic Number Theory", §2.4; entries are Python numbers, so nothing overflows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import gcd, lcm
from typing import TypeAlias

from tileir.core.nodes import attrs
from tileir.poly.affine import Rational, exact

IntegerRows: TypeAlias = tuple[tuple[int, ...], ...]
RationalRows: TypeAlias = tuple[tuple[Rational, ...], ...]


@attrs.frozen
class Hermite:
    """The Hermite normal form of a matrix A: ``form = transform · A``.

    ``transform`` is unimodular. The first ``len(pivots)`` rows of ``form`` are in echelon form with positive
    entries in the columns ``pivots``; above a pivot, entries lie in [0, pivot). The other rows are zero.
    """

    form: IntegerRows
    transform: IntegerRows
    pivots: tuple[int, ...]

    @property
    def basis(self) -> IntegerRows:
        """The non-zero rows: a basis of the lattice that the rows of A span."""
        return self.form[: len(self.pivots)]

    @property
    def relations(self) -> IntegerRows:
        """A basis of the integer vectors ``u`` with ``u · A = 0``."""
        return self.transform[len(self.pivots) :]


def hermite(rows: Sequence[Sequence[int]]) -> Hermite:
    """Return the Hermite normal form of an integer matrix by row operations (Cohen, Algorithm 2.4.4)."""
    width = len(rows[0]) if rows else 0
    work = [[*row, *(int(i == k) for k in range(len(rows)))] for i, row in enumerate(rows)]
    pivots = _eliminate(work, width)
    form = tuple(tuple(row[:width]) for row in work)
    return Hermite(form, tuple(tuple(row[width:]) for row in work), pivots)


def _eliminate(work: list[list[int]], width: int) -> tuple[int, ...]:
    """Bring the first ``width`` columns of ``work`` to Hermite form in place; return the pivot columns."""
    pivots: list[int] = []
    for column in range(width):
        top = len(pivots)
        if not _clear_below(work, top, column):
            continue
        pivot = work[top]
        if pivot[column] < 0:
            pivot = work[top] = [-x for x in pivot]
        for above in range(top):
            factor = work[above][column] // pivot[column]
            if factor != 0:
                work[above] = [x - factor * y for x, y in zip(work[above], pivot, strict=True)]
        pivots.append(column)
    return tuple(pivots)


def _clear_below(work: list[list[int]], top: int, column: int) -> bool:
    """Gather the greatest common divisor of the column, from row ``top`` on, in row ``top`` by Euclid's steps."""
    while True:
        live = [r for r in range(top, len(work)) if work[r][column] != 0]
        if not live:
            return False
        least = min(live, key=lambda r: abs(work[r][column]))
        work[top], work[least] = work[least], work[top]
        pivot = work[top]
        done = True
        for r in range(top + 1, len(work)):
            factor = work[r][column] // pivot[column]
            if factor != 0:
                work[r] = [x - factor * y for x, y in zip(work[r], pivot, strict=True)]
            done = done and work[r][column] == 0
        if done:
            return True


def kernel(rows: Sequence[Sequence[int]], width: int) -> IntegerRows:
    """Return a basis of the integer vectors ``v``, of length ``width``, with ``A · v = 0``."""
    return () if width == 0 else hermite([[row[k] for row in rows] for k in range(width)]).relations


def inverse(matrix: Sequence[Sequence[Rational]]) -> RationalRows | None:
    """Return the inverse of a square rational matrix; None if it is singular.

    Works without fractions (E. Bareiss, "Sylvester's identity and multistep integer-preserving Gaussian elimination",
    1968): after each step all pivots found so far have the same value.
    """
    size = len(matrix)
    scales = [common_denominator((row,)) for row in matrix]
    work = [
        [*(int(x * scale) for x in row), *(scale if i == k else 0 for k in range(size))]
        for i, (row, scale) in enumerate(zip(matrix, scales, strict=True))
    ]
    divisor = 1
    for column in range(size):
        found = next((r for r in range(column, size) if work[r][column] != 0), None)
        if found is None:
            return None
        work[column], work[found] = work[found], work[column]
        lead = work[column]
        pivot = lead[column]
        for r in range(size):
            if r != column:
                factor = work[r][column]
                work[r] = [(pivot * x - factor * y) // divisor for x, y in zip(work[r], lead, strict=True)]
        divisor = pivot
    return tuple(tuple(exact(Fraction(x, divisor)) if x else 0 for x in row[size:]) for row in work)


def independent(rows: Iterable[Sequence[Rational]], wanted: int) -> tuple[int, ...]:
    """Return the numbers of the first rows that are linearly independent, at most ``wanted`` of them."""
    chosen: list[int] = []
    reduced: list[tuple[int, list[int]]] = []
    for number, row in enumerate(rows):
        if len(chosen) == wanted:
            break
        scale = common_denominator((row,))
        rest = [int(x * scale) for x in row]
        for column, other in reduced:
            factor, lead = rest[column], other[column]
            if factor != 0:
                rest = [lead * x - factor * y for x, y in zip(rest, other, strict=True)]
        divisor = gcd(*rest)
        if divisor != 0:
            rest = [x // divisor for x in rest]
            reduced.append((next(k for k, x in enumerate(rest) if x != 0), rest))
            chosen.append(number)
    return tuple(chosen)


def free_columns(rows: Iterable[Sequence[int]], width: int) -> tuple[int, ...]:
    """Return the columns that the rows do not determine: those without a pivot in the echelon form."""
    work = [list(row) for row in rows]
    pivots = _eliminate(work, width)
    return tuple(k for k in range(width) if k not in pivots)


def common_denominator(rows: Iterable[Iterable[Rational]]) -> int:
    """Return the least positive number that makes every entry integral."""
    return lcm(*(x.denominator for row in rows for x in row))


def dual(rows: Sequence[Sequence[Rational]]) -> RationalRows:
    """Return the dual of the lattice that ``rows`` span: a basis of the vectors ``v`` with ``row · v`` integral.

    ``rows`` must have full column rank. The basis is upper triangular and in Hermite normal form.
    """
    spanned = _rational_hermite(rows)
    inverted = inverse(spanned) if len(spanned) == len(rows[0]) else None
    if inverted is None:
        raise ValueError("the rows of a dual lattice must have full column rank")
    return _rational_hermite(tuple(zip(*inverted, strict=True)))


def _rational_hermite(rows: Sequence[Sequence[Rational]]) -> RationalRows:
    """Return the non-zero rows of the Hermite normal form of a rational matrix."""
    scale = common_denominator(rows)
    work = [[int(x * scale) for x in row] for row in rows]
    pivots = _eliminate(work, len(rows[0]))
    return tuple(tuple(exact(Fraction(x, scale)) if x else 0 for x in row) for row in work[: len(pivots)])


@attrs.frozen
class Coset:
    """The points ``origin + Σ k_j · basis[j]`` for integers ``k_j``; ``basis`` is upper triangular.

    ``periods[j]`` is the least ``m > 0`` for which ``m · basis[j][j]`` along axis j leads from point to point.
    """

    origin: tuple[Rational, ...]
    basis: RationalRows
    periods: tuple[int, ...]


def integral_points(rows: Sequence[Sequence[Rational]], offsets: Sequence[Rational]) -> Coset | None:
    """Return all rational ``v`` for which every ``rows[k] · v + offsets[k]`` is integral; None if there is none.

    ``rows`` must have full column rank. The offset is treated as an additional leading coordinate: a solution exists
    exactly if that coordinate can be 1, and the first row of the dual basis then holds the solution.
    """
    unit = (1, *(0 for _ in rows[0]))
    extended = dual([unit, *((offset, *row) for offset, row in zip(offsets, rows, strict=True))])
    lead, *rest = extended
    if lead[0] != 1:
        return None
    basis = tuple(row[1:] for row in rest)
    periods = tuple(lcm(*((row[k] * basis[k][k]).denominator for row in rows)) for k in range(len(basis)))
    return Coset(lead[1:], basis, periods)


def meet(start: int, step: int, other_start: int, other_step: int) -> tuple[int, int] | None:
    """Return (start, step) of the integers in two progressions with positive steps, or None if they are disjoint.

    The Chinese remainder theorem for moduli that need not be coprime; the start lies in [0, step).
    """
    divisor = gcd(step, other_step)
    if (other_start - start) % divisor != 0:
        return None
    modulus = other_step // divisor
    factor = (other_start - start) // divisor * pow(step // divisor, -1, modulus) if modulus > 1 else 0
    combined = step * modulus
    return (start + step * factor) % combined, combined
