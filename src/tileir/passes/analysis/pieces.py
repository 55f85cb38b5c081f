"""Tensors made of pieces of another one, such as padded tensors: the source of each element.

An element repeats the source element at the sum of the offsets of its axes. The offsets of an axis are a table, so
that copies may be mirrored, wrapped, repeated, or copies of copies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Final, TypeAlias

import numpy as np

from tileir.core.nodes import attrs
from tileir.passes.analysis.accesses import is_element
from tileir.poly.affine import Affine
from tileir.stripe.ir import Block, Constant, Direction, Load, Refinement, Store

_LONGEST: Final = 1 << 20
"""Maximum size of the axes and index groups that are analysed."""

_Integers: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.int64]]"

Table: TypeAlias = "tuple[tuple[int | None, ...], ...]"
"""For each axis, the offset in the source of each of its places; None for a place outside the source."""


@attrs.frozen
class Pieces:
    """A tensor whose elements repeat elements of ``source``, or have the value ``filling``.

    Attributes:
        source: The repeated tensor; empty if all elements have a constant value so far.
        table: Source elements of the tensor's elements.
        filling: The statement that defines the value of all other elements; None if they are not read.
    """

    source: str
    table: Table
    filling: Constant | None = None

    @property
    def is_whole(self) -> bool:
        """True if every element repeats another one."""
        return all(None not in axis for axis in self.table)


def is_copy(kernel: Block, target: str) -> bool:
    """Return whether a kernel only copies elements of another tensor, or one value, to ``target``."""
    if len(kernel.statements) != 2 or not all(i.is_plain for i in kernel.indices):
        return False
    first, second = kernel.statements
    if not isinstance(first, Load | Constant) or not isinstance(second, Store) or second.source != first.into:
        return False
    if second.index is not None or (isinstance(first, Load) and first.index is not None):
        return False
    written = [r for r in kernel.refinements if r.direction is not Direction.IN]
    plain = len(written) == 1 and not written[0].merges
    return plain and written[0].source == target and all(is_element(r) for r in kernel.refinements)


def pieces(kernels: Sequence[Block], sizes: Sequence[int], sources: Mapping[str, Pieces]) -> Pieces | None:
    """Return the pieces of a tensor that copies fill in order; None if it has another form.

    Args:
        kernels: The kernels that write the tensor; each :func:`is_copy`.
        sizes: The extents of its axes.
        sources: Tensors made of pieces themselves; copies of these are copies of their sources.
    """
    if not sizes or max(sizes) > _LONGEST:
        return None
    result: Pieces | None = None
    for kernel in kernels:
        added = _piece(kernel, sizes, sources)
        if added is None:
            return None
        result = added if result is None else _over(result, added)
        if result is None:
            return None
    return result if result is not None and result.source else None


def _piece(kernel: Block, sizes: Sequence[int], sources: Mapping[str, Pieces]) -> Pieces | None:
    first = kernel.statements[0]
    (target,) = (r for r in kernel.refinements if r.direction is not Direction.IN)
    if len(target.access) != len(sizes):
        return None
    if isinstance(first, Constant):
        tables = _tables(kernel, target, {axis: [] for axis in range(len(sizes))}, sizes)
        whole = tables is not None and all(None not in axis for axis in tables)
        return Pieces("", tables, first) if whole and tables is not None else None
    (view,) = (r for r in kernel.refinements if r.direction is Direction.IN)
    known = sources.get(view.source)
    if known is not None and (len(known.table) != len(view.access) or not known.is_whole):
        return None
    groups = {axis: set(access.indices) for axis, access in enumerate(target.access)}
    moves: dict[int, list[_Move]] = {axis: [] for axis in groups}
    for number, (access, dim) in enumerate(zip(view.access, view.shape.dims, strict=True)):
        owners = [axis for axis, names in groups.items() if names & set(access.indices)]
        if len(owners) > 1 or (access.terms and not owners):
            return None
        table = None if known is None else known.table[number]
        moves[owners[0] if owners else 0].append(_Move(access, dim.stride, table))
    tables = _tables(kernel, target, moves, sizes)
    return None if tables is None else Pieces(view.source if known is None else known.source, tables)


@attrs.frozen(repr=False)
class _Move:
    """Offset along one axis of a source: a stride for each step, or a table."""

    access: Affine
    stride: int
    table: tuple[int | None, ...] | None

    def at(self, places: _Integers) -> _Integers | None:
        """Return the offsets for places along the axis; None if a table lacks some."""
        if self.table is None:
            return places * self.stride
        if places.size and (places.min() < 0 or places.max() >= len(self.table)):
            return None
        return np.array(self.table, np.int64)[places]  # tables of bypassed tensors are whole


def _tables(
    kernel: Block, target: Refinement, moves: Mapping[int, Sequence[_Move]], sizes: Sequence[int]
) -> Table | None:
    """Return the tables of each axis of a kernel's target; None if axes depend on each other."""
    ranges, used = kernel.ranges, set[str]()
    constraints = list(kernel.constraints)
    tables: list[tuple[int | None, ...]] = []
    for axis, access in enumerate(target.access):
        names = [name for name in ranges if name in access.indices]
        if used.intersection(names) or prod(ranges[name] for name in names) > _LONGEST:
            return None
        used.update(names)
        own = [c for c in constraints if set(c.indices) <= set(names)]
        constraints = [c for c in constraints if c not in own]
        table = _axis(access, names, ranges, own, moves[axis], sizes[axis])
        if table is None:
            return None
        tables.append(table)
    return None if constraints or used != set(ranges) else tuple(tables)


def _axis(
    access: Affine,
    names: Sequence[str],
    ranges: Mapping[str, int],
    constraints: Sequence[Affine],
    moves: Sequence[_Move],
    size: int,
) -> tuple[int | None, ...] | None:
    """Return the table of an axis; None if one of its places gets two elements, or lies outside."""
    extents = [ranges[name] for name in names]
    grid = np.indices(extents, np.int64).reshape(len(extents), prod(extents))

    def values(affine: Affine) -> _Integers:
        coefficients = np.array([int(affine.coefficient(name)) for name in names], np.int64)
        return np.asarray(coefficients @ grid + int(affine.offset), np.int64)

    runs = np.ones(prod(extents), np.bool_)
    for constraint in constraints:
        runs &= values(constraint) >= 0
    places = values(access)[runs]
    if places.size and (places.min() < 0 or places.max() >= size):
        return None
    distances = np.zeros(len(places), np.int64)
    for move in moves:
        added = move.at(values(move.access)[runs])
        if added is None:
            return None
        distances += added
    table, known = np.zeros(size, np.int64), np.zeros(size, np.bool_)
    table[places], known[places] = distances, True
    if not np.array_equal(table[places], distances):
        return None
    if known.all():
        return tuple(table.tolist())
    return tuple(distance if there else None for distance, there in zip(table.tolist(), known.tolist(), strict=True))


def _over(below: Pieces, above: Pieces) -> Pieces | None:
    """Return a tensor after a piece overwrites part of it; the two may differ along one axis only."""
    if not above.source:
        return above
    if not below.source:
        return attrs.evolve(above, filling=below.filling)
    if below.source != above.source:
        return None
    shifts = [_shift(mine, other) for mine, other in zip(below.table, above.table, strict=True)]
    differing = [axis for axis, shift in enumerate(shifts) if shift is None]
    if not differing:
        return attrs.evolve(below, table=above.table)
    if len(differing) > 1:
        return None
    (axis,) = differing
    moved = sum(shift for shift in shifts if shift is not None)
    mixed = (old if new is None else new + moved for old, new in zip(below.table[axis], above.table[axis], strict=True))
    return attrs.evolve(below, table=(*below.table[:axis], tuple(mixed), *below.table[axis + 1 :]))


def _shift(mine: Iterable[int | None], other: Iterable[int | None]) -> int | None:
    """Return the constant difference between two tables with the same places; None if there is none."""
    found: int | None = None
    for a, b in zip(mine, other, strict=True):
        if a is None and b is None:
            continue
        if a is None or b is None or found not in (None, b - a):
            return None
        found = b - a
    return found or 0
