"""Assignment of the indices of a contraction to rows and columns of tiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tileir.core.nodes import attrs
from tileir.passes.kernels import schedule as sch
from tileir.passes.schedules.groups.group_reduction import power_of_two_from
from tileir.passes.schedules.groups.matrix.plan import Panel
from tileir.schedule import Nest, Refused, Use, refused
from tileir.stripe import ir as stripe

_NARROW: Final = 64
"""Minimum contiguous outputs along columns; fewer are better as rows of a tile, which may be in several lines."""

ACROSS: Final = 8
"""Minimum rows of a tile along its row index; others are along the index above."""

_NEAR: Final = 4
"""Maximum distance of outputs of adjacent threads if none are contiguous."""

_STEP: Final = 128
"""Bytes of a row that a step copies, if possible."""

_COLUMNS: Final = 16
"""Minimum columns of a tile for instructions."""

_SHORT: Final = 7
"""Minimum contiguous elements along an index that make rows along it worthwhile."""


def panels(nest: Nest, reads: Sequence[Use]) -> tuple[Panel, Panel] | Refused:
    """Return the left and the right input, each with the output index that moves only it."""
    written = sch.written_uses(nest)
    contiguous = [i for i in nest.indices if all(u.stride(i.name) == 1 for u in written)]
    contiguous = contiguous or [i for i in nest.indices if all(0 < u.stride(i.name) <= _NEAR for u in written)]
    column = max(contiguous or nest.indices, key=lambda i: i.range, default=None)
    if column is None:
        return refused("TR430", outputs=1)
    left, right = sorted(reads, key=lambda use: use.stride(column.name) != 0)
    rows = _rows_of(nest, left, right)
    if left.stride(column.name) or not right.stride(column.name) or not rows:
        return refused("TR430", column=column.name, rows=len(rows))
    columns = _rows_of(nest, right, left)
    if column.range < _NARROW and len(columns) > 1:  # only as rows can several indices share a tile
        return Panel(right, _row_of(right, columns)), Panel(left, _row_of(left, rows, _COLUMNS))
    return Panel(left, _row_of(left, rows)), Panel(right, column)


def _row_of(use: Use, rows: Sequence[stripe.Index], least: int = 1) -> stripe.Index:
    """Return the longest of some indices; preferably one with contiguous elements, if it is not too short.

    One of ``least`` values or more is better than any other.
    """
    return max(reversed(rows), key=lambda i: (i.range >= least, use.stride(i.name) == 1 and i.range >= _SHORT, i.range))


def _rows_of(nest: Nest, left: Use, right: Use) -> list[stripe.Index]:
    return [i for i in nest.indices if i.range > 1 and left.stride(i.name) and not right.stride(i.name)]


def with_windows_apart(nest: Nest) -> Nest:
    """Return a nest with the joint loop over a window and the elements within it split in two.

    If a window is always inside its tensor, its part of a row is contiguous, and one loop goes over it. A box has an
    axis for window places and one for the elements within, if whole steps go along the latter.
    """
    segment = nest.reductions[0]
    outputs = {index.name for index in nest.indices}
    accesses = [(affine, _STEP // use.dtype.itemsize) for use in sch.reads_of(nest, segment) for affine in use.access]
    for loop in segment.loops:
        moves = [
            (int(move), step)
            for affine, step in accesses
            if affine.coefficient(loop.name) == 1
            for name, move in affine.terms
            if name in outputs
        ]
        within = min((k for k, step in moves if 1 < k < loop.range and loop.range % k == k % step == 0), default=0)
        if within:
            inner = sch.index(nest.taken_names().fresh(loop.name), within)
            outer = attrs.evolve(loop, range=loop.range // within)
            place = {loop.name: sch.part(outer, within) + sch.part(inner)}
            loops = tuple(part for each in segment.loops for part in ((outer, inner) if each is loop else (each,)))
            parted = attrs.evolve(
                segment,
                loops=loops,
                uses=tuple(use.substitute(place) for use in segment.uses),
                constraints=tuple(each.substitute(place) for each in segment.constraints),
            )
            return attrs.evolve(nest, segments=tuple(parted if each is segment else each for each in nest.segments))
    return nest


def tops(nest: Nest, left: Panel, right: Panel) -> Iterator[tuple[Panel, stripe.Index | None, int]]:
    """Yield the left input with each possible index along its rows, each index above that, and the minimum rows.

    Contiguous outputs are adjacent in a column, and so are contiguous elements of ``left``: threads write the former
    coalesced.
    """
    rows = _rows_of(nest, left.use, right.use)
    written = sch.written_uses(nest)
    near = 1 if all(use.stride(right.index.name) == 1 for use in written) else _NEAR
    fixed = [i for i in rows if i.range >= _SHORT and all(use.stride(i.name) == 1 for use in (left.use, *written))]
    fixed = fixed or [i for i in rows if i.range >= _SHORT and all(0 < use.stride(i.name) <= near for use in written)]
    if left.use.stride(left.index.name) == 1:
        fixed = [left.index]
    firsts = fixed or [left.index, *(i for i in rows if i is not left.index)]
    for first in firsts:
        whole = max(ACROSS, power_of_two_from(first.range))
        others: list[stripe.Index | None] = [i for i in reversed(rows) if i is not first]
        for above in others or [None]:
            for across in [whole, *(n for n in (32, 16, ACROSS) if n < whole and above is not None)]:
                yield attrs.evolve(left, index=first), above, across
