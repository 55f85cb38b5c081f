"""All passes of the project: those of tileir, and those of tileir-accelerators, which need not be installed."""

from __future__ import annotations

import tomllib
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Final

from strategies.sources import ROOT
from tileir.passes.pipelines import catalog, pipeline

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir.passes.base import Pass

ACCELERATORS: Final = ROOT / "plugins" / "tileir-accelerators"

OFFERED: Final[Mapping[str, Mapping[str, str]]] = tomllib.loads(
    (ACCELERATORS / "pyproject.toml").read_text(encoding="utf-8")
)["project"]["entry-points"]
"""Entry points of the wheel by group."""

OF_ACCELERATORS: Final[tuple[type[Pass], ...]] = tuple(
    dict.fromkeys(EntryPoint(*item, "tileir.passes").load() for item in OFFERED["tileir.passes"].items())
)
"""The classes of its passes, from its sources."""

PASSES: Final = (*catalog.PASSES, *OF_ACCELERATORS)


def parse_pipeline(text: str) -> tuple[Pass, ...]:
    """Return the passes that a text names, of both."""
    return pipeline.parse(text, PASSES)
