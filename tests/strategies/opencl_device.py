"""An OpenCL device that runs kernels on this machine's processor, and kernels whose source is written by hand."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tileir.core.dtype import DType
from tileir.core.errors import BackendError
from tileir.runtime.interface import Options
from tileir.semtree.ir import KernelFunction, Param, ParamAccess
from tileir_opencl import BACKEND

if TYPE_CHECKING:
    from tileir.runtime.interface import DeviceInfo
    from tileir_opencl.run.compiler import OpenCLCompiler
    from tileir_opencl.run.executor import OpenCLExecutor
    from tileir_opencl.run.library import OpenCLLibrary

SIZE = 1024
NUMBERS = np.arange(SIZE, dtype=np.float32)

ADD_ONE = "to[i] = from[i] + 1.0f;"
SLOW = "float x = from[i]; for (int n = 0; n < 2000; ++n) x = x * 0.5f + 1.0f; to[i] = x;"
BROKEN = "to[i] = undeclared;"


@cache
def device() -> DeviceInfo:
    """Return the first device that is no simulator; tests that ask are skipped where there is none."""
    try:
        found = [info for info in BACKEND.devices() if "Oclgrind" not in info.name]
    except BackendError as error:
        pytest.skip(str(error))
    if not found:
        pytest.skip("only simulators are installed")
    return found[0]


@cache
def compiler(fast_math: bool = False) -> OpenCLCompiler:
    """Return a compiler that all tests of a process share."""
    from tileir_opencl.run.compiler import OpenCLCompiler

    return OpenCLCompiler.of(device(), Options(fast_math=fast_math))


def new_executor(options: Options | None = None) -> OpenCLExecutor:
    """Return an executor of one's own."""
    from tileir_opencl.run.executor import OpenCLExecutor

    return OpenCLExecutor.of(device(), options or Options())


def by_hand(body: str, size: int = SIZE) -> OpenCLLibrary:
    """Return a kernel from ``from`` to ``to``, both f32 of ``size`` elements, that does ``body`` for each ``i``."""
    from tileir_opencl.device.devices import device_of
    from tileir_opencl.emit.emitter import symbol
    from tileir_opencl.run.kernels import built
    from tileir_opencl.run.library import OpenCLLibrary, Part
    from tileir_opencl.run.process import context_of

    params = (
        Param("from", DType.F32, size, ParamAccess.READ),
        Param("to", DType.F32, size, ParamAccess.READ_WRITE),
    )
    kernel = KernelFunction("by_hand", params, (), grid=(size,))
    head = f"__kernel void {symbol(0, kernel)}(__global const float *from, __global float *to) {{"
    source = f"{head}\n    int i = get_global_id(0);\n    {body}\n}}\n"
    context = context_of(device_of(device()).found)
    program = cache(lambda: built(context, source, ["-cl-std=CL1.2"]))
    return OpenCLLibrary((kernel,), (Part((kernel,), source, program),))
