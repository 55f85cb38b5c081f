"""Partitioned programs: a typed function with collectives, and for each value the part that each rank computes.

There is one function for all ranks, on whole tensors: a collective is its operand there, so that without the mesh, the
program has its original meaning. Each rank runs its part of each operation, in the order of the function, and so all
ranks meet in the collectives in one order.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from tileir.core import NotebookProgram, attrs
from tileir.poly.affine import Affine
from tileir.typed.dataflow import loop_of
from tileir.typed.ir import Collective, Function, Scan, operands
from tileir.typed.sharding.mesh import Mesh, Split

if TYPE_CHECKING:
    import networkx as nx

    from tileir.core import HardwareModel
    from tileir.typed.sharding.explanation import Exchange
    from tileir.typed.sharding.mesh import Layout

PART, LOCAL, MERGED = "_part", "_local", "_merged"
"""Suffixes of operations whose result becomes a value by a collective: a part to merge, a value in its first layout,
and one of merged parts.
"""


@attrs.frozen(cache_hash=True)
class Share:
    """Terms of an aggregate that each rank takes: those at which the value of a polynomial lies in its interval.

    The polynomial is one of the indices of a contraction. Elsewhere it is ``d0`` for the first axis of the indices of a
    scatter, or for the first axis of the input of a tuple reduction, and so on.
    """

    polynomial: Affine
    split: Split


@attrs.frozen(cache_hash=True)
class Placement:
    """Part of a value that each rank has.

    Attributes:
        layout: Its positions on each axis.
        shares: Terms that it has aggregated; empty if its elements are complete.
    """

    layout: tuple[Split, ...]
    shares: tuple[Share, ...] = ()

    @property
    def partial(self) -> tuple[str, ...]:
        """The axes of the mesh along which ranks have partial aggregates."""
        return tuple(name for share in self.shares for name in share.split.axes)


@attrs.frozen(cache_hash=True)
class Remark:
    """Sentence about a value of which ranks have more than a part."""

    value: str
    message: str


@attrs.frozen(cache_hash=True, repr=False, slots=False)
class Partitioned(NotebookProgram):
    """A program whose values are spread over the ranks of a mesh.

    Attributes:
        function: The program, with collectives.
        mesh: The ranks.
        placements: The part of each value that each rank has: of inputs, then of operations, in their order.
        remarks: Descriptions of operations that could not be spread; equality of programs ignores them.
    """

    function: Function
    mesh: Mesh
    placements: tuple[tuple[str, Placement], ...]
    remarks: tuple[Remark, ...] = attrs.field(default=(), eq=False)

    def __str__(self) -> str:
        """Return the text."""
        from tileir.typed.sharding.text import to_text  # it imports this

        return to_text(self)

    def graph(self) -> nx.DiGraph[str]:
        """Return the graph of the function, in which collectives are nodes."""
        return self.function.graph()

    def summary(self) -> str:
        """Return the mesh and the numbers of operations and collectives."""
        return f"{self.function.summary()} on {self.mesh}, {len(self.collectives)} collectives"

    @property
    def collectives(self) -> tuple[Collective, ...]:
        """The collectives in the order in which all ranks meet in them."""
        return tuple(each for each in self.function.operations if isinstance(each, Collective))

    @property
    def meets(self) -> bool:
        """True if ranks exchange anything, also in steps of loops."""
        return bool(self.collectives) or bool(self.rounds) or bool(self.meetings)

    @cached_property
    def meetings(self) -> Mapping[str, tuple[str, ...]]:
        """The names of operations in which ranks meet, each with the mesh axes along which they meet."""
        from tileir.typed.sharding.collective_operations import meets  # it imports this

        placements = dict(self.placements)
        found = {each.name: meets(each, placements) for each in self.function.operations}
        return {name: axes for name, axes in found.items() if axes}

    @cached_property
    def steps(self) -> Mapping[Scan, Partitioned | None]:
        """The steps of loops, by :func:`tileir.typed.dataflow.loop_of`; None if every rank runs the whole loop."""
        from tileir.typed.sharding.partition import loop_step  # it imports this

        placements = dict(self.placements)
        loops = dict.fromkeys(loop_of(each) for each in self.function.operations if isinstance(each, Scan))
        return {
            loop: loop_step(loop, tuple(placements[name].layout for name in operands(loop)), self.mesh)
            for loop in loops
        }

    @property
    def rounds(self) -> Mapping[Scan, Partitioned]:
        """The loops in whose steps ranks meet, and the steps."""
        return {loop: step for loop, step in self.steps.items() if step is not None and step.meets}

    def exchanges(self, model: HardwareModel | None = None) -> tuple[Exchange, ...]:
        """Return the collectives with the cause, the bytes and the price of each, by the links of a hardware model."""
        from tileir.typed.sharding.explanation import exchanges  # it imports this

        return exchanges(self, model)

    def layout(self, name: str) -> Layout:
        """Return the positions of a value on each rank."""
        return self._layouts[name]

    @cached_property
    def _layouts(self) -> Mapping[str, Layout]:
        return {name: placement.layout for name, placement in self.placements}
