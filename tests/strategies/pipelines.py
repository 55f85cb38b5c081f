"""The targets that come with tileir and fit every device, as functions from a device's facts to passes.

To fill in a target file takes milliseconds, about a tenth of what small programs take to compile, so each is filled in
once for each device.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Final

from tileir.passes.pipelines.resolution import resolve_pipeline

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tileir.core.targets.target import Target
    from tileir.passes.base import Pass

PIPELINES: Final[Mapping[str, Callable[[Target], tuple[Pass, ...]]]] = {
    name: cache(partial(resolve_pipeline, name)) for name in ("cpu", "fused", "gpu", "plain", "quick")
}

cpu: Final = PIPELINES["cpu"]
fused: Final = PIPELINES["fused"]
gpu: Final = PIPELINES["gpu"]
