"""Object code of compiled kernels."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Final

from tileir.core import BackendError, attrs
from tileir.runtime.checks import sealed
from tileir.semtree.ir import KernelFunction
from tileir_llvm.emit.spelling import symbol

NEEDS: Final = "needs"
"""Name of the part with the needs of all kernels, as JSON."""


@attrs.frozen
class Needs:
    """Needs of one kernel on one thread beside its code.

    Attributes:
        seconds: Estimated time.
        scratch_bytes: Scratch memory.
    """

    seconds: float
    scratch_bytes: int


@attrs.frozen(eq=False, slots=False)
class LLVMLibrary:
    """Kernels, their modules of LLVM IR text, and the object code of each module.

    Attributes:
        kernels: The kernels.
        codes: Relocatable object code for the compiler's processor.
        needs: Needs of each kernel.
        symbols: Function name of each kernel.
    """

    kernels: tuple[KernelFunction, ...]
    _written: tuple[str | bytes, ...] = attrs.field(repr=False)
    codes: tuple[bytes, ...] = attrs.field(repr=False)
    needs: tuple[Needs, ...]
    _assemble: Callable[[str], str] = attrs.field(repr=False)
    symbols: tuple[str, ...] = attrs.field(init=False)

    @symbols.default
    def _name_symbols(self) -> tuple[str, ...]:
        return tuple(symbol(number, kernel) for number, kernel in enumerate(self.kernels))

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """LLVM IR before optimisation, for people; loaded text is decompressed on access."""
        return tuple(each if isinstance(each, str) else zlib.decompress(each).decode() for each in self._written)

    def save(self) -> Mapping[str, bytes]:
        """Return the parts ``llvm`` and ``object``, ``llvm1``, ``object1`` and so on, ``needs``, and their digest."""
        needs = [[each.seconds, each.scratch_bytes] for each in self.needs]
        parts: dict[str, bytes] = {NEEDS: json.dumps(needs).encode()}
        for number, (text, code) in enumerate(zip(self._written, self.codes, strict=True)):
            packed = zlib.compress(text.encode(), 1) if isinstance(text, str) else text
            parts |= zip(part_names(number), (packed, code), strict=True)
        return sealed(parts)

    def listing(self, form: str) -> str:
        """Return LLVM IR (``"llvm"``, before optimisation) or the processor's assembly (``"asm"``).

        Raises:
            BackendError: TIL806, it is another form.
        """
        match form:
            case "llvm":
                return "\n".join(self.texts)
            case "asm":
                return "\n".join(map(self._assemble, self.texts))
            case _:
                raise BackendError.of("TIL806", f"the LLVM back end lists llvm or asm, not {form!r}")


def part_names(number: int) -> tuple[str, str]:
    """Return the part names of the text and the code of a module."""
    suffix = str(number) if number else ""
    return f"llvm{suffix}", f"object{suffix}"
