"""Verifier of hardware models; one function for each rule, and all faults at once."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tileir.core.errors import Diagnostic, VerifyError
from tileir.core.targets.hardware import ENDPOINT, HardwareModel
from tileir.core.text.names import nearest


def verify(model: HardwareModel) -> HardwareModel:
    """Return the model itself.

    Raises:
        VerifyError: TIL544, one diagnostic for each fault.
    """
    found = [Diagnostic("TIL544", fault) for check in _RULES for fault in check(model)]
    if found:
        raise VerifyError(found)
    return model


def _numbers(model: HardwareModel) -> Iterator[str]:
    """Check that all numbers are finite and make sense."""
    if not 0 < model.clock_mhz < math.inf:
        yield f"clock_mhz must be above 0, not {model.clock_mhz:g}"
    if not 0 <= model.launch_us < math.inf:
        yield f"launch_us must be 0 or more, not {model.launch_us:g}"
    if not 0 < model.link_gbps < math.inf:
        yield f"link_gbps must be above 0, not {model.link_gbps:g}"
    if not 0 <= model.link_us < math.inf:
        yield f"link_us must be 0 or more, not {model.link_us:g}"
    for unit in model.units:
        if unit.count < 1:
            yield f"{unit.name}: the count must be at least 1, not {unit.count}; leave the unit out if there is none"
    for memory in model.memory_units:
        if not 0 <= memory.size_kib < math.inf:
            yield f"{memory.name}: size_KiB must be 0 or more, not {memory.size_kib:g}"
        if memory.line_bytes < 0:
            yield f"{memory.name}: line_bytes must be 0 or more, not {memory.line_bytes}"
    for unit in model.execution_units:
        if unit.pipeline_depth < 1:
            yield f"{unit.name}: pipeline_depth must be at least 1, not {unit.pipeline_depth}"
        for dtype, rate in unit.ops_per_cycle:
            if not 0 < rate < math.inf:
                kind = "other" if dtype is None else dtype.value
                yield f"{unit.name}: ops_per_cycle must be above 0, not {rate:g} for {kind}"


def _names(model: HardwareModel) -> Iterator[str]:
    """Check that a name stands for one kind of unit, and can be written as the end of a bus."""
    seen: set[str] = set()
    for unit in model.units:
        if unit.name in seen:
            yield f"two kinds of units are called {unit.name}; rename one"
        elif (match := ENDPOINT.match(unit.name)) is None or match["number"] is not None:
            yield f"{unit.name[:64]!r} is no name for a unit; write a word such as SRAM"
        seen.add(unit.name)


def _owners(model: HardwareModel) -> Iterator[str]:
    """Check that a memory's unit exists, and that there are no more memories than units."""
    counts = {unit.name: unit.count for unit in model.execution_units}
    for memory in model.memory_units:
        if memory.per and memory.per not in counts:
            yield f"{memory.name}: per names no execution unit {memory.per[:64]!r}{nearest(memory.per, counts)}"
        elif memory.per and memory.count > counts[memory.per]:
            yield f"{memory.name}: there are {memory.count} of them, but only {counts[memory.per]} {memory.per}"


def _buses(model: HardwareModel) -> Iterator[str]:
    """Check that every bus moves something, from units that exist to units that exist."""
    counts = {unit.name: unit.count for unit in model.units}
    for number, bus in enumerate(model.buses):
        place = f"bus {number}"
        if not 0 < bus.bytes_per_cycle < math.inf:
            yield f"{place}: bytes_per_cycle must be above 0, not {bus.bytes_per_cycle:g}"
        if bus.count < 1:
            yield f"{place}: the count must be at least 1, not {bus.count}"
        for kind, ends in (("source", bus.sources), ("sink", bus.sinks)):
            if not ends:
                yield f"{place} has no {kind}"
            for end in ends:
                fault = _end_fault(end, counts)
                if fault:
                    yield f"{place}: {kind} {end[:64]!r} {fault}"


def _end_fault(end: str, counts: dict[str, int]) -> str:
    """Return the fault of an end of a bus; an empty text if there is none."""
    match = ENDPOINT.match(end)
    if match is None:
        return 'is no unit; write a name, or a name and a number as in "DRAM[0]"'
    name, number = match["name"], match["number"]
    if name not in counts:
        return f"names no unit{nearest(name, counts)}"
    if number is not None and int(number) >= counts[name]:
        last = counts[name] - 1
        return f"is out of range; there are {counts[name]}, and the last one is {name}[{last}]"
    return ""


def _reachable(model: HardwareModel) -> Iterator[str]:
    """Check that every memory has a path to or from an execution unit, and every execution unit gets data."""
    known = {unit.name for unit in model.units}
    ways = [(_name(source), _name(sink)) for bus in model.buses for source in bus.sources for sink in bus.sinks]
    computing = {unit.name for unit in model.execution_units} & known
    storing = {memory.name for memory in model.memory_units} & known
    feeding = _closed(computing, {(sink, source) for source, sink in ways})
    fed = _closed(computing, set(ways))
    for memory in model.memory_units:
        if memory.name not in feeding | fed:
            yield f"no execution unit can reach memory {memory.name}; add a bus, or drop it"
    for unit in model.execution_units:
        if not _closed({unit.name}, {(sink, source) for source, sink in ways}) & storing:
            yield f"no memory can send data to execution unit {unit.name}; add a bus, or drop it"


def _closed(starts: set[str], ways: set[tuple[str, str]]) -> set[str]:
    """Return ``starts`` and all units reachable from them by ``ways``."""
    reached: set[str] = set()
    pending = set(starts)
    while pending:
        reached |= pending
        pending = {sink for source, sink in ways if source in pending} - reached
    return reached


def _name(end: str) -> str:
    return end.partition("[")[0]


_RULES = (_numbers, _names, _owners, _buses, _reachable)
