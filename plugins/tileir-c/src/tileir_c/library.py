"""Compiled C of some kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from tileir.core.errors import BackendError
from tileir.runtime.checks import checked_parts, sealed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir.semtree.ir import KernelFunction


@attrs.frozen(eq=False)
class CLibrary:
    """Kernels, their source, and the shared object compiled from it.

    Attributes:
        kernels: The kernels.
        source: All of the source.
        code: Bytes of the shared object.
        scratch_bytes: Scratch memory per thread of each kernel.
        form: Language of the source.
    """

    kernels: tuple[KernelFunction, ...]
    source: str = attrs.field(repr=False)
    code: bytes = attrs.field(repr=False)
    scratch_bytes: tuple[int, ...]
    form: str = "c"

    def save(self) -> Mapping[str, bytes]:
        """Return the parts ``source``, ``object``, ``scratch`` and ``digest``.

        The digest is checked on loading, since the system crashes on truncated shared objects.
        """
        scratch = " ".join(map(str, self.scratch_bytes)).encode()
        return sealed({"source": self.source.encode(), "object": self.code, "scratch": scratch})

    @classmethod
    def restore(cls, kernels: tuple[KernelFunction, ...], parts: Mapping[str, bytes], form: str = "c") -> CLibrary:
        """Return the library that :meth:`save` saved.

        Raises:
            BackendError: TIL806, a part is missing or broken.
        """
        whole = checked_parts(parts)
        try:
            scratch = tuple(int(word) for word in whole["scratch"].decode().split())
            library = cls(kernels, whole["source"].decode(), whole["object"], scratch, form)
        except (KeyError, ValueError) as error:
            message = f"the saved parts {sorted(parts)} are not those of a C library; compile again"
            raise BackendError.of("TIL806", message) from error
        if len(scratch) != len(kernels):
            raise BackendError.of("TIL806", f"the saved library is not one of {len(kernels)} kernels; compile again")
        return library

    def listing(self, form: str) -> str:
        """Return the source, the only form.

        Raises:
            BackendError: TIL806, the form is not :attr:`form`.
        """
        if form != self.form:
            raise BackendError.of("TIL806", f"the library lists {self.form}, not {form!r}")
        return self.source
