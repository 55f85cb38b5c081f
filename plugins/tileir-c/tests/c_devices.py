"""The C compiler of this machine, ready to compile and run kernels in tests."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from tileir.runtime.interface import Options
from tileir_c.compiler import CCompiler
from tileir_c.executor import CExecutor
from tileir_c.toolchain import find_toolchain

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from tileir.semtree.ir import KernelFunction

    Array = np.ndarray[Any, np.dtype[Any]]


@cache
def compiler() -> CCompiler:
    """Return a compiler without options."""
    return CCompiler(find_toolchain(), Options())


@cache
def executor() -> CExecutor:
    """Return an executor that all tests of a process share."""
    return CExecutor(2)


def launch_all(kernels: Sequence[KernelFunction], arrays: Sequence[Sequence[Array]]) -> None:
    """Compile kernels together and run each once, on arrays of its own."""
    library = compiler().build(kernels)
    for index, own in enumerate(arrays):
        buffers = [executor().wrap(array) for array in own]
        executor().prepare(library, index).launch([buffer for buffer in buffers if buffer is not None])
