"""Launches of compiled kernels on the host's threads."""

from __future__ import annotations

import math
import threading
import weakref
from collections import deque
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs
import numpy as np

from tileir.core.errors import ArgumentError, BackendError, Diagnostic
from tileir.core.forking import renew_in_children
from tileir.runtime.checks import kernel_at, memory_size
from tileir.runtime.events import Scheduler
from tileir_llvm.buffers import HostBuffer, allocate, wrap
from tileir_llvm.loader import Code, load_code
from tileir_llvm.pool import ThreadPool
from tileir_llvm.sequence import LLVMSequence
from tileir_llvm.team import KERNEL_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tileir.runtime.events import PendingEvent
    from tileir.runtime.interface import DeviceInfo, Event, Options
    from tileir.semtree.ir import KernelFunction
    from tileir_llvm.library import LLVMLibrary
    from tileir_llvm.sequence import Work

SPLIT_OPERATIONS: Final = 250_000
"""Kernels that estimate fewer operations run on the calling thread alone: to share them out would cost more."""


@attrs.define(eq=False)
class LLVMExecutor:
    """Runs kernels in the calling thread and, where they are large, in a pool of threads beside it.

    It may be used from several threads, and what is submitted runs in as many as the pool has: independent work at the
    same time. A launch that finds the pool taken runs on its own thread.
    """

    device: DeviceInfo
    options: Options
    pool: ThreadPool = attrs.field(init=False)
    scheduler: Scheduler = attrs.field(init=False)
    closed: bool = attrs.field(default=False, init=False)
    repeats: ClassVar[bool] = True
    decides: ClassVar[bool] = True
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)
    _spare: deque[HostBuffer] = attrs.field(factory=deque, init=False)
    _codes: weakref.WeakKeyDictionary[LLVMLibrary, Code] = attrs.field(factory=weakref.WeakKeyDictionary, init=False)

    def __attrs_post_init__(self) -> None:
        renew_in_children(self)

    def renew(self) -> None:
        """Start with a lock that no thread of the parent holds."""
        self._lock = threading.Lock()

    @pool.default
    def _make_pool(self) -> ThreadPool:
        available = self.device.target.threads
        return ThreadPool(min(self.options.threads or available, available), self.device.features)

    @scheduler.default
    def _make_scheduler(self) -> Scheduler:
        return Scheduler("tileir-llvm", self.pool.threads)

    def allocate(self, nbytes: int) -> HostBuffer:
        """Return fresh memory with undefined content, aligned to 64 bytes; TIL707 for less than none."""
        return allocate(memory_size(nbytes))

    def wrap(self, array: np.ndarray[Any, Any]) -> HostBuffer | None:
        """Return a buffer over an array's own memory; None where that has gaps or is not aligned."""
        flags = array.flags
        return wrap(array) if flags.c_contiguous and flags.aligned else None

    def prepare(self, library: LLVMLibrary, index: int) -> LLVMKernel:
        """Load a library, once, and ready kernel number ``index``.

        Raises:
            ArgumentError: TIL707, there is no such kernel.
            BackendError: TIL806, its object code is broken; TIL807, the executor was closed.

        """
        self.check_open()
        kernel = kernel_at(library, index)
        with self._lock:
            code = self._codes.get(library)
            if code is None:
                code = self._codes[library] = load_code(library.codes, library.symbols, self.device.features)
        return LLVMKernel.of(self, kernel, code, index, library.scratch_bytes[index])

    def sequence(self, works: Sequence[Work]) -> LLVMSequence:
        """Return the works as one call; numbers stand for arrays that it is given."""
        return LLVMSequence.of(self, works)

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
        """Wait for all work and stop all threads."""
        self.closed = True
        self.scheduler.close()
        self.pool.close()
        self._spare.clear()

    def check_open(self) -> None:
        """Raise TIL807 after :meth:`close`."""
        if self.closed:
            raise BackendError((Diagnostic("TIL807", "this executor was closed; open another one"),))

    def take_scratch(self, nbytes: int) -> HostBuffer:
        """Return scratch memory for one launch on one thread; :meth:`give_scratch` takes it back."""
        try:
            scratch = self._spare.pop()
        except IndexError:
            return allocate(nbytes)
        return scratch if scratch.nbytes >= nbytes else allocate(nbytes)

    def give_scratch(self, scratch: HostBuffer) -> None:
        """Keep scratch memory for the next launch."""
        self._spare.append(scratch)


@attrs.frozen(eq=False)
class LLVMKernel:
    """One kernel in executable memory.

    Attributes:
        kernel: What was compiled.
        address: Its function.
        splits: Whether it is large enough to be shared out to several threads.
        groups: How many groups its grid has.
        scratch_bytes: Scratch memory that it needs for one thread.

    """

    kernel: KernelFunction
    address: int
    splits: bool
    groups: int
    scratch_bytes: int
    _executor: LLVMExecutor = attrs.field(repr=False)
    _code: Code = attrs.field(repr=False)
    _function: Callable[[bytes, int, int, int], None] = attrs.field(repr=False)
    _pack: Callable[..., bytes] = attrs.field(repr=False)
    _sizes: tuple[int, ...] = attrs.field(repr=False)

    @classmethod
    def of(
        cls, executor: LLVMExecutor, kernel: KernelFunction, code: Code, index: int, scratch_bytes: int
    ) -> LLVMKernel:
        """Ready kernel number ``index`` of loaded code."""
        groups = math.prod(kernel.grid)
        address = code.addresses[index]
        return cls(
            kernel,
            address,
            kernel.operations >= SPLIT_OPERATIONS and groups > 1 and executor.pool.threads > 1,
            groups,
            scratch_bytes,
            executor,
            code,
            KERNEL_TYPE(address),
            Struct(f"{len(kernel.params)}P").pack,
            tuple(param.size * param.dtype.itemsize for param in kernel.params),
        )

    def launch(self, buffers: Sequence[HostBuffer]) -> None:
        """Run now, and return when the outputs are written.

        Raises:
            ArgumentError: TIL706, the buffers do not fit the parameters.
            BackendError: TIL807, the executor was closed.

        """
        self._start(self._packed(buffers))

    def run(self, buffers: Sequence[HostBuffer], after: Sequence[Event] = ()) -> PendingEvent:
        """Run in another thread once all of ``after`` have completed; the errors are those of :meth:`launch`."""
        return self._executor.scheduler.submit(partial(self._start, self._packed(buffers), tuple(buffers)), after)

    def share_out(self, arguments: bytes) -> bool:
        """Run on all threads of the pool; return False, with nothing done, while they are taken."""
        return self._executor.pool.launch(self.address, arguments, self.groups, self.scratch_bytes)

    def _packed(self, buffers: Sequence[HostBuffer]) -> bytes:
        self._executor.check_open()
        sizes = [buffer.nbytes for buffer in buffers]
        if len(sizes) != len(self._sizes) or any(map(int.__lt__, sizes, self._sizes)):
            message = f"kernel {self.kernel.name} takes buffers of {list(self._sizes)} bytes, not {sizes}"
            raise ArgumentError((Diagnostic("TIL706", message),))
        return self._pack(*[buffer.address for buffer in buffers])

    def _start(self, arguments: bytes, _held: object = None) -> None:
        if self.splits and self.share_out(arguments):
            return
        if not self.scratch_bytes:
            self._function(arguments, 0, 0, self.groups)
            return
        scratch = self._executor.take_scratch(self.scratch_bytes)
        self._function(arguments, scratch.address, 0, self.groups)
        self._executor.give_scratch(scratch)


def _bytes_of(memory: Any) -> np.ndarray[Any, np.dtype[np.uint8]]:
    if isinstance(memory, HostBuffer):
        return memory.host()
    array = np.asarray(memory)
    if not array.flags.c_contiguous:
        raise ArgumentError((Diagnostic("TIL706", "an array with gaps cannot be copied; pass a contiguous one"),))
    return array.reshape(-1).view(np.uint8)
