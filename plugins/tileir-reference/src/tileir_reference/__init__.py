"""Back end whose device is the interpreter of tileir's kernels: slow, and correct by definition.

It is a complete back end, and uses only public interfaces.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from tileir.core.errors import ArgumentError, BackendError
from tileir.core.targets.target import Target
from tileir.runtime.checks import kernel_at, memory_size
from tileir.runtime.events import Scheduler
from tileir.runtime.interface import Backend, DeviceInfo
from tileir.runtime.mapping import map_host
from tileir.semtree.interpret.interpreter import CompiledKernel, compile_kernel
from tileir.semtree.ir import KernelFunction
from tileir.semtree.text.printer import to_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tileir.runtime.interface import Event

    Bytes = np.ndarray[Any, np.dtype[np.uint8]]


@attrs.frozen(eq=False)
class Memory:
    """Bytes of the host."""

    content: Bytes

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.content.nbytes

    def host(self) -> Bytes:
        """Return the bytes themselves."""
        return self.content

    map_current = map_discard = map_host


@attrs.frozen
class Library:
    """Library whose code is the kernels."""

    kernels: tuple[KernelFunction, ...]

    def save(self) -> Mapping[str, bytes]:
        """Return nothing: :meth:`Compiler.load` is given the kernels, and needs nothing else."""
        return {}

    def listing(self, form: str) -> str:
        """Return the kernels as semtree text."""
        if form != "semtree":
            raise BackendError.of("TIL806", f"there is no form {form!r}; ask for 'semtree'")
        return "\n".join(map(to_text, self.kernels))


@attrs.frozen
class Compiler:
    """Compiler without any work."""

    identity: str = "tileir-reference 1"

    def build(self, kernels: Sequence[KernelFunction]) -> Library:
        """Keep the kernels."""
        return Library(tuple(kernels))

    def load(self, kernels: Sequence[KernelFunction], parts: Mapping[str, bytes]) -> Library:
        """Return a library of the kernels; refuse parts that :meth:`Library.save` does not make."""
        if parts:
            raise BackendError.of("TIL806", f"saved code has parts {', '.join(sorted(parts))}, not none")
        return self.build(kernels)


@attrs.frozen
class Kernel:
    """Kernel as Python closures."""

    function: KernelFunction
    compiled: CompiledKernel
    scheduler: Scheduler

    def launch(self, buffers: Sequence[Memory]) -> None:
        """Run now: submit and wait, so that a closed executor raises its error."""
        self.run(buffers).wait()

    def run(self, buffers: Sequence[Memory], after: Sequence[Event] = ()) -> Event:
        """Run once all of ``after`` have completed."""
        needed = [param.size * param.dtype.itemsize for param in self.function.params]
        given = [buffer.nbytes for buffer in buffers]
        if len(needed) != len(given) or any(map(int.__lt__, given, needed)):
            message = f"kernel {self.function.name} takes buffers of {needed} bytes, not {given}"
            raise ArgumentError.of("TIL706", message)
        parts = zip(self.function.params, buffers, needed, strict=True)
        arrays = [buffer.content[:size].view(param.dtype.numpy) for param, buffer, size in parts]
        return self.scheduler.submit(partial(self.compiled.run, arrays), after)


@attrs.frozen(eq=False)
class Executor:
    """Executor that runs everything in one thread, in the order in which it becomes possible."""

    scheduler: Scheduler = attrs.field(factory=lambda: Scheduler("tileir-reference"))

    def allocate(self, nbytes: int) -> Memory:
        """Return aligned memory."""
        room = np.empty(memory_size(nbytes) + 64, np.uint8)
        start = -room.ctypes.data % 64
        return Memory(room[start : start + nbytes])

    def wrap(self, array: np.ndarray[Any, Any]) -> Memory | None:
        """Return the memory of an array, whose elements the interpreter requires to be aligned."""
        flags = array.flags
        return Memory(array.reshape(-1).view(np.uint8)) if flags.c_contiguous and flags.aligned else None

    def prepare(self, library: Library, index: int) -> Kernel:
        """Turn a kernel into closures."""
        function = kernel_at(library, index)
        return Kernel(function, compile_kernel(function), self.scheduler)

    def copy(self, source: Any, destination: Any, after: Sequence[Event] = ()) -> Event:
        """Copy bytes once all of ``after`` have completed."""
        here, there = (end if isinstance(end, Memory) else self.wrap(np.asarray(end)) for end in (source, destination))
        if here is None or there is None or not there.content.flags.writeable:
            raise ArgumentError.of("TIL706", "copy between contiguous arrays, and to one that is writable")
        size = min(here.nbytes, there.nbytes)
        return self.scheduler.submit(partial(np.copyto, there.content[:size], here.content[:size]), after)

    def close(self) -> None:
        """Wait for all work."""
        self.scheduler.close()


TARGET: Final = Target("reference", group_threads=256, local_bytes=1 << 16)
DEVICE: Final = DeviceInfo("reference.0", "interpreter of kernels", "reference", target=TARGET)

BACKEND: Final[Backend[Library]] = Backend(
    "reference", lambda: (DEVICE,), lambda _device, _options: Compiler(), lambda _device, _options: Executor(),
    forms={"semtree": "Semtree"}, rank=-1,
)  # fmt: skip
"""Target of the entry point. By its negative rank, the device is only used if it is named."""
