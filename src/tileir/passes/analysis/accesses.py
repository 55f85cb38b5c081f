"""Which elements a refinement touches, and whether different index points touch different ones."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING

from tileir.poly.affine import Affine

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tileir.poly.affine import Rational
    from tileir.stripe.ir import Block, Refinement

_MOST_SAMPLES = 3**8
"""Most reduction points that :func:`always_reached` tries for one group of indices that constraints tie together."""


def address(refinement: Refinement) -> Affine:
    """Return the displacement of a view from that of its source, in elements."""
    result = Affine()
    for access, dim in zip(refinement.access, refinement.shape.dims, strict=True):
        result = result + access * dim.stride
    return result


def is_element(refinement: Refinement) -> bool:
    """Return whether one point touches one element only."""
    return refinement.shape.elements == 1


def injective(accesses: Sequence[Affine], strides: Sequence[int], ranges: Mapping[str, int]) -> bool:
    """Return whether it is certain that different points of the box ``ranges`` have different accesses.

    Two sufficient tests: the accesses are independent as rational functions of the indices, or the addresses
    count like the digits of a number, where each place outweighs all lower ones together. The second takes
    for granted that accesses stay inside a tensor of these ``strides`` whose elements do not overlap.
    """
    moving = [name for name, count in ranges.items() if count > 1]
    columns = [[access.coefficient(name) for access in accesses] for name in moving]
    return _rank(columns) == len(moving) or _counts_like_digits(columns, strides, [ranges[n] for n in moving])


def _rank(rows: Iterable[Sequence[Rational]]) -> int:
    """Return the rank of a matrix, by elimination over the rationals."""
    basis: list[tuple[int, list[Fraction]]] = []
    for row in rows:
        rest = [Fraction(value) for value in row]
        for pivot, vector in basis:
            if (factor := rest[pivot] / vector[pivot]) != 0:
                rest = [a - factor * b for a, b in zip(rest, vector, strict=True)]
        lead = next((position for position, value in enumerate(rest) if value != 0), None)
        if lead is not None:
            basis.append((lead, rest))
    return len(basis)


def _counts_like_digits(columns: Sequence[Sequence[Rational]], strides: Sequence[int], counts: Sequence[int]) -> bool:
    weights = (abs(sum(c * s for c, s in zip(column, strides, strict=True))) for column in columns)
    reach: Rational = 0
    for weight, count in sorted(zip(weights, counts, strict=True)):
        if weight <= reach:
            return False
        reach += weight * (count - 1)
    return True


def always_reached(constraints: Sequence[Affine], outer: Mapping[str, int], inner: Mapping[str, int]) -> bool:
    """Return whether it is certain that every point of ``outer`` has one of ``inner`` that meets all constraints.

    Tries the corners and middles of ``inner``, and bounds the constraints over all of ``outer`` at once; indices
    that no constraint ties together are tried apart.
    """
    if any(count < 1 for count in inner.values()):
        return False
    return all(
        _some_point_fits([c for c in constraints if group.intersection(c.indices)], outer, inner, sorted(group))
        for group in _groups(constraints, inner)
    )


def _groups(constraints: Iterable[Affine], names: Mapping[str, int]) -> list[set[str]]:
    """Return the sets of indices that share constraints."""
    groups: list[set[str]] = []
    for constraint in constraints:
        joined = {name for name in constraint.indices if name in names}
        if not joined:
            continue
        apart = [group for group in groups if not group & joined]
        groups = [*apart, joined.union(*(group for group in groups if group & joined))]
    return groups


def _some_point_fits(
    constraints: Sequence[Affine], outer: Mapping[str, int], inner: Mapping[str, int], group: Sequence[str]
) -> bool:
    if 3 ** len(group) > _MOST_SAMPLES:
        return False
    samples = [sorted({0, (inner[name] - 1) // 2, inner[name] - 1}) for name in group]
    return any(
        all(
            constraint.substitute(dict(zip(group, point, strict=True))).bounds(outer)[0] >= 0
            for constraint in constraints
        )
        for point in product(*samples)
    )


def known_ranges(block: Block) -> dict[str, int]:
    """Return the ranges of the indices that start at 0, which are those without an affine."""
    return {index.name: index.range for index in block.indices if index.affine is None}
