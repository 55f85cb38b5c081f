"""Software prefetching of elements that loops read some iterations later.

Mowry, Lam and Gupta, "Design and Evaluation of a Compiler Algorithm for Prefetching" (ASPLOS 1992), without the
selection: processors detect short strides themselves, so the profitable views have to be measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from tileir.core import attrs, rewritten
from tileir.passes.analysis.accesses import address
from tileir.passes.base import at_least, map_kernels, selected, selected_kernel
from tileir.stripe.ir import Block, Direction, Index, Program, Special, Statement


@attrs.frozen
class Prefetch:
    """Make innermost loops over blocks prefetch the elements of their inputs that a later iteration reads.

    A loop is a block with one untagged index of several values; views of a block of vector lanes inside it start at one
    place per iteration. Each block gets prefetches once.

    Attributes:
        reqs: Tags of the blocks that get prefetches.
        ahead: Prefetch distance in iterations.
        least_bytes: Minimum stride of an iteration in a view, in bytes; smaller strides stay within a cache line.
    """

    name: ClassVar[str] = "prefetch"
    reqs: tuple[str, ...] = ()
    ahead: int = attrs.field(default=8, validator=at_least(1))
    least_bytes: int = attrs.field(default=64, validator=at_least(0))

    def __call__(self, program: Program) -> Program:
        """Return the program with prefetches in the selected loops."""
        return map_kernels(program, lambda kernel: self._block(kernel, selected_kernel(kernel, self.reqs)))

    def _block(self, block: Block, chosen: bool) -> Block:
        def inside(statement: Statement) -> tuple[Statement, ...]:
            if not isinstance(statement, Block):
                return (statement,)
            return (self._block(statement, selected(statement, self.reqs)),)

        statements = rewritten(block.statements, inside)
        if statements is not block.statements:
            block = attrs.evolve(block, statements=statements)
        if not chosen or not self._is_innermost(block):
            return block
        asked = tuple(self._prefetches(block))
        if not asked:
            return block
        later = tuple(attrs.evolve(s, deps=tuple(d + len(asked) for d in s.deps)) for s in block.statements)
        return attrs.evolve(block, statements=(*asked, *later))

    def _is_innermost(self, block: Block) -> bool:
        """Return whether a block is a loop without inner loops and prefetches."""
        if len([i for i in block.indices if i.range > 1]) != 1 or not _loop(block):
            return False
        if any(isinstance(s, Special) and s.name == "prefetch" for s in block.statements):
            return False
        return not any(self._has_loop(inner) for inner in block.blocks)

    def _has_loop(self, block: Block) -> bool:
        return bool(_loop(block)) or any(map(self._has_loop, block.blocks))

    def _prefetches(self, block: Block) -> Iterator[Special]:
        (loop,) = _loop(block)
        for view in block.refinements:
            step = int(address(view).coefficient(loop.name))
            far = abs(step) * view.shape.dtype.itemsize >= self.least_bytes
            if view.direction is Direction.IN and far and step and loop.range > self.ahead:
                yield Special("prefetch", (view.name,), (), (("ahead", step * self.ahead),))


def _loop(block: Block) -> list[Index]:
    """Return the indices without tags that schedules use."""
    return [i for i in block.indices if i.range > 1 and not i.is_marked]
