"""Launches of compiled kernels on the host's threads."""

from __future__ import annotations

import math
import threading
import weakref
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from tileir.core import Renewable, attrs
from tileir.runtime import DeviceInfo, Event, Options, PendingEvent, Scheduler
from tileir.runtime.checks import kernel_at
from tileir.runtime.host_memory import Addresses, HostExecutor
from tileir_llvm.run.loader import Code, load_code
from tileir_llvm.run.pool import ThreadPool
from tileir_llvm.run.sequence import LLVMSequence
from tileir_llvm.run.team import KERNEL_TYPE
from tileir_llvm.run.together import Pooled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tileir.runtime.host_memory import HostBuffer
    from tileir.semtree.ir import KernelFunction
    from tileir_llvm.run.library import LLVMLibrary
    from tileir_llvm.run.sequence import Work


@attrs.define(eq=False)
class LLVMExecutor(Renewable, HostExecutor):
    """Executor that runs kernels in the calling thread and, if they are large, also in a thread pool.

    Several threads may use it, and submitted work runs in as many threads as the pool has. A launch that finds the pool
    busy runs on its own thread.
    """

    device: DeviceInfo
    options: Options
    pool: ThreadPool = attrs.field(init=False)
    scheduler: Scheduler = attrs.field(init=False)
    repeats: ClassVar[bool] = True
    decides: ClassVar[bool] = True
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)
    _codes: weakref.WeakKeyDictionary[LLVMLibrary, Code] = attrs.field(factory=weakref.WeakKeyDictionary, init=False)

    def renew(self) -> None:
        """Start with a fresh lock; a thread of the parent may hold the old one."""
        self._lock = threading.Lock()

    @pool.default
    def _make_pool(self) -> ThreadPool:
        available = self.device.target.threads
        return ThreadPool(min(self.options.threads or available, available), self.device.features)

    @scheduler.default
    def _make_scheduler(self) -> Scheduler:
        return Scheduler("tileir-llvm", self.pool.threads)

    def prepare(self, library: LLVMLibrary, index: int) -> LLVMKernel:
        """Load a library, once, and prepare kernel number ``index``.

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
        return LLVMKernel.of(self, kernel, code, index, library)

    def sequence(self, works: Sequence[Work]) -> LLVMSequence:
        """Return the works as one call; numbers stand for arrays that each launch is given."""
        return LLVMSequence.of(self, works)

    def close(self) -> None:
        """Wait for all work and stop all threads."""
        super().close()
        self.pool.close()


@attrs.frozen(eq=False)
class LLVMKernel(Pooled):
    """Kernel in executable memory.

    Attributes:
        kernel: The kernel.
    """

    kernel: KernelFunction
    _executor: LLVMExecutor = attrs.field(repr=False)
    _code: Code = attrs.field(repr=False)
    _function: Callable[[bytes, int, int, int], None] = attrs.field(repr=False)
    _addresses: Addresses = attrs.field(repr=False)

    @classmethod
    def of(
        cls, executor: LLVMExecutor, kernel: KernelFunction, code: Code, index: int, library: LLVMLibrary
    ) -> LLVMKernel:
        """Prepare kernel number ``index`` of a loaded library."""
        address = code.addresses[index]
        return cls(
            address,
            math.prod(kernel.grid),
            library.needs[index].scratch_bytes,
            library.needs[index].seconds,
            executor.pool,
            kernel,
            executor,
            code,
            KERNEL_TYPE(address),
            Addresses.of(kernel),
        )

    def launch(self, buffers: Sequence[HostBuffer]) -> None:
        """Run now, and return when the outputs are written.

        Raises:
            ArgumentError: TIL706, the buffers do not fit the parameters.
            BackendError: TIL807, the executor was closed.

        """
        self._start(self._packed(buffers))

    def run(self, buffers: Sequence[HostBuffer], after: Sequence[Event] = ()) -> PendingEvent:
        """Run in another thread once all of ``after`` have completed; raises the errors of :meth:`launch`."""
        return self._executor.scheduler.submit(partial(self._start, self._packed(buffers), tuple(buffers)), after)

    def _packed(self, buffers: Sequence[HostBuffer]) -> bytes:
        self._executor.check_open()
        return self._addresses.packed(buffers)

    def _start(self, arguments: bytes, _held: object = None) -> None:
        self.run_shared(arguments, partial(self._run_alone, arguments))

    def _run_alone(self, arguments: bytes) -> None:
        if not self.scratch_bytes:
            self._function(arguments, 0, 0, self.groups)
            return
        scratch = self._executor.take_scratch(self.scratch_bytes)
        self._function(arguments, scratch.address, 0, self.groups)
        self._executor.give_scratch(scratch)
