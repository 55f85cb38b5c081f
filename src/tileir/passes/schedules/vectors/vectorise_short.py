"""Vector lanes for indices that fill no vector, such as the channels of pixels that data choose."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs

from tileir.core.rewrite import rewritten
from tileir.passes.analysis.accesses import address
from tileir.passes.base import at_least, map_blocks, unordered
from tileir.passes.kernels import schedule as sch
from tileir.schedule.nest import chosen_by_data
from tileir.stripe.blocks import Binding
from tileir.stripe.ir import Block, Direction, Load, Special, Store

if TYPE_CHECKING:
    from tileir.stripe.ir import Index, Program


@attrs.frozen
class VectoriseShort:
    """Compute all values of a short index side by side where data choose the rows that it runs along.

    Neighbours of other indices are then anywhere in memory, so that no vectors along these could be loaded at once.

    Attributes:
        vector_bytes: Width of a vector register.
        max_lanes: Most lanes of a vector; 0 for as many as fit.
    """

    name: ClassVar[str] = "vectorise_short"
    vector_bytes: int = attrs.field(default=32, validator=at_least(1))
    max_lanes: int = attrs.field(default=0, validator=at_least(0))

    def __call__(self, program: Program) -> Program:
        """Return the program with lanes along short rows that data choose."""
        return map_blocks(program, self._below)

    def _below(self, block: Block) -> Block:
        if block.blocks:
            inner = rewritten(block.statements, lambda s: (self._below(s) if isinstance(s, Block) else s,))
            return block if inner is block.statements else attrs.evolve(block, statements=unordered(inner), deps=())
        chosen = chosen_by_data(block.statements)
        if not chosen or block.is_serial or any(index.binding is Binding.LANE for index in block.indices):
            return block
        index = next((index for index in block.indices if self._is_short_row(block, index)), None)
        if index is None:
            return block
        row = index.bound(Binding.LANE)
        return attrs.evolve(block, indices=tuple(row if i is index else i for i in block.indices), deps=())

    def _is_short_row(self, block: Block, index: Index) -> bool:
        """Return whether all that a block stores, and some that data choose, are neighbours along an index."""
        itemsize = max((view.shape.dtype.itemsize for view in block.refinements), default=1)
        lanes = sch.vector_lanes(self.vector_bytes, itemsize, self.max_lanes)
        if not index.is_plain or not 1 < index.range <= lanes:
            return False
        if any(index.name in constraint.indices for constraint in block.constraints):
            return False
        strides = {view.name: int(address(view).coefficient(index.name)) for view in block.refinements}
        stored = {s.into for s in block.statements if isinstance(s, Store)}
        if not set(strides.values()) <= {0, 1} or any(strides[name] == 0 for name in stored):
            return False
        if any(view.direction is Direction.NONE or view.merges for view in block.refinements):
            return False
        moved = {name for name, stride in strides.items() if stride}
        varying = sch.varying_scalars(block.statements, moved, index.name)
        rows = [s for s in block.statements if isinstance(s, Load | Store) and s.index is not None]
        if any(isinstance(s, Special) for s in block.statements) or any(s.index in varying for s in rows):
            return False
        return any(isinstance(s, Load) and s.source in moved for s in rows)
