"""Names that templates of target files may use: facts of the device, quantities of its hardware model, and settings."""

from __future__ import annotations

from typing import Final

import attrs

from tileir.core.fragments import usable
from tileir.core.targets.hardware import HardwareModel
from tileir.core.targets.kernel_settings import kernel_settings
from tileir.core.targets.target import Target
from tileir.core.targets.template_expressions import Value

_CACHES: Final = (32 * 1024, 256 * 1024)
"""The sizes of the first two caches if none is known."""


def facts(target: Target) -> dict[str, Value]:
    """Return the facts of a device by their names in templates: ``VECTOR_BYTES`` and so on.

    These are the attributes of :class:`~tileir.core.targets.target.Target` in capitals, and ``L1_BYTES`` and
    ``L2_BYTES``, the sizes of the innermost cache and of the next one, or of the innermost if there is no other.
    """
    values = attrs.asdict(target, recurse=False)
    plain = {name.upper(): v for name, v in values.items() if isinstance(v, bool | int | float | str)}
    caches = target.cache_bytes or _CACHES
    rows = usable(target.fragments, rounded=target.approximate)
    return {
        **plain,
        "CACHE_BYTES": target.cache_bytes,
        "DOTS": tuple(row.name for row in rows if row.is_dot),
        "FRAGMENTS": tuple(row.name for row in rows if not row.is_dot),
        "L1_BYTES": caches[0],
        "L2_BYTES": caches[min(1, len(caches) - 1)],
    }


def quantities(model: HardwareModel) -> dict[str, Value]:
    """Return the quantities of a hardware model by their names in templates.

    These are ``CLOCK_MHZ``, for each unit ``SRAM_COUNT``, for each memory ``SRAM_KIB`` and ``SRAM_LINE_BYTES``, and for
    each execution unit ``CONV_PIPELINE_DEPTH``.
    """
    values: dict[str, Value] = {"CLOCK_MHZ": model.clock_mhz}
    values |= {f"{unit.name}_COUNT": unit.count for unit in model.units}
    values |= {f"{memory.name}_KIB": memory.size_kib for memory in model.memory_units}
    values |= {f"{memory.name}_LINE_BYTES": memory.line_bytes for memory in model.memory_units}
    values |= {f"{unit.name}_PIPELINE_DEPTH": unit.pipeline_depth for unit in model.execution_units}
    return values


def settings(model: HardwareModel, target: Target) -> dict[str, Value]:
    """Return :func:`~tileir.core.targets.kernel_settings.kernel_settings` by names such as ``GOAL_GROUPS``."""
    return {name.upper(): value for name, value in attrs.asdict(kernel_settings(model, target)).items()}
