"""Say of each statement which earlier ones it must follow, so that the others may run beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs

from tileir.passes.kernels.walk import rewrite_blocks
from tileir.stripe.dependences import dependences

if TYPE_CHECKING:
    from tileir.stripe.check.scope import Scope
    from tileir.stripe.ir import Block, Program


@attrs.frozen
class ComputeDeps:
    """Fill in the dependencies of all statements of the selected blocks; minimal, and exact for affine accesses.

    A statement depends on an earlier one that defines a scalar it uses, or that touches the same elements where one of
    both writes. Memory that is placed is also the same where its bytes are. What follows from other dependencies is
    left out.

    Attributes:
        reqs: Tags that a block must carry; with none, ``main`` and all blocks in it.

    """

    name: ClassVar[str] = "compute_deps"
    sees_loops: ClassVar[bool] = True
    reqs: tuple[str, ...] = ()

    def __call__(self, program: Program) -> Program:
        """Return the program with the dependencies of the selected blocks."""
        return rewrite_blocks(program, with_dependences, self.reqs)


def with_dependences(scope: Scope) -> Block:
    """Return the block of ``scope`` with dependencies of its statements; itself when it has them already."""
    found = dependences(scope)
    block = scope.block
    if all(statement.deps == deps for statement, deps in zip(block.statements, found, strict=True)):
        return block
    statements = tuple(attrs.evolve(s, deps=deps) for s, deps in zip(block.statements, found, strict=True))
    return attrs.evolve(block, statements=statements)
