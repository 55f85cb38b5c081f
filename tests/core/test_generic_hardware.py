from __future__ import annotations

import pytest

from tileir.core.dtype import DType
from tileir.core.targets.generic_hardware import generic_hardware
from tileir.core.targets.target import Target
from tileir.core.targets.target_file import hardware_of

PROCESSOR = Target(threads=8, vector_bytes=64, vector_registers=32, cache_bytes=(32 << 10, 1 << 20, 32 << 20))
CARD = Target("card", threads=132, cache_bytes=(50 << 20,), local_bytes=48 << 10, group_threads=1024, group_width=32)


def test_a_processor_has_its_caches_between_memory_and_registers() -> None:
    model = generic_hardware(PROCESSOR)
    assert [memory.name for memory in model.levels()] == ["DRAM", "L3", "L2", "L1", "REGISTER"]
    assert [model.memory(f"L{level}").count for level in (1, 2, 3)] == [8, 8, 1]
    assert model.size("L2") == 1 << 20
    assert model.size("REGISTER") == 64 * 32
    assert model.execution("CORE").count == 8


def test_a_card_has_local_memory() -> None:
    model = generic_hardware(CARD)
    assert [memory.name for memory in model.levels()] == ["DRAM", "L2", "LOCAL", "REGISTER"]
    assert model.size("LOCAL") == 48 << 10
    assert model.peak(DType.F32) == 132 * 256 * 1.5e9


@pytest.mark.parametrize("target", [PROCESSOR, CARD], ids=lambda target: target.name)
def test_memory_is_slower_the_further_out_it_is(target: Target) -> None:
    model = generic_hardware(target)
    unit = model.execution_units[0].name
    speeds = [model.bandwidth(memory.name, unit) for memory in model.levels()]
    assert speeds[0] == min(speeds)
    assert min(speeds) > 0


@pytest.mark.parametrize(
    "target",
    [
        Target(),
        Target(threads=0, vector_bytes=1, vector_registers=0, cache_bytes=()),
        Target(cache_bytes=(0, 1, 2, 3, 4, 5)),
        Target(group_width=64, cache_bytes=(), local_bytes=0),
        Target(group_width=2, cache_bytes=(1, 2, 3), threads=1),
    ],
)
def test_every_target_has_a_model(target: Target) -> None:
    model = hardware_of(target)
    assert all(model.peak(dtype) > 0 for dtype in DType if not dtype.is_storage)  # those are computed as f32
    assert model.levels()


def test_a_model_of_the_back_end_comes_first() -> None:
    model = generic_hardware(CARD)
    assert hardware_of(Target(hardware=model)) is model
