"""PTX of compiled kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tileir.core import BackendError, Diagnostic, attrs
from tileir.runtime.checks import checked_parts, sealed
from tileir.semtree.ir import KernelFunction

_CODE: Final = "code {}"


@attrs.frozen(eq=False)
class CudaLibrary:
    """Kernels, their modules of LLVM IR, and their PTX.

    Attributes:
        kernels: The kernels.
        text: LLVM IR before optimisation, a module for each kernel.
        ptx: PTX for the driver.
        codes: Code of each kernel to load: machine code, or null-terminated PTX if loading makes better code; empty
            without a card.
    """

    kernels: tuple[KernelFunction, ...]
    text: str = attrs.field(repr=False)
    ptx: str = attrs.field(repr=False)
    codes: tuple[bytes, ...] = attrs.field(default=(), repr=False)

    @classmethod
    def load(cls, kernels: Sequence[KernelFunction], parts: Mapping[str, bytes]) -> CudaLibrary:
        """Return the library that :meth:`save` saved.

        Raises:
            BackendError: TIL806, a part is missing or was changed.
        """
        found = checked_parts(parts)
        try:
            codes = tuple(found[_CODE.format(number)] for number in range(len(found) - len(("llvm", "ptx"))))
            if len(codes) not in (0, len(kernels)):
                raise KeyError(_CODE)
            return cls(tuple(kernels), found["llvm"].decode(), found["ptx"].decode(), codes)
        except (KeyError, UnicodeDecodeError) as error:
            message = f"the saved parts {sorted(parts)} are not those of a CUDA library; compile again"
            raise BackendError((Diagnostic("TIL806", message),)) from error

    def save(self) -> Mapping[str, bytes]:
        """Return the parts ``llvm`` and ``ptx``, the code of each kernel for a card, and their digest."""
        codes = {_CODE.format(number): code for number, code in enumerate(self.codes)}
        return sealed({"llvm": self.text.encode(), "ptx": self.ptx.encode(), **codes})

    def listing(self, form: str) -> str:
        """Return PTX (``"ptx"``), or LLVM IR before optimisation (``"llvm"``).

        Raises:
            BackendError: TIL806, it is another form.
        """
        match form:
            case "ptx":
                return self.ptx
            case "llvm":
                return self.text
            case _:
                message = f"the CUDA back end lists ptx or llvm, not {form!r}"
                raise BackendError((Diagnostic("TIL806", message),))
