"""Exact decision whether the accesses of a contraction stay inside their tensors.

A point that leaves a tensor does not count, which is how programs pad and cut. What *defines* the range of an index are
the constraints and the axes that it stands in alone, ``A[i]``; every other axis can be left. Where these leave some
index without bounds, the axes that such an index stands in define its range, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import lcm

from tileir.core import attrs, grouped
from tileir.poly.affine import Affine
from tileir.poly.bounds import unbounded_indices
from tileir.poly.box import feasible
from tileir.poly.constraint import system


@attrs.frozen
class Axis:
    """One axis of one access: ``polynomial`` is meant to be an integer in ``[0, size)``.

    Attributes:
        access: Number of the access; the output is number 0.
        axis: Number of the axis.
        polynomial: What stands there.
        size: The extent of the tensor.

    """

    access: int
    axis: int
    polynomial: Affine
    size: int

    @property
    def index(self) -> str | None:
        """The index that stands here alone, as in ``A[i]``."""
        polynomial = self.polynomial
        return polynomial.indices[0] if polynomial == Affine.index(*polynomial.indices[:1] or ("",)) else None


@attrs.frozen
class Mismatch:
    """An index that stands alone in axes of two sizes: the larger one is used in part."""

    index: str
    narrow: Axis
    wide: Axis


def axes_of(accesses: Sequence[Sequence[Affine]], sizes: Sequence[Sequence[int]]) -> tuple[Axis, ...]:
    """Return all axes of all accesses, those of the output first."""
    return tuple(
        Axis(number, axis, polynomial, size)
        for number, (access, extents) in enumerate(zip(accesses, sizes, strict=True))
        for axis, (polynomial, size) in enumerate(zip(access, extents, strict=True))
    )


def is_empty(axes: Sequence[Axis], constraints: Sequence[tuple[Affine, int]] = ()) -> bool:
    """Return whether it is proved that no point is inside of all axes and satisfies all constraints.

    The conditions must confine every index. False may mean that integer programming ran out of its budget.
    """
    return _possible(constraints, axes) is False


def culprits(axes: Sequence[Axis], constraints: Sequence[tuple[Affine, int]] = ()) -> tuple[Axis, ...]:
    """Return the axes without any one of which there would be a point; of conditions that no point satisfies."""
    found: list[Axis] = []
    for axis in axes:
        others = [each for each in axes if each is not axis]
        kept = {i for each in others for i in each.polynomial.indices}
        if set(axis.polynomial.indices) - kept or _unbounded(others, constraints):
            continue  # it alone says what the index runs over
        if _possible(constraints, others):
            found.append(axis)
    return tuple(found)


def mismatches(axes: Sequence[Axis], constraints: Sequence[tuple[Affine, int]] = ()) -> tuple[Mismatch, ...]:
    """Return the axes of different sizes in which one index stands alone, each beside the narrowest one."""
    alone = grouped((axis.index, axis) for axis in axes if axis.index is not None)
    constrained = {i for polynomial, _ in constraints for i in polynomial.indices}
    found: list[Mismatch] = []
    for index, same in alone.items():
        if index not in constrained:
            narrow = min(same, key=lambda axis: axis.size)
            found.extend(Mismatch(index, narrow, axis) for axis in same if axis.size > narrow.size)
    return tuple(found)


def left(axes: Sequence[Axis], constraints: Sequence[tuple[Affine, int]] = ()) -> tuple[Axis, ...]:
    """Return the axes that some point of the ranges of the indices leaves.

    Points at which the polynomial is no integer do not count as leaving.
    """
    definers, others = _split(axes, constraints)
    return tuple(axis for axis in others if _leaves(axis, definers, constraints))


def _leaves(axis: Axis, definers: Sequence[Axis], constraints: Sequence[tuple[Affine, int]]) -> bool:
    value, equation = _integral(axis.polynomial, "at")
    names = {i for each in (*definers, axis) for i in each.polynomial.indices}
    names |= {i for polynomial, _ in constraints for i in polynomial.indices}
    conditions = [*_conditions(constraints, definers), *equation]
    return any(_feasible(names, [*conditions, (side, None)]) is True for side in (value - axis.size, -value - 1))


def _split(axes: Sequence[Axis], constraints: Sequence[tuple[Affine, int]]) -> tuple[list[Axis], list[Axis]]:
    """Return the axes that define the ranges of the indices, and the others."""
    definers = [axis for axis in axes if axis.index is not None]
    others = [axis for axis in axes if axis.index is None]
    needed = {i for axis in axes for i in axis.polynomial.indices}
    while others:
        confined = {i for axis in definers for i in axis.polynomial.indices}
        confined |= {i for polynomial, _ in constraints for i in polynomial.indices}
        open_ = (needed - confined) | set(_unbounded(definers, constraints))
        joined = [axis for axis in others if open_.intersection(axis.polynomial.indices)]
        if not joined:
            break
        definers += joined
        others = [axis for axis in others if axis not in joined]
    return definers, others


def _unbounded(axes: Iterable[Axis], constraints: Sequence[tuple[Affine, int]]) -> tuple[str, ...]:
    return unbounded_indices([[axis.polynomial for axis in axes]], constraints)


def _possible(constraints: Sequence[tuple[Affine, int]], axes: Sequence[Axis]) -> bool | None:
    names = {i for axis in axes for i in axis.polynomial.indices}
    names |= {i for polynomial, _ in constraints for i in polynomial.indices}
    return _feasible(names, _conditions(constraints, axes))


def _conditions(constraints: Sequence[tuple[Affine, int]], axes: Sequence[Axis]) -> list[tuple[Affine, int | None]]:
    """Return what holds of a point, with integral polynomials only."""
    found: list[tuple[Affine, int | None]] = []
    pairs = [*constraints, *((axis.polynomial, axis.size) for axis in axes)]
    for number, (polynomial, size) in enumerate(pairs):
        value, equation = _integral(polynomial, str(number))
        found += [*equation, (value, size)]
    return found


def _integral(polynomial: Affine, suffix: str) -> tuple[Affine, list[tuple[Affine, int | None]]]:
    """Return an integral polynomial that is equal to ``polynomial``, and the condition under which it is."""
    if polynomial.is_integral:
        return polynomial, []
    scale = lcm(polynomial.offset.denominator, *(c.denominator for _, c in polynomial.terms))
    value = Affine.index(f"={suffix}")  # no index of a program has such a name
    return value, [(polynomial * scale - value * scale, 1)]


def _feasible(names: Iterable[str], conditions: Sequence[tuple[Affine, int | None]]) -> bool | None:
    used = {i for polynomial, _ in conditions for i in polynomial.indices}
    given = system(sorted({*names, *used}), conditions)
    return False if given is None else feasible(given)
