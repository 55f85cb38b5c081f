"""Object code for some kernels."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final

from tileir.core import BackendError, attrs
from tileir.core.updates import WIDEST_UPDATE
from tileir.runtime.checks import sealed
from tileir.semtree.ir import KernelFunction
from tileir.semtree.transform.layout import layout
from tileir.semtree.transform.threads import one_thread
from tileir_llvm.emit.spelling import symbol

SECONDS: Final = "seconds"
"""The name of the part that has the estimated seconds of all kernels, as JSON."""


@attrs.frozen(eq=False)
class LLVMLibrary:
    """Kernels, the modules of LLVM IR text that they became, and the object code that LLVM made of each.

    Attributes:
        kernels: What was compiled.
        texts: LLVM IR before optimisation.
        codes: Relocatable object code for the processor that the compiler was made for.
        seconds: What each kernel takes on one thread, as estimated.
        symbols: Name of each kernel's function.
        scratch_bytes: Scratch memory that each kernel needs for one thread.

    """

    kernels: tuple[KernelFunction, ...]
    texts: tuple[str, ...] = attrs.field(repr=False)
    codes: tuple[bytes, ...] = attrs.field(repr=False)
    seconds: tuple[float, ...]
    _assemble: Callable[[str], str] = attrs.field(repr=False)
    symbols: tuple[str, ...] = attrs.field(init=False)
    scratch_bytes: tuple[int, ...] = attrs.field(init=False)

    @symbols.default
    def _name_symbols(self) -> tuple[str, ...]:
        return tuple(symbol(number, kernel) for number, kernel in enumerate(self.kernels))

    @scratch_bytes.default
    def _measure_scratch(self) -> tuple[int, ...]:
        return tuple(layout(one_thread(kernel, updates=WIDEST_UPDATE)).scratch_bytes for kernel in self.kernels)

    def save(self) -> Mapping[str, bytes]:
        """Return the parts ``llvm`` and ``object``, ``llvm1`` and ``object1`` and so on, ``seconds``, their digest."""
        parts: dict[str, bytes] = {SECONDS: json.dumps(self.seconds).encode()}
        for number, (text, code) in enumerate(zip(self.texts, self.codes, strict=True)):
            parts |= zip(part_names(number), (text.encode(), code), strict=True)
        return sealed(parts)

    def listing(self, form: str) -> str:
        """Return LLVM IR (``"llvm"``, before optimisation) or the processor's assembly (``"asm"``).

        Raises:
            BackendError: TIL806, the form is another one.

        """
        match form:
            case "llvm":
                return "\n".join(self.texts)
            case "asm":
                return "\n".join(map(self._assemble, self.texts))
            case _:
                raise BackendError.of("TIL806", f"the LLVM back end lists llvm or asm, not {form!r}")


def part_names(number: int) -> tuple[str, str]:
    """Return under which names the text and the code of a module are saved."""
    suffix = str(number) if number else ""
    return f"llvm{suffix}", f"object{suffix}"
