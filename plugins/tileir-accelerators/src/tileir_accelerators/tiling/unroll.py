"""Unrolling: a copy of a block's statements for each value of an index."""

from __future__ import annotations

from typing import ClassVar

from tileir.core import NameScope, attrs, rewritten
from tileir.passes.base import at_least, map_blocks, unordered
from tileir.poly.affine import Affine
from tileir.schedule.reindex import moved, reindexed, renamed
from tileir.stripe.ir import Binding, Block, Direction, Index, Program, Refinement, Statement, scalar_output

_SCHEDULED = (Binding.GRID, Binding.THREAD, Binding.LANE)
"""Tags of indices that must not be unrolled."""


@attrs.frozen
class Unroll:
    """Unroll indices of blocks; their points then run one after the other.

    Indices with constraints are left alone, as are indices of which several points accumulate into one element of a
    result that is initialised in the block.

    Attributes:
        reqs: Tags that a block must carry; the outermost matching blocks of a kernel, and all blocks in them, are
            processed.
        indices: The names of the indices.
        index_reqs: Tags that select indices instead. Without names and tags, all indices of innermost blocks are
            unrolled, the last indices first.
        most: Maximum number of copies of a statement; indices that would exceed it are left alone.
        mark: Whether to only bind the indices to ``unroll``, so that the lowering to kernels unrolls them.
    """

    name: ClassVar[str] = "unroll"
    reqs: tuple[str, ...] = ()
    indices: tuple[str, ...] = ()
    index_reqs: tuple[str, ...] = ()
    most: int = attrs.field(default=16, validator=at_least(1))
    mark: bool = False

    def __call__(self, program: Program) -> Program:
        """Return the program with the chosen indices unrolled."""
        return map_blocks(program, self._below, self.reqs)

    def _below(self, block: Block) -> Block:
        inner = rewritten(block.statements, lambda s: (self._below(s) if isinstance(s, Block) else s,))
        if inner is not block.statements:
            block = attrs.evolve(block, statements=unordered(inner), deps=())
        copies = 1
        for index in reversed(block.indices):
            if copies * index.range > self.most or not self._wanted(block, index):
                continue
            if self.mark:
                block = _marked(block, index)
            elif may_expand(block, index):
                block = expanded(block, index)
            else:
                continue
            copies *= index.range
        return block

    def _wanted(self, block: Block, index: Index) -> bool:
        if index.range == 1 or index.binding in (*_SCHEDULED, Binding.UNROLL):
            return False
        if not self.indices and not self.index_reqs:
            return not block.blocks
        return (not self.indices or index.name in self.indices) and index.words.has_all(self.index_reqs)


def _marked(block: Block, index: Index) -> Block:
    marked = index.bound(Binding.UNROLL)
    return attrs.evolve(block, indices=tuple(marked if i is index else i for i in block.indices), deps=())


def may_expand(block: Block, index: Index) -> bool:
    """Return whether copies of the statements of ``block`` can replace ``index``."""
    units = [unit for device in block.location for unit in device.units]
    if any(index.name in affine.indices for affine in (*block.constraints, *units)):
        return False
    if block.is_serial and any(i.range > 1 for i in block.indices[block.indices.index(index) + 1 :]):
        return False  # copies would come before the next value of an index further in
    scoped = (r for r in block.refinements if r.opens_scope)
    return all(_moves_alone(r, index.name) for r in scoped)


def _moves_alone(view: Refinement, index: str) -> bool:
    """Return whether values of ``index`` certainly access different elements, or all of them the view at one place."""
    axes = zip(view.access, view.shape.sizes, strict=True)
    moving = [(affine, size) for affine, size in axes if index in affine.indices]
    return not moving or any(a.indices == (index,) and abs(int(a.coefficient(index))) >= size for a, size in moving)


def expanded(block: Block, index: Index) -> Block:
    """Return ``block`` with a copy of its statements, and of the views that it moves, for each value of ``index``."""
    names = NameScope.of(r.name for r in block.refinements)
    scalars = NameScope.of(filter(None, map(scalar_output, block.statements)))
    views: dict[Refinement, str] = {}
    kept: list[Refinement] = []
    statements: list[Statement] = []
    for value in range(index.range):
        place = {index.name: Affine.constant(value) if index.affine is None else Affine.index(index.name) + value}
        chosen: dict[str, str] = {}
        for view in block.refinements:
            copy = moved(view, place)
            shared = copy.direction is not Direction.NONE and attrs.evolve(copy, name="")
            if not shared or shared not in views:
                name = view.name if value == 0 else names.fresh(view.name)
                kept.append(attrs.evolve(copy, name=name))
                if shared:
                    views[shared] = name
                chosen[view.name] = name
            else:
                chosen[view.name] = views[shared]
        inside = reindexed(attrs.evolve(block, refinements=()), (), place)
        fresh = {} if value == 0 else {s: scalars.fresh(s) for s in filter(None, map(scalar_output, block.statements))}
        statements.extend(renamed(statement, fresh, chosen) for statement in inside.statements)
    left = tuple(
        attrs.evolve(i, range=1) if i.name == index.name else i
        for i in block.indices
        if i.name != index.name or i.affine is not None
    )
    return attrs.evolve(block, indices=left, refinements=tuple(kept), statements=tuple(statements), deps=())
