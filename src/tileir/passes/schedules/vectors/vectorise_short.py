"""Vector lanes for indices that fill no vector, such as the channels of gathered pixels."""

from __future__ import annotations

from typing import ClassVar

from tileir.core import attrs, rewritten
from tileir.passes.analysis.accesses import address
from tileir.passes.base import at_least, map_blocks, unordered
from tileir.passes.kernels import schedule as sch
from tileir.schedule import Refused, chosen_by_data, refused, strongest
from tileir.stripe.ir import Binding, Block, Direction, Index, Load, Program, Special, Statement, Store


@attrs.frozen
class VectoriseShort:
    """Vectorise gathers of short rows along the row.

    Elements along other indices are scattered in memory, so no vector along these could be loaded at once.

    Attributes:
        vector_bytes: Width of a vector register in bytes.
        max_lanes: Maximum number of lanes of a vector; 0 for as many as fit.
    """

    name: ClassVar[str] = "vectorise_short"
    vector_bytes: int = attrs.field(default=32, validator=at_least(1))
    max_lanes: int = attrs.field(default=0, validator=at_least(0))

    def __call__(self, program: Program) -> Program:
        """Return the program with lanes along short data-dependent rows."""
        return map_blocks(program, self._below)

    def _below(self, block: Block) -> Block | Refused:
        if block.blocks:
            return self._inside(block)
        if not chosen_by_data(block.statements):
            return refused("TR313")
        if block.is_serial:
            return refused("TR103")
        if any(index.binding is Binding.LANE for index in block.indices):
            return refused("TR101")
        against = {index.name: self._against_short_row(block, index) for index in block.indices}
        index = next((index for index in block.indices if against[index.name] is None), None)
        if index is None:
            said = [why for why in against.values() if why is not None]
            return strongest(said) if said else refused("TR211", indices=0)
        row = index.bound(Binding.LANE)
        return attrs.evolve(block, indices=tuple(row if i is index else i for i in block.indices), deps=())

    def _inside(self, block: Block) -> Block | Refused:
        said: list[Refused] = []

        def apply(statement: Statement) -> tuple[Statement, ...]:
            after = self._below(statement) if isinstance(statement, Block) else statement
            if not isinstance(after, Refused):
                return (after,)
            said.append(after)
            return (statement,)

        inner = rewritten(block.statements, apply)
        if inner is block.statements:
            return strongest(said)
        return attrs.evolve(block, statements=unordered(inner), deps=())

    def _against_short_row(self, block: Block, index: Index) -> Refused | None:
        """Return why stores, or some gathers, of a block are not contiguous along an index."""
        itemsize = max((view.shape.dtype.itemsize for view in block.refinements), default=1)
        lanes = sch.vector_lanes(self.vector_bytes, itemsize, self.max_lanes)
        if not index.is_plain:
            return refused("TR101" if index.affine is None else "TR102", index=index.name)
        if not 1 < index.range <= lanes:
            return refused("TR314", index=index.name, range=index.range, lanes=lanes)
        if any(index.name in constraint.indices for constraint in block.constraints):
            return refused("TR306", index=index.name)
        return _against_neighbours(block, index)


def _against_neighbours(block: Block, index: Index) -> Refused | None:
    """Refuse a block with strided views, or without stores or gathered rows, along an index."""
    strides = {view.name: int(address(view).coefficient(index.name)) for view in block.refinements}
    stored = {s.into for s in block.statements if isinstance(s, Store)}
    if far := [name for name, stride in strides.items() if stride not in (0, 1)]:
        return refused("TR315", index=index.name, view=far[0], stride=strides[far[0]])
    if still := sorted(name for name in stored if strides[name] == 0):
        return refused("TR307", index=index.name, output=still[0])
    for view in block.refinements:
        if view.direction is Direction.NONE or view.merges:
            return refused("TR115" if view.direction is Direction.NONE else "TR206", memory=view.name)
    if special := [s.name for s in block.statements if isinstance(s, Special)]:
        return refused("TR106", special=special[0])
    moved = {name for name, stride in strides.items() if stride}
    varying = sch.varying_scalars(block.statements, moved, index.name)
    rows = [s for s in block.statements if isinstance(s, Load | Store) and s.index is not None]
    if apart := [s.index for s in rows if s.index in varying]:
        return refused("TR316", index=index.name, scalar=apart[0] or "")
    chosen = any(isinstance(s, Load) and s.source in moved for s in rows)
    return None if chosen else refused("TR317", index=index.name)
