"""Say of elements that data choose which are surely inside of what they are chosen from: nobody has to clamp those."""

from __future__ import annotations

from collections.abc import Mapping
from operator import is_
from typing import ClassVar, TypeAlias

import attrs

from tileir.core.rewrite import rewritten
from tileir.passes.analysis.integer_ranges import Range, ScalarRanges, affine_range, both, held
from tileir.passes.base import with_kernels
from tileir.stripe.ir import INSIDE, Block, Direction, Index, Load, Program, Refinement, Statement, Store, views_written

_Memory: TypeAlias = str | int
"""A tensor of the program by its name, or what kernels allocate, numbered in order."""


@attrs.frozen
class BoundPlaces:
    """Tag loads ``inside`` where the integers that choose their elements are known to lie within the view.

    The integers are those of constant tensors, and of tensors and local memory of which all that is stored there is
    known: after a clamp, for instance.
    """

    name: ClassVar[str] = "bound_places"

    def __call__(self, program: Program) -> Program:
        """Return the program with loads tagged."""
        if not any(_chooses(block) for block in program.main.blocks):
            return program
        entry = {each.name: each for each in program.memory}
        known: dict[_Memory, Range | None] = {b.name: held(b, entry[b.name].shape.dtype) for b in program.buffers}
        temporaries = entry.keys() - {*program.inputs, *program.outputs, *known}
        views: dict[str, _Memory] = {r.name: r.source for r in program.main.refinements}
        stores = _Walk(known)
        for kernel in program.main.blocks:
            stores.block(kernel, views, {})
            # What later kernels read is there by now; what callers pass, they may have written before.
            known.update((m, found) for m, found in stores.stored.items() if m in temporaries)
        loads = _Walk({**stores.stored, **known, **dict.fromkeys((*program.inputs, *program.outputs))})
        return with_kernels(program, rewritten(program.main.statements, lambda s: (loads.statement(s, views, {}),)))


@attrs.define(repr=False)
class _Walk:
    """A walk over the blocks of kernels, in order.

    Attributes:
        known: Ranges of memory that are known before.
        stored: Ranges of all that has been stored so far; None where anything may have been.
        local: How many allocations of kernels have come into sight.
    """

    known: Mapping[_Memory, Range | None]
    stored: dict[_Memory, Range | None] = attrs.field(factory=dict, init=False)
    local: int = attrs.field(default=0, init=False)

    def statement(self, statement: Statement, parents: Mapping[str, _Memory], outer: Mapping[str, Range]) -> Statement:
        """Return a statement with the loads in it tagged."""
        return self.block(statement, parents, outer) if isinstance(statement, Block) else statement

    def block(self, block: Block, parents: Mapping[str, _Memory], outer: Mapping[str, Range]) -> Block:
        """Return a block with its loads tagged; nesting is bounded, so recursion is."""
        behind: dict[str, _Memory] = {}
        for view in block.refinements:
            self.local += view.direction is Direction.NONE
            behind[view.name] = self.local if view.direction is Direction.NONE else parents[view.source]
        indices = {i.name: _index_range(i, outer) for i in block.indices}
        views = {view.name: view for view in block.refinements}
        scalars = ScalarRanges(indices, views, {name: self.known.get(memory) for name, memory in behind.items()})
        statements: list[Statement] = []
        for statement in block.statements:
            scalars.add(statement)
            if isinstance(statement, Load) and statement.index is not None:
                place, size = scalars.known.get(statement.index), views[statement.source].shape.dims[0].size
                if place is not None and place[0] >= 0 and place[1] < size:
                    statement = attrs.evolve(statement, tags=statement.tags.add(INSIDE))
            self._note(statement, views, behind, scalars)
            statements.append(self.statement(statement, behind, indices))
        same = all(map(is_, statements, block.statements))
        return block if same else attrs.evolve(block, statements=tuple(statements))

    def _note(
        self,
        statement: Statement,
        views: Mapping[str, Refinement],
        behind: Mapping[str, _Memory],
        scalars: ScalarRanges,
    ) -> None:
        """Remember the range of what a statement stores."""
        if isinstance(statement, Block):
            return
        for name in views_written(statement):
            found = scalars.known.get(statement.source) if isinstance(statement, Store) else None
            if views[name].merges:
                found = None
            memory = behind[name]
            self.stored[memory] = both(self.stored[memory], found) if memory in self.stored else found


def _index_range(index: Index, outer: Mapping[str, Range]) -> Range:
    low, high = (0, 0) if index.affine is None else affine_range(index.affine, outer)
    return low, high + index.range - 1


def _chooses(block: Block) -> bool:
    return any(
        _chooses(s) if isinstance(s, Block) else isinstance(s, Load) and s.index is not None for s in block.statements
    )
