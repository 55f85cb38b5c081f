from __future__ import annotations

import math

import attrs
import pytest

from strategies.hardware import ACCELERATOR, PROCESSOR
from tileir.core.dtype import DType
from tileir.core.errors import TileError
from tileir.core.json.codec import from_json, to_json
from tileir.core.targets.hardware import Bus, HardwareModel, MemoryUnit


def test_levels_run_from_the_outermost_memory_to_the_execution_units() -> None:
    assert [memory.name for memory in PROCESSOR.levels()] == ["DRAM", "L3", "L2", "L1"]
    assert [memory.name for memory in ACCELERATOR.levels()] == ["DRAM", "SRAM"]
    assert [memory.name for memory in ACCELERATOR.levels("CONV")] == ["DRAM", "SRAM"]


def test_of_memories_at_one_distance_the_larger_is_outer() -> None:
    model = attrs.evolve(PROCESSOR, memory_units=(*PROCESSOR.memory_units, MemoryUnit("TEXTURE", 2, 12)))
    model = attrs.evolve(model, buses=(*model.buses, Bus(("L2",), ("TEXTURE",), 8), Bus(("TEXTURE",), ("CORE",), 8)))
    assert [memory.name for memory in model.levels()] == ["DRAM", "L3", "L2", "L1", "TEXTURE"]


@pytest.mark.parametrize(
    ("source", "sink", "bytes_per_cycle"),
    [
        ("DRAM", "SRAM", 32),
        ("DRAM", "DMA", 64),
        ("DRAM[0]", "SRAM[3]", 32),
        ("SRAM", "DSP", 512),
        ("SRAM", "DSP[1]", 128),
        ("SRAM[0]", "CONV", 256),
        ("SRAM[1]", "CONV[0]", 256),  # by way of the network and the first memory
        ("SRAM[0]", "SRAM[1]", 512),
        ("SRAM[0]", "SRAM[3]", 64),  # no network leads there, but a processor can copy
        ("SRAM[1]", "CONV[1]", 0),
        ("SRAM", "DRAM", 0),
        ("DRAM", "DSP", 32),
    ],
)
def test_bandwidth_is_that_of_the_widest_way(source: str, sink: str, bytes_per_cycle: int) -> None:
    assert ACCELERATOR.bandwidth(source, sink) == bytes_per_cycle * 1e9


def test_buses_side_by_side_add_up() -> None:
    assert PROCESSOR.bandwidth("L2", "CORE") == 128 * 2e9
    assert PROCESSOR.bandwidth("L2", "CORE[0]") == 128 * 2e9
    assert PROCESSOR.bandwidth("L1[1]", "CORE") == 128 * 2e9
    assert PROCESSOR.bandwidth("DRAM", "CORE") == 24 * 2e9


def test_peaks_depend_on_the_dtype() -> None:
    assert PROCESSOR.peak(DType.F32) == 2 * 32 * 2e9
    assert PROCESSOR.peak(DType.I16) == 2 * 16 * 2e9
    assert ACCELERATOR.peak(DType.I8) == 4 * 64 * 1e9
    assert ACCELERATOR.peak(DType.I8, matrix=True) == 2 * 512 * 1e9
    assert ACCELERATOR.execution("CONV").rate(DType.F32) == 0
    assert HardwareModel("nothing", 1).peak(DType.F32) == 0


def test_balance_relates_operations_to_bytes() -> None:
    assert PROCESSOR.balance("DRAM", DType.F32) == 64 / 24
    assert ACCELERATOR.balance("SRAM", DType.I8, matrix=True) == 1024 / 512
    assert attrs.evolve(PROCESSOR, buses=()).balance("DRAM", DType.F32) == math.inf


def test_sizes_are_told_in_bytes() -> None:
    assert PROCESSOR.size("L1") == 32 * 1024
    assert PROCESSOR.memory("L1").is_cache
    assert not PROCESSOR.memory("DRAM").is_cache


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (lambda: ACCELERATOR.size("SRAMM"), "no memory 'SRAMM'; did you mean SRAM?"),
        (lambda: ACCELERATOR.memory("DSP"), "no memory 'DSP'; known are DRAM, SRAM"),
        (lambda: ACCELERATOR.execution("DPS"), "no execution unit 'DPS'; did you mean DSP?"),
        (lambda: ACCELERATOR.bandwidth("DRAM", "CPU"), "no unit 'CPU'; known are CONV, DMA, DRAM, DSP, NOC, SRAM"),
    ],
)
def test_unknown_units_are_refused(query: object, message: str) -> None:
    assert callable(query)
    with pytest.raises(TileError) as caught:
        query()
    assert [d.code for d in caught.value.diagnostics] == ["TIL545"]
    assert message in caught.value.diagnostics[0].message


def test_models_are_nodes_with_a_canonical_json() -> None:
    assert from_json(to_json(ACCELERATOR), HardwareModel) == ACCELERATOR
    assert hash(attrs.evolve(ACCELERATOR)) == hash(ACCELERATOR)
