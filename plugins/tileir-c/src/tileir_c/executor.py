"""Launches of compiled kernels: in the calling thread, and large kernels in a few threads beside it."""

from __future__ import annotations

import math
import threading
import weakref
from typing import TYPE_CHECKING, Final

import attrs

from tileir.runtime.checks import kernel_at
from tileir.runtime.events import Scheduler
from tileir.runtime.host_memory import Addresses, HostExecutor
from tileir.semtree.transform.layout import aligned
from tileir_c.compiler import entry
from tileir_c.emitter import symbol
from tileir_c.loader import Code, load_code

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tileir.runtime.events import PendingEvent
    from tileir.runtime.host_memory import HostBuffer
    from tileir.runtime.interface import Event
    from tileir.semtree.ir import KernelFunction
    from tileir_c.library import CLibrary

SPLIT_OPERATIONS: Final = 4_000_000
"""Estimated operations up to which kernels run in the calling thread alone, since starting threads would cost more."""


@attrs.define(eq=False)
class CExecutor(HostExecutor):
    """Executor of kernels on up to ``threads`` threads; several threads may use it."""

    threads: int
    scheduler: Scheduler = attrs.field(factory=lambda: Scheduler("tileir-c"), init=False)
    _codes: weakref.WeakKeyDictionary[CLibrary, Code] = attrs.field(factory=weakref.WeakKeyDictionary, init=False)

    def prepare(self, library: CLibrary, index: int) -> CKernel:
        """Load a library, once, and prepare kernel number ``index``.

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


@attrs.frozen(eq=False)
class CKernel:
    """Kernel in executable memory.

    Attributes:
        kernel: The kernel.
        executor: Its executor.
        threads: Number of its threads.
    """

    kernel: KernelFunction
    executor: CExecutor = attrs.field(repr=False)
    threads: int
    _code: Code = attrs.field(repr=False)
    _function: Callable[[bytes, int, int, int], None] = attrs.field(repr=False)
    _addresses: Addresses = attrs.field(repr=False)
    _groups: int
    _scratch_bytes: int

    @classmethod
    def of(cls, executor: CExecutor, kernel: KernelFunction, code: Code, index: int, scratch_bytes: int) -> CKernel:
        """Prepare kernel number ``index`` of loaded code."""
        groups = math.prod(kernel.grid)
        return cls(
            kernel,
            executor,
            min(executor.threads, groups) if kernel.operations >= SPLIT_OPERATIONS else 1,
            code,
            code.functions[index],
            Addresses.of(kernel),
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
        """Run in another thread once all of ``after`` have completed; raises the errors of :meth:`launch`."""
        return self.bind(buffers).run(after)

    def bind(self, buffers: Sequence[HostBuffer]) -> BoundCKernel:
        """Return a launch on these buffers, checked and packed; raises the errors of :meth:`launch`."""
        return BoundCKernel(self, tuple(buffers), self._addresses.packed(buffers))

    def start(self, arguments: bytes) -> None:
        """Run on packed arguments, each thread with a separate share of the groups."""
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
    """Kernel with its buffers, which it keeps alive."""

    kernel: CKernel
    buffers: tuple[HostBuffer, ...] = attrs.field(repr=False)
    _arguments: bytes = attrs.field(repr=False)

    def launch(self) -> None:
        """Run now, and return when the outputs are written."""
        self.kernel.start(self._arguments)

    def run(self, after: Sequence[Event] = ()) -> PendingEvent:
        """Run in another thread once all of ``after`` have completed."""
        return self.kernel.executor.scheduler.submit(self.launch, after)
