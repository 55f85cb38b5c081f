"""Compiler of kernels to a shared object, by the C++ half of the system's compiler."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, ClassVar, Final

import attrs

from tileir.semtree.check.verifier import verify
from tileir_c.compiler import CCompiler, entry
from tileir_c.emitter import symbol
from tileir_c.library import CLibrary
from tileir_cpp.emitter import emit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tileir.semtree.ir import KernelFunction

LANGUAGE: Final = ("-x", "c++", "-std=c++17")


@attrs.frozen
class CppCompiler(CCompiler):
    """C++ compiler with the toolchain of `tileir-c`; raises the errors of its compiler."""

    built_on: ClassVar[tuple[str, ...]] = ("tileir_c", *CCompiler.built_on)

    @property
    def flags(self) -> tuple[str, ...]:
        """The compiler's flags."""
        return self.toolchain.flags(fast_math=self.options.fast_math, language=LANGUAGE)

    @property
    def identity(self) -> str:
        """Everything beside the kernels that the code depends on."""
        return f"tileir-cpp-{version('tileir-cpp')} {super().identity}"

    def build(self, kernels: Sequence[KernelFunction]) -> CLibrary:
        """Verify, emit and compile kernels."""
        for kernel in kernels:
            verify(kernel)
        text, scratch_bytes = emit(kernels, [entry(symbol(*numbered)) for numbered in enumerate(kernels)])
        code = self.toolchain.compile(text, self.flags)
        return CLibrary(tuple(kernels), text, code, scratch_bytes, "cpp")

    def load(self, kernels: Sequence[KernelFunction], parts: Mapping[str, bytes]) -> CLibrary:
        """Return the library that :meth:`CLibrary.save` saved."""
        return CLibrary.restore(tuple(kernels), parts, "cpp")
