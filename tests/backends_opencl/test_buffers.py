"""Lifetime of memory, its parts, and arrays that are used in place."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING

import attrs
import numpy as np
import pytest

from strategies.opencl_device import NUMBERS, SIZE
from tileir.core.errors import ArgumentError, BackendError
from tileir_opencl.run.buffers import OpenCLBuffer

if TYPE_CHECKING:
    from tileir_opencl.run.executor import OpenCLExecutor
    from tileir_opencl.run.kernels import OpenCLKernel


def test_memory_that_does_not_exist_is_an_error_and_nothing_is_lost(
    executor: OpenCLExecutor, add_one: OpenCLKernel
) -> None:
    memory = executor.allocate(NUMBERS.nbytes)
    executor.copy(NUMBERS, memory).wait()
    with pytest.raises(BackendError, match="make the arrays smaller") as caught:
        executor.allocate(1 << 50)
    assert [d.code for d in caught.value.diagnostics] == ["TIL708"]
    add_one.launch([memory, memory])
    with memory.map_current() as view:
        np.testing.assert_array_equal(view.view(np.float32), NUMBERS + 1)


def test_memory_is_used_again_and_given_back(executor: OpenCLExecutor, add_one: OpenCLKernel) -> None:
    for _ in range(50):
        memory = executor.allocate(NUMBERS.nbytes)
        add_one.run([memory, memory])
        del memory
    executor.commands.drain()
    executor.allocate(1)
    kept = executor.pool.spare_bytes
    assert 0 < kept <= 50 * NUMBERS.nbytes
    executor.pool.release()
    assert executor.pool.spare_bytes == 0


def test_parts_of_buffers(executor: OpenCLExecutor) -> None:
    step = executor.part_alignment
    whole = executor.allocate(4 * step)
    content = np.arange(4 * step, dtype=np.uint8)
    executor.copy(content, whole).wait()
    half = executor.part(whole, step, 2 * step)
    last = executor.part(half, step, 8)
    del whole, half
    with last.map_current() as view:
        np.testing.assert_array_equal(view, content[2 * step : 2 * step + 8])
    for offset, nbytes in ((1, 4), (step, 0), (step, 4), (-step, 4)):
        with pytest.raises(ArgumentError, match="part"):
            executor.part(last, offset, nbytes)


def test_parts_are_released_together_the_last_one_first() -> None:
    """Drivers crash where a part goes before one that overlaps it and was made later."""
    released: list[int] = []

    @attrs.frozen
    class Handle:
        nbytes: int

        def get_sub_region(self, _: int, nbytes: int) -> Handle:
            return Handle(nbytes)

        def release(self) -> None:
            released.append(self.nbytes)

    whole = OpenCLBuffer(Handle(128), 128, None)  # type: ignore[arg-type]  # no driver is asked
    parts = [whole.region(0, nbytes) for nbytes in (64, 4, 16)]
    del parts
    gc.collect()
    assert released == []
    del whole
    gc.collect()
    assert released == [16, 4, 64]


def test_arrays_are_used_in_place(executor: OpenCLExecutor, add_one: OpenCLKernel) -> None:
    if not executor.shares:
        pytest.skip("the device has memory of its own")
    room = np.zeros(SIZE + 32, np.float32)
    start = -room.ctypes.data % 64 // 4
    inside = room[start + 4 : start + 4 + SIZE]
    source, destination = executor.wrap(NUMBERS), executor.wrap(inside)
    assert executor.wrap(room[start + 5 :]) is None
    assert executor.wrap(room[::2]) is None
    assert executor.wrap(np.empty(0)) is None
    assert source is not None
    assert destination is not None
    add_one.run([source, destination]).wait()
    np.testing.assert_array_equal(inside, NUMBERS + 1)
    seen = destination.host()
    assert seen is not None
    assert np.shares_memory(seen, room)


def test_arrays_that_are_read_only_serve_as_inputs(executor: OpenCLExecutor, add_one: OpenCLKernel) -> None:
    fixed = NUMBERS.copy()
    fixed.flags.writeable = False
    source, destination = executor.wrap(fixed), executor.allocate(NUMBERS.nbytes)
    if source is None:
        pytest.skip("the device has memory of its own")
    add_one.launch([source, destination])
    with destination.map_current() as view:
        np.testing.assert_array_equal(view.view(np.float32), NUMBERS + 1)


def test_memory_is_let_go_of_when_its_commands_are_done(executor: OpenCLExecutor, add_one: OpenCLKernel) -> None:
    memory = executor.allocate(NUMBERS.nbytes)
    known = weakref.ref(memory)
    event = add_one.run([memory, memory])
    del memory
    event.wait()
    gc.collect()
    assert known() is None
