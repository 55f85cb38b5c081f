"""Calls of nccl4py and of the driver that move bytes between threads of the host, and are recorded."""

from __future__ import annotations

import ctypes
import itertools
import sys
import threading
from collections import defaultdict, deque
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import ml_dtypes
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

NAMES: Final = (("Int8", "i1"), ("Uint8", "u1"), ("Int32", "i4"), ("Uint32", "u4"), ("Int64", "i8"), ("Uint64", "u8"))
FLOATS: Final = (("Float16", "f2"), ("Float32", "f4"), ("Float64", "f8"), ("Bfloat16", ml_dtypes.bfloat16))
DTYPES: Final = tuple(np.dtype(name) for _, name in (*NAMES, *FLOATS))
TYPES: Final = SimpleNamespace(**{name: number for number, (name, _) in enumerate((*NAMES, *FLOATS))})
MERGES: Final = (np.add, np.multiply, np.maximum, np.minimum)


class NCCLError(Exception):
    """The error of the bindings."""


class World:
    """Ranks that have one unique id."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.messages: dict[tuple[int, int], deque[bytes]] = defaultdict(deque)
        self.terms: dict[int, dict[int, Any]] = defaultdict(dict)


class Communicator:
    """As nccl.core has it, of which more is not used."""

    def __init__(self, fake: Fake, key: bytes, size: int, rank: int) -> None:
        self.world, self.size, self.rank, self.calls = fake.worlds[key], size, rank, itertools.count()
        self.aborted = False
        self.ptr = len(fake.communicators) + 1
        fake.communicators[self.ptr] = self

    def abort(self) -> None:
        with self.world.changed:
            self.aborted = True
            self.world.changed.notify_all()

    def wait(self, done: Callable[[], object]) -> None:
        self.world.changed.wait_for(lambda: self.aborted or done())


class Fake:
    """NCCL. Work is done when a call, or the group that it is in, ends: as if the stream were waited for."""

    def __init__(self) -> None:
        self.worlds: dict[bytes, World] = defaultdict(World)
        self.communicators: dict[int, Communicator] = {}
        self.calls: list[tuple[Any, ...]] = []
        self._group = threading.local()
        self._ids = itertools.count(1)

    def group_start(self) -> None:
        self._group.open = []

    def group_end(self) -> None:
        works, self._group.open = self._group.open, None
        for work in sorted(works, key=lambda each: each[0]):
            work[1]()

    def send(self, address: int, count: int, _: int, peer: int, comm: Communicator, stream: int) -> None:
        def work() -> None:
            with comm.world.changed:
                comm.world.messages[comm.rank, peer].append(ctypes.string_at(address, count))
                comm.world.changed.notify_all()

        self._do("send", comm, 0, work, count, peer, stream)

    def recv(self, address: int, count: int, _: int, peer: int, comm: Communicator, stream: int) -> None:
        def work() -> None:
            waiting = comm.world.messages[peer, comm.rank]
            with comm.world.changed:
                comm.wait(lambda: waiting)
                if waiting:
                    assert len(waiting[0]) == count
                    ctypes.memmove(address, waiting.popleft(), count)

        self._do("recv", comm, 1, work, count, peer, stream)

    def reduce(
        self, sent: int, into: int, count: int, kind: int, how: int, root: int, comm: Communicator, stream: int
    ) -> None:
        self._merge("reduce", sent, into if root == comm.rank else None, count, kind, how, comm, root, stream)

    def all_reduce(
        self, sent: int, into: int, count: int, kind: int, how: int, comm: Communicator, stream: int
    ) -> None:
        self._merge("all_reduce", sent, into, count, kind, how, comm, stream)

    def _merge(
        self, name: str, sent: int, into: int | None, count: int, kind: int, how: int, comm: Communicator, *told: int
    ) -> None:
        dtype, number = DTYPES[kind], next(comm.calls)
        nbytes = count * dtype.itemsize

        def give() -> None:
            own = np.frombuffer(ctypes.string_at(sent, nbytes), dtype)
            with comm.world.changed:
                comm.world.terms[number][comm.rank] = own
                comm.world.changed.notify_all()

        def take() -> None:
            terms = comm.world.terms[number]
            with comm.world.changed:
                comm.wait(lambda: len(terms) == comm.size)
            if into is not None and len(terms) == comm.size:
                merged = terms[0]
                for rank in range(1, comm.size):
                    merged = MERGES[how](merged, terms[rank])
                ctypes.memmove(into, merged.tobytes(), nbytes)

        self._do(name, comm, 0, give, count, dtype.name, MERGES[how].__name__, *told)
        self._do(None, comm, 1, take)

    def _do(self, name: str | None, comm: Communicator, phase: int, work: Callable[[], None], *told: object) -> None:
        if name is not None:
            self.calls.append((name, comm.rank, *told))
        if getattr(self._group, "open", None) is None:
            work()
        else:
            self._group.open.append((phase, work))

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Stand for nccl4py and cuda-bindings."""

        def init(size: int, rank: int, key: bytes) -> Communicator:
            return Communicator(self, key, size, rank)

        operations = SimpleNamespace(Sum=0, Prod=1, Max=2, Min=3)
        calls = ("group_start", "group_end", "send", "recv", "reduce", "all_reduce")
        bindings = {name: getattr(self, name) for name in calls}
        bindings |= {"Comm": self.communicators.__getitem__, "DataType": TYPES, "RedOp": operations}
        driver = {
            "CUresult": SimpleNamespace(CUDA_ERROR_NOT_READY=600),
            "CUstream": int,
            "cuStreamQuery": lambda _: (0,),
            "cuStreamSynchronize": lambda _: (0,),
        }
        made: dict[str, dict[str, Any]] = {
            "nccl.bindings": {"nccl": _module("nccl.bindings.nccl", {**bindings, "NCCLError": NCCLError})},
            "nccl.core": {
                "Communicator": SimpleNamespace(init=init),
                "UniqueId": SimpleNamespace(from_bytes=bytes),
                "get_unique_id": lambda: next(self._ids).to_bytes(128, "big"),
            },
            "cuda.bindings": {"driver": _module("cuda.bindings.driver", driver)},
            "cuda.core": {"Device": lambda _: SimpleNamespace(set_current=lambda: None)},
        }
        for name, content in made.items():
            patch.setitem(sys.modules, name.partition(".")[0], ModuleType(name.partition(".")[0]))
            patch.setitem(sys.modules, name, _module(name, content))


def _module(name: str, content: dict[str, Any]) -> ModuleType:
    made = ModuleType(name)
    made.__dict__.update(content)
    return made
