"""Copies into parts of one tensor as one kernel, so that they cost one launch.

The borders of one kernel as one kernel again, so that they cost one launch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Final, TypeVar

from tileir.core.nodes import attrs
from tileir.passes.base import at_least, selected_kernel, with_kernels
from tileir.passes.fusion.in_turn import in_turn
from tileir.stripe.aliases import allocations
from tileir.stripe.ir import (
    Binding,
    Block,
    Index,
    Load,
    Program,
    Refinement,
    Statement,
    Store,
    views_read,
    views_written,
)

P = TypeVar("P")


@attrs.frozen
class JoinParts:
    """Let kernels that follow each other and copy to one tensor run as one, in blocks one after the other.

    So concatenated tensors are copied a row of the result at a time. Threads share the rows: the outermost index of
    each kernel, where these lead to the same rows of the result. Without such rows one thread copies all, if that is
    little.

    Attributes:
        reqs: Tags that kernels must carry.
        most_bytes: Most bytes that one thread copies.
        least_rows: Fewest rows that keep all threads busy, where there are more bytes.
    """

    name: ClassVar[str] = "join_parts"
    reqs: tuple[str, ...] = ()
    most_bytes: int = attrs.field(default=64 * 1024, validator=at_least(0))
    least_rows: int = attrs.field(default=8, validator=at_least(1))

    def __call__(self, program: Program) -> Program:
        """Return the program with copies joined."""

        def part_of(statement: Statement) -> _Part | None:
            meant = isinstance(statement, Block) and selected_kernel(statement, self.reqs)
            return _Part.of(statement) if meant and isinstance(statement, Block) else None

        return _in_runs(program, part_of, self._goes_on, lambda run: (_joined(run, program.main),))

    def _goes_on(self, run: Sequence[_Part], part: _Part) -> bool:
        first = run[0]
        if first.written.source != part.written.source:
            return False
        if first.rows is not None and first.rows == part.rows and first.rows[1] >= self.least_rows:
            return True
        return sum(each.nbytes for each in (*run, part)) <= self.most_bytes and len(run) < _MOST_BLOCKS


_MOST_BLOCKS: Final = 64
"""Most kernels in one: their code is compiled as a whole."""


@attrs.frozen
class _Part:
    """A kernel that copies to a part of a tensor.

    Attributes:
        kernel: The kernel.
        written: Its view of the tensor.
        index: Its outermost index of a grid, if that leads to rows of the tensor.
        rows: The axis of these, how many there are, how far apart they are, and where they begin.

    """

    kernel: Block
    written: Refinement
    index: Index | None
    rows: tuple[int, int, int, int] | None

    @classmethod
    def of(cls, kernel: Block) -> _Part | None:
        """Return a kernel as a part; None for one that does anything but copy to one tensor it does not read."""
        written = [r for r in kernel.refinements if r.direction.writes]
        if len(written) != 1 or written[0].merges or kernel.constraints or not _copies(kernel):
            return None
        (view,) = written
        if any(r.source == view.source for r in kernel.refinements if r is not view):
            return None
        index = next((i for i in kernel.indices if i.binding is Binding.GRID), None)
        rows = None if index is None else _rows(view, index)
        return cls(kernel, view, None if rows is None else index, rows)

    @property
    def nbytes(self) -> int:
        """Bytes that are written."""
        return self.kernel.points * self.written.shape.elements * self.written.shape.dtype.itemsize


def _copies(kernel: Block) -> bool:
    """Return whether a kernel only loads and stores, in blocks that allocate nothing; nesting is bounded."""
    statements = (s for block in kernel.nested() for s in block.statements if not isinstance(s, Block))
    only = all(isinstance(s, Load | Store) and s.index is None for s in statements)
    return only and next(allocations(kernel), None) is None


def _rows(view: Refinement, index: Index) -> tuple[int, int, int, int] | None:
    """Return the rows of a tensor that an index leads to, each value to its own; None if it leads to none."""
    axes = [axis for axis, place in enumerate(view.access) if place.coefficient(index.name)]
    if len(axes) != 1 or index.affine is not None:
        return None
    (axis,) = axes
    place, size = view.access[axis], view.shape.sizes[axis]
    step = int(place.coefficient(index.name))
    return (axis, index.range, step, int(place.offset)) if len(place.terms) == 1 and step >= size else None


def _joined(run: Sequence[_Part], main: Block) -> Block:
    """Return kernels as one; the kernel itself where it is alone."""
    first = run[0]
    if len(run) == 1:
        return first.kernel
    same = first.rows is not None and all(part.rows == first.rows for part in run)
    shared = Index("row", first.rows[1], binding=Binding.GRID) if same and first.rows is not None else None
    own = [part.index if same else None for part in run]
    return in_turn([part.kernel for part in run], main, shared, own, {})


@attrs.frozen
class JoinBorder:
    """Let the borders that split_border cut off a kernel, tagged ``border``, run as one, in blocks one after the other.

    They are small, and none touches what another one stores. Where all of them have an index for two sides, that is
    what the threads share; else one thread runs them.
    """

    name: ClassVar[str] = "join_border"

    def __call__(self, program: Program) -> Program:
        """Return the program with borders joined."""
        return _in_runs(
            program,
            lambda statement: statement if isinstance(statement, Block) and "border" in statement.tags else None,
            lambda run, border: _are_alike(run[0], border),
            lambda run: _with_borders(run, program.main),
        )


def _in_runs(
    program: Program,
    part_of: Callable[[Statement], P | None],
    goes_on: Callable[[Sequence[P], P], bool],
    joined: Callable[[Sequence[P]], Iterable[Statement]],
) -> Program:
    """Return the program with runs of kernels joined; itself where none is.

    Args:
        program: A program without loops.
        part_of: Returns what a kernel is of a run; None for those that are not joined.
        goes_on: Tells whether a run goes on with a kernel.
        joined: Makes kernels of a run.
    """
    statements: list[Statement] = []
    run: list[P] = []
    for statement in (*program.main.statements, None):
        part = None if statement is None else part_of(statement)
        if run and (part is None or not goes_on(run, part)):
            statements += joined(run)
            run = []
        if part is not None:
            run.append(part)
        elif statement is not None:
            statements.append(statement)
    return program if len(statements) == len(program.main.statements) else with_kernels(program, tuple(statements))


def _are_alike(kernel: Block, other: Statement) -> bool:
    """Return whether two borders are of one kernel: they store to the same tensors, and read none of these."""
    read, written = set(views_read(kernel)), set(views_written(kernel))
    return written == set(views_written(other)) and written.isdisjoint((*read, *views_read(other)))


def _with_borders(kernels: Sequence[Block], main: Block) -> tuple[Block, ...]:
    """Return kernels as one; themselves where there are fewer than two."""
    if len(kernels) < 2:
        return tuple(kernels)
    sides = [_side(kernel) for kernel in kernels]
    shared = None if None in sides else Index("side", 2, binding=Binding.GRID)
    own = sides if shared else [None] * len(kernels)
    return (in_turn(kernels, main, shared, own, {}),)


def _side(kernel: Block) -> Index | None:
    """Return the index of a border that tells its sides apart."""
    return next((i for i in kernel.indices if i.range == 2 and "_side" in i.name and i.affine is None), None)
