"""Program that tries features for which drivers may abort it, started by `tileir_opencl.device.probe`.

Arguments: name and version of the platform, number of the device there, and the feature: a number of lanes, or "ptx"
for PTX statements of asynchronous copies and matrix products. It prints :data:`PASSED` if the functions of kernels give
correct results; any other outcome is a failure.
"""

from __future__ import annotations

import sys
from typing import Any, Final

import numpy as np
import pyopencl as cl

PASSED: Final = "passed"
PTX: Final = "ptx"

_KERNEL: Final = """
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
__kernel void attempt(__global const {type} *from, __global {type} *to) {{
    {type}{lanes} x = vload{lanes}(get_global_id(0), from);
    {type}{lanes} y = fma(x, x, mad(x, x, x)) + exp(-x) + tanh(x) + fmax(x, sqrt(x)) + fmin(x, fabs(x));
    vstore{lanes}(select(y, x, isless(x, y) == 0), get_global_id(0), to);
}}
"""

_PTX_KERNEL: Final = """
__kernel __attribute__((reqd_work_group_size(32, 1, 1))) void attempt(__global const ushort *from, __global float *to) {
    __local __attribute__((aligned(16))) ushort tile[256];
    uint lane = get_local_id(0), at = (uint)(size_t)tile, x, y, z, w;
    float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(at + lane * 16), "l"(from + lane * 8) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    barrier(CLK_LOCAL_MEM_FENCE);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(x), "=r"(y), "=r"(z), "=r"(w) : "r"(at + lane % 16 * 32 + lane / 16 * 16) : "memory");
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(x), "r"(y), "r"(z), "r"(w), "r"(0x3c003c00u), "r"(0x3c003c00u));
    vstore4((float4)(sums[0], sums[1], sums[2], sums[3]), lane, to);
}
"""


def attempt_ptx(device: cl.Device) -> bool:
    """Return whether PTX statements multiply a matrix by one of ones."""
    matrix = np.arange(256, dtype=np.float16).reshape(16, 16) / np.float16(8)
    sums = np.empty((8, 4, 2, 2), np.float32)
    _run(device, _PTX_KERNEL, matrix, sums, 32, 32)
    rows = matrix.astype(np.float32).sum(axis=1).reshape(2, 8)
    return bool(np.array_equal(sums, np.broadcast_to(rows.T[:, None, :, None], sums.shape)))


def attempt(device: cl.Device, name: str, lanes: int) -> bool:
    """Return whether a kernel with vectors of ``lanes`` elements of the type ``name`` is correct."""
    exact = np.linspace(0.1, 3, 4 * lanes)
    x = exact.astype(np.float32 if name == "float" else np.float64)
    y = np.empty_like(x)
    _run(device, _KERNEL.format(type=name, lanes=lanes), x, y, 4, 1)
    expected = 2 * exact**2 + 2 * exact + np.exp(-exact) + np.tanh(exact) + np.maximum(exact, np.sqrt(exact))
    return bool(np.allclose(y, expected, rtol=1e-4))


def _run(
    device: cl.Device,
    text: str,
    given: np.ndarray[Any, Any],
    result: np.ndarray[Any, Any],
    threads: int,
    group: int,
) -> None:
    """Run the kernel ``attempt`` of a text, from one array to another."""
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    flags = cl.mem_flags
    source = cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=given)
    destination = cl.Buffer(context, flags.WRITE_ONLY, result.nbytes)
    cl.Kernel(cl.Program(context, text).build(), "attempt")(queue, (threads,), (group,), source, destination)
    cl.enqueue_copy(queue, result, destination)


def main(platform_name: str, platform_version: str, number: str, wanted: str) -> int:
    """Try PTX, or f32 with this many lanes, and f64 of equal width if the device has it."""
    for platform in cl.get_platforms():
        if (platform.name, platform.version) == (platform_name, platform_version):
            device = platform.get_devices()[int(number)]
            passed = attempt_ptx(device) if wanted == PTX else attempt(device, "float", int(wanted))
            if wanted != PTX and "cl_khr_fp64" in device.extensions:
                passed = passed and attempt(device, "double", int(wanted) // 2)
            print(PASSED if passed else "wrong results")  # noqa: T201  # the answer to the parent
            return 0
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
