"""Elements at constant places that are near each other: vectors of neighbours, whose lanes are put in order."""

from __future__ import annotations

from typing import ClassVar

import attrs

from tileir.core.arithmetic import Array
from tileir.core.dtype import DType
from tileir.core.text.names import NameScope
from tileir.passes.algorithms.terms import elements_of
from tileir.passes.analysis.dependences import roots
from tileir.passes.base import at_least, with_kernels
from tileir.passes.fusion.row_producers import producer_of
from tileir.passes.kernels.expansion import called_block, left
from tileir.passes.kernels.schedule import vector_lanes
from tileir.passes.schedules.vectors.near_places import NearPlaces
from tileir.passes.schedules.vectors.permuted import Permuted
from tileir.poly.affine import Affine
from tileir.schedule.remarks import Refused, refused, remark
from tileir.stripe.ir import Block, Buffer, Direction, Program, Refinement, Statement, TensorShape


@attrs.frozen
class PermuteGather:
    """Load what the lanes of a vector gather at once, where constants choose elements that are as near as lanes are.

    So are those of rows of a picture that becomes larger, or not much smaller. Values that go with places, such as
    weights, are repeated for each channel. Both become constants that are in the order of the vectors. What they choose
    from may be rows that another kernel computes for this one alone: where they are cheap, they are computed in the
    vector that would load them.

    Attributes:
        vector_bytes: Width of a vector register; with less than 32 there are hardly two pixels in one.
        max_lanes: Most lanes of a vector; 0 for as many as fit.
    """

    name: ClassVar[str] = "permute_gather"
    vector_bytes: int = attrs.field(default=32, validator=at_least(1))
    max_lanes: int = attrs.field(default=0, validator=at_least(0))

    def __call__(self, program: Program) -> Program:
        """Return the program with such kernels over vectors, and their constants."""
        lanes = vector_lanes(self.vector_bytes, 4, self.max_lanes)
        held = {buffer.name: buffer for buffer in program.buffers}
        behind = roots(program)
        dtypes = {r.name: r.shape.dtype for r in program.memory}
        known = {
            name: elements_of(held[root], dtypes[root]).reshape(-1) for name, root in behind.items() if root in held
        }
        if lanes < _LEAST_LANES or not known:
            return left(program, refused("TR318", lanes=lanes, least=_LEAST_LANES) if known else refused("TR319"))
        inside = (r.name for kernel in program.main.blocks for r in kernel.refinements)
        tables = _Tables(NameScope.of((*behind, *dtypes, *inside)))
        ranks = {r.name: len(r.access) for r in program.main.refinements}

        before = program.main.statements
        kept = frozenset(name for name, root in behind.items() if root in {*program.inputs, *program.outputs, *held})

        def permuted(number: int, statement: Statement) -> Statement:
            if not isinstance(statement, Block):
                return statement
            near = NearPlaces.of(statement, known, lanes)
            if isinstance(near, Refused):
                remark(called_block(statement), near, number=number)
                return statement
            remark(called_block(statement), None, (("line", near.count), ("lanes", near.width)), number)
            views = {each.view.name: each.view for each in near.neighbours}
            found = {name: producer_of(before, number, near, view, kept) for name, view in views.items()}
            producers = {name: producer for name, producer in found.items() if producer is not None}
            return Permuted(near, ranks, producers, tables.table).kernel()

        statements = tuple(permuted(number, statement) for number, statement in enumerate(before))
        return tables.added(program, statements) if tables.made else program


_LEAST_LANES = 8


@attrs.define(repr=False)
class _Tables:
    """Constant tensors that the pass makes."""

    names: NameScope
    made: dict[str, tuple[Array, DType]] = attrs.field(factory=dict)

    def table(self, stem: str, elements: Array, dtype: DType) -> str:
        """Return the name of a tensor with these elements."""
        name = self.names.fresh(stem)
        self.made[name] = (elements, dtype)
        return name

    def added(self, program: Program, statements: tuple[Statement, ...]) -> Program:
        """Return the program with other kernels, and with all that was made."""
        allocations, buffers = [], []
        for name, (elements, dtype) in self.made.items():
            shape = TensorShape.dense(dtype, elements.shape)
            allocations.append(Refinement(name, Direction.NONE, "", (Affine(),), shape, constant=True))
            buffers.append(Buffer(name, elements.astype(dtype.numpy.newbyteorder("<")).tobytes()))
        return with_kernels(program, statements, (*program.memory, *allocations), (*program.buffers, *buffers))
