"""From rational accesses to integral ones: change of basis for the output, and defractionalisation.

Both steps keep the set of valid index points, each point exactly once; only the coordinates change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from tileir.poly.affine import Affine, total
from tileir.poly.constraint import RangeConstraint, merge
from tileir.poly.lattice import independent, integral_points, inverse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tileir.poly.lattice import Coset


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


def is_integral(accesses: Sequence[Sequence[Affine]]) -> bool:
    """Return whether all coefficients and offsets are integers."""
    return all(polynomial.is_integral for access in accesses for polynomial in access)


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
    exactly one way with ``0 <= residue_j < period_j``, since the basis is triangular.
    """
    replacements = {name: Affine.index(f"{name}_0") for name in names if name not in involved}
    residues: list[RangeConstraint] = []
    sums = [Affine.constant(x) for x in points.origin]
    for k, (name, period, row) in enumerate(zip(involved, points.periods, points.basis, strict=True)):
        if period > 1:
            residue = Affine.index(f"{name}_0")
            residues.append(RangeConstraint(residue, period))
            for later in range(k, len(involved)):
                sums[later] = sums[later] + residue * row[later]
        step = Affine.index(f"{name}_1" if period > 1 else f"{name}_0")
        replacements[name] = sums[k] + step * (row[k] * period)
    return Reduced(
        tuple(dict.fromkeys(i for name in names for i in replacements[name].indices)),
        tuple(tuple(p.substitute(replacements) for p in access) for access in accesses),
        (*_moved(constraints, replacements), *residues),
    )


def _moved(constraints: Sequence[RangeConstraint], replacements: Mapping[str, Affine]) -> tuple[RangeConstraint, ...]:
    """Substitute in the polynomials."""
    return tuple(RangeConstraint(c.polynomial.substitute(replacements), c.bound) for c in constraints)
