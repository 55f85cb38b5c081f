"""From a contraction's accesses and constraints to its domain: the entry of this package.

A *valid point* binds every index to an integer such that every access polynomial is an integer in ``[0, size)``, and
every polynomial of a constraint an integer in ``[0, bound)``. :func:`solve` returns the same points in coordinates that
are easy to loop over.

Rational accesses become integral by a change of basis for the output, and by defractionalisation. Both steps keep the
set of valid index points, each point exactly once; only the coordinates change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor, gcd, prod
from typing import Final

from tileir.core import Diagnostic, TileError, attrs, fail
from tileir.poly.affine import Affine, Rational, total
from tileir.poly.box import enclose
from tileir.poly.constraint import RangeConstraint, Row, gather, merge, normalised, system
from tileir.poly.lattice import Coset, common_denominator, free_columns, independent, integral_points, inverse

_LIMIT = 2**63


@attrs.frozen(cache_hash=True)
class Domain:
    """The valid points of a contraction, each exactly once.

    Attributes:
        ranges: Name and range of each index, sorted by name; an index runs over ``0 <= i < range``, range >= 2.
        accesses: One integral polynomial in these indices for each axis of each tensor, output first.
        constraints: Integral polynomials that must be >= 0; none of them is implied by the ranges alone.

    The ranges are the tightest that hold all valid points, and there is at least one, unless integer
    programming ran out of its budget; ranges may then be larger and all points invalid.

    """

    ranges: tuple[tuple[str, int], ...]
    accesses: tuple[tuple[Affine, ...], ...]
    constraints: tuple[Affine, ...]


def solve(
    accesses: Sequence[Sequence[Affine]],
    sizes: Sequence[Sequence[int]],
    constraints: Sequence[tuple[Affine, int]] = (),
    reduce: bool = True,
) -> Domain | None:
    """Return the domain of a contraction; None if it has no valid point.

    The aggregate is then empty everywhere, which is no error: shapes determine it, and a program should work for all
    shapes. Only a constraint that is false and uses no index is refused. An index that occurs only in constraints
    counts as any other: each of its values is a point, so that a sum has a term for it.

    Args:
        accesses: The polynomials of the output, then those of each input; rational coefficients.
        sizes: The extent of each axis, in the same structure.
        constraints: Pairs (polynomial, bound) that mean ``0 <= polynomial < bound``.
        reduce: Whether to make the polynomials of an output that mix indices into indices of their own. Fractions are
            removed in any case, since the result would be wrong otherwise.

    Raises:
        TileError: TIL401, an index has no bounds; TIL404, a constraint without indices is false; TIL405, a number does
            not fit in 64 bits.
    """
    return _solved(
        tuple(map(tuple, accesses)),
        tuple(map(tuple, sizes)),
        tuple((each, bound) for each, bound in constraints),
        reduce,
    )


@lru_cache(maxsize=1024)  # inference asks first, then lowering; and steps of a formula, repeatedly, for borders
def _solved(
    accesses: tuple[tuple[Affine, ...], ...],
    sizes: tuple[tuple[int, ...], ...],
    constraints: tuple[tuple[Affine, int], ...],
    reduce: bool,
) -> Domain | None:
    """Return the result of :func:`solve`."""
    polynomials = [*(p for access in accesses for p in access), *(p for p, _ in constraints)]
    names = tuple(sorted({i for polynomial in polynomials for i, _ in polynomial.terms}))
    faults = tuple(_faults(accesses, constraints))
    if faults:
        raise TileError(faults)
    gathered = gather(accesses, sizes, constraints)
    fancy = reduce and is_fancy(accesses[0])
    if fancy or not all(c.polynomial.is_integral for c in gathered):
        reduced = rewrite(names, accesses, gathered, change_basis=fancy)
        if reduced is None:
            return None
        names, accesses, gathered = reduced.names, reduced.accesses, reduced.constraints
    normal = system(names, ((c.polynomial, c.bound) for c in gathered))
    bounded = None if normal is None else enclose(normal)
    return None if bounded is None else flattened(bounded.box, bounded.rows, accesses)


def constraint_only_indices(
    accesses: Iterable[Iterable[Affine]], constraints: Iterable[tuple[Affine, int]]
) -> tuple[str, ...]:
    """Return the indices that occur in constraints but in no access, sorted."""
    used = {i for access in accesses for polynomial in access for i, _ in polynomial.terms}
    return tuple(sorted({i for polynomial, _ in constraints for i, _ in polynomial.terms} - used))


def unbounded_indices(
    accesses: Iterable[Iterable[Affine]], constraints: Iterable[tuple[Affine, int]] = ()
) -> tuple[str, ...]:
    """Return indices that need a bound of their own before every index is confined, sorted; () if all are.

    All conditions limit their polynomial from both sides, so the indices are confined exactly if the polynomials
    determine them, regardless of the sizes.
    """
    polynomials = [*(p for access in accesses for p in access), *(p for p, _ in constraints)]
    names = sorted({i for p in polynomials for i, _ in p.terms})
    if len({p.terms[0][0] for p in polynomials if len(p.terms) == 1}) == len(names):
        return ()
    scales = (common_denominator([[c for _, c in p.terms]]) for p in polynomials)
    rows = [[int(p.coefficient(n) * scale) for n in names] for p, scale in zip(polynomials, scales, strict=True)]
    return tuple(names[k] for k in free_columns(rows, len(names)))


def _faults(accesses: Sequence[Sequence[Affine]], constraints: Sequence[tuple[Affine, int]]) -> Iterable[Diagnostic]:
    """Yield faults of a contraction that do not depend on sizes."""
    for name in unbounded_indices(accesses, constraints):
        yield Diagnostic(
            "TIL401",
            f"index {name!r} has no bounds: use it alone in some access, or add a constraint such as '{name} < N'",
        )
    for polynomial, bound in constraints:
        if polynomial.is_constant and not 0 <= polynomial.offset < bound:
            yield Diagnostic(
                "TIL404", f"constraint '0 <= {polynomial} < {bound}' uses no index and is false: nothing is computed"
            )


def flattened(box: Mapping[str, tuple[int, int]], rows: Sequence[Row], accesses: Sequence[Sequence[Affine]]) -> Domain:
    """Shift every index to start at 0, fold those with one value, and write rows as affines that are >= 0."""
    ranges = {name: high - low + 1 for name, (low, high) in sorted(box.items()) if high > low}
    origin = {name: low for name, (low, _) in box.items()}
    moved = tuple(tuple(_shifted(p, ranges, origin) for p in access) for access in accesses)
    limits = dict.fromkeys(limit for row in rows for limit in _limits(row, ranges, origin))
    for affine in (*(p for access in moved for p in access), *limits):
        reach = abs(int(affine.offset)) + sum(abs(int(c)) * (ranges[i] - 1) for i, c in affine.terms)
        if reach >= _LIMIT:
            raise fail("TIL405", f"index polynomial '{affine}' reaches {reach}, which does not fit in 64 bits")
    return Domain(tuple(ranges.items()), moved, tuple(limits))


def _shifted(polynomial: Affine, ranges: Mapping[str, int], origin: Mapping[str, int]) -> Affine:
    """Return the polynomial in indices that count from ``origin``; those without a range are fixed there."""
    offset = polynomial.offset
    fixed = False
    for name, coefficient in polynomial.terms:
        offset += coefficient * origin[name]
        fixed = fixed or name not in ranges
    if fixed:
        return Affine(tuple(term for term in polynomial.terms if term[0] in ranges), offset)
    return polynomial if offset == polynomial.offset else Affine(polynomial.terms, offset)


def _limits(row: Row, ranges: Mapping[str, int], origin: Mapping[str, int]) -> Iterable[Affine]:
    """Yield each side of a row that the ranges do not imply, as an affine that must be >= 0."""
    start = sum(c * origin[name] for name, c in row.terms)
    low = None if row.low is None else row.low - start
    high = None if row.high is None else row.high - start
    terms, (low, high) = normalised(tuple(term for term in row.terms if term[0] in ranges), low, high)
    form = Affine(terms)
    least, greatest = form.bounds(ranges)
    if low is not None and low > least:
        yield form - low
    if high is not None and high < greatest:
        yield high - form


_MOST_RESIDUES: Final = 16  # of an index; the search for a good order of more takes too long


@attrs.frozen
class Reduced:
    """Accesses and constraints, integral in new indices ``names`` that may be any integers.

    If all constraints hold, the original indices are integers too.
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
    """Return the problem in integral coordinates; None if no index point gives integral accesses.

    With ``change_basis`` the output polynomials become indices of their own, ``v0``, ``v1`` and so on, completed by the
    constraints of least range. Fractions are then removed by a split of every index into a residue and a quotient. The
    constraints must have full column rank in ``names``.
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

    The sort is stable, so that the order of declaration decides among equal ranges.
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
    basis serve as well; :func:`_residue_row` chooses the best one.
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
    """Return the order of residues of index k with the fewest steps of indices and the fewest moved constraints.

    A factor that is coprime to the period visits the same residues in another order, and so does a shift. The residues
    0, 1, 2 of ``3*x + 2*i`` need i = 0, 2, 1; with 0, 2, 1 in their place i < 3 is the residue itself, and needs no
    steps of its own, of which only every second one would be valid.
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
    """Return the number of constraints that the residue moves."""
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
    """Return the number of combinations of steps within the limits, each of which is valid for some residue."""
    total = 1
    for limit in limits:
        starts = [limit.origin + (r + residues.shift) * residues.row[limit.position] for r in range(period)]
        low = min(ceil(-start / limit.span) for start in starts)
        high = max(floor((limit.bound - 1 - start) / limit.span) for start in starts)
        total *= max(0, high - low + 1)
    return total


def _moved(constraints: Sequence[RangeConstraint], replacements: Mapping[str, Affine]) -> tuple[RangeConstraint, ...]:
    return tuple(RangeConstraint(c.polynomial.substitute(replacements), c.bound) for c in constraints)
