"""PTX for some kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from tileir.core.errors import BackendError, Diagnostic
from tileir.runtime.checks import checked_parts, sealed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tileir.semtree.ir import KernelFunction

_CUBIN: Final = "cubin {}"


@attrs.frozen(eq=False)
class CudaLibrary:
    """Kernels, the modules of LLVM IR that they became, and PTX of all of them.

    Attributes:
        kernels: What was compiled.
        text: LLVM IR before optimisation, a module for each kernel.
        ptx: What the driver makes machine code of.
        cubins: Machine code of each kernel, or nothing, where the card was not there.

    """

    kernels: tuple[KernelFunction, ...]
    text: str = attrs.field(repr=False)
    ptx: str = attrs.field(repr=False)
    cubins: tuple[bytes, ...] = attrs.field(default=(), repr=False)

    @classmethod
    def load(cls, kernels: Sequence[KernelFunction], parts: Mapping[str, bytes]) -> CudaLibrary:
        """Undo :meth:`save`.

        Raises:
            BackendError: TIL806, a part is missing or was changed.

        """
        found = checked_parts(parts)
        try:
            cubins = tuple(found[_CUBIN.format(number)] for number in range(len(found) - len(("llvm", "ptx"))))
            if len(cubins) not in (0, len(kernels)):
                raise KeyError(_CUBIN)
            return cls(tuple(kernels), found["llvm"].decode(), found["ptx"].decode(), cubins)
        except (KeyError, UnicodeDecodeError) as error:
            message = f"the saved parts {sorted(parts)} are not those of a CUDA library; compile again"
            raise BackendError((Diagnostic("TIL806", message),)) from error

    def save(self) -> Mapping[str, bytes]:
        """Return the parts ``llvm`` and ``ptx``, machine code of each kernel where there is any, and their digest."""
        cubins = {_CUBIN.format(number): cubin for number, cubin in enumerate(self.cubins)}
        return sealed({"llvm": self.text.encode(), "ptx": self.ptx.encode(), **cubins})

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
