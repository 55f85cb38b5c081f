"""Kernels as programs of the driver."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping

from tileir.core import BackendError, attrs
from tileir.semtree.ir import KernelFunction
from tileir_opencl.emit.emitter import symbol
from tileir_opencl.run.kernels import NativeProgram, binary_of


@attrs.frozen(eq=False)
class Part:
    """Program of some kernels of a library, whose build may be in progress.

    Attributes:
        kernels: Its kernels.
        source: OpenCL C.
    """

    kernels: tuple[KernelFunction, ...] = attrs.field(repr=False)
    source: str = attrs.field(repr=False)
    _program: Callable[[], NativeProgram] = attrs.field(repr=False)

    def program(self) -> NativeProgram:
        """Wait until it is built, and return it.

        Raises:
            BackendError: TIL805, the driver refused the source.

        """
        return self._program()


@attrs.frozen(eq=False)
class OpenCLLibrary:
    """Kernels, their source, and the driver's programs.

    Attributes:
        kernels: The kernels.
        parts: The programs, with the kernels in order.
    """

    kernels: tuple[KernelFunction, ...]
    parts: tuple[Part, ...] = attrs.field(repr=False)

    def wait(self) -> None:
        """Block until all programs are built; raises the errors of :meth:`Part.program`."""
        for part in self.parts:
            part.program()

    def entry(self, index: int) -> tuple[NativeProgram, str]:
        """Return the program of kernel number ``index``, and the name of its function."""
        for part in self.parts:
            if index < len(part.kernels):
                return part.program(), symbol(index, part.kernels[index])
            index -= len(part.kernels)
        raise IndexError(index)

    def save(self) -> Mapping[str, bytes]:
        """Return the source and the driver's binary of each program: ``0.cl``, ``0.bin``, ``1.cl`` and so on."""
        saved: dict[str, bytes] = {}
        for number, part in enumerate(self.parts):
            saved[f"{number}.cl"] = part.source.encode()
            saved[f"{number}.bin"] = sealed(binary_of(part.program()))
        return saved

    def listing(self, form: str) -> str:
        """Return the source (``"opencl"``), or NVIDIA's PTX of it (``"ptx"``).

        Raises:
            BackendError: TIL806, it is another form, or the driver's binary is not PTX.
        """
        if form == "opencl":
            return "\n".join(part.source for part in self.parts)
        if form != "ptx":
            raise BackendError.of("TIL806", f"the OpenCL back end lists opencl or ptx, not {form!r}")
        binaries = [binary_of(part.program()) for part in self.parts]
        if not all(b".target" in binary and b".entry" in binary for binary in binaries):
            raise BackendError.of("TIL806", "this driver's binaries are no PTX; ask for opencl")
        return "\n".join(binary.rstrip(b"\0").decode(errors="replace") for binary in binaries)


def sealed(binary: bytes) -> bytes:
    """Prepend a digest to a binary, as drivers crash on incomplete binaries."""
    return hashlib.sha256(binary).digest() + binary


def unsealed(data: bytes) -> bytes:
    """Return the binary of :func:`sealed`; empty if a byte was changed or is missing."""
    digest, binary = data[: hashlib.sha256().digest_size], data[hashlib.sha256().digest_size :]
    return binary if hashlib.sha256(binary).digest() == digest else b""
