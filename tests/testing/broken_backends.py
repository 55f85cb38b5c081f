"""Back ends with one defect each, made from the reference: the conformance kit must find every one."""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from tileir.runtime.events import PendingEvent
from tileir.semtree.text.parser import parse_kernel
from tileir.semtree.text.printer import to_text
from tileir_reference import BACKEND, Compiler, Executor, Kernel, Library, Memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tileir.runtime.interface import Backend, Event
    from tileir.semtree.ir import KernelFunction


def with_executor(executor: Callable[[], Executor]) -> Backend[Library]:
    return attrs.evolve(BACKEND, executor=lambda _device, _options: executor())


def with_compiler(compiler: Callable[[], Compiler]) -> Backend[Library]:
    return attrs.evolve(BACKEND, compiler=lambda _device, _options: compiler())


def misreading(old: str, new: str) -> Backend[Library]:
    """Return a back end that takes one thing in kernels for another."""

    class Reading(Executor):
        def prepare(self, library: Library, index: int) -> Kernel:
            text = to_text(library.kernels[index])
            if old not in text:
                return super().prepare(library, index)
            return super().prepare(Library((parse_kernel(text.replace(old, new)),)), 0)

    return with_executor(Reading)


def with_kernel(kernel: Callable[[Kernel], Kernel]) -> Backend[Library]:
    class Preparing(Executor):
        def prepare(self, library: Library, index: int) -> Kernel:
            return kernel(super().prepare(library, index))

    return with_executor(Preparing)


class Impatient(Kernel):
    def run(self, buffers: Sequence[Memory], after: Sequence[Event] = ()) -> Event:
        return super().run(buffers)


class Forgiving(Kernel):
    """Runs whether what it comes after failed or not."""

    def run(self, buffers: Sequence[Memory], after: Sequence[Event] = ()) -> Event:
        gates = []
        for event in after:
            try:
                event.wait()
            except Exception:
                continue
            gates.append(event)
        return super().run(buffers, gates)


class Rewording(Kernel):
    """Fails with an error of its own."""

    def run(self, buffers: Sequence[Memory], after: Sequence[Event] = ()) -> Event:
        event = super().run(buffers, after)
        outcome = PendingEvent()
        try:
            event.wait()
        except Exception as error:
            outcome.fail(RuntimeError(str(error)))
        else:
            outcome.complete(event.duration)
        return outcome


class Timeless(Kernel):
    """Measures durations backwards."""

    def run(self, buffers: Sequence[Memory], after: Sequence[Event] = ()) -> Event:
        super().run(buffers, after).wait()
        event = PendingEvent()
        event.complete(-1.0)
        return event


class Careless(Kernel):
    """Takes any buffers."""

    def run(self, buffers: Sequence[Memory], after: Sequence[Event] = ()) -> Event:
        padded = [Memory(np.resize(buffer.content, max(buffer.nbytes, 4000))) for buffer in (*buffers, *buffers)]
        return super().run((padded * 2)[: len(self.function.params)], after)


class Confused(Kernel):
    """Keeps the buffers of a launch where the next launch finds them."""

    latest: Sequence[Memory] = ()

    def launch(self, buffers: Sequence[Memory]) -> None:
        Confused.latest = buffers
        time.sleep(0.002)
        super().launch(Confused.latest)


def wrapped(kind: type[Kernel]) -> Backend[Library]:
    return with_kernel(lambda kernel: kind(kernel.function, kernel.compiled, kernel.scheduler))


class Hoarding(Executor):
    hoard: list[Memory] = []  # noqa: RUF012  it is for ever, as the defect

    def allocate(self, nbytes: int) -> Memory:
        self.hoard.append(super().allocate(nbytes))
        return self.hoard[-1]


class Sharing(Executor):
    """Gives out one piece of memory several times."""

    given: dict[int, Memory] = {}  # noqa: RUF012  as above

    def allocate(self, nbytes: int) -> Memory:
        return self.given.setdefault(nbytes, super().allocate(nbytes))


class Crooked(Executor):
    def allocate(self, nbytes: int) -> Memory:
        return Memory(super().allocate(nbytes + 1).content[1:])


class Immortal(Executor):
    def close(self) -> None:
        pass


class Hasty(Executor):
    """Copies at once."""

    def copy(self, source: Any, destination: Any, after: Sequence[Event] = ()) -> Event:
        return super().copy(source, destination)


class Greedy(Executor):
    """Copies without regard to where the shorter end ends."""

    def copy(self, source: Any, destination: Any, after: Sequence[Event] = ()) -> Event:
        if source.nbytes != destination.nbytes:
            source = np.zeros(destination.nbytes, np.uint8)
        return super().copy(source, destination, after)


class Distant(Memory):
    """Shows the host a copy."""

    @contextmanager
    def map_current(self, after: Sequence[Event] = ()) -> Iterator[Any]:
        yield self.content.copy()

    map_discard = map_current


class Mapping_(Executor):  # noqa: N801  the name of a protocol is taken
    def allocate(self, nbytes: int) -> Memory:
        return Distant(super().allocate(nbytes).content)


class Forgetful(Compiler):
    def load(self, kernels: Sequence[KernelFunction], parts: Mapping[str, bytes]) -> Library:
        return Library(tuple(reversed(kernels)))


@attrs.frozen(eq=False)
class Saved(Library):
    def save(self) -> Mapping[str, bytes]:
        return {"code": b"1234"}


class Trusting(Compiler):
    """Does with code that is not whole what a system does that maps it into memory."""

    def build(self, kernels: Sequence[KernelFunction]) -> Library:
        return Saved(tuple(kernels))

    def load(self, kernels: Sequence[KernelFunction], parts: Mapping[str, bytes]) -> Library:
        if len(parts["code"]) < 4:
            os.kill(os.getpid(), signal.SIGSEGV)
        return Saved(tuple(kernels))


class Unbounded(Executor):
    def prepare(self, library: Library, index: int) -> Kernel:
        return super().prepare(Library(library.kernels * 9), index % 9)


class Indebted(Executor):
    def allocate(self, nbytes: int) -> Memory:
        return super().allocate(max(0, nbytes))


class Fickle(Compiler):
    count = 0

    @property
    def identity(self) -> str:
        Fickle.count += 1
        return f"number {Fickle.count}"


MOD = misreading(" % ", " / ")
MAX = misreading("max(", "min(")
BARRIER = misreading("barrier();", "")
COMPARE = misreading(" <= ", " < ")
SHIFT = misreading(" >> ", " << ")
IMPATIENT, FORGIVING, REWORDING, TIMELESS, CARELESS, CONFUSED = map(
    wrapped, (Impatient, Forgiving, Rewording, Timeless, Careless, Confused)
)
HOARDING, SHARING, CROOKED, IMMORTAL, HASTY, GREEDY, DISTANT, UNBOUNDED, INDEBTED = map(
    with_executor, (Hoarding, Sharing, Crooked, Immortal, Hasty, Greedy, Mapping_, Unbounded, Indebted)
)
FORGETFUL, FICKLE, TRUSTING = map(with_compiler, (Forgetful, Fickle, Trusting))
