"""The borders of one kernel as one kernel again, so that they cost one launch."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs

from tileir.passes.base import with_kernels
from tileir.passes.fusion.in_turn import in_turn
from tileir.stripe.blocks import Binding
from tileir.stripe.ir import Block, Index, views_read, views_written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileir.stripe.ir import Program, Statement


@attrs.frozen
class JoinBorder:
    """Let the borders that split_border cut off a kernel, tagged ``border``, run as one, in blocks one after the other.

    They are small, and none touches what another one stores. Where all of them have an index for two sides, that is
    what the threads share; else one thread runs them.
    """

    name: ClassVar[str] = "join_border"

    def __call__(self, program: Program) -> Program:
        """Return the program with borders joined."""
        statements: list[Statement] = []
        run: list[Block] = []
        for statement in program.main.statements:
            border = isinstance(statement, Block) and "border" in statement.tags
            if not border or (run and not _are_alike(run[0], statement)):
                statements.extend(_joined(run, program.main))
                run = []
            if border and isinstance(statement, Block):
                run.append(statement)
            else:
                statements.append(statement)
        statements.extend(_joined(run, program.main))
        if len(statements) == len(program.main.statements):
            return program
        return with_kernels(program, tuple(statements))


def _are_alike(kernel: Block, other: Statement) -> bool:
    """Return whether two borders are of one kernel: they store to the same tensors, and read none of these."""
    read, written = set(views_read(kernel)), set(views_written(kernel))
    return written == set(views_written(other)) and written.isdisjoint((*read, *views_read(other)))


def _joined(kernels: Sequence[Block], main: Block) -> tuple[Block, ...]:
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
