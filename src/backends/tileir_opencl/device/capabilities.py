"""Facts about a device as its driver reports them: features for the source, and a target for the passes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pyopencl as cl

from tileir.core import DType, Target, attrs
from tileir_opencl.device.features import SPELT, WIDEST_UPDATE, Features
from tileir_opencl.device.probe import has_ptx, works_with

if TYPE_CHECKING:
    from tileir_opencl.device.platforms import PlatformDevice

GPU_VECTOR_BYTES: Final = 16
"""Widest memory access of one thread; registers of GPUs are scalar."""

SAFE_VECTOR_BYTES: Final = 32
"""Vector width of processors for which wider vectors are known to crash the process."""

ELEMENT_BYTES: Final = 4
WARP: Final = 32
MOST_LANES: Final = 16
LEAST_ALIGNMENT: Final = 16
"""Alignment guaranteed by every host allocator, so that callers' arrays can be used in place."""

_FLAGS: Final = {
    "cl_khr_fp16": "fp16",
    "cl_khr_fp64": "fp64",
    "cl_khr_subgroups": "subgroups",
    "cl_intel_subgroups": "subgroups",
    "cl_khr_global_int32_base_atomics": "atomics",
    "cl_khr_int64_base_atomics": "atomics64",
    "cl_khr_il_program": "il",
}
"""Short names of extensions in :attr:`tileir.runtime.interface.DeviceInfo.features`."""

PTX_EXTENSION: Final = "cl_nv_compiler_options"
"""Extension of NVIDIA's drivers, whose compiler takes PTX statements."""

_CORE_EXTENSIONS: Final = "cl_khr_"


@attrs.frozen
class Capabilities:
    """Device in plain values.

    Attributes:
        features: Features for the text of kernels.
        target: Facts for passes and lowerings.
        flags: Features for people: short names, and the extensions of the vendor.
        correct_division: Whether the compiler has an option for exact f32 division and square roots.
    """

    features: Features
    target: Target
    flags: tuple[str, ...]
    correct_division: bool


def capabilities(found: PlatformDevice) -> Capabilities:
    """Return the capabilities of a device, in plain values."""
    device = found.device
    extensions = frozenset(device.extensions.split())
    gpu = found.rank == 0
    width = GPU_VECTOR_BYTES if gpu or found.simulated else processor_vector_bytes(found)
    fp64 = "cl_khr_fp64" in extensions or bool(_number(device, "double_fp_config"))
    features = Features(
        version=language_version(device.opencl_c_version),
        fp64=fp64,
        fp16="cl_khr_fp16" in extensions,
        ptx=gpu and PTX_EXTENSION in extensions and has_ptx(found),
        max_lanes=MOST_LANES,
        max_vector_bytes=128 if gpu or found.simulated else width,
    )
    correct = cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT
    return Capabilities(
        features,
        _gpu_target(found, features) if gpu else _processor_target(found, width, features),
        _flags(extensions, fp64=fp64),
        bool(_number(device, "single_fp_config") & correct),
    )


def processor_vector_bytes(found: PlatformDevice) -> int:
    """Return the vector width with which a processor's driver is reliable.

    PoCL 3.0 reports 64 bytes with AVX-512, and then aborts the process in functions of these vectors. Widths beyond 32
    bytes are therefore tried once, in a separate process.
    """
    reported = found.device.native_vector_width_float * ELEMENT_BYTES
    if reported <= SAFE_VECTOR_BYTES or re.search(r"\bPoCL [1-3]\.", found.platform.version):
        return max(min(reported, SAFE_VECTOR_BYTES), LEAST_ALIGNMENT)
    lanes = min(reported // ELEMENT_BYTES, MOST_LANES)
    return lanes * ELEMENT_BYTES if works_with(found, lanes) else SAFE_VECTOR_BYTES


def language_version(text: str) -> tuple[int, int]:
    """Return the version of OpenCL C from a driver's text, 1.1 if that is not understood."""
    match = re.match(r"OpenCL C (\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (1, 1)


def _gpu_target(found: PlatformDevice, features: Features) -> Target:
    device = found.device
    width = _number(device, "warp_size_nv") or _number(device, "preferred_work_group_size_multiple") or WARP
    return Target(
        name=_name(found),
        vector_bytes=GPU_VECTOR_BYTES,
        vector_registers=256,
        threads=device.max_compute_units,
        cache_bytes=_caches(device),
        local_bytes=device.local_mem_size,
        group_threads=min(device.max_work_group_size, *device.max_work_item_sizes[:1]),
        group_width=width,
        max_lanes=MOST_LANES,
        alignment=base_alignment(device),
        scratch=False,
        index_dtype=DType.I32,
        doubles=features.fp64,
        async_copies=features.ptx,
        update_bytes=WIDEST_UPDATE,
        fragments=SPELT if features.ptx else (),
        pipeline="gpu",
    )


def _processor_target(found: PlatformDevice, width: int, features: Features) -> Target:
    device = found.device
    return Target(
        name=_name(found),
        vector_bytes=width,
        vector_registers=32 if width > SAFE_VECTOR_BYTES else 16,
        threads=device.max_compute_units,
        local_bytes=device.local_mem_size,
        group_threads=min(device.max_work_group_size, *device.max_work_item_sizes[:1]),
        group_width=1,
        max_lanes=MOST_LANES,
        alignment=LEAST_ALIGNMENT,
        shuffles=True,
        doubles=features.fp64,
        pipeline="cpu",
    )


def base_alignment(device: cl.Device) -> int:
    """Return the alignment in bytes of every buffer, which the driver reports in bits."""
    return max(device.mem_base_addr_align // 8, LEAST_ALIGNMENT)


def _caches(device: cl.Device) -> tuple[int, ...]:
    size = _number(device, "global_mem_cache_size")
    return (size,) if size else ()


def _name(found: PlatformDevice) -> str:
    return f"{found.platform.name}-{found.device.name}".replace(" ", "_")


def _flags(extensions: frozenset[str], *, fp64: bool) -> tuple[str, ...]:
    short = {_FLAGS[name] for name in extensions if name in _FLAGS} | ({"fp64"} if fp64 else set())
    vendors = {name for name in extensions if not name.startswith(_CORE_EXTENSIONS)} - set(_FLAGS)
    return (*sorted(short), *sorted(vendors))


def _number(device: cl.Device, name: str) -> int:
    """Return a driver's numeric answer about itself; 0 if it does not support the question."""
    try:
        value = getattr(device, name)
    except (cl.Error, AttributeError):
        return 0
    return value if isinstance(value, int) else 0
