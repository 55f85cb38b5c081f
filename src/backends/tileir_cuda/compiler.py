"""Compiler of kernels to PTX."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar

import llvmlite
import llvmlite.binding as llvm

from tileir.core import attrs, bodies
from tileir.core.distributions import version_of
from tileir.runtime.interface import DeviceInfo, Options
from tileir.semtree.ir import Const, For, KernelFunction, LoopKind, Stmt
from tileir_cuda.architectures import Architecture
from tileir_cuda.devices import architecture_of
from tileir_cuda.emit.emitter import emit
from tileir_cuda.emit.ptx import joined, made
from tileir_cuda.library import CudaLibrary
from tileir_llvm.device.host import usable_threads


@attrs.frozen
class CudaCompiler:
    """Compiler for one device; several threads may use it."""

    built_on: ClassVar = ("tileir_emit",)
    device: DeviceInfo
    options: Options
    architecture: Architecture

    @classmethod
    def of(cls, device: DeviceInfo, options: Options) -> CudaCompiler:
        """Return a compiler.

        Raises:
            BackendError: TIL801, there is no such device.
        """
        return cls(device, options, architecture_of(device))

    @property
    def identity(self) -> str:
        """Versions, architecture and options: everything beside the kernels that PTX depends on."""
        parts = (
            *self._driver(),
            f"tileir-{version_of('tileir')}",
            f"llvmlite-{llvmlite.__version__}",
            f"llvm-{'.'.join(map(str, llvm.llvm_version_info))}",
            self.architecture.name,
            f"ptx-{self.architecture.ptx}",
            "fast-math" if self.options.fast_math else "precise",
        )
        return " ".join(parts)

    def build(self, kernels: Sequence[KernelFunction]) -> CudaLibrary:
        """Verify, expand, emit and optimise kernels, each as a separate module, the largest first.

        If the card exists, the driver makes machine code in parallel.

        Raises:
            VerifyError: A kernel is not legal.
            BackendError: TIL804, a kernel needs unsupported features; TIL805, LLVM refused the code.
        """
        order = sorted(range(len(kernels)), key=lambda number: -_size(kernels[number].body))
        texts: dict[int, str] = {}

        def written() -> Iterator[str]:
            for number in order:
                texts[number] = emit(kernels[number], self.architecture, number, fast_math=self.options.fast_math)
                yield texts[number]
            if not kernels:
                yield ""

        threads = min(self.options.threads or usable_threads(), max(1, len(kernels)))
        found = made(written(), self.architecture, threads, self._linker())
        sorted_back = [each for _, each in sorted(zip(order, found, strict=False), key=lambda pair: pair[0])] or found
        linked = any(each.cubin is not None for each in sorted_back)
        return CudaLibrary(
            tuple(kernels),
            "\n".join(texts[number] for number in range(len(kernels))),
            joined(each.ptx for each in sorted_back),
            tuple(each.code for each in sorted_back) if linked else (),
        )

    def _linker(self) -> Callable[[str], bytes | None]:
        """Return a linker from PTX to machine code of the card, if the device is one."""
        if self.device.dlpack is None:
            return lambda _: None
        from tileir_cuda.run.linking import linker  # it loads the driver

        return linker(self.device.dlpack[1])

    def _driver(self) -> tuple[str, ...]:
        """Return the version of the driver, which makes machine code for a card."""
        if self.device.dlpack is None:
            return ()
        from tileir_cuda.run.driver import version  # it loads the driver

        return (f"driver-{version()}",)

    def load(self, kernels: Sequence[KernelFunction], parts: Mapping[str, bytes]) -> CudaLibrary:
        """Return the library that :meth:`CudaLibrary.save` saved.

        Raises:
            BackendError: TIL806, a part is missing or was changed.
        """
        return CudaLibrary.load(kernels, parts)


def _size(statements: Sequence[Stmt]) -> int:
    """Return an estimate of the number of statements for LLVM, with unrolled loops expanded."""
    total = 0
    for statement in statements:
        turns = 1
        if isinstance(statement, For) and statement.kind is LoopKind.UNROLL:
            begin, end = statement.begin, statement.end
            if isinstance(begin, Const) and isinstance(end, Const):
                turns = len(range(int(begin.value), int(end.value), statement.step))
        total += 1 + turns * sum(map(_size, bodies(statement)))
    return total
