"""Nodes of Stripe: programs of memory, kernels and works; :mod:`tileir.stripe.blocks` defines blocks."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from tileir.core import NotebookProgram, attrs, call_of, counted
from tileir.stripe.bindings import Binding as Binding, bindings_of as bindings_of
from tileir.stripe.blocks import (
    INSIDE as INSIDE,
    Block as Block,
    Buffer as Buffer,
    Constant as Constant,
    Convert as Convert,
    Copy as Copy,
    CopyBack as CopyBack,
    Definition as Definition,
    Device as Device,
    Dim as Dim,
    Direction as Direction,
    Index as Index,
    Instruction as Instruction,
    Intrinsic as Intrinsic,
    Load as Load,
    LoadIndex as LoadIndex,
    Location as Location,
    Pipeline as Pipeline,
    Product as Product,
    Reduction as Reduction,
    Refinement as Refinement,
    Repair as Repair,
    Role as Role,
    Special as Special,
    Statement as Statement,
    Store as Store,
    Tags as Tags,
    TagValue as TagValue,
    TensorShape as TensorShape,
    allocation as allocation,
    scalar_inputs as scalar_inputs,
    scalar_output as scalar_output,
    views_read as views_read,
    views_written as views_written,
)
from tileir.stripe.instructions import RoleKind as RoleKind
from tileir.stripe.kernels import Kernel as Kernel, Parameter as Parameter
from tileir.stripe.nesting import entry_around, main_of
from tileir.stripe.shapes import TopLevelNode
from tileir.stripe.tags import (
    ADVANCE as ADVANCE,
    ATOMIC as ATOMIC,
    BESIDE as BESIDE,
    BODY as BODY,
    BRANCH as BRANCH,
    ELSE as ELSE,
    FOLD as FOLD,
    KERNEL as KERNEL,
    LIFETIMES as LIFETIMES,
    LOOP as LOOP,
    MAIN as MAIN,
    PADDED as PADDED,
    PLACES as PLACES,
    PROGRAM as PROGRAM,
    SCHEDULE as SCHEDULE,
    SWIZZLE_MASK as SWIZZLE_MASK,
    SWIZZLE_SHIFT as SWIZZLE_SHIFT,
    TEMPORARY as TEMPORARY,
    THEN as THEN,
    USER as USER,
    WHILE as WHILE,
)
from tileir.stripe.works import (
    Branch as Branch,
    Carry as Carry,
    Launch as Launch,
    Loop as Loop,
    While as While,
    Work as Work,
)

if TYPE_CHECKING:
    import networkx as nx


@attrs.frozen(cache_hash=True, slots=False, repr=False)
class Program(NotebookProgram, TopLevelNode):
    """Memory, the kernels that run on it, each listed once, and the works that launch them.

    ``memory`` are allocations: the parameters and results, constants (``constant``) with their content in ``buffers``,
    and temporaries, which are all others. Works run in order, unless their ``deps`` say otherwise.
    :mod:`tileir.stripe.nesting` shows a program as nested blocks, as its text does; the inverse is
    :mod:`tileir.stripe.flattening`.
    """

    memory: tuple[Refinement, ...]
    kernels: tuple[Kernel, ...]
    works: tuple[Work, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    buffers: tuple[Buffer, ...] = ()
    name: str = ""
    tags: Tags = Tags()

    @cached_property
    def entry(self) -> Block:
        """The program as nested blocks: the outermost one, which allocates memory, around ``main``."""
        return entry_around(self, self.main)

    @cached_property
    def main(self) -> Block:
        """The block whose statements are the kernels, once per launch, and loops."""
        return main_of(self)

    def graph(self) -> nx.DiGraph[str]:
        """Return a frozen networkx graph of inputs, works and outputs, linked by memory.

        :mod:`tileir.core.graphs.frozen` describes the attributes.
        """
        from tileir.stripe.dataflow import dataflow  # it imports this module

        return dataflow(self)

    def summary(self) -> str:
        """Return inputs, outputs, and the number of kernels."""
        return f"{call_of('', self.inputs, self.outputs)}: {counted(len(self.kernels), 'kernel')}"
