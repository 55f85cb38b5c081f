"""Compiler of kernels to a shared object for the host's processor."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, ClassVar

import attrs

from tileir.semtree.check.verifier import verify
from tileir_c.emitter import HEADER, emit
from tileir_c.library import CLibrary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tileir.runtime.interface import Options
    from tileir.semtree.ir import KernelFunction
    from tileir_c.emitter import Source
    from tileir_c.toolchain import Toolchain


@attrs.frozen
class CCompiler:
    """Compiler with one toolchain; several threads may use it."""

    built_on: ClassVar[tuple[str, ...]] = ("tileir_emit",)
    toolchain: Toolchain
    options: Options

    @property
    def flags(self) -> tuple[str, ...]:
        """The compiler's flags."""
        return self.toolchain.flags(fast_math=self.options.fast_math)

    @property
    def identity(self) -> str:
        """Versions, flags and processor: everything beside the kernels that the code depends on."""
        versions = f"tileir-{version('tileir')} tileir-c-{version('tileir-c')}"
        return f"{versions} {self.toolchain.identity} {' '.join((*self.toolchain.command, *self.flags))}"

    def build(self, kernels: Sequence[KernelFunction]) -> CLibrary:
        """Verify, emit and compile kernels.

        Raises:
            VerifyError: A kernel is not legal.
            BackendError: TIL804, a kernel needs unsupported features; TIL805, the C compiler failed.
        """
        for kernel in kernels:
            verify(kernel)
        emitted = emit(kernels)
        text = whole(emitted)
        return CLibrary(tuple(kernels), text, self.toolchain.compile(text, self.flags), emitted.scratch_bytes)

    def load(self, kernels: Sequence[KernelFunction], parts: Mapping[str, bytes]) -> CLibrary:
        """Return the library that :meth:`CLibrary.save` saved.

        Raises:
            BackendError: TIL806, a part is missing or broken.
        """
        return CLibrary.restore(tuple(kernels), parts)


def whole(emitted: Source) -> str:
    """Return the source of a shared object: helper functions, kernels, and an entry for each that takes addresses.

    Only function parameters can be declared free of aliases, so the entries stay apart.
    """
    parts = [HEADER]
    for function, name, arity in zip(emitted.functions, emitted.names, emitted.arities, strict=True):
        arguments = "".join(f"arguments[{number}], " for number in range(arity))
        unused = "" if arity else "  (void)arguments;\n"
        header = f"void {entry(name)}(void *const *arguments, void *scratch, int64_t begin, int64_t end)"
        parts.append(f"{function}\n{header} {{\n{unused}  {name}({arguments}scratch, begin, end);\n}}\n\n")
    return "".join(parts)


def entry(name: str) -> str:
    """Return the name of the entry of a kernel's function."""
    return f"{name}_entry"
