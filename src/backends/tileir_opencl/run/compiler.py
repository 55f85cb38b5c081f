"""Compiler of kernels to programs of a driver, built asynchronously."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import ClassVar, Final

import pyopencl as cl

from tileir.core import BackendError, attrs
from tileir.core.distributions import version_of
from tileir.runtime.interface import DeviceInfo, Options
from tileir.semtree.check.verifier import verify
from tileir.semtree.ir import KernelFunction
from tileir_opencl.device.devices import Device, device_of
from tileir_opencl.emit.emitter import emit
from tileir_opencl.run.kernels import NativeProgram, built, loaded
from tileir_opencl.run.library import OpenCLLibrary, Part, unsealed
from tileir_opencl.run.process import context_of, use_drivers

KERNELS: Final = 4
"""Maximum number of kernels in a program: fewer cost more starts of the driver's compiler, more leave threads idle."""


@attrs.frozen(eq=False)
class OpenCLCompiler:
    """Compiler for one device; several threads may use it."""

    built_on: ClassVar = ("tileir_emit",)
    device: DeviceInfo
    options: Options
    _entry: Device = attrs.field(repr=False)
    _context: cl.Context = attrs.field(repr=False)
    _threads: ThreadPoolExecutor = attrs.field(repr=False)

    @classmethod
    def of(cls, device: DeviceInfo, options: Options) -> OpenCLCompiler:
        """Return a compiler.

        Raises:
            BackendError: TIL801, there is no such device; TIL809, the process was forked.
        """
        entry = device_of(device)
        threads = ThreadPoolExecutor(os.cpu_count(), "tileir-opencl-build")
        return cls(device, options, entry, context_of(entry.found), threads)

    @property
    def identity(self) -> str:
        """Versions, device, features and options: everything beside the kernels that binaries depend on."""
        found, able = self._entry.found, self._entry.capabilities
        parts = (
            f"tileir-{version_of('tileir')}",
            f"pyopencl-{version_of('pyopencl')}",
            found.platform.name,
            found.platform.version,
            found.device.name,
            found.device.driver_version,
            str(attrs.astuple(able.features)),
            *self.build_options,
            "fast-math" if self.options.fast_math else "precise",
        )
        return " | ".join(parts)

    @property
    def build_options(self) -> tuple[str, ...]:
        """Options for the driver's compiler."""
        return build_options(self._entry, fast_math=self.options.fast_math)

    def build(self, kernels: Sequence[KernelFunction]) -> OpenCLLibrary:
        """Verify and emit kernels, and start to build them; the library waits for the driver on use.

        Raises:
            VerifyError: A kernel is not legal.
            BackendError: TIL804, a kernel needs unsupported features; TIL809, the process was forked. TIL805, the
                driver refused the code, is raised by the first use of the programs.
        """
        use_drivers()
        for kernel in kernels:
            verify(kernel)
        features, fast_math = self._entry.capabilities.features, self.options.fast_math
        parts = [(group, emit(group, features, fast_math=fast_math)) for group in self._groups(kernels)]
        return OpenCLLibrary(tuple(kernels), tuple(self._started(group, source, b"") for group, source in parts))

    def load(self, kernels: Sequence[KernelFunction], parts: Mapping[str, bytes]) -> OpenCLLibrary:
        """Return the library that :meth:`OpenCLLibrary.save` saved; refused binaries are built from source.

        Raises:
            BackendError: TIL806, a part is missing or is not text.
        """
        use_drivers()
        groups = list(self._groups(kernels))
        try:
            saved = [(parts[f"{n}.cl"].decode(), unsealed(parts[f"{n}.bin"])) for n in range(len(groups))]
        except (KeyError, UnicodeDecodeError) as error:
            message = f"the saved parts {sorted(parts)} are not those of an OpenCL library; compile again"
            raise BackendError.of("TIL806", message) from error
        started = (self._started(group, *part) for group, part in zip(groups, saved, strict=True))
        return OpenCLLibrary(tuple(kernels), tuple(started))

    def _groups(self, kernels: Sequence[KernelFunction]) -> Iterator[tuple[KernelFunction, ...]]:
        """Yield the kernels of each program, independent of the number of processors, as binaries are kept on disk."""
        for begin in range(0, len(kernels), KERNELS):
            yield tuple(kernels[begin : begin + KERNELS])

    def _started(self, kernels: tuple[KernelFunction, ...], source: str, binary: bytes) -> Part:
        future = self._threads.submit(self._program, source, binary)
        return Part(kernels, source, future.result)

    def _program(self, source: str, binary: bytes) -> NativeProgram:
        with _one_at_a_time if self._entry.found.simulated else nullcontext():
            saved = loaded(self._context, binary, self.build_options) if binary else None
            return built(self._context, source, self.build_options) if saved is None else saved


def build_options(entry: Device, *, fast_math: bool = False) -> tuple[str, ...]:
    """Return the options of a device's compiler."""
    able = entry.capabilities
    standard = "CL1.2" if able.features.version >= (1, 2) else "CL1.1"  # the language of the source
    exact = ("-cl-fp32-correctly-rounded-divide-sqrt",) if able.correct_division else ()
    fast = ("-cl-mad-enable", "-cl-no-signed-zeros")  # no others: infinities and NaN keep their meaning
    # Oclgrind crashes on shuffled vectors while it looks for undefined values, and only optimisers shuffle.
    plain = ("-cl-opt-disable",) if entry.found.simulated else ()
    return (f"-cl-std={standard}", *plain, *(fast if fast_math else exact))


_one_at_a_time: Final = threading.Lock()
"""Lock for building: Oclgrind crashes if two threads build programs."""
