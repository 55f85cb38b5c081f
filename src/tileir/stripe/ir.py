"""Nodes of Stripe: programs of memory, kernels and works; :mod:`tileir.stripe.blocks` says what blocks mean."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import attrs

from tileir.core.text.shown import ShownProgram, call_of, counted
from tileir.stripe.blocks import INSIDE as INSIDE
from tileir.stripe.blocks import Binding as Binding
from tileir.stripe.blocks import Block as Block
from tileir.stripe.blocks import Buffer as Buffer
from tileir.stripe.blocks import Constant as Constant
from tileir.stripe.blocks import Convert as Convert
from tileir.stripe.blocks import Copy as Copy
from tileir.stripe.blocks import Device as Device
from tileir.stripe.blocks import Dim as Dim
from tileir.stripe.blocks import Direction as Direction
from tileir.stripe.blocks import Index as Index
from tileir.stripe.blocks import Instruction as Instruction
from tileir.stripe.blocks import Intrinsic as Intrinsic
from tileir.stripe.blocks import Load as Load
from tileir.stripe.blocks import LoadIndex as LoadIndex
from tileir.stripe.blocks import Location as Location
from tileir.stripe.blocks import Pipeline as Pipeline
from tileir.stripe.blocks import Product as Product
from tileir.stripe.blocks import Reduction as Reduction
from tileir.stripe.blocks import Refinement as Refinement
from tileir.stripe.blocks import Repair as Repair
from tileir.stripe.blocks import Role as Role
from tileir.stripe.blocks import Special as Special
from tileir.stripe.blocks import Statement as Statement
from tileir.stripe.blocks import Store as Store
from tileir.stripe.blocks import Tags as Tags
from tileir.stripe.blocks import TagValue as TagValue
from tileir.stripe.blocks import TensorShape as TensorShape
from tileir.stripe.blocks import allocation as allocation
from tileir.stripe.blocks import scalar_inputs as scalar_inputs
from tileir.stripe.blocks import scalar_output as scalar_output
from tileir.stripe.blocks import views_read as views_read
from tileir.stripe.blocks import views_written as views_written
from tileir.stripe.kernels import Kernel as Kernel
from tileir.stripe.kernels import Parameter as Parameter
from tileir.stripe.nesting import entry_around, main_of
from tileir.stripe.shapes import Whole
from tileir.stripe.works import Branch as Branch
from tileir.stripe.works import Carry as Carry
from tileir.stripe.works import Launch as Launch
from tileir.stripe.works import Loop as Loop
from tileir.stripe.works import While as While
from tileir.stripe.works import Work as Work

if TYPE_CHECKING:
    import networkx as nx


@attrs.frozen(cache_hash=True, slots=False, repr=False)
class Program(ShownProgram, Whole):
    """Memory, the kernels that run on it, each once however often it is launched, and the works that launch them.

    ``memory`` are allocations: the parameters and results, constants (``constant``), whose content ``buffers`` has, and
    temporaries, which are all others. Works run in order, as far as their ``deps`` do not say otherwise.
    :mod:`tileir.stripe.nesting` shows a program as nested blocks, as its text does, and makes programs of such blocks.
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
        """The block whose statements are the kernels, as often as they are launched, and loops."""
        return main_of(self)

    def graph(self) -> nx.DiGraph[str]:
        """Return a frozen networkx graph of inputs, works and outputs, linked by the memory that works hand on.

        :mod:`tileir.core.graphs` tells the attributes.
        """
        from tileir.stripe.dataflow import dataflow  # it imports this module

        return dataflow(self)

    def summary(self) -> str:
        """Return inputs, outputs, and how many kernels there are."""
        return f"{call_of('', self.inputs, self.outputs)}: {counted(len(self.kernels), 'kernel')}"
