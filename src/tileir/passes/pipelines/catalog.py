"""All passes, and the pipelines made of them.

The pipelines that have a name are data, in the files of ``tileir/targets`` (:mod:`tileir.core.targets.target_file`);
:mod:`tileir.passes.pipelines.resolution` makes passes of them without loading all that stand here.
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
    """Return the passes that a text names, such as ``fuse{max_statements=64},localise``.

    Raises:
        ParseError: The text names no passes of the catalogue, or options that they do not have.
    """
    return pipeline.parse(text, passes_called)


def load_pipeline(text: str) -> tuple[Pass, ...]:
    """Return the passes that a JSON list of names and options describes.

    Raises:
        TileError: The text is not JSON, no such list, or names no passes of the catalogue.

    """
    return pipeline.from_json(text, passes_called)
