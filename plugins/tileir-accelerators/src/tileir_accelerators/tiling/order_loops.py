"""Loop order that moves the fewest cache lines.

Memory order of McKinley, Carr and Tseng, "Improving Data Locality with Loop Transformations" (ACM TOPLAS 18(4), 1996):
the cost of a loop is the number of cache lines that the nest would touch with it innermost, and loops are nested by
falling cost. The points of a Stripe block are unordered, so every order is legal.
"""

from __future__ import annotations

from math import prod
from typing import ClassVar

from tileir.core.nodes import attrs
from tileir.passes.analysis.accesses import address
from tileir.passes.base import at_least, map_blocks
from tileir.stripe.ir import Block, Direction, Index, Program, Refinement


@attrs.frozen
class OrderLoops:
    """Order the indices of blocks so that the innermost indices stay within cache lines.

    Indices with tags keep their places, as do indices of equal cost.

    Attributes:
        reqs: Tags of the blocks to reorder; without tags, all blocks of all kernels.
        line_bytes: Size of a cache line in bytes.
    """

    name: ClassVar[str] = "order_loops"
    reqs: tuple[str, ...] = ()
    line_bytes: int = attrs.field(default=64, validator=at_least(1))

    def __call__(self, program: Program) -> Program:
        """Return the program with the selected blocks' indices in memory order."""
        return map_blocks(program, self._block, self.reqs)

    def _block(self, block: Block) -> Block:
        statements = tuple(self._block(s) if isinstance(s, Block) and not self.reqs else s for s in block.statements)
        free = [index for index in block.indices if not index.is_marked]
        costs = {index.name: self._cost(block, index) for index in free}
        ordered = iter(sorted(free, key=lambda index: -costs[index.name]))
        indices = tuple(index if index.is_marked else next(ordered) for index in block.indices)
        same = all(new is old for new, old in zip(statements, block.statements, strict=True))
        if indices == block.indices and same:
            return block
        return attrs.evolve(block, indices=indices, statements=block.statements if same else statements)

    def _cost(self, block: Block, innermost: Index) -> float:
        """Return the number of cache lines that the block touches with one index innermost."""
        others = prod(index.range for index in block.indices if index is not innermost)
        views = (view for view in block.refinements if view.direction is not Direction.NONE)
        return others * sum(self._lines(view, innermost) for view in views)

    def _lines(self, view: Refinement, index: Index) -> float:
        """Return the number of cache lines that a view touches while one index runs."""
        step = abs(int(address(view).coefficient(index.name))) * view.shape.dtype.itemsize
        return max(1.0, index.range * min(1.0, step / self.line_bytes))
