"""All passes, and the pipelines made of them. Nothing registers itself: this page is the list.

The pipelines that have a name are data, in the files of ``tileir/targets`` (:mod:`tileir.core.target_file`);
:mod:`tileir.passes.resolution` makes passes of them without loading all that stand here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tileir.passes import pipeline
from tileir.passes.accumulate import Accumulate
from tileir.passes.autotile import Autotile
from tileir.passes.block_sums import BlockSums
from tileir.passes.bound_places import BoundPlaces
from tileir.passes.cache import Cache
from tileir.passes.canonicalise import Canonicalise
from tileir.passes.compute_deps import ComputeDeps
from tileir.passes.constant_propagate import ConstantPropagate
from tileir.passes.dead_code import DeadCode
from tileir.passes.deinterleave import Deinterleave
from tileir.passes.distribute import Distribute
from tileir.passes.forward import Forward
from tileir.passes.fuse import Fuse, Fusion
from tileir.passes.group_contraction import GroupContraction
from tileir.passes.group_elementwise import GroupElementwise
from tileir.passes.group_reduction import GroupReduction
from tileir.passes.group_rows import GroupRows
from tileir.passes.group_transpose import GroupTranspose
from tileir.passes.immediates import Immediates
from tileir.passes.inline import Inline
from tileir.passes.inline_stencil import InlineStencil
from tileir.passes.join_border import JoinBorder
from tileir.passes.join_strips import JoinStrips
from tileir.passes.localise import Localise
from tileir.passes.locate import LocateBlock, LocateInnerBlock, LocateMemory, RewriteLocations
from tileir.passes.matrix_contraction import MatrixContraction
from tileir.passes.memory_placement import MemoryPlacement
from tileir.passes.order_loops import OrderLoops
from tileir.passes.pad import Pad
from tileir.passes.partition import PartitionCompute, PartitionMemory
from tileir.passes.permute_gather import PermuteGather
from tileir.passes.prefetch import Prefetch
from tileir.passes.reduce_constraints import ReduceConstraints
from tileir.passes.register_tile import RegisterTile
from tileir.passes.register_transpose import RegisterTranspose
from tileir.passes.resolution import pipeline_for as pipeline_for
from tileir.passes.resolution import resolve_pipeline as resolve_pipeline
from tileir.passes.scalarise import Scalarise
from tileir.passes.scan import Scan
from tileir.passes.schedule_memory import Schedule
from tileir.passes.separate import Separate
from tileir.passes.shadow import Shadow
from tileir.passes.split_border import SplitBorder
from tileir.passes.split_reduction import SplitReduction
from tileir.passes.split_scatter import SplitScatter
from tileir.passes.stream_reduction import StreamReduction
from tileir.passes.strips import Strips
from tileir.passes.tensorise import Tensorise
from tileir.passes.thread import Thread
from tileir.passes.thread_inner import ThreadInner
from tileir.passes.tile import Tile
from tileir.passes.transpose import Transpose
from tileir.passes.two_step_window import TwoStepWindow
from tileir.passes.unroll import Unroll
from tileir.passes.unroll_window import UnrollWindow
from tileir.passes.vectorise import Vectorise
from tileir.passes.vectorise_inner import VectoriseInner
from tileir.passes.vectorise_reduction import VectoriseReduction
from tileir.passes.vectorise_short import VectoriseShort
from tileir.passes.window import Window

if TYPE_CHECKING:
    from tileir.passes.base import Pass

PASSES: Final[tuple[type[Pass], ...]] = (
    Accumulate,
    Autotile,
    BlockSums,
    BoundPlaces,
    Cache,
    Canonicalise,
    ComputeDeps,
    ConstantPropagate,
    DeadCode,
    Deinterleave,
    Distribute,
    Forward,
    Fuse,
    Fusion,
    GroupContraction,
    GroupElementwise,
    GroupReduction,
    GroupRows,
    GroupTranspose,
    Immediates,
    Inline,
    InlineStencil,
    JoinBorder,
    JoinStrips,
    Localise,
    LocateBlock,
    LocateInnerBlock,
    LocateMemory,
    MatrixContraction,
    MemoryPlacement,
    OrderLoops,
    Pad,
    PartitionCompute,
    PartitionMemory,
    PermuteGather,
    Prefetch,
    ReduceConstraints,
    RegisterTile,
    RegisterTranspose,
    RewriteLocations,
    Scalarise,
    Scan,
    Schedule,
    Separate,
    Shadow,
    SplitBorder,
    SplitReduction,
    SplitScatter,
    StreamReduction,
    Strips,
    Tensorise,
    Thread,
    ThreadInner,
    Tile,
    Transpose,
    TwoStepWindow,
    Unroll,
    UnrollWindow,
    Vectorise,
    VectoriseInner,
    VectoriseReduction,
    VectoriseShort,
    Window,
)
"""The catalogue, by name."""


def parse_pipeline(text: str) -> tuple[Pass, ...]:
    """Return the passes that a text names, such as ``fuse{max_statements=64},localise``.

    Raises:
        ParseError: The text names no passes of the catalogue, or options that they do not have.
    """
    return pipeline.parse(text, PASSES)


def load_pipeline(text: str) -> tuple[Pass, ...]:
    """Return the passes that a JSON list of names and options describes.

    Raises:
        TileError: The text is not JSON, no such list, or names no passes of the catalogue.

    """
    return pipeline.from_json(text, PASSES)
