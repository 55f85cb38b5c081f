"""The two kernels of the project's first documents as OpenCL C."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strategies.seed import seed_stages
from tileir_opencl.device.features import Features
from tileir_opencl.emit.emitter import emit

if TYPE_CHECKING:
    from collections.abc import Callable


def test_seed_kernels(golden: Callable[[str], None]) -> None:
    golden(emit(seed_stages().sem.kernels, Features()))


def test_staged_products_are_clamped_and_merged_by_mad() -> None:
    text = emit(seed_stages().sem.kernels, Features())
    assert "clamp(place, 0, 259)" in text
    assert "mad(" in text
    assert text.count("barrier(CLK_LOCAL_MEM_FENCE);") == 5
