"""Answers of drivers as plain values."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyopencl as cl
import pytest

from strategies.opencl_device import device
from tileir.core.dtype import DType
from tileir.core.errors import BackendError
from tileir.runtime.interface import DeviceInfo
from tileir_opencl.device import capabilities as module
from tileir_opencl.device.capabilities import base_alignment, capabilities, language_version, processor_vector_bytes
from tileir_opencl.device.devices import device_of, devices
from tileir_opencl.device.features import SPELT
from tileir_opencl.device.platforms import PlatformDevice

CPU, GPU = cl.device_type.CPU, cl.device_type.GPU


def found(version: str = "OpenCL 3.0 Vendor", platform: str = "Vendor", **facts: Any) -> PlatformDevice:
    described = {
        "name": "a device",
        "type": CPU,
        "extensions": "cl_khr_fp64 cl_khr_global_int32_base_atomics cl_vendor_tricks cl_khr_icd",
        "opencl_c_version": "OpenCL C 1.2 Vendor",
        "native_vector_width_float": 8,
        "double_fp_config": 63,
        "single_fp_config": 191,
        "max_compute_units": 6,
        "max_work_group_size": 1024,
        "max_work_item_sizes": [512, 512, 64],
        "local_mem_size": 48 * 1024,
        "mem_base_addr_align": 4096,
        "global_mem_cache_size": 1 << 22,
        **facts,
    }
    return PlatformDevice(SimpleNamespace(name=platform, version=version), SimpleNamespace(**described), 0)  # type: ignore[arg-type]


def test_a_graphics_processor() -> None:
    able = capabilities(found(type=GPU, warp_size_nv=32, extensions="cl_khr_fp16 cl_nv_tricks", double_fp_config=0))
    assert able.features.fp16
    assert not able.features.fp64
    assert not able.target.doubles
    assert able.flags == ("fp16", "cl_nv_tricks")
    assert able.correct_division
    target = able.target
    assert (target.pipeline, target.group_threads, target.group_width) == ("gpu", 512, 32)
    assert (target.local_bytes, target.threads, target.vector_bytes) == (48 * 1024, 6, 16)
    assert (target.alignment, target.index_dtype, target.scratch) == (512, DType.I32, False)
    assert target.cache_bytes == (1 << 22,)


def test_a_graphics_processor_that_tells_less() -> None:
    able = capabilities(
        found(type=GPU, single_fp_config=0, global_mem_cache_size=0, preferred_work_group_size_multiple=64)
    )
    assert able.target.group_width == 64
    assert able.target.cache_bytes == ()
    assert not able.correct_division
    assert able.features.fp64
    assert able.target.doubles


@pytest.mark.parametrize("passed", [False, True])
def test_a_graphics_processor_that_takes_ptx(monkeypatch: pytest.MonkeyPatch, passed: bool) -> None:
    monkeypatch.setattr(module, "has_ptx", lambda _: passed)
    able = capabilities(found(type=GPU, warp_size_nv=32, extensions="cl_nv_compiler_options"))
    assert able.features.ptx is passed
    assert able.target.async_copies is passed
    assert able.target.fragments == (SPELT if passed else ())


def test_a_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "works_with", lambda *_: pytest.fail("no probe is needed"))
    able = capabilities(found())
    assert able.flags == ("atomics", "fp64", "cl_vendor_tricks")
    target = able.target
    assert (target.pipeline, target.vector_bytes, target.alignment, target.scratch) == ("cpu", 32, 16, True)
    assert able.features.max_vector_bytes == 32


@pytest.mark.parametrize(
    ("version", "lanes", "works", "width"),
    [
        ("OpenCL 3.0 PoCL 3.0-rc2  Linux", 16, None, 32),
        ("OpenCL 3.0 PoCL 3.1  Linux", 16, None, 32),
        ("OpenCL 3.0 PoCL 5.0  Linux", 16, True, 64),
        ("OpenCL 3.0 PoCL 5.0  Linux", 16, False, 32),
        ("OpenCL 3.1 LINUX", 32, True, 64),
        ("OpenCL 3.0 Vendor", 8, None, 32),
        ("OpenCL 3.0 Vendor", 4, None, 16),
        ("OpenCL 3.0 Vendor", 1, None, 16),
    ],
)
def test_wide_vectors_are_tried_before_they_are_trusted(
    monkeypatch: pytest.MonkeyPatch, version: str, lanes: int, works: bool | None, width: int
) -> None:
    tried: list[int] = []

    def works_with(_: PlatformDevice, lanes: int) -> bool:
        tried.append(lanes)
        return bool(works)

    monkeypatch.setattr(module, "works_with", works_with)
    assert processor_vector_bytes(found(version, native_vector_width_float=lanes)) == width
    assert tried == ([] if works is None else [16])


def test_simulators_get_narrow_vectors() -> None:
    target = capabilities(found(platform="Oclgrind", type=CPU | GPU, native_vector_width_float=1)).target
    assert (target.pipeline, target.vector_bytes) == ("cpu", 16)


def test_versions_of_the_language() -> None:
    assert language_version("OpenCL C 1.2 PoCL") == (1, 2)
    assert language_version("OpenCL C 3.0 ") == (3, 0)
    assert language_version("something else") == (1, 1)


def test_alignment_is_at_least_that_of_the_host() -> None:
    assert base_alignment(found(mem_base_addr_align=1024).device) == 128
    assert base_alignment(found(mem_base_addr_align=8).device) == 16


def test_ids_are_numbers_in_order_and_lead_back_to_devices() -> None:
    device()
    listed = devices()
    assert [info.id for info in listed] == [f"opencl.{number}" for number in range(len(listed))]
    for info in listed:
        assert device_of(info).info is info
        assert info.backend == "opencl"
        assert info.memory_bytes
        assert info.target.threads > 0
    with pytest.raises(BackendError, match=r"no device 'opencl\.99'"):
        device_of(DeviceInfo("opencl.99", "none", "opencl"))
