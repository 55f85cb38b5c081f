"""From rational accesses to integral ones: change of basis for the output, and defractionalisation.

Both steps keep the set of valid index points, each point exactly once; only the coordinates change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil, floor, gcd, prod
from typing import Final

import attrs

from tileir.poly.affine import Affine, Rational, total
from tileir.poly.constraint import RangeConstraint, merge
from tileir.poly.lattice import Coset, independent, integral_points, inverse

_MOST_RESIDUES: Final = 16  # of an index; the search for a good order of more takes too long


@attrs.frozen
class Reduced:
    """Accesses and constraints, integral in new indices ``names`` that may be any integers.

    Where all constraints hold, the original indices are integers too.
    """

    names: tuple[str, ...]
    accesses: tuple[tuple[Affine, ...], ...]
    constraints: tuple[RangeConstraint, ...]


def is_fancy(output: Sequence[Affine]) -> bool:
    """Return whether some output polynomial mixes several indices, so that a change of basis pays."""
    return any(len(polynomial.terms) > 1 for polynomial in output)


def rewrite(
    names: Sequence[str],
    accesses: Sequence[Sequence[Affine]],
    constraints: Sequence[RangeConstraint],
    *,
    change_basis: bool,
) -> Reduced | None:
    """Return the problem in integral coordinates; None when no index point gives integral accesses.

    With ``change_basis`` the output polynomials become indices of their own, ``v0``, ``v1`` and so on, filled up by
    the constraints of least range. Fractions are then removed by a split of every index into a residue and a
    quotient. The constraints must have full column rank in ``names``.
    """
    old = _basis(names, accesses[0], constraints) if change_basis else {name: Affine.index(name) for name in names}
    new = tuple(f"v{k}" for k in range(len(names))) if change_basis else tuple(names)
    moved = tuple(tuple(p.substitute(old) for p in access) for access in accesses)
    merged = merge(_moved(constraints, old))
    if merged is None:
        return None
    fractional = [p for p in (*old.values(), *(c.polynomial for c in merged)) if not p.is_integral]
    if not fractional:
        return Reduced(new, moved, merged)
    involved = tuple(name for name in new if any(p.coefficient(name) != 0 for p in fractional))
    # The new indices are integers themselves: original ones, or polynomials that a constraint makes integral.
    units = [Affine.index(name) for name in involved]
    rows = [[p.coefficient(name) for name in involved] for p in (*fractional, *units)]
    points = integral_points(rows, [p.offset for p in (*fractional, *units)])
    return None if points is None else _split(new, involved, points, moved, merged)


def _basis(names: Sequence[str], output: Sequence[Affine], constraints: Sequence[RangeConstraint]) -> dict[str, Affine]:
    """Express each index by new ones: the polynomials of the output, then those of the constraints of least range.

    The sort is stable, so that among equal ranges the order of declaration decides.
    """
    ordered = sorted(constraints, key=lambda constraint: constraint.bound)
    candidates = [*output, *(constraint.polynomial for constraint in ordered)]
    rows = [[p.coefficient(name) for name in names] for p in candidates]
    chosen = independent(rows, len(names))
    inverted = inverse([rows[k] for k in chosen]) if len(chosen) == len(names) else None
    if inverted is None:
        raise ValueError("the constraints do not determine every index")
    basis = [Affine.index(f"v{k}") - candidates[number].offset for k, number in enumerate(chosen)]
    return {
        name: total(polynomial * factor for polynomial, factor in zip(basis, row, strict=True) if factor != 0)
        for name, row in zip(names, inverted, strict=True)
    }


def _split(
    names: Sequence[str],
    involved: Sequence[str],
    points: Coset,
    accesses: Sequence[Sequence[Affine]],
    constraints: Sequence[RangeConstraint],
) -> Reduced:
    """Split each index v into ``v_0``, a residue, and ``v_1``, steps along its own axis; or into steps ``v_0`` alone.

    Every point of the coset is ``origin + Σ residue_j · basis[j] + Σ step_j · period_j · basis[j][j] · axis_j`` in
    exactly one way with ``0 <= residue_j < period_j``, since the basis is triangular. Other multiples of a row of the
    basis serve as well; :func:`_residue_row` says which is best.
    """
    replacements = {name: Affine.index(f"{name}_0") for name in names if name not in involved}
    residues: list[RangeConstraint] = []
    sums = [Affine.constant(x) for x in points.origin]
    for k, (name, period, row) in enumerate(zip(involved, points.periods, points.basis, strict=True)):
        if period > 1:
            residue = Affine.index(f"{name}_0")
            residues.append(RangeConstraint(residue, period))
            chosen = _residue_row(k, involved, points, constraints)
            for later in range(k, len(involved)):
                sums[later] = sums[later] + (residue + chosen.shift) * chosen.row[later]
        step = Affine.index(f"{name}_1" if period > 1 else f"{name}_0")
        replacements[name] = sums[k] + step * (row[k] * period)
    return Reduced(
        tuple(dict.fromkeys(i for name in names for i in replacements[name].indices)),
        tuple(tuple(p.substitute(replacements) for p in access) for access in accesses),
        (*_moved(constraints, replacements), *residues),
    )


@attrs.frozen(repr=False)
class _Residues:
    """A residue r counts ``(r + shift) · row``."""

    row: tuple[Rational, ...]
    shift: int = 0


def _residue_row(k: int, involved: Sequence[str], points: Coset, constraints: Sequence[RangeConstraint]) -> _Residues:
    """Return how to count residues of index k so that indices take the fewest steps, and move the fewest constraints.

    A factor that has no divisor in common with the period visits the same residues in another order, and so does a
    shift. The residues 0, 1, 2 of ``3*x + 2*i`` ask for i = 0, 2, 1; with 0, 2, 1 in their place i < 3 is the residue
    itself, and needs no steps of its own, of which only every second one would be valid.
    """
    row, period = points.basis[k], points.periods[k]
    first = _Residues(tuple(row))
    limits = _single_limits(k, involved, points, constraints)
    least = prod(-(-limit.bound // limit.span) for limit in limits)
    if not 2 < period <= _MOST_RESIDUES or _steps(first, period, limits) <= least:
        return first
    spans = [points.basis[j][j] * points.periods[j] for j in range(k, len(involved))]
    candidates = [first]
    for factor in (f for f in range(1, period) if gcd(f, period) == 1):
        positive = [factor * x % span for x, span in zip(row[k:], spans, strict=True)]
        nearest = [x - span if 2 * x > span else x for x, span in zip(positive, spans, strict=True)]
        rows = dict.fromkeys((*row[:k], *rest) for rest in (positive, nearest))
        candidates += [_Residues(new, shift) for new in rows for shift in range(period)]
    return min(candidates, key=lambda c: (_steps(c, period, limits), _moves(c, involved, constraints)))


def _moves(residues: _Residues, involved: Sequence[str], constraints: Sequence[RangeConstraint]) -> int:
    """Return how many constraints the residue moves."""
    row = tuple(zip(involved, residues.row, strict=True))
    return sum(1 for c in constraints if sum(c.polynomial.coefficient(name) * x for name, x in row) != 0)


@attrs.frozen(repr=False)
class _Limit:
    """``0 <= factor · (index number position) < bound``, where that index is ``origin + … + span · step``."""

    position: int
    origin: Rational
    span: Rational
    bound: Rational


def _single_limits(
    k: int, involved: Sequence[str], points: Coset, constraints: Sequence[RangeConstraint]
) -> tuple[_Limit, ...]:
    """Return the tightest limits of single indices that residue k moves and no other residue does."""
    found: dict[int, _Limit] = {}
    for constraint in constraints:
        names = constraint.polynomial.indices
        if len(names) != 1 or names[0] not in involved:
            continue
        factor = constraint.polynomial.coefficient(names[0])
        j = involved.index(names[0])
        others = (i for i in range(j + 1) if i != k and points.periods[i] > 1)
        if j < k or any(points.basis[i][j] != 0 for i in others):
            continue
        origin = points.origin[j] + Fraction(constraint.polynomial.offset) / factor
        bound = abs(Fraction(max(0, constraint.bound - 1)) / factor)
        limit = _Limit(j, origin if factor > 0 else origin + bound, points.basis[j][j] * points.periods[j], bound + 1)
        if j not in found or limit.bound < found[j].bound:
            found[j] = limit
    return tuple(found.values())


def _steps(residues: _Residues, period: int, limits: Sequence[_Limit]) -> int:
    """Return how many combinations of steps the limits leave, each of which is valid for some residue."""
    total = 1
    for limit in limits:
        starts = [limit.origin + (r + residues.shift) * residues.row[limit.position] for r in range(period)]
        low = min(ceil(-start / limit.span) for start in starts)
        high = max(floor((limit.bound - 1 - start) / limit.span) for start in starts)
        total *= max(0, high - low + 1)
    return total


def _moved(constraints: Sequence[RangeConstraint], replacements: Mapping[str, Affine]) -> tuple[RangeConstraint, ...]:
    """Substitute in the polynomials."""
    return tuple(RangeConstraint(c.polynomial.substitute(replacements), c.bound) for c in constraints)
