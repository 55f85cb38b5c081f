"""The list of devices as a table or JSON, with missing requirements and remedies."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from rich.table import Column, Table
from rich.text import Text

from tileir.core.errors import BackendError
from tileir.runtime.context import DEVICE_VARIABLE, Context

if TYPE_CHECKING:
    from rich.console import RenderableType


SHOWN_FEATURES: Final = 8
"""How many features of a device the table shows."""

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


def as_json(context: Context) -> str:
    """Return devices, which of them is the default, and the faults of back ends without any."""
    default = _default(context)
    devices = [
        {
            "id": device.id,
            "name": device.name,
            "backend": device.backend,
            "memory_bytes": device.memory_bytes,
            "features": list(device.features),
            "default": device.id == default,
        }
        for device in context.devices()
    ]
    missing = [
        {"backend": name, "code": fault.code, "message": fault.message, "notes": list(fault.notes)}
        for name, failure in context.failures().items()
        for fault in failure.diagnostics
    ]
    notes = [{"backend": name, "message": note} for name, said in context.notes().items() for note in said]
    document: dict[str, Any] = {"devices": devices, "missing": missing, "notes": notes}
    return json.dumps(document, indent=2)


def as_table(context: Context) -> Iterator[RenderableType]:
    """Yield the table, the default, and a paragraph for each back end that is missing."""
    table = Table(Column("id", no_wrap=True), "name", "back end", "memory", "features")
    for device in context.devices():
        features = _shortened(device.features)
        table.add_row(device.id, device.name, device.backend, _in_words(device.memory_bytes), features)
    yield table
    default = _default(context)
    if default is not None:
        yield Text(f"default: {default} (--device or {DEVICE_VARIABLE} names another one)")
    for name, failure in context.failures().items():
        for fault in failure.diagnostics:
            yield Text(f"back end {name} is missing: {fault.message}", style="yellow")
            yield from (Text(f"  note: {note}", style="yellow") for note in fault.notes)
    for name, notes in context.notes().items():
        yield from (Text(f"back end {name}: {note}", style="yellow") for note in notes)


def _default(context: Context) -> str | None:
    try:
        return context.device().id
    except BackendError:
        return None


def _shortened(features: Sequence[str]) -> str:
    more = len(features) - SHOWN_FEATURES
    return " ".join([*features[:SHOWN_FEATURES], *([f"… and {more} more"] if more > 0 else [])])


def _in_words(size: int | None) -> str:
    """Return a number of bytes as people say it; memory comes in powers of two."""
    if size is None:
        return ""
    exponent = max(1, min(4, (size.bit_length() - 1) // 10))
    return f"{size / 1024**exponent:.3g} {_UNITS[exponent]}"
