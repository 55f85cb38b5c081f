"""Proofs about the points of a domain: which elements they write, and how often.

True is always a proof. False may mean "not decided"; each function says when.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import gcd, prod
from typing import TypeAlias

from tileir.poly.affine import Affine, total
from tileir.poly.bounds import Domain
from tileir.poly.box import feasible
from tileir.poly.constraint import system
from tileir.poly.lattice import kernel

Box: TypeAlias = tuple[tuple[int, int], ...]
"""The least and the greatest coordinate on each axis."""

_MOST_CONSTRAINTS = 64  # elimination may square their number at each step


def covers(domain: Domain, sizes: Sequence[int], output: int = 0) -> bool:
    """Return whether every element of tensor number ``output``, of extents ``sizes``, is reached by a valid point.

    Exact if the axes share no index, no constraint involves output indices alone, and :func:`always_hit` is exact; if
    axes share indices it is exact if elements are reached at most once.
    """
    polynomials = domain.accesses[output]
    used = {i: None for polynomial in polynomials for i in polynomial.indices}
    ranges = {name: extent for name, extent in domain.ranges if name in used}
    if not always_hit(domain, ranges):
        return False
    if sum(len(polynomial.terms) for polynomial in polynomials) == len(used):
        return all(_fills(polynomial, size, ranges) for polynomial, size in zip(polynomials, sizes, strict=True))
    return prod(ranges.values()) == prod(sizes) and injective(polynomials, ranges)


def filled_box(domain: Domain, output: int = 0) -> Box | None:
    """Return the box of the elements of tensor number ``output`` that valid points reach, if it is one.

    That is decided if each axis is a constant, or one index with coefficient 1 or -1 that no other axis has; otherwise
    the result is None.
    """
    polynomials = domain.accesses[output]
    used = [i for polynomial in polynomials for i in polynomial.indices]
    ranges = {name: extent for name, extent in domain.ranges if name in used}
    steps = [c for polynomial in polynomials for _, c in polynomial.terms]
    simple = len(used) == len(ranges) and all(abs(c) == 1 for c in steps)
    if not simple or any(len(p.terms) > 1 for p in polynomials) or not always_hit(domain, ranges):
        return None
    return tuple((int(low), int(high)) for low, high in (polynomial.bounds(ranges) for polynomial in polynomials))


def boxes_cover(boxes: Sequence[Box], sizes: Sequence[int]) -> bool:
    """Return whether boxes, side by side along one axis, hold every element of a tensor with these extents."""
    whole = tuple((0, size - 1) for size in sizes)
    axes = [axis for axis, limits in enumerate(whole) if any(box[axis] != limits for box in boxes)]
    if len(axes) != 1:
        return not axes and bool(boxes)
    reached = -1
    for low, high in sorted(box[axes[0]] for box in boxes):
        if low > reached + 1:
            return False
        reached = max(reached, high)
    return reached == sizes[axes[0]] - 1


def _fills(polynomial: Affine, size: int, ranges: Mapping[str, int]) -> bool:
    """Return whether the polynomial takes every value in [0, size) over the box: a mixed-radix argument.

    Sums of multiples have no gap exactly if each step, in ascending order, is at most one more than the reach of the
    smaller ones.
    """
    reach = 0
    for step, extent in sorted((abs(int(c)), ranges[i]) for i, c in polynomial.terms):
        if step > reach + 1:
            return False
        reach += step * (extent - 1)
    low, high = polynomial.bounds(ranges)
    return low <= 0 and high >= size - 1


def always_hit(domain: Domain, indices: Iterable[str], given: Sequence[Affine] = ()) -> bool:
    """Return whether for every point of the box of ``indices`` some values of the others make a valid point.

    Points at which one of the affines ``given``, over ``indices``, is below 0 do not count.

    The others are eliminated one by one by the Fourier-Motzkin method, with the "dark shadow" of W. Pugh, "The Omega
    test" (1991), which keeps only points that certainly have an integer above them. Exact as long as one of the
    coefficients in each pair of limits is 1 or -1.
    """
    ranges = dict(domain.ranges)
    kept = frozenset(indices)
    constraints = [c for c in domain.constraints if not _follows(c, given, ranges)]
    while constraints:
        inner = dict.fromkeys(i for constraint in constraints for i in constraint.indices if i not in kept)
        if not inner or len(constraints) > _MOST_CONSTRAINTS:
            return False
        name = min(inner, key=lambda i: _pairs(constraints, i))
        shadow = _without(name, ranges[name], constraints)
        left = (c for c in dict.fromkeys(map(tightened, shadow)) if c.bounds(ranges)[0] < 0)
        constraints = [c for c in left if not _follows(c, given, ranges)]
    return True


def _follows(constraint: Affine, given: Iterable[Affine], ranges: Mapping[str, int]) -> bool:
    """Return whether a constraint >= 0 follows from one of ``given``, all of which are >= 0; False if in doubt."""
    return any((constraint - known).bounds(ranges)[0] >= 0 for known in given)


def _pairs(constraints: Iterable[Affine], name: str) -> int:
    """Return the number of constraints that the elimination of an index makes."""
    signs = [c.coefficient(name) > 0 for c in constraints if c.coefficient(name) != 0]
    return (1 + sum(signs)) * (1 + len(signs) - sum(signs))


def _without(name: str, extent: int, constraints: Sequence[Affine]) -> Iterable[Affine]:
    """Yield constraints without the index ``name`` under which it has an integer value in [0, extent)."""
    index = Affine.index(name)
    lower = [index]
    upper = [extent - 1 - index]
    for constraint in constraints:
        coefficient = constraint.coefficient(name)
        if coefficient == 0:
            yield constraint
        else:
            (lower if coefficient > 0 else upper).append(constraint)
    for below in lower:
        for above in upper:
            a, b = below.coefficient(name), -above.coefficient(name)
            yield below * b + above * a - (a - 1) * (b - 1)


def eliminated(
    name: str, extent: int, constraints: Sequence[Affine], ranges: Mapping[str, int]
) -> tuple[Affine, ...] | None:
    """Return affines >= 0 exactly where an index in [0, extent) has a value that satisfies all ``constraints >= 0``.

    Constraints that hold in all of the box of ``ranges`` are left out. None if that is not decided: two limits whose
    coefficients are not 1 or -1 may have no integer between them.
    """
    index = Affine.index(name)
    lower = [index, *(c for c in constraints if c.coefficient(name) > 0)]
    upper = [extent - 1 - index, *(c for c in constraints if c.coefficient(name) < 0)]
    kept = [c for c in constraints if not c.coefficient(name)]
    for below in lower:
        for above in upper:
            a, b = below.coefficient(name), -above.coefficient(name)
            shadow = below * b + above * a
            if (shadow - (a - 1) * (b - 1)).bounds(ranges)[0] >= 0:
                continue
            if a > 1 and b > 1:
                return None
            kept.append(shadow)
    return tuple(c for c in dict.fromkeys(map(tightened, kept)) if c.bounds(ranges)[0] < 0)


def tightened(constraint: Affine) -> Affine:
    """Divide ``constraint >= 0`` by the common divisor of its coefficients and round inwards."""
    divisor = gcd(*(int(c) for _, c in constraint.terms))
    if divisor <= 1:
        return constraint
    return Affine(tuple((i, int(c) // divisor) for i, c in constraint.terms), int(constraint.offset) // divisor)


def injective(polynomials: Sequence[Affine], ranges: Mapping[str, int], constraints: Sequence[Affine] = ()) -> bool:
    """Return whether no two points of the box that satisfy all ``constraints >= 0`` give equal polynomials.

    Two such points differ by a vector of the polynomials' integer kernel. Integer programs look for a vector that leads
    from a point of the set to another; the answer is exact unless one of them exceeds its budget.
    """
    names = tuple(ranges)
    basis = kernel([[int(p.coefficient(name)) for name in names] for p in polynomials], len(names))
    if not basis or min(ranges.values()) <= 0:
        return True
    # Names with a sign in them cannot clash with those of indices.
    steps = [Affine.index(f"+{k}") for k in range(len(basis))]
    moves = {
        name: total(step * row[column] for step, row in zip(steps, basis, strict=True))
        for column, name in enumerate(names)
    }
    if not constraints and any(ranges[i] > 1 and not any(p.coefficient(i) for p in polynomials) for i in names):
        return False
    confined = [(moves[name] + (ranges[name] - 1), 2 * ranges[name] - 1) for name in names]
    if _no_move(moves, confined, []):
        return True
    if not constraints:
        return False
    other = {name: Affine.index(name) + move for name, move in moves.items()}
    within = [(form, ranges[name]) for name in names for form in (Affine.index(name), other[name])]
    ends = [end for constraint in constraints for end in (constraint, constraint.substitute(other))]
    return _no_move(moves, [*confined, *within], ends)


def _no_move(moves: Mapping[str, Affine], confined: Sequence[tuple[Affine, int]], ends: Sequence[Affine]) -> bool:
    """Return whether it is proved that every move but zero breaks a constraint.

    A move and its opposite are equally possible, so it is enough to test for each index in turn whether it can be the
    first one that moves, upwards.
    """
    conditions: list[tuple[Affine, int | None]] = [*confined, *((end, None) for end in ends)]
    names = sorted({i for form, _ in conditions for i in form.indices})
    for move in moves.values():
        if move.is_constant:
            continue
        given = system(names, [*conditions, (move - 1, None)])
        if given is not None and feasible(given) is not False:
            return False
        conditions.append((move, 1))
    return True
