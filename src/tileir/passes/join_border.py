"""The borders of one kernel as one kernel again, so that they cost one launch."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs

from tileir.core.names import NameScope
from tileir.passes.base import with_kernels
from tileir.passes.kernels import schedule as sch
from tileir.poly.affine import Affine
from tileir.stripe.ir import Block, Direction, Index, Refinement, views_read, views_written

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
    shared = None if None in sides else Index("side", 2, tags=sch.GRID)
    views: dict[str, Refinement] = {}
    names = NameScope()
    for kernel in kernels:
        for view in kernel.refinements:
            views[view.source] = _whole(views.get(view.source), view, main, names)
    blocks = [_inside(kernel, side if shared else None, views) for kernel, side in zip(kernels, sides, strict=True)]
    joined = attrs.evolve(
        kernels[0],
        indices=() if shared is None else (shared,),
        constraints=(),
        refinements=tuple(views.values()),
        statements=tuple(blocks),
        comments=tuple(dict.fromkeys(comment for kernel in kernels for comment in kernel.comments)),
        deps=(),
    )
    return (joined,)


def _side(kernel: Block) -> Index | None:
    """Return the index of a border that tells its sides apart."""
    return next((i for i in kernel.indices if i.range == 2 and "_side" in i.name and i.affine is None), None)


def _whole(known: Refinement | None, view: Refinement, main: Block, names: NameScope) -> Refinement:
    """Return a view of all of the tensor that a kernel views, in the direction of all who do."""
    held = main.refinement(view.source)
    zero = (Affine(),) * len(held.access)
    if known is None:
        return Refinement(names.fresh(held.name), view.direction, held.name, zero, held.shape)
    both = view.direction if view.direction is known.direction else Direction.INOUT
    return attrs.evolve(known, direction=both)


def _inside(kernel: Block, side: Index | None, views: dict[str, Refinement]) -> Block:
    """Return a kernel as a block inside another, one side of it where the other one counts these."""
    indices = []
    for index in kernel.indices:
        plain = attrs.evolve(index, tags=index.tags.remove("grid"))
        if index is side:
            plain = attrs.evolve(plain, range=1, affine=Affine.index("side"))
        indices.append(plain)
    refinements = tuple(attrs.evolve(r, source=views[r.source].name) for r in kernel.refinements)
    tags = kernel.tags.remove("kernel")
    return attrs.evolve(kernel, indices=tuple(indices), refinements=refinements, tags=tags, comments=(), deps=())
