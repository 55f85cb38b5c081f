"""Compiler of kernels to object code for the host's processor."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Final

import llvmlite
import llvmlite.binding as llvm

from tileir.core import BackendError, attrs
from tileir.core.distributions import version_of
from tileir.core.updates import WIDEST_UPDATE
from tileir.runtime.checks import checked_parts
from tileir.runtime.interface import DeviceInfo, Options
from tileir.semtree.ir import KernelFunction
from tileir_llvm.run.library import NEEDS, LLVMLibrary, Needs, part_names
from tileir_llvm.run.modules import assembly
from tileir_llvm.run.parallel_modules import object_codes
from tileir_llvm.run.sharing import ALWAYS_SECONDS
from tileir_llvm.run.uninterrupted import uninterrupted

OPTIMISED_LENGTH: Final = 1 << 12
"""Modules are compiled in parallel; one of this many characters, 10 ms of work, gets no further kernel."""

SCHEDULED_LENGTH: Final = 1 << 14
"""Corresponding limit for scheduled modules, which need little work by LLVM."""

SMALL_OPERATIONS: Final = 50_000
"""Kernels with fewer operations, some microseconds, run on the calling thread only."""

LARGE_OPERATIONS: Final = 1 << 30
"""Operations from which kernels are always parallel: at 400 per nanosecond, a thread takes 3 ms."""


@attrs.frozen
class LLVMCompiler:
    """Compiler for one device; several threads may use it."""

    built_on: ClassVar = ("tileir_emit",)
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
        """Size of the last cache of several processors; 0 if unknown."""
        return self.device.target.cache_bytes[-1] if len(self.device.target.cache_bytes) > 2 else 0

    def build(self, kernels: Sequence[KernelFunction]) -> LLVMLibrary:
        """Verify, expand, emit, optimise and assemble kernels.

        Raises:
            VerifyError: A kernel is not legal.
            BackendError: TIL804, a kernel needs unsupported features; TIL805, LLVM refused the code.
        """
        texts: list[str] = []
        needs: list[Needs] = []

        def written() -> Iterator[str]:
            for text in self._modules(kernels):
                texts.append(text)
                yield text
            needs.extend(map(self._needs, kernels))  # by a thread that has nothing left to compile

        available = self.device.target.threads
        threads = min(self.options.threads or available, available, max(1, len(kernels)))
        codes = object_codes(written(), self.device.features, threads, quick=self.options.quick)
        return LLVMLibrary(tuple(kernels), tuple(texts), codes, tuple(needs), self._assembly)

    def _modules(self, kernels: Sequence[KernelFunction]) -> Iterator[str]:
        """Yield modules, those first that take LLVM longest."""
        # Modules to write code are not loaded for code on disk: they are half of the imports of a first call.
        from tileir.semtree.check.verifier import verify
        from tileir.semtree.matrices import without_instructions
        from tileir.semtree.transform.expansions import expand_kernel
        from tileir_emit.storage import stored_as_bits
        from tileir_llvm.dots.checked import checked_dots
        from tileir_llvm.dots.compensated import compensated_dots
        from tileir_llvm.emit.alike import in_order, outline
        from tileir_llvm.emit.capabilities import stored_floats
        from tileir_llvm.emit.dots import FLUSHING, native_dots
        from tileir_llvm.emit.emitter import emit
        from tileir_llvm.emit.floats import NATIVE
        from tileir_llvm.emit.statements import is_scheduled
        from tileir_llvm.emit.tables import looked_up

        fast_math, bits, cached = self.options.fast_math, self.device.target.vector_bytes * 8, self._cache_bytes
        dots, flushing = native_dots(self.device.features), frozenset() if fast_math else FLUSHING
        stored, own = stored_floats(self.device.features), looked_up(self.device.features)

        def expanded(numbers: Iterable[int], *, whole: bool = False) -> Iterator[tuple[int, KernelFunction]]:
            for number in numbers:
                verify(kernels[number])
                plain = without_instructions(  # products read values, not their bits
                    kernels[number], masks=False, updates=WIDEST_UPDATE
                )
                exact = compensated_dots(checked_dots(plain, flushing), dots)
                spelt_out = expand_kernel(exact, NATIVE, dots, own=own if whole else {})
                yield number, stored_as_bits(spelt_out, stored)

        scheduled = [number for number, kernel in enumerate(kernels) if not fast_math and is_scheduled(kernel)]
        others = sorted({*range(len(kernels))}.difference(scheduled))
        if others or not scheduled:
            plain = emit(
                expanded(others), vector_bits=bits, fast_math=fast_math, length=OPTIMISED_LENGTH, cache_bytes=cached
            )
            yield from plain
        if scheduled:
            order = in_order([outline(kernels[number]) for number in scheduled])
            vectors = expanded((scheduled[place] for place in order), whole=True)
            yield from emit(vectors, vector_bits=bits, scheduled=True, length=SCHEDULED_LENGTH, cache_bytes=cached)

    def load(self, kernels: Sequence[KernelFunction], parts: Mapping[str, bytes]) -> LLVMLibrary:
        """Return the library that :meth:`LLVMLibrary.save` saved.

        Raises:
            BackendError: TIL806, a part is missing or was changed.
        """
        parts = checked_parts(parts)
        texts: list[bytes] = []
        codes: list[bytes] = []
        try:
            rows = zip(kernels, json.loads(parts[NEEDS]), strict=True)
            needs = tuple(Needs(float(seconds), int(scratch)) for _, (seconds, scratch) in rows)
            while not texts or part_names(len(texts))[0] in parts:
                text, code = part_names(len(texts))
                texts.append(parts[text])
                codes.append(parts[code])
        except (KeyError, ValueError, TypeError) as error:
            message = f"the saved parts {sorted(parts)} are not those of an LLVM library; compile again"
            raise BackendError.of("TIL806", message) from error
        return LLVMLibrary(tuple(kernels), tuple(texts), tuple(codes), needs, self._assembly)

    def _needs(self, kernel: KernelFunction) -> Needs:
        from tileir.semtree.transform.layout import layout  # not needed for loading code
        from tileir.semtree.transform.threads import one_thread

        scratch = layout(one_thread(kernel, updates=WIDEST_UPDATE)).scratch_bytes
        return Needs(self._seconds(kernel), scratch)

    def _seconds(self, kernel: KernelFunction) -> float:
        """Return the time of a kernel on one thread, estimated if it matters for sharing."""
        if kernel.operations >= LARGE_OPERATIONS:
            return ALWAYS_SECONDS
        if kernel.operations < SMALL_OPERATIONS or math.prod(kernel.grid) == 1:
            return 0.0
        from tileir.semtree.cost.prediction import seconds_alone, seconds_at_least  # not needed for loading code

        # Most kernels of a network are long enough by their operations alone, and full estimates take 15 ms.
        long = seconds_at_least(kernel, self.device.target) >= ALWAYS_SECONDS
        return ALWAYS_SECONDS if long else seconds_alone(kernel, self.device.target)

    def _assembly(self, text: str) -> str:
        return uninterrupted(lambda: assembly(text, self.device.features, quick=self.options.quick))
