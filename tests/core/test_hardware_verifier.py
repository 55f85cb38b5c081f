from __future__ import annotations

import attrs
import pytest

from strategies.hardware import ACCELERATOR, PROCESSOR
from tileir.core.dtype import DType
from tileir.core.errors import VerifyError
from tileir.core.targets.hardware import Bus, ExecutionUnit, HardwareModel, MemoryUnit, TransferUnit
from tileir.core.targets.hardware_verifier import verify


def faults(model: HardwareModel) -> list[str]:
    with pytest.raises(VerifyError) as caught:
        verify(model)
    assert {d.code for d in caught.value.diagnostics} == {"TIL544"}
    return [d.message for d in caught.value.diagnostics]


def with_bus(*buses: Bus) -> HardwareModel:
    return attrs.evolve(ACCELERATOR, buses=(*ACCELERATOR.buses, *buses))


def with_memory(unit: MemoryUnit) -> HardwareModel:
    bus = Bus((unit.name,), ("DSP",), 8)
    return attrs.evolve(with_bus(bus), memory_units=(*ACCELERATOR.memory_units, unit))


def with_execution(unit: ExecutionUnit) -> HardwareModel:
    bus = Bus(("SRAM",), (unit.name,), 8)
    return attrs.evolve(with_bus(bus), execution_units=(*ACCELERATOR.execution_units, unit))


@pytest.mark.parametrize("model", [ACCELERATOR, PROCESSOR], ids=lambda model: model.name)
def test_good_models_pass(model: HardwareModel) -> None:
    assert verify(model) is model


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (attrs.evolve(ACCELERATOR, clock_mhz=0), "clock_mhz must be above 0, not 0"),
        (attrs.evolve(ACCELERATOR, launch_us=-1), "launch_us must be 0 or more, not -1"),
        (attrs.evolve(ACCELERATOR, link_gbps=0), "link_gbps must be above 0, not 0"),
        (attrs.evolve(ACCELERATOR, link_us=-1), "link_us must be 0 or more, not -1"),
        (with_memory(MemoryUnit("X", 0, 1)), "X: the count must be at least 1, not 0; leave the unit out"),
        (with_memory(MemoryUnit("X", 1, -1)), "X: size_KiB must be 0 or more, not -1"),
        (with_memory(MemoryUnit("X", 1, 1, -64)), "X: line_bytes must be 0 or more, not -64"),
        (with_memory(MemoryUnit("X", 1, 1, 0, "DPS")), "X: per names no execution unit 'DPS'; did you mean DSP?"),
        (with_memory(MemoryUnit("X", 5, 1, 0, "DSP")), "X: there are 5 of them, but only 4 DSP"),
        (with_execution(ExecutionUnit("X", 1, (), 0)), "X: pipeline_depth must be at least 1, not 0"),
        (
            with_execution(ExecutionUnit("X", 1, ((DType.I8, 1), (None, 0)))),
            "X: ops_per_cycle must be above 0, not 0 for other",
        ),
        (with_bus(Bus(("DRAM",), ("DMA",), 0)), "bus 8: bytes_per_cycle must be above 0, not 0"),
        (with_bus(Bus(("DRAM",), ("DMA",), 1, 0)), "bus 8: the count must be at least 1, not 0"),
        (with_bus(Bus((), ("DMA",), 1)), "bus 8 has no source"),
        (with_bus(Bus(("DRAM",), (), 1)), "bus 8 has no sink"),
        (with_bus(Bus(("SRAN[0]",), ("DMA",), 1)), "bus 8: source 'SRAN[0]' names no unit; did you mean SRAM?"),
        (with_bus(Bus(("DRAM",), ("SRAM[0",), 1)), "bus 8: sink 'SRAM[0' is no unit; write a name"),
        (
            with_bus(Bus(("DRAM",), ("SRAM[4]",), 1)),
            "bus 8: sink 'SRAM[4]' is out of range; there are 4, and the last one is SRAM[3]",
        ),
        (
            attrs.evolve(ACCELERATOR, memory_units=(*ACCELERATOR.memory_units, MemoryUnit("X"))),
            "no execution unit can reach memory X; add a bus, or drop it",
        ),
        (
            attrs.evolve(ACCELERATOR, execution_units=(*ACCELERATOR.execution_units, ExecutionUnit("X"))),
            "no memory can send data to execution unit X; add a bus, or drop it",
        ),
        (
            attrs.evolve(ACCELERATOR, transfer_units=(*ACCELERATOR.transfer_units, TransferUnit("DSP", 4))),
            "two kinds of units are called DSP; rename one",
        ),
        (
            attrs.evolve(ACCELERATOR, transfer_units=(*ACCELERATOR.transfer_units, TransferUnit("D[0]"))),
            "'D[0]' is no name for a unit; write a word such as SRAM",
        ),
    ],
)
def test_a_broken_rule_is_told(model: HardwareModel, message: str) -> None:
    (fault,) = faults(model)
    assert fault.startswith(message)


def test_all_faults_come_at_once() -> None:
    model = HardwareModel("none", -1, (MemoryUnit("A", 0),), (), (), (Bus(("B",), (), 1),))
    assert len(faults(model)) == 5


def test_memories_that_are_only_written_are_reachable() -> None:
    buses = (*PROCESSOR.buses, Bus(("CORE",), ("LOG",), 1))
    model = attrs.evolve(PROCESSOR, memory_units=(*PROCESSOR.memory_units, MemoryUnit("LOG")), buses=buses)
    assert verify(model) is model
