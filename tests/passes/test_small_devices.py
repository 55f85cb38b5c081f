"""Resources that the pipeline for groups of threads asks of devices with little of them."""

from __future__ import annotations

import math

import attrs
import pytest

from strategies import golden_kernels
from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.driver.compiler import compile_stages
from tileir.semtree.ir import DeclareArray, KernelFunction, Region
from tileir.semtree.rewrite import statements

CARD = Target(
    "card",
    vector_bytes=16,
    threads=8,
    group_width=32,
    max_lanes=16,
    scratch=False,
    index_dtype=DType.I32,
    pipeline="gpu",
)


def local_bytes(kernel: KernelFunction) -> int:
    arrays = (s for s in statements(kernel.body) if isinstance(s, DeclareArray) and s.region is Region.LOCAL)
    return sum(array.size * array.dtype.itemsize for array in arrays)


@pytest.mark.sampled(0)
@pytest.mark.parametrize(("threads", "local"), [(1, 0), (2, 64), (48, 3000), (64, 0), (256, 256)])
def test_groups_and_local_memory_fit_the_device(threads: int, local: int) -> None:
    device = attrs.evolve(
        CARD, group_threads=threads, local_bytes=local, fragments=("mma_m16n8k16_f16",), async_copies=True
    )
    for name, text, types in golden_kernels.operations("nvidia-hopper"):
        for kernel in compile_stages(text, types, device).sem.kernels:
            assert math.prod(kernel.group) <= threads, name
            assert local_bytes(kernel) <= local, name
