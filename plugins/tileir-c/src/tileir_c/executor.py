"""Launches of compiled kernels: in the calling thread, and where they are large in a few threads beside it."""

from __future__ import annotations

import math
import threading
import weakref
from collections import deque
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from tileir.core.errors import ArgumentError, BackendError, Diagnostic
from tileir.runtime.checks import kernel_at, memory_size
from tileir.runtime.events import Scheduler
from tileir.runtime.mapping import map_host
from tileir.semtree.layout import ALIGNMENT, aligned
from tileir_c.compiler import entry
from tileir_c.emitter import symbol
from tileir_c.loader import Code, load_code

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tileir.runtime.events import PendingEvent
    from tileir.runtime.interface import Event
    from tileir.semtree.ir import KernelFunction
    from tileir_c.library import CLibrary

    Array = np.ndarray[Any, np.dtype[Any]]
    Bytes = np.ndarray[Any, np.dtype[np.uint8]]

SPLIT_OPERATIONS: Final = 4_000_000
"""Kernels that estimate fewer operations run in the calling thread alone: to start threads would cost more."""


SPARE_SCRATCH: Final = 4
"""How many pieces of scratch memory an executor keeps for its next launches."""


@attrs.frozen(eq=False)
class HostBuffer:
    """Host memory, kept alive by ``content``."""

    content: Bytes = attrs.field(repr=False)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.content.nbytes

    @property
    def address(self) -> int:
        """Where it starts."""
        return int(self.content.ctypes.data)

    def host(self) -> Bytes:
        """Return the memory as bytes."""
        return self.content

    map_current = map_host
    map_discard = map_host


def allocate(nbytes: int) -> HostBuffer:
    """Return fresh memory with undefined content, aligned to :data:`tileir.semtree.layout.ALIGNMENT`."""
    room = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    return HostBuffer(room[start : start + nbytes])


@attrs.define(eq=False)
class CExecutor:
    """Runs kernels on up to ``threads`` threads; it may be used from several threads."""

    threads: int
    scheduler: Scheduler = attrs.field(factory=lambda: Scheduler("tileir-c"), init=False)
    _closed: bool = attrs.field(default=False, init=False)
    _spare: deque[HostBuffer] = attrs.field(factory=lambda: deque(maxlen=SPARE_SCRATCH), init=False)
    _codes: weakref.WeakKeyDictionary[CLibrary, Code] = attrs.field(factory=weakref.WeakKeyDictionary, init=False)

    def allocate(self, nbytes: int) -> HostBuffer:
        """Return fresh memory with undefined content, aligned to 64 bytes; TIL707 for less than none."""
        return allocate(memory_size(nbytes))

    def wrap(self, array: Array) -> HostBuffer | None:
        """Return a buffer over an array's own memory; None where that has gaps or is not aligned."""
        flags = array.flags
        return HostBuffer(array.reshape(-1).view(np.uint8)) if flags.c_contiguous and flags.aligned else None

    def prepare(self, library: CLibrary, index: int) -> CKernel:
        """Load a library, once, and ready kernel number ``index``.

        Raises:
            ArgumentError: TIL707, there is no such kernel.
            BackendError: TIL806, its code cannot be loaded; TIL807, the executor was closed.

        """
        self.check_open()
        kernel = kernel_at(library, index)
        code = self._codes.get(library)
        if code is None:
            code = load_code(library.code, [entry(symbol(*numbered)) for numbered in enumerate(library.kernels)])
            self._codes[library] = code
        return CKernel.of(self, kernel, code, index, library.scratch_bytes[index])

    def copy(self, source: Any, destination: Any, after: Sequence[Event] = ()) -> PendingEvent:
        """Copy as many bytes as both have, between buffers or contiguous arrays.

        Raises:
            ArgumentError: TIL706, an array has gaps, or the destination cannot be written.

        """
        self.check_open()
        read, write = _bytes_of(source), _bytes_of(destination)
        if not write.flags.writeable:
            raise ArgumentError((Diagnostic("TIL706", "the destination of a copy is read-only"),))
        count = min(len(read), len(write))
        return self.scheduler.submit(partial(np.copyto, write[:count], read[:count]), after)

    def close(self) -> None:
        """Wait for all work and stop the scheduler's thread."""
        self._closed = True
        self.scheduler.close()
        self._spare.clear()

    def check_open(self) -> None:
        """Raise TIL807 after :meth:`close`."""
        if self._closed:
            raise BackendError((Diagnostic("TIL807", "this executor was closed; open another one"),))

    def take_scratch(self, nbytes: int) -> HostBuffer:
        """Return scratch memory for one launch; :meth:`give_scratch` takes it back."""
        try:
            scratch = self._spare.pop()
        except IndexError:
            return allocate(nbytes)
        return scratch if scratch.nbytes >= nbytes else allocate(nbytes)

    def give_scratch(self, scratch: HostBuffer) -> None:
        """Keep scratch memory for the next launches."""
        self._spare.append(scratch)


@attrs.frozen(eq=False)
class CKernel:
    """One kernel in executable memory.

    Attributes:
        kernel: What was compiled.
        executor: Where it runs.
        threads: On how many threads it runs.

    """

    kernel: KernelFunction
    executor: CExecutor = attrs.field(repr=False)
    threads: int
    _code: Code = attrs.field(repr=False)
    _function: Callable[[bytes, int, int, int], None] = attrs.field(repr=False)
    _pack: Callable[..., bytes] = attrs.field(repr=False)
    _sizes: tuple[int, ...] = attrs.field(repr=False)
    _groups: int
    _scratch_bytes: int

    @classmethod
    def of(cls, executor: CExecutor, kernel: KernelFunction, code: Code, index: int, scratch_bytes: int) -> CKernel:
        """Ready kernel number ``index`` of loaded code."""
        groups = math.prod(kernel.grid)
        return cls(
            kernel,
            executor,
            min(executor.threads, groups) if kernel.operations >= SPLIT_OPERATIONS else 1,
            code,
            code.functions[index],
            Struct(f"{len(kernel.params)}P").pack,
            tuple(param.size * param.dtype.itemsize for param in kernel.params),
            groups,
            aligned(scratch_bytes),
        )

    def launch(self, buffers: Sequence[HostBuffer]) -> None:
        """Run now, and return when the outputs are written.

        Raises:
            ArgumentError: TIL706, the buffers do not fit the parameters.
            BackendError: TIL807, the executor was closed.

        """
        self.bind(buffers).launch()

    def run(self, buffers: Sequence[HostBuffer], after: Sequence[Event] = ()) -> PendingEvent:
        """Run in another thread once all of ``after`` have completed; the errors are those of :meth:`launch`."""
        return self.bind(buffers).run(after)

    def bind(self, buffers: Sequence[HostBuffer]) -> BoundCKernel:
        """Return a launch on these buffers, checked and packed; the errors are those of :meth:`launch`."""
        sizes = [buffer.nbytes for buffer in buffers]
        if len(sizes) != len(self._sizes) or any(map(int.__lt__, sizes, self._sizes)):
            message = f"kernel {self.kernel.name} takes buffers of {list(self._sizes)} bytes, not {sizes}"
            raise ArgumentError((Diagnostic("TIL706", message),))
        arguments = self._pack(*[buffer.address for buffer in buffers])
        return BoundCKernel(self, tuple(buffers), arguments)

    def start(self, arguments: bytes) -> None:
        """Run on packed arguments, each thread a share of the groups of its own."""
        self.executor.check_open()
        if not self._scratch_bytes and self.threads == 1:
            self._function(arguments, 0, 0, self._groups)
            return
        scratch = self.executor.take_scratch(self._scratch_bytes * self.threads)
        self._share_out(arguments, scratch.address)
        self.executor.give_scratch(scratch)

    def _share_out(self, arguments: bytes, scratch: int) -> None:
        bounds = [self._groups * part // self.threads for part in range(self.threads + 1)]

        def work(part: int) -> None:
            self._function(arguments, scratch + part * self._scratch_bytes, bounds[part], bounds[part + 1])

        helpers = [threading.Thread(target=work, args=(part,), name="tileir-c") for part in range(1, self.threads)]
        for helper in helpers:
            helper.start()
        work(0)
        for helper in helpers:
            helper.join()


@attrs.frozen(eq=False)
class BoundCKernel:
    """A kernel with its buffers, which are kept alive."""

    kernel: CKernel
    buffers: tuple[HostBuffer, ...] = attrs.field(repr=False)
    _arguments: bytes = attrs.field(repr=False)

    def launch(self) -> None:
        """Run now, and return when the outputs are written."""
        self.kernel.start(self._arguments)

    def run(self, after: Sequence[Event] = ()) -> PendingEvent:
        """Run in another thread once all of ``after`` have completed."""
        return self.kernel.executor.scheduler.submit(self.launch, after)


def _bytes_of(memory: Any) -> Bytes:
    if isinstance(memory, HostBuffer):
        return memory.content
    array = np.asarray(memory)
    if not array.flags.c_contiguous:
        raise ArgumentError((Diagnostic("TIL706", "an array with gaps cannot be copied; pass a contiguous one"),))
    return array.reshape(-1).view(np.uint8)
