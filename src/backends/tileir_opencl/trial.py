"""A program that tries wide vectors on one device. Drivers may abort it: it is started by `tileir_opencl.probe`.

Arguments: name and version of the platform, number of the device there, lanes. It prints :data:`PASSED` if the
functions that kernels use give right results; whatever else happens means that they do not.
"""

from __future__ import annotations

import sys
from typing import Final

import numpy as np
import pyopencl as cl

PASSED: Final = "passed"

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


def attempt(device: cl.Device, name: str, lanes: int) -> bool:
    """Return whether a kernel with vectors of ``lanes`` elements of the type ``name`` computes what it should."""
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    exact = np.linspace(0.1, 3, 4 * lanes)
    x = exact.astype(np.float32 if name == "float" else np.float64)
    y = np.empty_like(x)
    flags = cl.mem_flags
    source = cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=x)
    destination = cl.Buffer(context, flags.WRITE_ONLY, y.nbytes)
    program = cl.Program(context, _KERNEL.format(type=name, lanes=lanes)).build()
    cl.Kernel(program, "attempt")(queue, (4,), (1,), source, destination)
    cl.enqueue_copy(queue, y, destination)
    expected = 2 * exact**2 + 2 * exact + np.exp(-exact) + np.tanh(exact) + np.maximum(exact, np.sqrt(exact))
    return bool(np.allclose(y, expected, rtol=1e-4))


def main(platform_name: str, platform_version: str, number: str, lanes: str) -> int:
    """Try f32, and f64 of the same width where the device has it."""
    for platform in cl.get_platforms():
        if (platform.name, platform.version) == (platform_name, platform_version):
            device = platform.get_devices()[int(number)]
            passed = attempt(device, "float", int(lanes))
            if "cl_khr_fp64" in device.extensions:
                passed = passed and attempt(device, "double", int(lanes) // 2)
            print(PASSED if passed else "wrong results")  # noqa: T201  # the answer to the parent
            return 0
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
