"""Kernels to object code for the host's processor."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

import llvmlite
import llvmlite.binding as llvm

from tileir.core import attrs
from tileir.core.distributions import version_of
from tileir.core.errors import BackendError
from tileir.runtime.checks import checked_parts
from tileir.runtime.interface import DeviceInfo, Options
from tileir.semtree.ir import KernelFunction
from tileir_llvm.emit.text import SCHEDULED
from tileir_llvm.run.library import SECONDS, LLVMLibrary, part_names
from tileir_llvm.run.modules import assembly
from tileir_llvm.run.parallel_modules import object_codes
from tileir_llvm.run.sequence_code import straight
from tileir_llvm.run.sharing import ALWAYS_SECONDS
from tileir_llvm.run.team import pool_functions
from tileir_llvm.run.uninterrupted import uninterrupted

OPTIMISED_LENGTH: Final = 1 << 12
"""Modules are compiled side by side; one with so many characters, a hundredth of a second's work, is long enough."""

SCHEDULED_LENGTH: Final = 1 << 14
"""The same for modules that LLVM has little to do with."""

SMALL_OPERATIONS: Final = 50_000
"""Kernels of fewer operations, some microseconds, run on the calling thread alone."""

LARGE_OPERATIONS: Final = 1 << 30
"""Kernels of so many are shared out to threads: a thread that does 400 in a nanosecond takes 3 ms."""


@attrs.frozen
class LLVMCompiler:
    """Compiles for one device; may be used from several threads."""

    device: DeviceInfo
    options: Options

    @property
    def identity(self) -> str:
        """Versions, processor, features and options: everything beside the kernels that object code depends on."""
        versions = ".".join(map(str, llvm.llvm_version_info))
        target = self.device.target
        parts = (
            f"tileir-{version_of('tileir')}",
            f"llvmlite-{llvmlite.__version__}",
            f"llvm-{versions}",
            llvm.get_default_triple(),
            target.name,
            f"{target.vector_bytes * 8}-bit",
            f"{self._cache_bytes} bytes cached",
            ",".join(self.device.features),
            "fast-math" if self.options.fast_math else "precise",
            "quick" if self.options.quick else "optimised",
        )
        return " ".join(parts)

    @property
    def _cache_bytes(self) -> int:
        """What the last cache of several processors holds; 0 where the system does not tell."""
        return self.device.target.cache_bytes[-1] if len(self.device.target.cache_bytes) > 2 else 0

    @property
    def pipelines(self) -> bool:
        """Whether :meth:`build_pipelined` has a thread to work in."""
        return self._threads > 1

    def build(self, kernels: Sequence[KernelFunction]) -> LLVMLibrary:
        """Verify, expand, emit, optimise and assemble kernels, those first that take LLVM longest.

        Raises:
            VerifyError: a kernel is not legal.
            BackendError: TIL804, a kernel needs what processors lack; TIL805, LLVM refused the code.

        """
        order = sorted(range(len(kernels)), key=lambda number: self._is_scheduled(kernels[number]))
        texts, codes = self._compiled(((number, kernels[number]) for number in order), len(kernels))
        return self._library(kernels, texts, codes)

    def build_pipelined(self, kernels: Iterator[KernelFunction]) -> LLVMLibrary:
        """Do the same with kernels as they come; before the first one, make the code that runs them on threads.

        Raises:
            VerifyError: a kernel is not legal.
            BackendError: TIL804, a kernel needs what processors lack; TIL805, LLVM refused the code.
            Exception: What asking for a kernel raises.

        """
        with suppress(BackendError):  # who needs it meets that again
            pool_functions(self.device.features)
            straight(self.device.features)
        made: list[KernelFunction] = []

        def numbered() -> Iterator[tuple[int, KernelFunction]]:
            for kernel in kernels:
                made.append(kernel)
                yield len(made) - 1, kernel

        texts, codes = self._compiled(numbered(), self._threads)
        return self._library(made, texts, codes)

    @property
    def _threads(self) -> int:
        """How many threads may compile."""
        available = self.device.target.threads
        return min(self.options.threads or available, available)

    def _compiled(
        self, kernels: Iterable[tuple[int, KernelFunction]], most: int
    ) -> tuple[tuple[str, ...], tuple[bytes, ...]]:
        """Return modules with kernels of these numbers, and their object code; ``most`` threads are enough."""
        texts: list[str] = []

        def written() -> Iterator[str]:
            for text in self._modules(kernels):
                texts.append(text)
                yield text

        threads = max(1, min(self._threads, most))
        codes = object_codes(written(), self.device.features, threads, quick=self.options.quick)
        return tuple(texts), codes

    def _library(self, kernels: Sequence[KernelFunction], texts: Iterable[str], codes: Iterable[bytes]) -> LLVMLibrary:
        """Return the library of kernels: the same in whatever order they came."""
        modules = sorted(zip(texts, codes, strict=True), key=lambda module: module[0].startswith(SCHEDULED))
        texts, codes = zip(*modules, strict=True)
        return LLVMLibrary(tuple(kernels), texts, codes, tuple(map(self._seconds, kernels)), self._assembly)

    def _is_scheduled(self, kernel: KernelFunction) -> bool:
        from tileir_llvm.emit.statements import is_scheduled

        return not self.options.fast_math and is_scheduled(kernel)

    def _modules(self, kernels: Iterable[tuple[int, KernelFunction]]) -> Iterator[str]:
        """Write modules one after the other."""
        # Where the code is on disk, nothing of what writes it is loaded: that is half of what a first call loads.
        from tileir.semtree.check.verifier import verify
        from tileir.semtree.legalise.storage import stored_as_bits
        from tileir.semtree.matrices import without_instructions
        from tileir.semtree.transform.expansions import expand_kernel
        from tileir_llvm.emit.capabilities import stored_floats
        from tileir_llvm.emit.dots import native_dots
        from tileir_llvm.emit.emitter import emit
        from tileir_llvm.emit.floats import NATIVE

        fast_math = self.options.fast_math
        dots = native_dots(self.device.features, fast_math=fast_math)
        stored = stored_floats(self.device.features)

        def expanded() -> Iterator[tuple[int, KernelFunction, bool]]:
            for number, kernel in kernels:
                verify(kernel)
                plain = without_instructions(kernel, masks=False)  # products read values, and no bits of them
                yield number, stored_as_bits(expand_kernel(plain, NATIVE, dots), stored), self._is_scheduled(kernel)

        return emit(
            expanded(),
            vector_bits=self.device.target.vector_bytes * 8,
            fast_math=fast_math,
            lengths=(OPTIMISED_LENGTH, SCHEDULED_LENGTH),
            cache_bytes=self._cache_bytes,
        )

    def load(self, kernels: Sequence[KernelFunction], parts: Mapping[str, bytes]) -> LLVMLibrary:
        """Undo :meth:`LLVMLibrary.save`.

        Raises:
            BackendError: TIL806, a part is missing or was changed.

        """
        parts = checked_parts(parts)
        texts: list[str] = []
        codes: list[bytes] = []
        try:
            seconds = tuple(float(each) for _, each in zip(kernels, json.loads(parts[SECONDS]), strict=True))
            while not texts or part_names(len(texts))[0] in parts:
                text, code = part_names(len(texts))
                texts.append(parts[text].decode())
                codes.append(bytes(parts[code]))
        except (KeyError, ValueError, TypeError) as error:
            message = f"the saved parts {sorted(parts)} are not those of an LLVM library; compile again"
            raise BackendError.of("TIL806", message) from error
        return LLVMLibrary(tuple(kernels), tuple(texts), tuple(codes), seconds, self._assembly)

    def _seconds(self, kernel: KernelFunction) -> float:
        """Return what a kernel takes on one thread: estimated, where it may be worth sharing, and that is no matter."""
        if kernel.operations >= LARGE_OPERATIONS:
            return ALWAYS_SECONDS
        if kernel.operations < SMALL_OPERATIONS or math.prod(kernel.grid) == 1:
            return 0.0
        from tileir.semtree.cost.prediction import seconds_alone, seconds_at_least  # who loads code does without

        # Most kernels of a network are long enough by their operations alone, and to look at all they do takes 15 ms.
        long = seconds_at_least(kernel, self.device.target) >= ALWAYS_SECONDS
        return ALWAYS_SECONDS if long else seconds_alone(kernel, self.device.target)

    def _assembly(self, text: str) -> str:
        return uninterrupted(lambda: assembly(text, self.device.features, quick=self.options.quick))
