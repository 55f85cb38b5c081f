"""All passes, and the pipelines made of them. Nothing registers itself: this page is the list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tileir.passes import pipeline
from tileir.passes.accumulate import Accumulate
from tileir.passes.canonicalise import Canonicalise
from tileir.passes.dead_code import DeadCode
from tileir.passes.fuse import Fuse
from tileir.passes.localise import Localise
from tileir.passes.register_tile import RegisterTile
from tileir.passes.scalarise import Scalarise
from tileir.passes.thread import Thread
from tileir.passes.vectorise import Vectorise
from tileir.passes.vectorise_reduction import VectoriseReduction

if TYPE_CHECKING:
    from tileir.core.target import Target
    from tileir.passes.base import Pass

PASSES: Final[tuple[type[Pass], ...]] = (
    Accumulate,
    Canonicalise,
    DeadCode,
    Fuse,
    Localise,
    RegisterTile,
    Scalarise,
    Thread,
    Vectorise,
    VectoriseReduction,
)
"""The catalogue, by name."""


def pipeline_for(target: Target) -> tuple[Pass, ...]:
    """Return the passes that take a lowered program to kernels for a processor."""
    return (
        Canonicalise(),
        Accumulate(),
        Fuse(),
        Localise(),
        Scalarise(),
        DeadCode(),
        RegisterTile(
            vector_bytes=target.vector_bytes,
            registers=target.vector_registers,
            cache_bytes=target.cache_bytes[0] if target.cache_bytes else 32 * 1024,
            threads=target.threads,
        ),
        VectoriseReduction(vector_bytes=target.vector_bytes),
        Vectorise(vector_bytes=target.vector_bytes),
        Thread(),
    )


def parse_pipeline(text: str) -> tuple[Pass, ...]:
    """Return the passes that a text names, such as ``fuse{max_statements=64},localise``.

    Raises:
        ParseError: The text names no passes of the catalogue, or options that they do not have.
    """
    return pipeline.parse(text, PASSES)
