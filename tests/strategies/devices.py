"""The host's processor, ready to compile and run kernels in tests."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from tileir.runtime.host_memory import wrap
from tileir.runtime.interface import Options
from tileir_llvm import BACKEND
from tileir_llvm.compiler import LLVMCompiler
from tileir_llvm.run.executor import LLVMExecutor

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np

    from tileir.runtime.host_memory import HostBuffer
    from tileir.semtree.ir import KernelFunction


@cache
def compiler() -> LLVMCompiler:
    """Return a compiler without options."""
    return LLVMCompiler(BACKEND.devices()[0], Options())


@cache
def executor() -> LLVMExecutor:
    """Return an executor that all tests of a process share."""
    return LLVMExecutor(BACKEND.devices()[0], Options())


def buffers(arrays: Iterable[np.ndarray[Any, Any]]) -> list[HostBuffer]:
    """Return buffers over contiguous arrays."""
    return [wrap(array) for array in arrays]


def launch(kernel: KernelFunction, arrays: Iterable[np.ndarray[Any, Any]]) -> None:
    """Compile a kernel and run it once."""
    executor().prepare(compiler().build([kernel]), 0).launch(buffers(arrays))
