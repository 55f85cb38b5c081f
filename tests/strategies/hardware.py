"""Two machines: an accelerator as on Stripe's slides, and a processor with caches."""

from __future__ import annotations

from typing import Final

from tileir.core.dtype import DType
from tileir.core.targets.hardware import Bus, ExecutionUnit, HardwareModel, MemoryUnit, TransferUnit

ACCELERATOR: Final = HardwareModel(
    "accelerator",
    1000,
    (MemoryUnit("DRAM", 1, 1 << 20), MemoryUnit("SRAM", 4, 256)),
    (ExecutionUnit("DSP", 4, ((None, 64),)), ExecutionUnit("CONV", 2, ((DType.I8, 512),), 2, matrix=True)),
    (TransferUnit("DMA"), TransferUnit("NOC")),
    (
        Bus(("DRAM[0]",), ("DMA[0]",), 64),
        Bus(("DMA[0]",), ("DRAM[0]",), 64),
        Bus(("DMA[0]",), ("SRAM",), 32),
        Bus(("NOC[0]",), ("SRAM[0]", "SRAM[1]"), 512),
        Bus(("SRAM",), ("NOC",), 512),
        Bus(("SRAM",), ("DSP",), 128, 4),
        Bus(("SRAM[0]",), ("CONV[0]",), 256),
        Bus(("DSP",), ("SRAM",), 64, 4),
    ),
)
PROCESSOR: Final = HardwareModel(
    "processor",
    2000,
    (
        MemoryUnit("L1", 2, 32, 64, "CORE"),
        MemoryUnit("DRAM", 1, 1 << 24),
        MemoryUnit("L2", 2, 1024, 64, "CORE"),
        MemoryUnit("L3", 1, 32768, 64),
    ),
    (ExecutionUnit("CORE", 2, ((DType.F32, 32), (None, 16))),),
    (),
    (
        Bus(("DRAM",), ("L3",), 24),
        Bus(("L3",), ("L2",), 32, 2),
        Bus(("L2",), ("L1",), 64, 2),
        Bus(("L1",), ("CORE",), 128, 2),
    ),
)
