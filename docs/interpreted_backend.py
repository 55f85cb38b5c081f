"""A back end whose device is the interpreter: all that another one needs, in few words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from tileir.core.errors import BackendError, Diagnostic
from tileir.core.target import Target
from tileir.runtime.events import PendingEvent
from tileir.runtime.interface import Backend, DeviceInfo
from tileir.runtime.mapping import map_host
from tileir.semtree.interpreter import CompiledKernel, compile_kernel
from tileir.semtree.ir import KernelFunction
from tileir.semtree.printer import to_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tileir.runtime.interface import Event

    Bytes = np.ndarray[Any, np.dtype[np.uint8]]


@attrs.frozen(eq=False)
class Memory:
    content: Bytes

    @property
    def nbytes(self) -> int:
        return self.content.nbytes

    def host(self) -> Bytes:
        return self.content

    map_current = map_discard = map_host


@attrs.frozen
class Library:
    kernels: tuple[KernelFunction, ...]

    def save(self) -> Mapping[str, bytes]:
        return {}  # load is given the kernels, and needs nothing else

    def listing(self, form: str) -> str:
        if form != "text":
            raise BackendError((Diagnostic("TIL806", f"there is only text, not {form!r}"),))
        return "\n".join(map(to_text, self.kernels))


@attrs.frozen
class Compiler:
    identity: str = "interpreted-1"

    def build(self, kernels: Sequence[KernelFunction]) -> Library:
        return Library(tuple(kernels))

    def load(self, kernels: Sequence[KernelFunction], parts: Mapping[str, bytes]) -> Library:
        return Library(tuple(kernels))


@attrs.frozen
class Kernel:
    function: KernelFunction
    compiled: CompiledKernel

    def launch(self, buffers: Sequence[Memory]) -> None:
        params = self.function.params
        self.compiled.run([b.content.view(p.dtype.numpy) for b, p in zip(buffers, params, strict=True)])

    def run(self, buffers: Sequence[Memory], after: Sequence[Event] = ()) -> Event:
        return done(after, lambda: self.launch(buffers))


class Executor:
    def allocate(self, nbytes: int) -> Memory:
        start = -(room := np.empty(nbytes + 64, np.uint8)).ctypes.data % 64
        return Memory(room[start : start + nbytes])

    def wrap(self, array: np.ndarray[Any, Any]) -> Memory:
        return Memory(array.reshape(-1).view(np.uint8))

    def prepare(self, library: Library, index: int) -> Kernel:
        return Kernel(library.kernels[index], compile_kernel(library.kernels[index]))

    def copy(self, source: Any, destination: Any, after: Sequence[Event] = ()) -> Event:
        here, there = (end if isinstance(end, Memory) else self.wrap(end) for end in (source, destination))
        size = min(here.nbytes, there.nbytes)
        return done(after, lambda: np.copyto(there.content[:size], here.content[:size]))

    def close(self) -> None:
        """Nothing outlives a call."""


def done(after: Sequence[Event], work: Callable[[], None]) -> PendingEvent:
    """Work at once, and return an event that tells of success or failure."""
    event = PendingEvent()
    try:
        for other in after:
            other.wait()
        work()
    except Exception as error:
        event.fail(error)
    else:
        event.complete()
    return event


DEVICE = DeviceInfo("interpreted.0", "NumPy", "interpreted", target=Target(name="interpreted", vector_bytes=16))
BACKEND = Backend(
    name="interpreted",
    devices=lambda: (DEVICE,),
    compiler=lambda device, options: Compiler(),
    executor=lambda device, options: Executor(),
    forms=("text",),
)
