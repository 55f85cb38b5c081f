from __future__ import annotations

from typing import Final

import attrs
import pytest

from tileir.core.dtype import DType
from tileir.core.targets.generic_hardware import generic_hardware
from tileir.core.targets.hardware import Bus, ExecutionUnit, HardwareModel, MemoryUnit
from tileir.core.targets.hardware_verifier import verify
from tileir.core.targets.kernel_settings import KernelSettings, kernel_settings
from tileir.core.targets.target import Target


def card(units: int, flops: float, depth: int, line: int, memory: float) -> HardwareModel:
    """A card of the years of PlaidML: 256 KiB of registers for each of its units."""
    return verify(
        HardwareModel(
            "card",
            1000,
            (MemoryUnit("DRAM"), MemoryUnit("L2", 1, 2048, line), MemoryUnit("REGISTER", units, 256, 0, "SM")),
            (ExecutionUnit("SM", units, ((DType.F32, flops),), depth),),
            (),
            (
                Bus(("DRAM",), ("L2",), memory),
                Bus(("L2",), ("REGISTER",), 512, units),
                Bus(("REGISTER",), ("SM",), 2048, units),
            ),
        )
    )


AMD: Final = Target(group_threads=256, group_width=64, local_bytes=32768)
NVIDIA: Final = Target(group_threads=1024, group_width=32, local_bytes=15360)


@pytest.mark.parametrize(
    ("model", "target", "row"),
    [
        # 40 waves of 64 threads in flight share the registers; 4 units
        (card(4, 128, 40, 128, 10.24), AMD, KernelSettings(256, 1, 128, 32768, 16384, 16, 50)),
        # 64 warps of 32 threads
        (card(4, 256, 64, 64, 22.26), NVIDIA, KernelSettings(256, 1, 64, 15360, 32768, 16, 46)),
    ],
    ids=["AMD", "NVIDIA"],
)
def test_the_rows_of_plaidml_follow_from_the_models(model: HardwareModel, target: Target, row: KernelSettings) -> None:
    assert kernel_settings(model, target) == row


def test_the_default_of_plaidml_takes_what_the_driver_tells() -> None:
    """Its row: one thread, the line of the cache, all local memory, four groups for each processor."""
    target = Target(threads=24, local_bytes=65536, group_threads=1)
    found = kernel_settings(generic_hardware(target), target)
    assert (found.threads, found.mem_width, found.max_mem, found.goal_groups) == (1, 64, 65536, 96)


def test_a_processor_uses_its_vectors_and_caches() -> None:
    target = Target(threads=2, vector_bytes=64, vector_registers=32, cache_bytes=(32768, 1 << 20))
    found = kernel_settings(generic_hardware(target), target)
    assert (found.threads, found.vec_size, found.max_mem, found.max_regs) == (1, 16, 32768, 2048)
    assert found.goal_flops_per_byte >= 1


@pytest.mark.parametrize(
    "target",
    [Target(), Target(threads=0, cache_bytes=()), Target(group_width=32, group_threads=100), Target(group_width=8)],
)
def test_settings_are_those_that_plaidml_takes(target: Target) -> None:
    found = kernel_settings(generic_hardware(target), target)
    assert 1 <= found.threads <= 512
    assert found.threads & (found.threads - 1) == 0
    assert min(attrs.astuple(found)) >= 0


def test_a_model_of_nothing_has_settings() -> None:
    assert kernel_settings(HardwareModel("nothing", 1), Target()).goal_flops_per_byte == 1
