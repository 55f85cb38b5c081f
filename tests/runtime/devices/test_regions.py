"""Memory regions of devices: arrays are made in them, copied between them, and outlive their context."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import tileir
from strategies.shared_device import SharedDevice
from tileir.core.dtype import DType
from tileir.core.errors import ArgumentError

DEVICES = [each.id for each in tileir.devices() if each.backend in ("llvm", "opencl")] + ["shared.0"]
OPENCL = [each for each in DEVICES if each.startswith("opencl")]


@pytest.mark.sampled(7)
@pytest.mark.parametrize("shape", [(3, 4), (), (0, 2), 5])
@pytest.mark.parametrize("dtype", DType, ids=lambda dtype: dtype.value)
@pytest.mark.parametrize("device", DEVICES)
def test_arrays_go_from_one_region_to_the_other(context: tileir.Context, device: str, dtype: DType, shape: Any) -> None:
    regions = tileir.memory(device, context=context)
    source = regions.shared.empty(shape, dtype)
    assert (type(source), source.dtype) == (np.ndarray, dtype.numpy)
    source[...] = 1
    there, back = regions.device.empty(shape, dtype.value), regions.shared.empty(shape, dtype.numpy)
    assert (there.device.id, there.dtype, there.shape) == (device, source.dtype, source.shape)
    same = tileir.jit("function (A) -> (B) { B = A; }", device, context=context)
    assert same(source, out=there) is there
    assert same(there, out=back) is back
    np.testing.assert_array_equal(back, source)


@pytest.mark.parametrize("device", DEVICES)
def test_regions_tell_what_they_are(context: tileir.Context, card: SharedDevice, device: str) -> None:
    regions = tileir.memory(device, context=context)
    info = context.device(device)
    assert regions.device.nbytes == info.memory_bytes
    assert regions.device.seen_by_host is not regions.shared.pinned
    assert regions.shared.pinned is (device == "shared.0")
    assert repr(regions) == f"MemoryRegions(device=DeviceRegion(home={device}), shared=SharedRegion(home={device}))"
    assert regions.shared.empty(6).nbytes == 24
    assert card.staged == ([24] if device == "shared.0" else [])


def test_the_device_is_that_of_the_context(context: tileir.Context) -> None:
    assert tileir.memory(context=context).device.empty(2).device.id == "llvm.0"
    assert tileir.memory().device.home.device.id == tileir.default_context().device().id


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("shape", "dtype", "code"),
    [
        (3, "f33", "TIL702"),
        (3, "complex64", "TIL702"),
        (3, object(), "TIL702"),
        (-1, "f32", "TIL707"),
        ((2, 2.5), "f32", "TIL707"),
        ((True,), "f32", "TIL707"),
        (1 << 62, "f32", "TIL708"),
    ],
)
def test_what_cannot_be_made(context: tileir.Context, device: str, shape: Any, dtype: Any, code: str) -> None:
    regions = tileir.memory(device, context=context)
    for region in (regions.device, regions.shared) if device != "shared.0" or code != "TIL708" else (regions.device,):
        with pytest.raises(ArgumentError) as error:
            region.empty(shape, dtype)
        assert [diagnostic.code for diagnostic in error.value.diagnostics] == [code]


@pytest.mark.parametrize("device", OPENCL)
def test_page_locked_memory_of_opencl_is_an_array_until_nobody_refers_to_it(device: str) -> None:
    with tileir.Context() as context:
        executor: Any = tileir.memory(device, context=context).device.home.executor
        room, empty = executor.stage(4096), executor.stage(0)
        buffer = executor.allocate(4096)
        room[:] = np.arange(4096) % 251
        executor.copy(room, buffer).wait()
        back = executor.stage(4096)
        executor.copy(buffer, back).wait()
        np.testing.assert_array_equal(back, room)
        assert empty.nbytes == 0
        del room
        gc.collect()
    assert back.sum() == (np.arange(4096) % 251).sum()
    with pytest.raises(tileir.BackendError) as error:
        executor.stage(16)
    assert error.value.diagnostics[0].code == "TIL807"


@pytest.mark.parametrize("device", OPENCL)
def test_more_page_locked_memory_than_there_is(device: str) -> None:
    executor: Any = tileir.memory(device).device.home.executor
    with pytest.raises(tileir.BackendError, match=f"{1 << 50} bytes of page-locked memory") as error:
        executor.stage(1 << 50)
    assert error.value.diagnostics[0].code == "TIL708"
