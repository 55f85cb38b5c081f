"""Vectorisation of the innermost blocks of tiled kernels: micro-kernels, and copies."""

from __future__ import annotations

from typing import ClassVar

from tileir.core import NameScope, attrs, rewritten
from tileir.passes.analysis.accesses import address, is_element
from tileir.passes.base import KernelPass, at_least, map_inside, selected_kernel, unordered
from tileir.passes.kernels import schedule as sch
from tileir.schedule.reindex import reindexed
from tileir.stripe.ir import (
    Binding,
    Block,
    Convert,
    Direction,
    Index,
    Intrinsic,
    Load,
    LoadIndex,
    Special,
    Store,
)


@attrs.frozen
class VectoriseInner(KernelPass):
    """Vectorise one index of each innermost block, if its stores are contiguous along that index.

    Kernels of one block are left to ``vectorise``.

    Attributes:
        reqs: Tags that a block must carry; the outermost matching blocks of a kernel, and all blocks in them, are
            processed.
        vector_bytes: Width of a vector register in bytes.
        max_lanes: Maximum number of lanes of a vector; 0 for no limit.
        least: Minimum number of lanes.
    """

    name: ClassVar[str] = "vectorise_inner"
    reqs: tuple[str, ...] = ()
    vector_bytes: int = attrs.field(default=32, validator=at_least(1))
    max_lanes: int = attrs.field(default=0, validator=at_least(0))
    least: int = attrs.field(default=2, validator=at_least(2))

    def _kernel(self, kernel: Block) -> Block:
        if selected_kernel(kernel, self.reqs):
            return self._below(kernel) if kernel.blocks else kernel
        return map_inside(kernel, self._below, self.reqs)

    def _below(self, block: Block) -> Block:
        if block.blocks:
            inner = rewritten(block.statements, lambda s: (self._below(s) if isinstance(s, Block) else s,))
            return block if inner is block.statements else attrs.evolve(block, statements=unordered(inner), deps=())
        if any(index.binding is Binding.LANE for index in block.indices):
            return block
        index = max(block.indices, key=lambda index: self._lanes(block, index), default=None)
        if index is None or (lanes := self._lanes(block, index)) < self.least:
            return block
        return with_lanes(block, index, lanes)

    def _lanes(self, block: Block, index: Index) -> int:
        """Return the possible number of lanes of an index; 0 for none."""
        if index.affine is not None or index.binding in (Binding.GRID, Binding.THREAD, Binding.UNROLL):
            return 0
        if not may_have_lanes(block, index.name):
            return 0
        lanes = sch.vector_lanes(self.vector_bytes, _widest(block), self.max_lanes)
        lanes = sch.power_of_two_below(min(lanes, index.range))
        while index.range % lanes:
            lanes //= 2
        return lanes


def may_have_lanes(block: Block, index: str) -> bool:
    """Return whether the values of ``index`` can be computed in parallel, with contiguous stores along it."""
    if any(index in constraint.indices for constraint in block.constraints):
        return False
    for statement in block.statements:
        match statement:
            case Special() | Block():
                return False
            case Load(index=place) | Store(index=place) if place is not None:
                return False
    stored = {s.into for s in block.statements if isinstance(s, Store)}
    for view in block.refinements:
        stride = address(view).coefficient(index)
        if view.direction is Direction.NONE or not is_element(view) or stride not in (0, 1):
            return False
        if view.name in stored and stride == 0:
            return False
    return bool(stored)


def _widest(block: Block) -> int:
    """Return the bytes of the widest element that a block computes with."""
    sizes = [view.shape.dtype.itemsize for view in block.refinements]
    sizes += [s.dtype.itemsize for s in block.statements if isinstance(s, Intrinsic | Convert | LoadIndex)]
    return max(sizes, default=1)


def with_lanes(block: Block, index: Index, lanes: int) -> Block:
    """Return ``block`` with ``index`` split into vectors of ``lanes``, which divides its range."""
    names = NameScope.of(i.name for i in block.indices)
    lane = sch.index(names.fresh(f"{index.name}_lane"), lanes, Binding.LANE)
    vector = attrs.evolve(index, range=index.range // lanes)
    value = sch.part(vector, lanes) + sch.part(lane)
    others = [vector if i is index else i for i in block.indices if i is not index or vector.range > 1]
    return attrs.evolve(reindexed(block, (*others, lane), {index.name: value}), deps=())
