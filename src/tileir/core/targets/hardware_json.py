"""Hardware models as JSON, in the form of Stripe's slides.

``{"clock_mhz": …, "mem_units": {"SRAM": {"count": 4, "size_KiB": 256}}, "exec_units": {"DSP": {"count": 4,
"ops_per_cycle": 64}}, "tx_units": {"DMA": {"count": 1}}, "buses": [{"sources": ["DRAM[0]"], "sinks": ["DMA[0]"],
"bytes_per_cycle": 64}]}``. Beyond these keys a model may have ``name``, ``launch_us``, ``link_gbps`` and ``link_us``, a
memory ``line_bytes`` and ``per``, an execution unit ``matrix``, a bus ``count``; ``ops_per_cycle`` may be an object
such as ``{"f32": 64, "i8": 256, "other": 16}``. Defaults are not written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from tileir.core.dtype import DType
from tileir.core.errors import TileError
from tileir.core.json.plain import Places, Reader, places_of, read_json
from tileir.core.targets.hardware import Bus, ExecutionUnit, HardwareModel, MemoryUnit, TransferUnit, Unit
from tileir.core.targets.hardware_verifier import verify
from tileir.core.text.names import nearest
from tileir.core.text.span import Source, Span

_LINK: Final = ("link_gbps", "link_us")
_KEYS: Final = ("name", "clock_mhz", "launch_us", *_LINK, "mem_units", "exec_units", "tx_units", "buses")
_DTYPES: Final = {dtype.value: dtype for dtype in DType}
_OTHER: Final = "other"
"""Stands for every dtype without a figure of its own."""

_SPELLED: Final = {"size_kib": "size_KiB"}
"""Fields whose key is spelt in another way."""


def from_json(text: str, name: str = "<hardware>") -> HardwareModel:
    """Return the model that a text describes.

    Raises:
        TileError: TIL601, the text is not JSON; TIL602, it has another shape; VerifyError, TIL544, the model breaks a
            rule. All faults of one kind are reported at once.
    """
    source = Source(text, name)
    value = read_json(text, name)
    return from_value(value, name, lambda: {way: Span(source, *place) for way, place in places_of(text).items()})


def from_value(value: object, name: str = "hardware", places: Places | None = None) -> HardwareModel:
    """Return the model that parsed JSON describes.

    Args:
        value: The JSON.
        name: Its name in messages, and the name of a model without one.
        places: Finds the places of the JSON in its text, for messages.

    Raises:
        TileError: As :func:`from_json`, except TIL601.
    """
    reader = Reader(name, places)
    members = reader.members(value, name, _KEYS)
    sections = {key: reader.members(members.get(key, {}), f"{name}.{key}") for key in ("mem_units", "tx_units")}
    sections["exec_units"] = reader.members(members.get("exec_units"), f"{name}.exec_units")
    buses = reader.items(members.get("buses", []), f"{name}.buses")
    model = HardwareModel(
        reader.text(members, "name", name, name),
        reader.number(members, "clock_mhz", name),
        tuple(_memory(reader, key, unit, f"{name}.mem_units.{key}") for key, unit in sections["mem_units"].items()),
        tuple(
            _execution(reader, key, unit, f"{name}.exec_units.{key}") for key, unit in sections["exec_units"].items()
        ),
        tuple(_transfer(reader, key, unit, f"{name}.tx_units.{key}") for key, unit in sections["tx_units"].items()),
        tuple(_bus(reader, bus, f"{name}.buses[{number}]") for number, bus in enumerate(buses)),
        reader.number(members, "launch_us", name, 0),
        **{key: reader.number(members, key, name) for key in _LINK if key in members},
    )
    if reader.faults:
        raise TileError(reader.faults)
    return verify(model)


def to_value(model: HardwareModel) -> dict[str, object]:
    """Return the model as JSON that :func:`from_value` reads back."""
    value: dict[str, object] = {"name": model.name, "clock_mhz": model.clock_mhz}
    if model.launch_us:
        value["launch_us"] = model.launch_us
    for field in attrs.fields(HardwareModel):
        if field.name in _LINK and getattr(model, field.name) != field.default:
            value[field.name] = getattr(model, field.name)
    value["mem_units"] = _section(model.memory_units)
    value["exec_units"] = _section(model.execution_units)
    if model.transfer_units:
        value["tx_units"] = _section(model.transfer_units)
    value["buses"] = [
        {"sources": list(bus.sources), "sinks": list(bus.sinks), "bytes_per_cycle": bus.bytes_per_cycle}
        | ({"count": bus.count} if bus.count != 1 else {})
        for bus in model.buses
    ]
    return value


def to_json(model: HardwareModel) -> str:
    """Return the text of a model, which :func:`from_json` reads back."""
    return json.dumps(to_value(model), indent=2, ensure_ascii=False) + "\n"


def _memory(reader: Reader, name: str, value: object, place: str) -> MemoryUnit:
    members = reader.members(value, place, ("count", "size_KiB", "line_bytes", "per"))
    return MemoryUnit(
        name,
        reader.integer(members, "count", place, 1),
        reader.number(members, "size_KiB", place),
        reader.integer(members, "line_bytes", place, 0),
        reader.text(members, "per", place, ""),
    )


def _execution(reader: Reader, name: str, value: object, place: str) -> ExecutionUnit:
    members = reader.members(value, place, ("count", "ops_per_cycle", "pipeline_depth", "matrix"))
    return ExecutionUnit(
        name,
        reader.integer(members, "count", place, 1),
        _rates(reader, members, place),
        reader.integer(members, "pipeline_depth", place, 1),
        reader.flag(members, "matrix", place),
    )


def _rates(reader: Reader, members: Mapping[str, object], place: str) -> tuple[tuple[DType | None, float], ...]:
    value = members.get("ops_per_cycle")
    if not isinstance(value, dict):
        return ((None, reader.number(members, "ops_per_cycle", place)),)
    known, inner = (*_DTYPES, _OTHER), f"{place}.ops_per_cycle"
    for key in value:
        if key not in known:
            reader.fault(inner, f"{key[:64]!r} is no dtype{nearest(key, known)}", key)
    return tuple((_DTYPES.get(key), reader.number(value, key, inner)) for key in value)


def _transfer(reader: Reader, name: str, value: object, place: str) -> TransferUnit:
    return TransferUnit(name, reader.integer(reader.members(value, place, ("count",)), "count", place, 1))


def _bus(reader: Reader, value: object, place: str) -> Bus:
    members = reader.members(value, place, ("sources", "sinks", "bytes_per_cycle", "count"))
    return Bus(
        reader.texts(members, "sources", place),
        reader.texts(members, "sinks", place),
        reader.number(members, "bytes_per_cycle", place),
        reader.integer(members, "count", place, 1),
    )


def _section(units: Iterable[Unit]) -> dict[str, object]:
    """Return units by name; counts are always written, as in the slides, other fields if they are not defaults."""
    section: dict[str, object] = {}
    for unit in units:
        fields = attrs.fields(type(unit))
        values = {field.name: (getattr(unit, field.name), field.default) for field in fields}
        section[unit.name] = {
            _SPELLED.get(name, name): _shown(value) if name == "ops_per_cycle" else value
            for name, (value, default) in values.items()
            if name != "name" and (value != default or name in ("count", "size_kib", "ops_per_cycle"))
        }
    return section


def _shown(rates: tuple[tuple[DType | None, float], ...]) -> object:
    if len(rates) == 1 and rates[0][0] is None:
        return rates[0][1]
    return {_OTHER if dtype is None else dtype.value: rate for dtype, rate in rates}
