"""Memory, copies and launches on one card."""

from __future__ import annotations

import threading
import weakref
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from cuda.bindings import driver

from tileir.core import BackendError, Diagnostic, Renewable, attrs
from tileir.runtime import DeviceInfo, Event, Options, Scheduler
from tileir.runtime.checks import check_part, kernel_at, memory_size
from tileir.runtime.copies import copy_by_host, places_of
from tileir.semtree.clusters import without_clusters
from tileir_cuda.architectures import ALIGNMENT
from tileir_cuda.devices import DLPACK_KIND, architecture_of
from tileir_cuda.emit.emitter import emit
from tileir_cuda.emit.ptx import made
from tileir_cuda.run.driver import SUCCESS, checked, enter, inherited, use_driver
from tileir_cuda.run.following import APART
from tileir_cuda.run.kernels import BoundCudaKernel, CudaKernel
from tileir_cuda.run.memory import AdoptedCudaBuffer, CudaBuffer, Pool, copy, enqueue, page_locked
from tileir_cuda.run.queue import BoundQueue, CudaQueue
from tileir_cuda.run.recording import Recorder
from tileir_cuda.run.stream import CudaEvent, Stream

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from tileir.semtree.ir import KernelFunction
    from tileir_cuda.library import CudaLibrary
    from tileir_cuda.run.queue import Work


@attrs.frozen(eq=False)
class Module:
    """Code that the driver has loaded on a card."""

    native: Any
    card: int

    @classmethod
    def of(cls, card: int, code: bytes) -> Module:
        """Load machine code, or null-terminated PTX, which the driver compiles.

        Raises:
            BackendError: TIL805, the driver refuses it.
        """
        enter(card)
        native = checked("loading code", driver.cuModuleLoadData(code))
        module = cls(native, card)
        weakref.finalize(module, _unload, native, card).atexit = False
        return module


def _unload(native: Any, card: int) -> None:
    if not inherited():
        enter(card)
        driver.cuModuleUnload(native)


@attrs.define(eq=False)
class CudaExecutor(Renewable):
    """Owner of a stream and memory of one card; several threads may use it.

    Attributes:
        asynchronous: Launches and copies only submit work.
        batches: Whole programs are cheaper than single events.
        queues_loops: The queue takes loops of any number of launches.
        part_alignment: Alignment of the offset of each part of a buffer.
    """

    device: DeviceInfo
    options: Options
    stream: Stream = attrs.field(repr=False)
    pool: Pool = attrs.field(repr=False)
    asynchronous: bool = attrs.field(default=True, init=False)
    batches: bool = attrs.field(default=True, init=False)
    queues_loops: bool = attrs.field(default=True, init=False)
    part_alignment: int = attrs.field(default=ALIGNMENT, init=False)
    _scheduler: Scheduler = attrs.field(factory=lambda: Scheduler("tileir-cuda"), init=False, repr=False)
    _closed: bool = attrs.field(default=False, init=False)
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False, repr=False)
    _modules: weakref.WeakKeyDictionary[CudaLibrary, dict[int, Module]] = attrs.field(
        factory=weakref.WeakKeyDictionary, init=False, repr=False
    )

    @classmethod
    def of(cls, device: DeviceInfo, card: int, options: Options) -> CudaExecutor:
        """Open a stream on a card.

        Raises:
            BackendError: TIL808, its driver refuses; TIL809, the process was forked.

        """
        stream = Stream.of(card, measures=options.profile)
        return cls(device, options, stream, Pool(stream, device.memory_bytes or 1 << 62))

    def renew(self) -> None:
        """Start with a fresh lock; a thread of the parent may hold the old one."""
        self._lock = threading.Lock()

    def allocate(self, nbytes: int) -> CudaBuffer:
        """Return device memory with undefined content.

        Raises:
            ArgumentError: TIL707, the size is negative.
            BackendError: TIL708, there is not enough memory; TIL807, the executor was closed; TIL809, the process was
                forked.
        """
        self.check_open()
        self.stream.collect()
        return self.pool.take(memory_size(nbytes))

    def wrap(self, array: np.ndarray[Any, Any]) -> None:
        """Return None: cards do not work on host memory in place."""

    def stage(self, nbytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Return page-locked host memory, which the card copies fastest.

        Raises:
            ArgumentError: TIL707, the size is negative.
            BackendError: TIL708, there is not enough memory; TIL807, the executor was closed; TIL809, the process was
                forked.
        """
        self.check_open()
        return page_locked(self.stream.card, memory_size(nbytes))

    def part(self, buffer: CudaBuffer, offset: int, nbytes: int) -> CudaBuffer:
        """Return a buffer over ``nbytes`` bytes of another from ``offset`` on.

        Raises:
            ArgumentError: TIL706, the part is empty, or exceeds the buffer, or its offset is not aligned.
        """
        self.check_open()
        check_part(offset, nbytes, buffer.nbytes, self.part_alignment)
        return buffer.part(offset, nbytes)

    @property
    def dlpack_device(self) -> tuple[int, int]:
        """DLPack device of the card."""
        return DLPACK_KIND, self.stream.card

    @property
    def dlpack_stream(self) -> int:
        """The driver's stream as a number."""
        return int(self.stream.native)

    def address(self, buffer: CudaBuffer) -> int:
        """Return the address of a buffer."""
        return buffer.address

    def lend(self, buffer: CudaBuffer) -> int:
        """Return the address, and never reuse this memory: only the driver knows when others are done."""
        return buffer.lend()

    def adopt(self, address: int, nbytes: int, owner: object, *, read_only: bool) -> CudaBuffer:  # noqa: ARG002
        """Return a buffer over memory of another library on this card."""
        self.check_open()
        return AdoptedCudaBuffer(address, nbytes, self.stream, owner, shared=True)

    def follow(self, stream: int) -> tuple[Event, ...]:
        """Make this stream wait for all work so far in another, so that the host need not wait."""
        self.check_open()
        self.stream.wait_for(stream)
        return ()

    def precede(self, stream: int, events: Sequence[Event]) -> None:
        """Make another stream wait for events; foreign events are waited for here."""
        self.check_open()
        self.stream.precede(stream, events)

    def prepare(self, library: CudaLibrary, index: int) -> CudaKernel:
        """Load a library, once, or the necessary part of it, and prepare kernel number ``index``.

        Raises:
            ArgumentError: TIL707, there is no such kernel.
            BackendError: TIL804, its groups are larger than the card can run; TIL805, the driver refused the code;
                TIL807, the executor was closed; TIL809, the process was forked.
        """
        self.check_open()
        kernel = kernel_at(library, index)
        with self._lock:
            modules = self._modules.setdefault(library, {})
            which = index if library.codes else 0
            if which not in modules:
                code = library.codes[which] if library.codes else library.ptx.encode() + b"\0"
                modules[which] = Module.of(self.stream.card, code)
            module = modules[which]
        ready = CudaKernel.of(self, kernel, module, index)
        return ready if ready.fits else self._alone(without_clusters(kernel), index)

    def _alone(self, kernel: KernelFunction, index: int) -> CudaKernel:
        """Prepare a kernel whose groups the card cannot run as clusters."""
        architecture = architecture_of(self.device)
        (found,) = made((emit(kernel, architecture, index, fast_math=self.options.fast_math),), architecture)
        return CudaKernel.of(self, kernel, Module.of(self.stream.card, found.code), index)

    def copy(self, source: Any, destination: Any, after: Sequence[Event] = ()) -> Event:
        """Copy the smaller number of bytes of both, between buffers or contiguous arrays, after ``after``.

        Arrays stay alive until then, and must not be changed.

        Raises:
            ArgumentError: TIL706, an array has gaps, or the destination cannot be written.
            BackendError: TIL708 or TIL808, the driver refuses; TIL807, the executor was closed.
        """
        self.check_open()
        read, write, count = places_of(source, destination, CudaBuffer)
        ours = [isinstance(place, CudaBuffer) for place in (read, write)]
        known = [own or isinstance(place, np.ndarray) for own, place in zip(ours, (read, write), strict=True)]
        if any(ours) and all(known):
            return copy(self.stream, read, write, count, after)
        return self._scheduler.submit(partial(copy_by_host, read, write, count), after)

    def run_batch(
        self,
        inputs: Sequence[tuple[np.ndarray[Any, Any], CudaBuffer]],
        launches: Sequence[BoundCudaKernel | BoundQueue],
        outputs: Sequence[tuple[CudaBuffer, np.ndarray[Any, Any]]],
    ) -> None:
        """Copy arrays in, launch one kernel after the other, copy results out, and return when all is done.

        Raises:
            BackendError: TIL708, TIL804 or TIL808, the driver refuses; TIL807, the executor was closed.

        """
        self.check_open()
        stream = self.stream

        def work() -> None:
            for array, buffer in inputs:
                if array.nbytes:
                    enqueue(stream, array, buffer, array.nbytes)
            for launch in launches:
                launch.enqueue()
            for buffer, array in outputs:
                if array.nbytes:
                    enqueue(stream, buffer, array, array.nbytes)

        try:
            event = stream.begin(work, (inputs, launches, outputs), "a run")
        except BackendError:
            stream.drain()  # the caller's arrays are free again
            raise
        event.wait()

    @property
    def closed(self) -> bool:
        """True if it was closed, or belongs to the parent of this process."""
        return self._closed or inherited()

    @property
    def queues(self) -> bool:
        """True if programs on device memory are submitted without separate events."""
        return not self.stream.measures

    def queue(self, works: Sequence[Work], count: int) -> CudaQueue:
        """Return launches, and loops of them, as one call, with numbers for ``count`` arrays to be given.

        Raises:
            BackendError: TIL808, the driver refuses; TIL809, the process was forked.
        """
        return CudaQueue.of(self, works, count)

    def recorder(self) -> Recorder:
        """Return a recorder for a piece of work, which replays it in one call."""
        return Recorder(self)

    def recorded_beside(
        self, read: Sequence[CudaBuffer], written: Sequence[CudaBuffer]
    ) -> AbstractContextManager[None]:
        """Make foreign work in the stream, while it is captured, depend on earlier uses of this memory."""
        capture = self.stream.capture
        if capture is None:
            return nullcontext()
        used = [each.used(writes=False) for each in read] + [each.used(writes=True) for each in written]
        return capture.following([*used, APART])

    def captures(self) -> bool:
        """Return whether another library captures the stream, as PyTorch does."""
        if self.stream.capture is not None or not self.stream.crosses:
            return False
        status, found = driver.cuStreamIsCapturing(self.stream.native)
        return status is SUCCESS and int(found) != 0

    def allocator(self, nbytes: int) -> Callable[[], CudaBuffer]:
        """Return an allocator for a fixed size; raises the errors of :meth:`allocate`."""
        return self.pool.taker(memory_size(nbytes))

    def handed_over(self) -> Sequence[Event]:
        """Return events after which all work so far in the stream is done."""
        return self.stream.unfinished()

    def follows(self, event: Event) -> bool:
        """Return whether an event did not fail and precedes all later work of the stream."""
        return isinstance(event, CudaEvent) and event.stream is self.stream and not event.failed

    def trim(self) -> int:
        """Wait for the stream, release unused memory to the card, and return its size in bytes."""
        return 0 if self.closed else self.pool.trim()

    def close(self) -> None:
        """Wait for all work and release memory; in a forked child both are up to the parent."""
        if self._closed:
            return
        self._closed = True
        if inherited():
            return
        self._scheduler.close()
        self.stream.finish()
        self.pool.release()

    def check_open(self) -> None:
        """Raise TIL807 after :meth:`close`, and TIL809 in a forked child."""
        if self._closed:
            raise BackendError((Diagnostic("TIL807", "this executor was closed; open another one"),))
        use_driver()
