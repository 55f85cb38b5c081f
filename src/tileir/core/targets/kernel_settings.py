"""The seven numbers by which PlaidML v0 fitted kernels to a device, derived from a hardware model, or given.

In PlaidML they were tables, one row for each family of devices (its ``HardwareSettings``); here they follow from the
resources of the device, so that a new device needs no row. Passes and target files may use them like other quantities.
A target file may have such a row instead, its section ``settings``, from which facts of the device follow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tileir.core.dtype import DType
from tileir.core.nodes import attrs
from tileir.core.targets.hardware import REGISTER, HardwareModel
from tileir.core.targets.template_expressions import power_of_two_below

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir.core.json.plain import Reader
    from tileir.core.targets.target import Target

_GROUP: Final = 256
"""Threads of a group in all families with many: two or more such groups fit each of their processors."""

_GROUPS: Final = 4
"""Groups for each processor that hide each other's memory latency."""

_WARP: Final = 32
"""Threads in lock-step if only the size of groups is known."""

_WIDTH: Final = 64
"""Bytes of a memory transaction if no cache is known."""


@attrs.frozen
class KernelSettings:
    """Settings that fit kernels to a device.

    Attributes:
        threads: Threads of a group, a power of two.
        vec_size: f32 elements of a vector.
        mem_width: Bytes of one transaction with the outermost memory.
        max_mem: Bytes that a group may stage in memory of its own.
        max_regs: Bytes of registers that a group may fill.
        goal_groups: Least number of groups that keep the device busy.
        goal_flops_per_byte: Operations for each byte from memory above which memory is no bottleneck.
    """

    threads: int
    vec_size: int
    mem_width: int
    max_mem: int
    max_regs: int
    goal_groups: int
    goal_flops_per_byte: int


def kernel_settings(model: HardwareModel, target: Target) -> KernelSettings:
    """Return the settings for a device.

    - ``threads``: as many as groups may have, up to 256; 1 if groups have one thread.
    - ``vec_size``: the lanes of a register; 1 if each thread has registers of one element.
    - ``mem_width``: the line of the outermost cache.
    - ``max_mem``: the memory that threads of a group share, or else the innermost cache.
    - ``max_regs``: a group's share of the registers with all threads that an execution unit keeps in flight, its
      pipeline depth times the threads that run in lock-step; rounded down to a power of two.
    - ``goal_groups``: four for each execution unit.
    - ``goal_flops_per_byte``: the operations on f32 while a byte comes from the outermost memory.
    """
    units = [unit for unit in model.execution_units if not unit.matrix]
    levels = model.levels()
    caches = [memory for memory in levels if memory.is_cache]
    registers = [memory.size_bytes for memory in levels if memory.name == REGISTER]
    many = target.group_width > 1
    threads = min(_GROUP, power_of_two_below(target.group_threads)) if many else 1
    flight = max(threads, max((unit.pipeline_depth for unit in units), default=1) * target.group_width)
    balance = model.balance(levels[0].name, DType.F32) if levels else 1
    return KernelSettings(
        threads,
        1 if many else target.lanes(DType.F32),
        caches[0].line_bytes if caches else _WIDTH,
        target.local_bytes or (caches[-1].size_bytes if caches else 0),
        power_of_two_below(sum(registers[-1:]) * threads // flight),
        _GROUPS * sum(unit.count for unit in units),
        max(1, round(balance)) if balance < float("inf") else 1,
    )


def read_settings(reader: Reader, value: object, place: str) -> dict[str, int]:
    """Return the settings in a target file, each a positive number; the reader collects faults."""
    known = [field.name for field in attrs.fields(KernelSettings)]
    given: dict[str, int] = {}
    for name, number in reader.members(value, place, known).items():
        whole = int(number) if isinstance(number, float) and number.is_integer() else number  # templates divide
        if isinstance(whole, int) and not isinstance(whole, bool) and whole >= 1:
            given[name] = whole
        elif name in known:
            reader.fault(f"{place}.{name}", f"write a whole number from 1 on, not {number!r:.40}")
    return given


def facts_from(given: Mapping[str, int], target: Target) -> dict[str, Any]:
    """Return the facts of a target with given settings, by the names of its attributes.

    ``threads`` above 1 make groups of this size, in which 32 run in lock-step; ``vec_size`` bounds the lanes of all
    vectors; ``max_mem`` is the memory of a group, or the innermost cache; ``max_regs`` is divided among the threads of
    a group; a quarter of ``goal_groups`` run at the same time. The two others are no facts: target files may use them.
    """
    found: dict[str, Any] = {}
    threads = given.get("threads", target.group_threads)
    if "threads" in given:
        found |= {"group_threads": threads, "group_width": min(_WARP, threads)}
    vector_bytes = target.vector_bytes
    if "vec_size" in given:
        vector_bytes = max(DType.F64.itemsize, given["vec_size"] * DType.F32.itemsize)
        found |= {"vector_bytes": vector_bytes, "max_lanes": given["vec_size"]}
    if "max_mem" in given:
        most = given["max_mem"]
        found |= {"local_bytes": most} if threads > 1 else {"cache_bytes": (most, *target.cache_bytes[1:])}
    if "max_regs" in given:
        found["vector_registers"] = max(1, given["max_regs"] // threads // vector_bytes)
    if "goal_groups" in given:
        found["threads"] = max(1, given["goal_groups"] // _GROUPS)
    return found
