"""Catalogue of all passes, and parsers of pipelines of them.

Named pipelines are data, in the files of ``tileir/targets`` (:mod:`tileir.core.targets.target_file`);
:mod:`tileir.passes.pipelines.resolution` builds them without importing all passes listed here.
"""

from __future__ import annotations

from typing import Final

from tileir.passes.base import Pass
from tileir.passes.pipelines import pipeline
from tileir.passes.pipelines.files import FILES
from tileir.passes.pipelines.resolution import (
    passes_called,
    pipeline_for as pipeline_for,
    resolve_pipeline as resolve_pipeline,
)

PASSES: Final[tuple[type[Pass], ...]] = tuple(passes_called(FILES))
"""The catalogue, by name."""


def parse_pipeline(text: str) -> tuple[Pass, ...]:
    """Return the passes of a text such as ``fuse{max_statements=64},localise``.

    Raises:
        ParseError: The text names unknown passes or options.
    """
    return pipeline.parse(text, passes_called)


def load_pipeline(text: str) -> tuple[Pass, ...]:
    """Return the passes of a JSON list of names and options.

    Raises:
        TileError: The text is not JSON, not a list of passes, or names unknown passes.
    """
    return pipeline.from_json(text, passes_called)
