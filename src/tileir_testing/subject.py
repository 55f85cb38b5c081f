"""Device under test, of one back end, with shortcuts for tests.

Events that a test completes by hand, and kernels that reveal missing waits.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import numpy as np

from tileir import Backend, Context, DeviceInfo, Executable, Options, compile as compile_function
from tileir.core import BackendError, attrs
from tileir.runtime import Buffer, Compiler, Event, Executor, Kernel, Library
from tileir.semtree.ir import KernelFunction
from tileir.semtree.text.parser import parse_kernel

Array = np.ndarray[Any, np.dtype[Any]]


@attrs.frozen(eq=False)
class Subject:
    """One device, in a context of its own that keeps nothing on disk.

    Attributes:
        context: Owner of compiler and executor.
        device: The device under test.
    """

    context: Context
    device: DeviceInfo

    @classmethod
    def of(cls, name: str) -> Subject:
        """Find a device.

        Args:
            name: A device's id; the name of a back end, for its first device; or ``module:OBJECT``, for the first
                device of a back end that is not installed.

        Raises:
            BackendError: there is none, and why.

        """
        context = Context(disk_cache=None)
        if ":" in name:
            backend = _imported(name)
            context.register(backend)
            name = backend.name
        return cls(context, context.device(name))

    @property
    def backend(self) -> Backend[Any]:
        """The back end of the device."""
        return self.context.registry.backend(self.device.backend)

    @property
    def compiler(self) -> Compiler[Any]:
        """The compiler for the device."""
        return self.context.compiler(self.device)

    @property
    def executor(self) -> Executor[Any]:
        """The executor that the tests share."""
        return self.context.executor(self.device)

    def fresh_executor(self) -> Executor[Any]:
        """Return another executor, which the caller closes."""
        return self.backend.executor(self.device, Options())

    def compile(self, text: str, inputs: Mapping[str, Array]) -> Executable:
        """Compile a Tile function for arrays."""
        return compile_function(text, dict(inputs), device=self.device, context=self.context)

    def run(self, text: str, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Compile a Tile function and run it once; results are by name."""
        executable = self.compile(text, inputs)
        results = executable(**inputs)
        several = results if isinstance(results, tuple) else (results,)
        return dict(zip(executable.outputs, map(np.asarray, several), strict=True))

    def kernels(self, text: str, inputs: Mapping[str, Array]) -> tuple[KernelFunction, ...]:
        """Return the kernels that a Tile function becomes on this device."""
        return self.compile(text, inputs).sem.kernels

    def kernel(self, text: str) -> KernelFunction:
        """Read a kernel; ``$index`` in its text is the index type of the device."""
        return parse_kernel(text.replace("$index", self.device.target.index_dtype.value))

    def prepared(self, kernel: KernelFunction, executor: Executor[Any] | None = None) -> Kernel:
        """Compile one kernel and ready it."""
        library: Library = self.compiler.build([kernel])
        return (executor or self.executor).prepare(library, 0)

    def upload(self, array: Array) -> Buffer:
        """Return fresh memory of the device with the content of an array."""
        buffer = self.executor.allocate(array.nbytes)
        self.executor.copy(np.ascontiguousarray(array), buffer).wait()
        return buffer

    def blank(self, like: Array) -> Buffer:
        """Return fresh memory of an array's size, all bits set."""
        return self.upload(np.full(like.nbytes, 255, np.uint8))

    def download(self, buffer: Buffer, like: Array) -> Array:
        """Return a buffer's content as an array of another one's dtype and shape."""
        result = np.zeros_like(like, order="C")
        self.executor.copy(buffer, result).wait()
        return result

    def launched(self, kernel: KernelFunction, arrays: Sequence[Array]) -> list[Array]:
        """Run a kernel on copies of arrays, one for each parameter, and return the contents afterwards."""
        buffers = [self.upload(array) for array in arrays]
        self.prepared(kernel).launch(buffers)
        return [self.download(buffer, array) for buffer, array in zip(buffers, arrays, strict=True)]


def _imported(name: str) -> Backend[Any]:
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise BackendError.of("TIL802", f"{name} cannot be loaded: {error}") from error
    if not isinstance(found, Backend):
        raise BackendError.of("TIL802", f"{name} is of type {type(found).__name__}, not Backend")
    return found


T = TypeVar("T")

SIZE: Final = 1000

GRACE: Final = 0.1
"""Seconds in which what does not wait, though it should, is expected to show; what waits cannot fail by it."""

INCREMENT: Final = f"""
kernel increment(out i32 O[{SIZE}] align(4) noalias, in i32 A[{SIZE}] align(4) noalias) grid({SIZE}) index($index) {{
  O[group_id(0)] = A[group_id(0)] + i32(1);
}}
"""


def numbers(start: int = 0) -> np.ndarray[Any, np.dtype[Any]]:
    """Return arguments of :data:`INCREMENT`."""
    return np.arange(start, start + SIZE, dtype=np.int32)


class BoomError(Exception):
    """An error that no back end raises by itself."""


@attrs.define(eq=False)
class Gate:
    """An event with no more than the protocol asks for: no ``then``."""

    _set: threading.Event = attrs.field(factory=threading.Event, init=False)
    _error: Exception | None = attrs.field(default=None, init=False)

    @property
    def done(self) -> bool:
        """True if it was completed or failed."""
        return self._set.is_set()

    @property
    def duration(self) -> float | None:
        """Nothing is measured."""
        return None

    def wait(self) -> None:
        """Block until it is completed or failed."""
        self._set.wait()
        if self._error is not None:
            raise self._error

    def complete(self) -> None:
        """Open it."""
        self._set.set()

    def fail(self, error: Exception) -> None:
        """Open it for bad news."""
        self._error = error
        self._set.set()


@contextmanager
def elsewhere() -> Iterator[Callable[[Callable[[], T]], Future[T]]]:
    """Yield a function that calls others in a thread beside: an executor may block until it can run."""
    with ThreadPoolExecutor(4) as pool:
        yield pool.submit


def held(future: Future[Event]) -> bool:
    """Return whether an event that is being made is still pending, some time after it was asked for."""
    wait([future], timeout=GRACE)
    if not future.done():
        return True
    event = future.result()
    threading.Event().wait(GRACE)
    return not event.done
