"""Kernels as OpenCL C: one program text for all kernels of a library.

The kernel function number ``n`` has the name :func:`symbol` and a pointer to global memory for each parameter, in
their order. Where :func:`scratch_bytes` is not 0, one more pointer follows: to that many bytes for each group,
groups in order with axis 0 fastest. A launch has ``grid[axis] * group[axis]`` work items along each axis, in work
groups of ``group``; a missing axis counts 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir_opencl.layout import layout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileir.semtree.ir import KernelFunction
    from tileir_opencl.features import Features


def emit(kernels: Sequence[KernelFunction], features: Features, *, fast_math: bool = False) -> str:
    """Return a program with a function for each kernel, under the names of :func:`symbol`.

    Args:
        kernels: Verified kernels. Mathematical functions are expanded, and vectors split, as far as needed.
        features: What the device offers.
        fast_math: Whether ``native_`` functions and fused operations may be used everywhere.

    Raises:
        BackendError: TIL804, a kernel needs what the device lacks; one diagnostic for each kernel.

    """
    return "".join(f"__kernel void {symbol(number, kernel)}(void) {{}}\n" for number, kernel in enumerate(kernels))


def symbol(number: int, kernel: KernelFunction) -> str:
    """Return the name of the function of kernel ``number`` of a program."""
    return f"k{number}_" + "".join(c if c.isascii() and c.isalnum() else "_" for c in kernel.name)


def scratch_bytes(kernel: KernelFunction) -> int:
    """Return how many bytes of scratch memory one group needs."""
    return layout(kernel).nbytes
