"""Groups of kernels along the same long rows, and the points at which these rows are cut."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs

from tileir.core.graphs.grouping import grouped
from tileir.passes.algorithms.split_reduction import against_contraction, reads_a_row, widest
from tileir.passes.analysis.accesses import address, is_element
from tileir.passes.kernels.forms import against_flat
from tileir.poly.affine import Affine
from tileir.schedule.nest import chosen_by_data, product
from tileir.stripe.ir import Block, Direction, Index, Program, Refinement, Statement, views_read, views_written

_ALIGNED: Final = 32
"""Neighbours of which parts have multiples where no number of parts makes them alike: wide accesses stay whole."""

_LANES: Final = 8
"""Neighbours of which parts that are alike have multiples."""


@attrs.frozen(eq=False)
class Rows:
    """Rows of tensors that are cut alike.

    Attributes:
        whole: The ranges of the outer coordinates, of which each value is a part of its own.
        cut: The range of the coordinate that is cut.
        within: How many values of that a part has; the last one may have fewer.
        points: Of the kernel that asked for it: no other has more.

    """

    whole: tuple[int, ...]
    cut: int
    within: int
    points: int

    @property
    def parts(self) -> tuple[int, ...]:
        """Number of parts, by coordinates."""
        return (*self.whole, -(-self.cut // self.within))


@attrs.frozen(eq=False)
class Member:
    """A kernel that goes along rows: ``coordinates`` are its indices that tell parts, that which is cut the last."""

    rows: Rows
    coordinates: tuple[str, ...]

    @property
    def is_even(self) -> bool:
        """True if all parts have as many elements."""
        return self.rows.cut % self.rows.within == 0


def members_of(program: Program, parts: Callable[[Block], int]) -> dict[int, Member]:
    """Return the kernels that go along few long rows which some of them aggregate, by their numbers.

    Args:
        program: A program of flat kernels.
        parts: About how many parts all rows together shall have that a kernel aggregates; 0 where it does not.

    """
    statements = program.main.statements
    touching: Mapping[str, list[int]] | None = None
    members: dict[int, Member] = {}
    for number, kernel in enumerate(statements):
        wanted = parts(kernel) if isinstance(kernel, Block) and number not in members else 0
        first = _cut(kernel, wanted) if isinstance(kernel, Block) and wanted else None
        if first is None:
            continue
        touching = touching or _touching(statements)
        _Spread(program, touching, members, first.rows).spread(number, first)
    return members


def _touching(statements: Sequence[Statement]) -> Mapping[str, list[int]]:
    return grouped(
        (name, number)
        for number, each in enumerate(statements)
        for name in dict.fromkeys((*views_read(each), *views_written(each)))
    )


def is_long(kernel: Block, row_bytes: int, most_rows: int) -> bool:
    """Return whether a kernel aggregates at most so many rows, of more bytes than ``row_bytes``, along memory."""
    if against_contraction(kernel) is not None or kernel.constraints:
        return False
    (output,) = (r for r in kernel.refinements if r.direction.writes)
    written = {name for access in output.access for name in access.indices}
    reduced = product(i.range for i in kernel.indices if i.name not in written)
    long = reduced * widest(kernel) > row_bytes and kernel.points <= reduced * most_rows
    return long and reads_a_row(kernel, written, None)


def _cut(kernel: Block, parts: int) -> Member | None:
    """Return where the rows of a reduction are cut: the outer indices as a whole, as they lie in memory, and one."""
    (output,) = (r for r in kernel.refinements if r.direction.writes)
    written = {name for access in output.access for name in access.indices}
    inputs = [r for r in kernel.refinements if r.direction is Direction.IN]
    place = address(max(inputs, key=lambda r: len(address(r).terms)))
    reduced = [i for i in kernel.indices if i.name not in written and i.range > 1]
    reduced.sort(key=lambda i: -abs(int(place.coefficient(i.name))))
    wanted = -(-parts * product(i.range for i in reduced) // kernel.points)
    whole: list[Index] = []
    for index in reduced:
        if index.range >= 2 * wanted or (index is reduced[-1] and index.range > 1):
            within = _within(index.range, max(2, wanted), alone=index is reduced[-1])
            rows = Rows(tuple(i.range for i in whole), index.range, within, kernel.points)
            return Member(rows, (*(i.name for i in whole), index.name))
        whole.append(index)
        wanted = -(-wanted // index.range)
    return None


def _within(size: int, parts: int, *, alone: bool) -> int:
    """Return how many elements parts have, of which there shall be so many or about so: all alike, if that can be."""
    lanes = _LANES if alone else 1
    alike = [n for n in range(max(2, parts // 2), min(2 * parts, size) + 1) if size % n == 0 and size // n % lanes == 0]
    if alike:
        return size // min(alike, key=lambda n: max(n / parts, parts / n))
    unit = _ALIGNED if alone and size >= parts * _ALIGNED else 1
    return -(-size // (parts * unit)) * unit


@attrs.define(eq=False)
class _Spread:
    """Finds what goes along the same rows, from tensor to tensor."""

    program: Program
    touching: Mapping[str, list[int]]
    members: dict[int, Member]
    rows: Rows
    axes: dict[str, tuple[int, ...]] = attrs.field(factory=dict, init=False)

    def spread(self, number: int, first: Member) -> None:
        """Add a kernel and all that share a tensor with those that were added."""
        fresh = self._add(number, first)
        while fresh:
            for other in self.touching[fresh.pop()]:
                kernel = self.program.main.statements[other]
                if other not in self.members and isinstance(kernel, Block):
                    member = self._member(kernel)
                    fresh += [] if member is None else self._add(other, member)

    def _add(self, number: int, member: Member) -> list[str]:
        """Add a kernel, and return the tensors that have these rows as its views show."""
        kernel = self.program.main.statements[number]
        assert isinstance(kernel, Block)
        self.members[number] = member
        found: list[str] = []
        for view in kernel.refinements:
            axes = self._axes(view, member.coordinates)
            if view.source not in self.axes and axes is not None:
                self.axes[view.source] = axes
                found.append(view.source)
        return found

    def _axes(self, view: Refinement, coordinates: Sequence[str]) -> tuple[int, ...] | None:
        """Return the axes of a tensor that coordinates go along, each one axis from its start; None for others."""
        if len(self.program.main.refinement(view.source).shape.sizes) != len(view.access):
            return None
        found: list[int] = []
        for name in coordinates:
            axes = [axis for axis, place in enumerate(view.access) if name in place.indices]
            if len(axes) != 1 or view.access[axes[0]] != Affine.index(name):
                return None
            found += axes
        return tuple(found)

    def _member(self, kernel: Block) -> Member | None:
        """Return how a kernel goes along the rows; None where it does not, or has more to do than that."""
        if kernel.points > self.rows.points or not is_flat(kernel):
            return None
        seen = {self._names(view) for view in kernel.refinements if view.source in self.axes}
        names = seen.pop() if len(seen) == 1 else None
        whole = (*self.rows.whole, self.rows.cut)
        if names is None or tuple(kernel.ranges[name] for name in names) != whole:
            return None
        outputs = [view for view in kernel.refinements if view.direction.writes]
        if any(view.merges for view in outputs):
            return Member(self.rows, names) if _reduces(kernel, names) else None
        return Member(self.rows, names) if all(self._axes(view, names) is not None for view in outputs) else None

    def _names(self, view: Refinement) -> tuple[str, ...] | None:
        """Return the indices by which a kernel goes along the rows of a tensor."""
        places = [view.access[axis] for axis in self.axes[view.source]]
        names = tuple(name for place in places for name in place.indices)
        return names if len(names) == len(places) and self._axes(view, names) is not None else None


def _reduces(kernel: Block, names: Sequence[str]) -> bool:
    """Return whether a kernel aggregates whole rows, and nothing else of what it does depends on where in one it is."""
    if against_contraction(kernel) is not None:
        return False
    (output,) = (view for view in kernel.refinements if view.direction.writes)
    return not any(name in place.indices for place in output.access for name in names)


def is_flat(kernel: Block) -> bool:
    """Return whether a kernel is statements on single elements, of which data choose none, at all points of a box."""
    plain = against_flat(kernel) is None and not kernel.constraints and kernel.reduction is None
    return plain and all(map(is_element, kernel.refinements)) and not chosen_by_data(kernel.statements)
