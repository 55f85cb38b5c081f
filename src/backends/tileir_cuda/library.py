"""PTX for some kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tileir.core import BackendError, Diagnostic, attrs
from tileir.runtime.checks import checked_parts, sealed
from tileir.semtree.ir import KernelFunction

_CODE: Final = "code {}"


@attrs.frozen(eq=False)
class CudaLibrary:
    """Kernels, the modules of LLVM IR that they became, and PTX of all of them.

    Attributes:
        kernels: What was compiled.
        text: LLVM IR before optimisation, a module for each kernel.
        ptx: What the driver makes machine code of.
        codes: What the driver loads for each kernel: machine code, or PTX with a 0 behind it where loading makes better
            code; nothing where the card was not there.

    """

    kernels: tuple[KernelFunction, ...]
    text: str = attrs.field(repr=False)
    ptx: str = attrs.field(repr=False)
    codes: tuple[bytes, ...] = attrs.field(default=(), repr=False)

    @classmethod
    def load(cls, kernels: Sequence[KernelFunction], parts: Mapping[str, bytes]) -> CudaLibrary:
        """Undo :meth:`save`.

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
        """Return the parts ``llvm`` and ``ptx``, what is loaded of each kernel for a card, and their digest."""
        codes = {_CODE.format(number): code for number, code in enumerate(self.codes)}
        return sealed({"llvm": self.text.encode(), "ptx": self.ptx.encode(), **codes})

    def listing(self, form: str) -> str:
        """Return PTX (``"ptx"``), or LLVM IR before optimisation (``"llvm"``).

        Raises:
            BackendError: TIL806, the form is another one.

        """
        match form:
            case "ptx":
                return self.ptx
            case "llvm":
                return self.text
            case _:
                message = f"the CUDA back end lists ptx or llvm, not {form!r}"
                raise BackendError((Diagnostic("TIL806", message),))
