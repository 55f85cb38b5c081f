"""Checks shared by all back ends: kernel numbers, sizes of memory, and saved code."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Final

from tileir.core.errors import ArgumentError, BackendError, Diagnostic, GroupLimitError
from tileir.runtime.interface import Buffer, Library
from tileir.semtree.ir import KernelFunction

DIGEST: Final = "digest"
"""Name of the part that :func:`sealed` adds."""


def kernel_at(library: Library, index: object) -> KernelFunction:
    """Return kernel number ``index`` of a library, as counted by ``Executor.prepare``.

    Raises:
        ArgumentError: TIL707, there is no kernel with that number.
    """
    kernels = library.kernels
    if isinstance(index, int) and 0 <= index < len(kernels):
        return kernels[index]
    numbers = f"its kernels are number 0 to {len(kernels) - 1}" if kernels else "it has none"
    raise ArgumentError.of("TIL707", f"there is no kernel {index!r:.40} in this library; {numbers}")


def memory_size(nbytes: object) -> int:
    """Return a validated number of bytes for ``Executor.allocate``.

    Raises:
        ArgumentError: TIL707, it is not a non-negative integer.
    """
    if isinstance(nbytes, int) and nbytes >= 0:
        return nbytes
    raise ArgumentError.of("TIL707", f"memory has a number of bytes from 0 on, not {nbytes!r:.40}")


def check_part(offset: int, nbytes: int, whole: int, alignment: int) -> None:
    """Check the arguments of ``Executor.part`` for a buffer of ``whole`` bytes.

    Raises:
        ArgumentError: TIL706, the part is empty, exceeds the buffer, or its offset is not aligned.
    """
    if offset % alignment or offset < 0 or nbytes < 1 or offset + nbytes > whole:
        place = f"{nbytes} bytes from {offset} on of {whole}"
        message = f"a part needs an offset that is a multiple of {alignment}, and bytes: not {place}"
        raise ArgumentError.of("TIL706", message)


def check_buffers(kernel: str, buffers: Sequence[object], ours: Sequence[Buffer], needed: Sequence[int]) -> None:
    """Check that the arguments of a kernel are buffers of its own device, of class ``ours``, and are large enough.

    Raises:
        ArgumentError: TIL706, they are not.
    """
    if len(ours) < len(buffers):
        raise ArgumentError.of("TIL706", f"kernel {kernel} takes buffers of its own device; copy the data there first")
    sizes = [buffer.nbytes for buffer in ours]
    if len(sizes) != len(needed) or any(map(int.__lt__, sizes, needed)):
        raise ArgumentError.of("TIL706", f"kernel {kernel} takes buffers of {list(needed)} bytes, not {sizes}")


def sealed(parts: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the parts of a library for ``Library.save`` with their digest as one more part; none for no parts."""
    return {**parts, DIGEST: _digest(parts)} if parts else {}


def checked_parts(parts: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the parts given to :func:`sealed`, for ``Compiler.load``, after verifying that they are unchanged.

    Systems and drivers crash on truncated or modified code, so this check has to precede any use of it.

    Raises:
        BackendError: TIL806, a part is missing, was added, or was modified.
    """
    found = {name: bytes(part) for name, part in parts.items() if name != DIGEST}
    if parts.get(DIGEST) == _digest(found) or not parts:
        return found
    message = (
        f"the saved parts {', '.join(sorted(parts))} are not those of one library, whole and unchanged; compile again"
    )
    raise BackendError.of("TIL806", message)


def _digest(parts: Mapping[str, bytes]) -> bytes:
    digest = hashlib.sha256()
    for name in sorted(parts):
        for content in (name.encode(), parts[name]):
            digest.update(len(content).to_bytes(8, "little"))
            digest.update(content)
    return digest.digest()


def check_group(kernel: KernelFunction, most: int) -> None:
    """Raise unless a device can run the groups of a kernel.

    Raises:
        GroupLimitError: TIL804, they have more threads than ``most``.
    """
    if math.prod(kernel.group) > most:
        message = (
            f"kernel {kernel.name} has groups of {math.prod(kernel.group)} threads, and the device can run {most} "
            "of this kernel; compile with smaller groups"
        )
        raise GroupLimitError((Diagnostic("TIL804", message),), most)
