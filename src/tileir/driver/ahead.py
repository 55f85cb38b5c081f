"""Libraries that are built while the kernels of their programs are still being made."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from operator import is_
from queue import SimpleQueue
from typing import Any, Final, Generic, TypeVar

from tileir.core.cancelling import CancelledError
from tileir.runtime.interface import Compiler, Library
from tileir.runtime.offers import PipeliningCompiler
from tileir.semtree.ir import KernelFunction

L = TypeVar("L", bound=Library)


class Ahead(Generic[L]):
    """The kernels of one program on their way to a compiler, which builds them in a thread of its own if it can.

    Attributes:
        compiler: Who builds them.

    """

    def __init__(self, compiler: Compiler[L]) -> None:
        self.compiler: Final = compiler
        self._coming: SimpleQueue[KernelFunction | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._built: list[L] = []
        self._closed = False

    def begin(self) -> None:
        """Start the thread, if the compiler can use one: it gets ready for the first kernel."""
        compiler: Any = self.compiler
        if isinstance(compiler, PipeliningCompiler) and compiler.pipelines:
            thread = threading.Thread(target=self._work, args=(compiler,), name="tileir compiles")
            with suppress(RuntimeError):  # the system has no further threads
                thread.start()
                self._thread = thread

    def add(self, kernel: KernelFunction) -> None:
        """Hand a kernel over."""
        self._coming.put(kernel)

    def build(self, kernels: Sequence[KernelFunction]) -> L:
        """Return a library of kernels: that of the thread, if these are what was handed over, and it got it done.

        Raises:
            BackendError: As :meth:`Compiler.build`, which is asked again where the thread failed.

        """
        self._end()
        for library in self._built:
            if len(library.kernels) == len(kernels) and all(map(is_, library.kernels, kernels)):
                return library
        return self.compiler.build(kernels)

    def close(self) -> None:
        """Let the thread drop what it has not begun, and wait for its end."""
        self._closed = True
        self._end()

    def _end(self) -> None:
        self._coming.put(None)
        if self._thread is not None:
            self._thread.join()

    def _work(self, compiler: PipeliningCompiler[L]) -> None:
        with suppress(BaseException):  # whoever asks for the library meets it there, if it is no matter of the moment
            self._built.append(compiler.build_pipelined(self._kernels()))

    def _kernels(self) -> Iterator[KernelFunction]:
        while (kernel := self._coming.get()) is not None:
            if self._closed:
                raise CancelledError
            yield kernel
