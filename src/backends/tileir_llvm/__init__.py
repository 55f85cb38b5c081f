"""LLVM back end: kernels compiled in process for the host's processor, and run on a thread pool.

llvmlite is imported when devices are listed or kernels compiled, not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tileir.core.errors import BackendError
from tileir.runtime.interface import TOP_RANK, Backend, DeviceInfo, Options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileir_llvm.compiler import LLVMCompiler
    from tileir_llvm.run.executor import LLVMExecutor
    from tileir_llvm.run.library import LLVMLibrary

__all__ = ["BACKEND"]


def _devices() -> Sequence[DeviceInfo]:
    try:
        from tileir_llvm.device.host import device  # importing this package must not load llvmlite
    except (ImportError, OSError) as error:
        raise BackendError.of("TIL802", f"llvmlite cannot be loaded ({error}); install tileir[llvm]") from error
    return (device(),)


def _compiler(device: DeviceInfo, options: Options) -> LLVMCompiler:
    from tileir_llvm.compiler import LLVMCompiler
    from tileir_llvm.device.processor import processor

    processor()
    return LLVMCompiler(device, options)


def _executor(device: DeviceInfo, options: Options) -> LLVMExecutor:
    from tileir_llvm.device.processor import processor
    from tileir_llvm.run.executor import LLVMExecutor

    processor()
    return LLVMExecutor(device, options)


BACKEND: Final[Backend[LLVMLibrary]] = Backend(
    "llvm", _devices, _compiler, _executor, forms={"llvm": "LLVM IR", "asm": "Assembly"}, rank=TOP_RANK
)
"""Target of the entry point of the group ``tileir.backends``."""
