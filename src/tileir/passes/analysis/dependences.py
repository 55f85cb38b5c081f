"""Dependences between the kernels of a program, so that independent kernels may run concurrently."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tileir.core.nodes import attrs
from tileir.passes.kernels.walk import rewrite_blocks
from tileir.stripe.check.scope import Scope
from tileir.stripe.dependences import dependences
from tileir.stripe.ir import Block, Program, Statement, views_read, views_written


def roots(program: Program) -> dict[str, str]:
    """Return the allocation behind each refinement of ``main``, by its name there."""
    return {r.name: r.source or r.name for r in program.main.refinements}


@attrs.define(eq=False, repr=False)
class DependenceScan:
    """Scan of kernels in program order for their dependences.

    A kernel depends on the last writer of its memory and, for writes, on the readers since then. Older dependences
    follow transitively.
    """

    _roots: Mapping[str, str]
    _writer: dict[str, int] = attrs.field(factory=dict, init=False)
    _readers: dict[str, list[int]] = attrs.field(factory=dict, init=False)

    def visit(self, number: int, kernel: Statement) -> set[int]:
        """Return the numbers of the kernels on which ``kernel`` directly depends, and record it as ``number``."""
        reads = {self._roots[name] for name in views_read(kernel)}
        writes = {self._roots[name] for name in views_written(kernel)}
        found = {self._writer[root] for root in reads | writes if root in self._writer}
        for root in writes:
            found.update(self._readers.pop(root, ()))
            self._writer[root] = number
        for root in reads - writes:
            self._readers.setdefault(root, []).append(number)
        return found - {number}


@attrs.frozen
class ComputeDeps:
    """Fill in the dependencies of all statements of the selected blocks; minimal, and exact for affine accesses.

    A statement depends on an earlier one that defines a scalar it uses, or that accesses the same elements if either
    writes. Placed memory also aliases by bytes. Transitive dependencies are omitted.

    Attributes:
        reqs: Tags that a block must carry; without tags, ``main`` and all blocks in it.
    """

    name: ClassVar[str] = "compute_deps"
    sees_loops: ClassVar[bool] = True
    reqs: tuple[str, ...] = ()

    def __call__(self, program: Program) -> Program:
        """Return the program with the dependencies of the selected blocks."""
        return rewrite_blocks(program, with_dependences, self.reqs)


def with_dependences(scope: Scope) -> Block:
    """Return the block of ``scope`` with dependencies of its statements; itself if it already has them."""
    found = dependences(scope)
    block = scope.block
    if all(statement.deps == deps for statement, deps in zip(block.statements, found, strict=True)):
        return block
    statements = tuple(attrs.evolve(s, deps=deps) for s, deps in zip(block.statements, found, strict=True))
    return attrs.evolve(block, statements=statements)
