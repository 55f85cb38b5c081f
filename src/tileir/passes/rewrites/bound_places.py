"""Range analysis of integers in scalars and tensors, so that gathers provably in bounds need no clamping."""

from __future__ import annotations

from collections.abc import Mapping
from operator import is_
from typing import ClassVar, TypeAlias

import numpy as np

from tileir.core import DType, Op, attrs, rewritten
from tileir.core.numbers.ranges import Range, either, exact
from tileir.passes.base import with_kernels
from tileir.poly.affine import Affine
from tileir.stripe.ir import (
    INSIDE,
    Block,
    Buffer,
    Constant,
    Convert,
    Direction,
    Index,
    Intrinsic,
    Load,
    LoadIndex,
    Program,
    Refinement,
    Statement,
    Store,
    scalar_output,
    views_written,
)

_Memory: TypeAlias = str | int
"""A tensor of the program by name, or an allocation of a kernel by number."""


@attrs.frozen
class BoundPlaces:
    """Tag gathers ``inside`` if their indices are provably in bounds, so that they need no clamping.

    The analysis covers constant tensors, and tensors and local memory for which all stored values have known ranges,
    after a clamp, for instance.
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
            # Inputs of later kernels are stored by now; memory from callers may have any earlier content.
            known.update((m, found) for m, found in stores.stored.items() if m in temporaries)
        loads = _Walk({**stores.stored, **known, **dict.fromkeys((*program.inputs, *program.outputs))})
        return with_kernels(program, rewritten(program.main.statements, lambda s: (loads.statement(s, views, {}),)))


@attrs.define(eq=False, repr=False)
class _Walk:
    """Walk over the blocks of kernels, in order.

    Attributes:
        known: Ranges of memory that are known beforehand.
        stored: Ranges of everything stored so far; None if anything may have been stored.
        local: Number of kernels' allocations so far.
    """

    known: Mapping[_Memory, Range | None]
    stored: dict[_Memory, Range | None] = attrs.field(factory=dict, init=False)
    local: int = attrs.field(default=0, init=False)

    def statement(self, statement: Statement, parents: Mapping[str, _Memory], outer: Mapping[str, Range]) -> Statement:
        """Return a statement with its loads tagged."""
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
                if place is not None and place.low >= 0 and place.high < size:
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
        """Record the range of the values that a statement stores."""
        if isinstance(statement, Block):
            return
        for name in views_written(statement):
            found = scalars.known.get(statement.source) if isinstance(statement, Store) else None
            if views[name].merges:
                found = None
            memory = behind[name]
            self.stored[memory] = both(self.stored[memory], found) if memory in self.stored else found


def _index_range(index: Index, outer: Mapping[str, Range]) -> Range:
    start = Range(0, 0) if index.affine is None else affine_range(index.affine, outer)
    return Range(start.low, start.high + index.range - 1)


def _chooses(block: Block) -> bool:
    return any(
        _chooses(s) if isinstance(s, Block) else isinstance(s, Load) and s.index is not None for s in block.statements
    )


def all_of(dtype: DType) -> Range | None:
    """Return the range of a dtype; None unless it is an integer."""
    return Range.of(dtype) if dtype.is_integer else None


def held(buffer: Buffer, dtype: DType) -> Range | None:
    """Return the range of the elements of a constant tensor; None unless they are integers."""
    if not dtype.is_integer or not buffer.data:
        return None
    elements = np.frombuffer(buffer.data, dtype.numpy.newbyteorder("<"))
    return Range(int(elements.min()), int(elements.max()))


def both(one: Range | None, other: Range | None) -> Range | None:
    """Return the union of two ranges; None if either is unknown."""
    return None if one is None or other is None else either(one, other)


@attrs.define(eq=False, repr=False)
class ScalarRanges:
    """The ranges of the scalars of one block, statement by statement.

    Attributes:
        indices: Minimum and maximum of each index of the block.
        views: The refinements of the block by name.
        elements: Ranges of the elements of views, by name; a missing view may hold anything.
    """

    indices: Mapping[str, Range]
    views: Mapping[str, Refinement]
    elements: Mapping[str, Range | None]
    known: dict[str, Range] = attrs.field(factory=dict, init=False)

    def add(self, statement: Statement) -> None:
        """Record the range of the scalar that a statement defines."""
        found: Range | None = None
        match statement:
            case LoadIndex(affine=affine, dtype=dtype):
                found = _within(affine_range(affine, self.indices), dtype)
            case Constant(value=int(number), dtype=dtype) if dtype.is_integer:
                found = Range(number, number)
            case Load(source=source):
                found = self.elements.get(source) or all_of(self.views[source].shape.dtype)
            case Convert(input=value, dtype=dtype):
                found = all_of(dtype)
                if found is not None and (known := self.known.get(value)) is not None:
                    found = _within(known, dtype)
            case Intrinsic(op=op, inputs=inputs, dtype=dtype) if dtype.is_integer:
                read = inputs[1:] if op is Op.COND else inputs
                # Nothing is known of an operation with missing operands.
                found = _within(exact(op, [self.known[name] for name in read if name in self.known]), dtype)
        into = scalar_output(statement)
        if found is not None and into is not None:
            self.known[into] = found


def affine_range(affine: Affine, indices: Mapping[str, Range]) -> Range:
    """Return the range of an affine of indices."""
    low = high = int(affine.offset)
    for name, coefficient in affine.terms:
        ends = [int(coefficient) * end for end in (indices[name].low, indices[name].high)]
        low, high = low + min(ends), high + max(ends)
    return Range(low, high)


def _within(found: Range | None, dtype: DType) -> Range | None:
    """Return a range clipped to a dtype: the whole dtype if it may wrap."""
    whole = all_of(dtype)
    return whole if whole is None or found is None or not found.fits(dtype) else found
