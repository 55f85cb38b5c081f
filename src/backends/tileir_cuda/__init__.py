"""Back end for NVIDIA GPUs: kernels compiled to PTX by LLVM, in process, and run by the driver.

llvmlite is imported on compilation, cuda-bindings when devices are listed. PTX is made on any machine, for
``cuda.sm_90a`` and similar devices; running it requires a card.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tileir.core.errors import BackendError, Diagnostic
from tileir.runtime.interface import Backend, DeviceInfo, Options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileir_cuda.compiler import CudaCompiler
    from tileir_cuda.library import CudaLibrary
    from tileir_cuda.offline import OfflineExecutor
    from tileir_cuda.run.executor import CudaExecutor

__all__ = ["BACKEND"]


def _devices() -> Sequence[DeviceInfo]:
    from tileir_cuda.devices import devices

    return devices()


def _described(device_id: str) -> DeviceInfo | None:
    from tileir_cuda.devices import described

    return described(device_id)


def _compiler(device: DeviceInfo, options: Options) -> CudaCompiler:
    try:
        from tileir_cuda.compiler import CudaCompiler
    except (ImportError, OSError) as error:
        message = f"llvmlite cannot be loaded ({error}); install tileir[cuda]"
        raise BackendError((Diagnostic("TIL802", message),)) from error
    return CudaCompiler.of(device, options)


def _executor(device: DeviceInfo, options: Options) -> CudaExecutor | OfflineExecutor:
    from tileir_cuda.devices import card_number, described

    if described(device.id) is not None:
        from tileir_cuda.offline import OfflineExecutor

        return OfflineExecutor(device)
    number = card_number(device)
    from tileir_cuda.run.executor import CudaExecutor  # it imports cuda-bindings, which card_number has asked for

    return CudaExecutor.of(device, number, options)


BACKEND: Final[Backend[CudaLibrary]] = Backend(
    "cuda", _devices, _compiler, _executor, forms={"ptx": "PTX", "llvm": "LLVM IR"}, described=_described
)
"""Target of the entry point of the group ``tileir.backends``."""
