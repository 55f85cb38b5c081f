"""From a contraction's accesses and constraints to its domain: the entry of this package.

A *valid point* binds every index to an integer such that every access polynomial is an integer in
``[0, size)``, and every polynomial of a constraint an integer in ``[0, bound)``. :func:`solve` returns the
same points in coordinates that are easy to loop over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import attrs

from tileir.core.errors import Diagnostic, TileError, fail
from tileir.poly.affine import Affine
from tileir.poly.box import enclose
from tileir.poly.constraint import Row, gather, normalised, system
from tileir.poly.lattice import common_denominator, free_columns
from tileir.poly.reduction import is_fancy, rewrite

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
    """Return the domain of a contraction; None when it has no valid point.

    The aggregate is then empty everywhere, which is no error: shapes decide it, and a program should work for all
    shapes. Only a constraint that is false and uses no index is refused. An index of constraints alone counts as any
    other: each of its values is a point, so that a sum has a term for it.

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


@lru_cache(maxsize=1024)  # inference asks first, then lowering; and steps of a formula, again and again, for borders
def _solved(
    accesses: tuple[tuple[Affine, ...], ...],
    sizes: tuple[tuple[int, ...], ...],
    constraints: tuple[tuple[Affine, int], ...],
    reduce: bool,
) -> Domain | None:
    """Return what :func:`solve` returns."""
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
    """Return the indices that stand in constraints but in no access, sorted."""
    used = {i for access in accesses for polynomial in access for i, _ in polynomial.terms}
    return tuple(sorted({i for polynomial, _ in constraints for i, _ in polynomial.terms} - used))


def unbounded_indices(
    accesses: Iterable[Iterable[Affine]], constraints: Iterable[tuple[Affine, int]] = ()
) -> tuple[str, ...]:
    """Return indices that need a bound of their own before every index is confined, sorted; () when all are.

    All conditions limit their polynomial from both sides, so the indices are confined exactly if the
    polynomials determine them, whatever the sizes are.
    """
    polynomials = [*(p for access in accesses for p in access), *(p for p, _ in constraints)]
    names = sorted({i for p in polynomials for i, _ in p.terms})
    if len({p.terms[0][0] for p in polynomials if len(p.terms) == 1}) == len(names):
        return ()
    scales = (common_denominator([[c for _, c in p.terms]]) for p in polynomials)
    rows = [[int(p.coefficient(n) * scale) for n in names] for p, scale in zip(polynomials, scales, strict=True)]
    return tuple(names[k] for k in free_columns(rows, len(names)))


def _faults(accesses: Sequence[Sequence[Affine]], constraints: Sequence[tuple[Affine, int]]) -> Iterable[Diagnostic]:
    """Say what is wrong with a contraction whatever the sizes are."""
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
