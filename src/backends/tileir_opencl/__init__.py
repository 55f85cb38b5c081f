"""OpenCL back end: kernels as OpenCL C, built and run by the drivers that the ICD loader finds.

pyopencl is imported when devices are listed or kernels compiled, not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tileir.core.errors import BackendError
from tileir.runtime.interface import Backend, DeviceInfo, Options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileir.semtree.ir import Program
    from tileir_opencl.run.compiler import OpenCLCompiler
    from tileir_opencl.run.executor import OpenCLExecutor
    from tileir_opencl.run.library import OpenCLLibrary

__all__ = ["BACKEND"]


def _devices() -> Sequence[DeviceInfo]:
    try:
        from tileir_opencl.device.devices import devices  # importing this package must not load pyopencl
    except (ImportError, OSError) as error:
        raise BackendError.of("TIL802", f"pyopencl cannot be loaded ({error}); install tileir[opencl]") from error
    return devices()


def _compiler(device: DeviceInfo, options: Options) -> OpenCLCompiler:
    from tileir_opencl.run.compiler import OpenCLCompiler

    return OpenCLCompiler.of(device, options)


def _executor(device: DeviceInfo, options: Options) -> OpenCLExecutor:
    from tileir_opencl.run.executor import OpenCLExecutor

    return OpenCLExecutor.of(device, options)


def _notes() -> Sequence[str]:
    from tileir_opencl.device.platforms import scan

    return scan().notes


def _source(program: Program, device: DeviceInfo, text: str) -> str:
    from tileir_opencl.listing import whole

    return whole(program, device, text)


BACKEND: Final[Backend[OpenCLLibrary]] = Backend(
    "opencl",
    _devices,
    _compiler,
    _executor,
    forms={"opencl": "OpenCL C", "ptx": "PTX"},
    notes=_notes,
    source=_source,
    source_suffix=".cl",
)
"""Target of the entry point of the group ``tileir.backends``."""
