"""Kernels to PTX."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import llvmlite
import llvmlite.binding as llvm

from tileir.core.distributions import version_of
from tileir_cuda.architectures import Architecture
from tileir_cuda.devices import architecture_of
from tileir_cuda.emit.emitter import emit
from tileir_cuda.emit.ptx import ptx
from tileir_cuda.library import CudaLibrary
from tileir_llvm.device.host import usable_threads

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tileir.runtime.interface import DeviceInfo, Options
    from tileir.semtree.ir import KernelFunction


@attrs.frozen
class CudaCompiler:
    """Compiles for one device; may be used from several threads."""

    device: DeviceInfo
    options: Options
    architecture: Architecture

    @classmethod
    def of(cls, device: DeviceInfo, options: Options) -> CudaCompiler:
        """Make a compiler.

        Raises:
            BackendError: TIL801, there is no such device.

        """
        return cls(device, options, architecture_of(device))

    @property
    def identity(self) -> str:
        """Versions, architecture and options: everything beside the kernels that PTX depends on."""
        parts = (
            f"tileir-{version_of('tileir')}",
            f"llvmlite-{llvmlite.__version__}",
            f"llvm-{'.'.join(map(str, llvm.llvm_version_info))}",
            self.architecture.name,
            f"ptx-{self.architecture.ptx}",
            "fast-math" if self.options.fast_math else "precise",
        )
        return " ".join(parts)

    def build(self, kernels: Sequence[KernelFunction]) -> CudaLibrary:
        """Verify, expand, emit and optimise kernels, each as a module of its own.

        Raises:
            VerifyError: a kernel is not legal.
            BackendError: TIL804, a kernel needs what cards lack; TIL805, LLVM refused the code.

        """
        texts: list[str] = []

        def written() -> Iterator[str]:
            for number, kernel in enumerate(kernels):
                texts.append(emit(kernel, self.architecture, number, fast_math=self.options.fast_math))
                yield texts[-1]
            if not kernels:
                yield ""

        threads = min(self.options.threads or usable_threads(), max(1, len(kernels)))
        listing = ptx(written(), self.architecture, threads)
        return CudaLibrary(tuple(kernels), "\n".join(texts), listing)

    def load(self, kernels: Sequence[KernelFunction], parts: Mapping[str, bytes]) -> CudaLibrary:
        """Undo :meth:`CudaLibrary.save`.

        Raises:
            BackendError: TIL806, a part is missing or was changed.

        """
        return CudaLibrary.load(kernels, parts)
