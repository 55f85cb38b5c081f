"""The areas that there are, by the names of the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fuzz import (
    contractions,
    elementwise,
    formulas,
    gradients,
    json_values,
    kernels,
    layouts,
    operations_wide,
    pipelines,
    scripts,
    siblings,
    soaks,
    texts,
)
from fuzz.area import Area

AREAS: Final[Mapping[str, Area]] = {
    area.name: area
    for area in (
        *(
            module.AREA
            for module in (
                contractions, elementwise, siblings, operations_wide, pipelines, gradients, kernels, layouts, texts,
                json_values, formulas, scripts,
            )
        ),
        soaks.CACHE,
        soaks.THREADS,
        soaks.INTERRUPTS,
    )
}  # fmt: skip
