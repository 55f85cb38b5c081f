"""Division of rows among the threads of a group: the parts that each of them takes, and keeps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tileir.core import DType, NameScope, attrs
from tileir.passes.kernels import schedule as sch
from tileir.poly.affine import Affine
from tileir.schedule.nest import Use
from tileir.stripe import ir as stripe

ELEMENT: Final = "%element"
"""Stands for the number of an element of a row in :attr:`Row.access`; no index can have this name."""

VECTOR: Final = "%vector"
"""Stands for the number of a vector of a thread."""


@attrs.frozen
class Row:
    """A row that threads may keep: the elements of ``root`` at ``access``, one for each of ``range`` elements."""

    root: str
    access: tuple[Affine, ...]
    range: int
    dtype: DType


@attrs.frozen
class Kept:
    """A row of which each thread keeps its first vectors: ``registers`` of them there, then some in ``local`` memory.

    The others are read again. A row that the kernel computes is kept as a whole, in the place of ``before``, if there
    is one: a row that is read for the last time before the computed elements are stored.
    """

    row: Row
    registers: int
    local: int = 0
    before: Row | None = None


@attrs.frozen(eq=False)
class Piece:
    """Vectors of a thread that an array holds, from number ``first`` on."""

    first: int
    count: int
    array: stripe.Refinement


@attrs.frozen(eq=False)
class Plan:
    """Division of rows among the threads of a group.

    Attributes:
        column: The output index of which a group takes several values; None where there is none.
        threads: Threads along a row, a power of two.
        beside: Rows that a group takes at a time.
        lanes: Lanes of a vector.
        loops: By the number of a segment, the loop that threads share.
        rows: What threads keep of rows.
        across: Whether rows lie side by side in memory, as columns of a matrix do: neighbouring threads then take
            neighbouring rows, and elements of one row are apart.

    """

    column: stripe.Index | None
    threads: int
    beside: int
    lanes: int
    loops: Mapping[int, stripe.Index]
    rows: tuple[Kept, ...]
    across: bool = False


def row_of(use: Use, loop: stripe.Index) -> Row:
    """Return the row that a use in a loop goes over."""
    element = {loop.name: Affine.index(ELEMENT)}
    return Row(use.root, tuple(a.substitute(element) for a in use.access), loop.range, use.dtype)


def pieces(kept: Kept, plan: Plan, names: NameScope) -> Iterator[Piece]:
    """Yield the arrays that hold a row."""
    team, row = plan.beside * plan.threads, kept.row
    if kept.registers:
        extents = (team, kept.registers, plan.lanes)
        yield Piece(
            0, kept.registers, stripe.allocation(names.fresh(f"{row.root}_row"), row.dtype, extents, sch.REGISTER)
        )
    if kept.local:
        extents = (kept.local, team, plan.lanes)
        memory = stripe.allocation(names.fresh(f"{row.root}_near"), row.dtype, extents, sch.LOCAL)
        yield Piece(kept.registers, kept.local, memory)
