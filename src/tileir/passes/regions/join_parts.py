"""Joining of copies into parts of one tensor, and of the borders of one kernel, to save launches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import ClassVar, Final, TypeVar

from tileir.core.nodes import attrs
from tileir.passes.analysis.accesses import address
from tileir.passes.base import at_least, selected_kernel, with_kernels
from tileir.passes.fusion.sequential import in_turn
from tileir.stripe.aliases import allocations
from tileir.stripe.ir import (
    Binding,
    Block,
    Definition,
    Index,
    Load,
    Program,
    Refinement,
    Statement,
    Store,
    scalar_inputs,
    views_read,
    views_written,
)

P = TypeVar("P")


@attrs.frozen
class JoinParts:
    """Combine consecutive kernels that copy to one tensor into one kernel of consecutive blocks.

    Concatenated tensors are then copied row by row. Threads divide the rows: the outermost index of each kernel, if it
    leads to the same rows of the result. Without common rows, one thread copies everything if the result is small.

    Attributes:
        reqs: Tags that kernels must carry.
        most_bytes: Maximum number of bytes that one thread copies.
        least_rows: Minimum number of rows to divide among threads; required for larger copies.
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
        if first.tensor != part.tensor:
            return False
        if part.index is not None and part.index.range >= self.least_rows and _same_rows([*run, part]):
            return True
        return sum(each.nbytes for each in (*run, part)) <= self.most_bytes and len(run) < _MOST_BLOCKS


_MOST_BLOCKS: Final = 64
"""Maximum number of blocks in a joined kernel, since its code is compiled as a whole."""


@attrs.frozen
class _Part:
    """A kernel that copies to a part of a tensor.

    Attributes:
        kernel: The kernel.
        written: Its views of the tensor.
        index: Its outermost grid index, if that leads to rows of the tensor.
        rows: These rows, on the axis and in memory: number, stride and first one.
    """

    kernel: Block
    written: tuple[Refinement, ...]
    index: Index | None
    rows: frozenset[tuple[int, ...]]

    @classmethod
    def of(cls, kernel: Block) -> _Part | None:
        """Return a kernel as a part; None unless it only copies to one tensor that it does not read."""
        written = tuple(r for r in kernel.refinements if r.direction.writes)
        if len({r.source for r in written}) != 1 or kernel.constraints or not _copies(kernel):
            return None
        if any(r.merges for r in written) or any(
            r.direction.reads and r.source == written[0].source for r in kernel.refinements
        ):
            return None
        index = next((i for i in kernel.indices if i.binding is Binding.GRID), None)
        every = [frozenset(() if index is None else _rows(kernel, view, index)) for view in written]
        rows = frozenset.intersection(*every)
        return cls(kernel, written, index if rows else None, rows)

    @property
    def tensor(self) -> str:
        """The tensor."""
        return self.written[0].source

    @property
    def nbytes(self) -> int:
        """Number of bytes written."""
        return self.kernel.points * sum(view.shape.elements * view.shape.dtype.itemsize for view in self.written)


def _copies(kernel: Block) -> bool:
    """Return whether a kernel only loads and stores, perhaps at computed places, in blocks that allocate nothing.

    Nesting is bounded.
    """
    statements = [s for block in kernel.nested() for s in block.statements if not isinstance(s, Block)]
    loaded = {s.into for s in statements if isinstance(s, Load)}
    places = {name for s in statements if not isinstance(s, Store) for name in scalar_inputs(s)}
    only = all(
        s.source in loaded and s.index is None if isinstance(s, Store) else isinstance(s, Definition)
        for s in statements
    )
    return only and loaded.isdisjoint(places) and next(allocations(kernel), None) is None


def _same_rows(run: Sequence[_Part]) -> bool:
    return bool(frozenset.intersection(*(part.rows for part in run)))


def _rows(kernel: Block, view: Refinement, index: Index) -> Iterator[tuple[int, ...]]:
    """Yield the rows of a tensor along an index, one per value: places of an axis, or of memory."""
    if index.affine is not None:
        return
    axes = [axis for axis, place in enumerate(view.access) if place.coefficient(index.name)]
    for axis in axes if len(axes) == 1 else ():
        place, size = view.access[axis], view.shape.sizes[axis]
        step = int(place.coefficient(index.name))
        if len(place.terms) == 1 and step >= size:
            yield index.range, step, int(place.offset), view.shape.dims[axis].stride, axis
    whole = address(view)
    step = int(whole.coefficient(index.name))
    others = [(i.range - 1) * int(whole.coefficient(i.name)) for i in kernel.indices if i is not index]
    inside = [(dim.size - 1) * dim.stride for dim in view.shape.dims]
    low, high = (int(whole.offset) + sum(limit(0, each) for each in (*others, *inside)) for limit in (min, max))
    if step > 0 and low // step == high // step:
        yield index.range, step, low // step


def _joined(run: Sequence[_Part], main: Block) -> Block:
    """Return kernels as one; a lone kernel is returned itself."""
    first = run[0]
    if len(run) == 1:
        return first.kernel
    same = _same_rows(run)
    shared = Index("row", first.index.range, binding=Binding.GRID) if same and first.index is not None else None
    own = [part.index if same else None for part in run]
    return in_turn([part.kernel for part in run], main, shared, own, {})


@attrs.frozen
class JoinBorder:
    """Combine the peeled borders of a kernel, tagged ``border``, into one kernel of consecutive blocks.

    They are small, and none accesses the stores of another one. If all of them have an index for two sides, threads
    divide it; otherwise one thread runs them.
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
    """Return the program with runs of kernels joined; itself if there are none.

    Args:
        program: A program without loops.
        part_of: Returns a kernel as part of a run; None for one that is not joined.
        goes_on: Returns whether a kernel continues a run.
        joined: Returns the kernels for a run.
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
    """Return whether two borders belong to one kernel: they store to the same tensors, and read none of these."""
    read, written = set(views_read(kernel)), set(views_written(kernel))
    return written == set(views_written(other)) and written.isdisjoint((*read, *views_read(other)))


def _with_borders(kernels: Sequence[Block], main: Block) -> tuple[Block, ...]:
    """Return kernels as one; fewer than two are returned themselves."""
    if len(kernels) < 2:
        return tuple(kernels)
    sides = [_side(kernel) for kernel in kernels]
    shared = None if None in sides else Index("side", 2, binding=Binding.GRID)
    own = sides if shared else [None] * len(kernels)
    return (in_turn(kernels, main, shared, own, {}),)


def _side(kernel: Block) -> Index | None:
    return next((i for i in kernel.indices if i.range == 2 and "_side" in i.name and i.affine is None), None)
