from __future__ import annotations

import pytest

from tileir.core.dtype import DType
from tileir.semtree.ir import DeclareArray, KernelFunction, Region
from tileir.semtree.transform.layout import ALIGNMENT, STACK_BYTES, layout


def kernel(*arrays: DeclareArray) -> KernelFunction:
    return KernelFunction("k", (), arrays)


def array(name: str, nbytes: int, region: Region) -> DeclareArray:
    return DeclareArray(name, DType.I8, nbytes, region)


def test_small_private_arrays_are_on_the_stack() -> None:
    placed = layout(kernel(array("a", STACK_BYTES // 2, Region.PRIVATE), array("b", STACK_BYTES // 2, Region.PRIVATE)))
    assert (dict(placed.offsets), placed.scratch_bytes) == ({}, 0)


def test_what_the_stack_cannot_hold_goes_to_scratch_memory() -> None:
    large, small = array("a", STACK_BYTES + 1, Region.PRIVATE), array("b", 16, Region.PRIVATE)
    placed = layout(kernel(large, small))
    assert dict(placed.offsets) == {large: 0}
    assert placed.scratch_bytes == STACK_BYTES + ALIGNMENT


@pytest.mark.parametrize("region", [Region.SCRATCH, Region.LOCAL])
def test_shared_arrays_follow_each_other_aligned(region: Region) -> None:
    first, second = array("a", 5, region), array("b", 65, region)
    placed = layout(kernel(first, second))
    assert dict(placed.offsets) == {first: 0, second: ALIGNMENT}
    assert placed.scratch_bytes == 3 * ALIGNMENT


def test_equal_declarations_share_their_place() -> None:
    twice = array("a", 64, Region.SCRATCH)
    assert layout(kernel(twice, twice)).scratch_bytes == 64


def test_arrays_as_long_as_a_way_of_a_cache_begin_in_different_sets() -> None:
    arrays = [array(f"a{number}", 4096, Region.SCRATCH) for number in range(12)]
    offsets = layout(kernel(*arrays)).offsets
    assert len({offsets[each] % 4096 // 64 for each in arrays}) == 12
