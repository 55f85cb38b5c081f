"""The index problems of ``tileir.poly``, asked of isl."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import islpy as isl

from tileir.poly.lattice import common_denominator

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from strategies.poly import Problem
    from tileir.poly.affine import Affine, Rational
    from tileir.poly.bounds import Domain


def text_of(polynomial: Affine) -> str:
    """Write an integral polynomial in isl's language."""
    return " + ".join([f"{polynomial.offset}", *(f"{c}{i}" for i, c in polynomial.terms)])


def between(polynomial: Affine, bound: int) -> str:
    """Write that a polynomial is an integer and ``0 <= polynomial < bound``."""
    scale = common_denominator([[polynomial.offset, *(c for _, c in polynomial.terms)]])
    scaled = text_of(polynomial * scale)
    return f"0 <= {scaled} and {scaled} < {bound * scale} and ({scaled}) mod {scale} = 0"


def set_of(names: Iterable[str], conditions: Iterable[str]) -> isl.Set:
    """Return the isl set of the integer points that meet all conditions."""
    return isl.Set(f"{{ [{', '.join(names)}] : {' and '.join(['true', *conditions])} }}")


def valid_points(problem: Problem) -> tuple[tuple[str, ...], isl.Set]:
    """Return the indices of a problem and the set of its valid points."""
    polynomials = [*(p for access in problem.accesses for p in access), *(p for p, _ in problem.constraints)]
    names = tuple(sorted({i for p in polynomials for i in p.indices}))
    conditions = [
        between(p, size)
        for access, sizes in zip(problem.accesses, problem.sizes, strict=True)
        for p, size in zip(access, sizes, strict=True)
    ]
    conditions += [between(p, bound) for p, bound in problem.constraints]
    return names, set_of(names, conditions)


def points_of(names: Sequence[str], points: isl.Set) -> Iterator[dict[str, int]]:
    """Enumerate a bounded set as bindings of its indices."""
    found: list[dict[str, int]] = []

    def visit(point: isl.Point) -> None:
        found.append({n: point.get_coordinate_val(isl.dim_type.set, k).to_python() for k, n in enumerate(names)})

    points.foreach_point(visit)
    return iter(found)


def domain_points(domain: Domain) -> Iterator[dict[str, int]]:
    """Enumerate the valid points of a domain by brute force."""
    names = [name for name, _ in domain.ranges]
    for values in product(*(range(extent) for _, extent in domain.ranges)):
        point = dict(zip(names, values, strict=True))
        if all(c.evaluate(point) >= 0 for c in domain.constraints):
            yield point


def elements(accesses: Iterable[Iterable[Affine]], point: Mapping[str, int]) -> tuple[tuple[Rational, ...], ...]:
    """Return which element of each tensor a point reaches."""
    return tuple(tuple(p.evaluate(point) for p in access) for access in accesses)
