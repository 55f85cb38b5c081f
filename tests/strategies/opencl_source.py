"""The source of kernels on OpenCL devices, without tileir's own runtime: arrays in, arrays out."""

from __future__ import annotations

import math
import warnings
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyopencl as cl

from tileir_opencl.device.features import Features
from tileir_opencl.device.platforms import scan
from tileir_opencl.emit.emitter import emit, scratch_bytes, symbol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileir.semtree.ir import KernelFunction

POCL: Final = "Portable Computing Language"
OCLGRIND: Final = "Oclgrind"
PLATFORMS: Final = (POCL, *(each.name for each in cl.get_platforms() if each.name == OCLGRIND))
"""Devices on which kernels run: a driver, and the simulator if it is installed, as in `tox -e simulator`."""

FEATURES: Final = {POCL: Features(max_vector_bytes=32), OCLGRIND: Features()}
"""Features that kernels may use on each platform; PoCL 3.0 aborts the process on wider vectors."""


@cache
def context(platform: str) -> cl.Context:
    """Return a context for the devices of the first platform of a name that compiles kernels."""
    found = next(each.platform for each in scan().require() if each.platform.name == platform)
    return cl.Context(found.get_devices())


def run(
    kernels: Sequence[KernelFunction],
    arguments: Sequence[Sequence[np.ndarray[Any, Any]]],
    platform: str = POCL,
    *,
    features: Features | None = None,
    fast_math: bool = False,
) -> None:
    """Run kernels, built as one program, on arrays, which are written in place."""
    text = emit(kernels, features or FEATURES[platform], fast_math=fast_math)
    with warnings.catch_warnings():
        # Random kernels compute with constants, which compilers find odd.
        warnings.simplefilter("ignore", cl.CompilerWarning)
        built = cl.Program(context(platform), text).build(cache_dir=False)  # type: ignore[arg-type]  # documented
    queue = cl.CommandQueue(context(platform))
    for number, (kernel, arrays) in enumerate(zip(kernels, arguments, strict=True)):
        _launch(queue, cl.Kernel(built, symbol(number, kernel)), kernel, arrays)


def _launch(
    queue: cl.CommandQueue, function: cl.Kernel, kernel: KernelFunction, arrays: Sequence[np.ndarray[Any, Any]]
) -> None:
    flags = cl.mem_flags.READ_WRITE
    raw = [np.ascontiguousarray(array).view(np.uint8) for array in arrays]
    buffers = [cl.Buffer(queue.context, flags, max(1, data.size)) for data in raw]
    scratch = scratch_bytes(kernel) * math.prod(kernel.grid)
    axes = max(len(kernel.grid), len(kernel.group))
    grid, group = ((*extents, 1, 1)[:axes] for extents in (kernel.grid, kernel.group))
    extra = [cl.Buffer(queue.context, flags, scratch)] if scratch else []
    for data, buffer in zip(raw, buffers, strict=True):
        if data.size:
            cl.enqueue_copy(queue, buffer, data)
    function(queue, tuple(a * b for a, b in zip(grid, group, strict=True)), group, *buffers, *extra)
    for array, data, buffer in zip(arrays, raw, buffers, strict=True):
        if data.size:
            cl.enqueue_copy(queue, data, buffer)
            array.view(np.uint8)[:] = data
