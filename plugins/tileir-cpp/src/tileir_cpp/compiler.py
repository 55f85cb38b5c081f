"""Kernels to a shared object, by the C++ half of the system's compiler."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Final

import attrs

from tileir.semtree.check.verifier import verify
from tileir_c.compiler import entry
from tileir_c.emitter import symbol
from tileir_c.library import CLibrary
from tileir_cpp.emitter import emit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tileir.runtime.interface import Options
    from tileir.semtree.ir import KernelFunction
    from tileir_c.toolchain import Toolchain

LANGUAGE: Final = ("-x", "c++", "-std=c++17")


@attrs.frozen
class CppCompiler:
    """Compiles with one toolchain; may be used from several threads."""

    toolchain: Toolchain
    options: Options

    @property
    def flags(self) -> tuple[str, ...]:
        """The compiler's flags."""
        return self.toolchain.flags(fast_math=self.options.fast_math, language=LANGUAGE)

    @property
    def identity(self) -> str:
        """Versions, flags and processor: everything beside the kernels that the code depends on."""
        versions = " ".join(f"{name}-{version(name)}" for name in ("tileir", "tileir-c", "tileir-cpp"))
        return f"{versions} {self.toolchain.identity} {' '.join((*self.toolchain.command, *self.flags))}"

    def build(self, kernels: Sequence[KernelFunction]) -> CLibrary:
        """Verify, emit and compile kernels.

        Raises:
            VerifyError: a kernel is not legal.
            BackendError: TIL804, a kernel needs what C++ lacks; TIL805, the compiler failed.

        """
        for kernel in kernels:
            verify(kernel)
        text, scratch_bytes = emit(kernels, [entry(symbol(*numbered)) for numbered in enumerate(kernels)])
        code = self.toolchain.compile(text, self.flags)
        return CLibrary(tuple(kernels), text, code, scratch_bytes, "cpp")

    def load(self, kernels: Sequence[KernelFunction], parts: Mapping[str, bytes]) -> CLibrary:
        """Undo :meth:`CLibrary.save`.

        Raises:
            BackendError: TIL806, a part is missing or broken.

        """
        return CLibrary.restore(tuple(kernels), parts, "cpp")
