"""Joining of kernels over the same strips, with intermediate tensors in memory of each strip."""

from __future__ import annotations

from itertools import groupby
from typing import ClassVar

from tileir.core.nodes import attrs
from tileir.passes.base import with_temporaries
from tileir.passes.fusion.sequential import in_turn
from tileir.passes.kernels import schedule as sch
from tileir.passes.regions.strips import STRIP
from tileir.poly.affine import Affine
from tileir.stripe.ir import (
    Binding,
    Block,
    Direction,
    Index,
    Program,
    Refinement,
    Statement,
    TensorShape,
    views_read,
    views_written,
)


@attrs.frozen
class JoinStrips:
    """Combine the kernels of a chain that ``strips`` has cut into one kernel, with a strip of rows for each group.

    Intermediate tensors, whose first axis is that of strips, are then allocated inside, for one strip.
    """

    name: ClassVar[str] = "join_strips"

    def __call__(self, program: Program) -> Program:
        """Return the program with these kernels joined."""
        statements: list[Statement] = []
        gone: set[str] = set()
        for number, run in groupby(program.main.statements, _strips):
            beside = list(run)
            kernels = [s for s in beside if isinstance(s, Block)]
            if number is None or len(kernels) < 2:
                statements.extend(beside)
                continue
            local = _local(kernels, program)
            gone.update(local)
            own = [next(i for i in kernel.indices if STRIP in i.tags) for kernel in kernels]
            shared = Index(STRIP, own[0].range, binding=Binding.GRID)
            joined = in_turn(kernels, program.main, shared, own, local)
            statements.append(attrs.evolve(joined, tags=joined.tags.remove(STRIP)))
        if len(statements) == len(program.main.statements):
            return program
        return with_temporaries(program, statements, (), gone)


def _strips(statement: Statement) -> object:
    return statement.tags.get(STRIP) if isinstance(statement, Block) else None


def _local(kernels: list[Block], program: Program) -> dict[str, Refinement]:
    """Return allocations for one strip in place of the tensors that only these kernels use."""
    inside = {name for kernel in kernels for name in views_written(kernel)}
    others = (s for s in program.main.statements if s not in kernels)
    inside -= {name for s in others for name in (*views_read(s), *views_written(s))}
    inside -= {*program.inputs, *program.outputs}
    result = {}
    for name in sorted(inside):
        held = program.main.refinement(name)
        shape = TensorShape(held.shape.dtype, (attrs.evolve(held.shape.dims[0], size=1), *held.shape.dims[1:]))
        zero = (Affine(),) * len(shape.dims)
        result[name] = attrs.evolve(
            held, direction=Direction.NONE, source="", access=zero, shape=shape, location=sch.SCRATCH
        )
    return result
