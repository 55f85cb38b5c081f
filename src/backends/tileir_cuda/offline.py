"""Placeholder executor of devices that are only for compiling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from tileir.core import BackendError, Diagnostic, attrs
from tileir.runtime import DeviceInfo, Event, Scheduler
from tileir.runtime.checks import kernel_at
from tileir.runtime.host_memory import HostExecutor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileir.semtree.ir import KernelFunction
    from tileir_cuda.library import CudaLibrary


@attrs.define(eq=False)
class OfflineExecutor(HostExecutor):
    """Executor that prepares kernels, so that programs can be compiled and inspected, and refuses to launch them."""

    device: DeviceInfo
    scheduler: Scheduler = attrs.field(factory=lambda: Scheduler("tileir-cuda"), init=False)

    def prepare(self, library: CudaLibrary, index: int) -> OfflineKernel:
        """Return a placeholder for kernel number ``index`` of a library.

        Raises:
            ArgumentError: TIL707, there is no such kernel.
            BackendError: TIL807, the executor was closed.
        """
        self.check_open()
        return OfflineKernel(kernel_at(library, index), self.device.id)


@attrs.frozen(eq=False)
class OfflineKernel:
    """Kernel without a card."""

    kernel: KernelFunction
    device_id: str

    def run(self, _buffers: Sequence[Any], _after: Sequence[Event] = ()) -> NoReturn:
        """Raise TIL801."""
        self._refuse()

    def launch(self, _buffers: Sequence[Any]) -> NoReturn:
        """Raise TIL801."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        message = (
            f"{self.device_id} is for listings only: no card belongs to it; run on a device that `tileir devices` shows"
        )
        raise BackendError((Diagnostic("TIL801", message),))
