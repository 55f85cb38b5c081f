"""All passes, and the pipelines made of them. Nothing registers itself: this page is the list.

The pipelines that have a name are data, in the files of ``tileir/targets`` (:mod:`tileir.core.target_file`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from tileir.core.errors import fail
from tileir.core.target_file import file_of, passes_value, target_called
from tileir.passes import pipeline
from tileir.passes.accumulate import Accumulate
from tileir.passes.autotile import Autotile
from tileir.passes.cache import Cache
from tileir.passes.canonicalise import Canonicalise
from tileir.passes.compute_deps import ComputeDeps
from tileir.passes.constant_propagate import ConstantPropagate
from tileir.passes.dead_code import DeadCode
from tileir.passes.distribute import Distribute
from tileir.passes.fuse import Fuse, Fusion
from tileir.passes.group_contraction import GroupContraction
from tileir.passes.group_elementwise import GroupElementwise
from tileir.passes.group_reduction import GroupReduction
from tileir.passes.group_rows import GroupRows
from tileir.passes.group_transpose import GroupTranspose
from tileir.passes.inline import Inline
from tileir.passes.localise import Localise
from tileir.passes.locate import LocateBlock, LocateInnerBlock, LocateMemory, RewriteLocations
from tileir.passes.matrix_contraction import MatrixContraction
from tileir.passes.memory_placement import MemoryPlacement
from tileir.passes.order_loops import OrderLoops
from tileir.passes.pad import Pad
from tileir.passes.partition import PartitionCompute, PartitionMemory
from tileir.passes.prefetch import Prefetch
from tileir.passes.reduce_constraints import ReduceConstraints
from tileir.passes.register_tile import RegisterTile
from tileir.passes.register_transpose import RegisterTranspose
from tileir.passes.scalarise import Scalarise
from tileir.passes.scan import Scan
from tileir.passes.schedule_memory import Schedule
from tileir.passes.separate import Separate
from tileir.passes.shadow import Shadow
from tileir.passes.split_reduction import SplitReduction
from tileir.passes.stream_reduction import StreamReduction
from tileir.passes.tensorise import Tensorise
from tileir.passes.thread import Thread
from tileir.passes.thread_inner import ThreadInner
from tileir.passes.tile import Tile
from tileir.passes.transpose import Transpose
from tileir.passes.unroll import Unroll
from tileir.passes.vectorise import Vectorise
from tileir.passes.vectorise_inner import VectoriseInner
from tileir.passes.vectorise_reduction import VectoriseReduction
from tileir.passes.window import Window

if TYPE_CHECKING:
    from tileir.core.target import Target
    from tileir.passes.base import Pass

PASSES: Final[tuple[type[Pass], ...]] = (
    Accumulate,
    Autotile,
    Cache,
    Canonicalise,
    ComputeDeps,
    ConstantPropagate,
    DeadCode,
    Distribute,
    Fuse,
    Fusion,
    GroupContraction,
    GroupElementwise,
    GroupReduction,
    GroupRows,
    GroupTranspose,
    Inline,
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
    SplitReduction,
    StreamReduction,
    Tensorise,
    Thread,
    ThreadInner,
    Tile,
    Transpose,
    Unroll,
    Vectorise,
    VectoriseInner,
    VectoriseReduction,
    Window,
)
"""The catalogue, by name."""


_MOST_DEPTH: Final = 8
"""Targets that include one another."""


@lru_cache(maxsize=64)
def pipeline_for(target: Target) -> tuple[Pass, ...]:
    """Return the passes that a target gets when nobody asks for others.

    Raises:
        TileError: ``target.pipeline`` is no pipeline, as :func:`resolve_pipeline` says.
    """
    return resolve_pipeline(target.pipeline, target)


def parse_pipeline(text: str) -> tuple[Pass, ...]:
    """Return the passes that a text names, such as ``fuse{max_statements=64},localise``.

    Raises:
        ParseError: The text names no passes of the catalogue, or options that they do not have.
    """
    return pipeline.parse(text, PASSES)


def resolve_pipeline(text: str, target: Target) -> tuple[Pass, ...]:
    """Return the passes that a text means for a device.

    Args:
        text: The name of a target that comes with tileir, a pipeline as text or JSON, or a whole target file.
        target: The facts that templates may use.

    Raises:
        TileError: As :func:`parse_pipeline`, :func:`load_pipeline` and :mod:`tileir.core.target_file`.
    """
    if (file := file_of(text)) is not None:
        return pipeline.from_value(_entries(passes_value(file, target), target, 0), PASSES)
    return load_pipeline(text) if text.lstrip().startswith(("[", "//")) else parse_pipeline(text)


def load_pipeline(text: str) -> tuple[Pass, ...]:
    """Return the passes that a JSON list of names and options describes.

    Raises:
        TileError: The text is not JSON, no such list, or names no passes of the catalogue.

    """
    return pipeline.from_json(text, PASSES)


def _entries(value: object, target: Target, depth: int) -> object:
    """Return the entries of a pipeline with those of other targets in the place of ``{"include": target}``."""
    if depth > _MOST_DEPTH:
        raise fail("TIL547", "these targets include one another without end")
    if not isinstance(value, list):
        return value
    entries: list[object] = []
    for entry in value:
        if isinstance(entry, dict) and entry.keys() == {"include"}:
            included = _entries(passes_value(target_called(str(entry["include"])), target), target, depth + 1)
            entries += included if isinstance(included, list) else [included]
        else:
            entries.append(entry)
    return entries
