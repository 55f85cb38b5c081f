"""Engine that determines how this process was started, gives each rank a card, and notifies all of failures."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs

from tileir import default_context
from tileir.core import BackendError
from tileir.runtime.transports import DisagreementError, Threads, Transport
from tileir_nccl.meeting import Meeting, hub_at

if TYPE_CHECKING:
    from mpi4py import MPI

    from tileir_nccl.cards import Card

T = TypeVar("T")

_MPI: Final = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
"""Variables with the number of processes that mpiexec of Open MPI and of MPICH started."""

_PLACE: Final = (*_MPI, "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "TILEIR_PORT")
"""Variables with the rank of a process."""

_LOCK: Final = threading.Lock()
"""Lock for looking up ranks of this process."""

LOOPBACK: Final = "127.0.0.1"


@attrs.frozen
class Start:
    """Process among several.

    Attributes:
        rank: Its number.
        size: Number of processes.
        local: Its number among those of its host.
        host: Host of rank 0, where the others connect.
        port: A free port of that host.
    """

    rank: int
    size: int
    local: int
    host: str = LOOPBACK
    port: int = 0


_CARDS: Final[dict[tuple[Start, str], Card]] = {}
"""Ranks of this process, with their communicators, by start and device."""

_MEETINGS: Final[dict[Start, Meeting]] = {}
"""Meetings of ranks of this process with others, by start."""


def _ids(devices: Iterable[str]) -> tuple[str, ...]:
    return tuple(devices)


@attrs.frozen(eq=False)
class Cards:
    """Engine that runs work on ranks with one NVIDIA GPU each.

    Ranks are the processes that ``torchrun`` started, or anything that sets its variables, or those of ``mpiexec``, by
    mpi4py. A single process runs them as threads, on its cards in turn, with messages through the host: NCCL work of
    one process on a card can keep a thread from allocating on another card, for which it waits.

    Attributes:
        communicator: Ranks of MPI; by default all, if ``mpiexec`` started them.
        start: Rank of this process, if neither started it.
        devices: Ids of the devices of the ranks of a host; by default its cards.
        ordered: Whether floats are merged in rank order, bit for bit like other engines; otherwise NCCL adds them in
            its own order, which is faster.
        late: Seconds of waiting after which late ranks are logged.
        timeout: Seconds of waiting after which a rank gives up, and all end; by default never.
        name: Name of the entry point.
    """

    communicator: MPI.Comm | None = None
    start: Start | None = None
    devices: tuple[str, ...] = attrs.field(default=(), converter=_ids)
    ordered: bool = False
    late: float = 60.0
    timeout: float | None = None
    name: str = "nccl"
    _known: dict[tuple[str | None, ...], Card] = attrs.field(factory=dict, init=False, repr=False)

    def launch(self, size: int, work: Callable[[Transport], T]) -> Mapping[int, T]:
        """Run work on this rank, while the others do; return its result, by the number of the rank.

        Raises:
            BackendError: TIL811, there is no card, or no NCCL; TIL813, there is another number of ranks, or too few
                cards; TIL814, a rank failed; TIL816, one is late.
            DisagreementError: TIL815, ranks run different programs.
        """
        place = tuple(map(os.environ.get, _PLACE))
        card = self._known.get(place)
        if card is None:
            devices = self.devices or _cards()
            start = self.start or started(self.communicator)
            if start is None and size > 1:
                return Threads(tuple(devices[rank % len(devices)] for rank in range(size))).launch(size, work)
            start = start or Start(0, 1, 0)
            card = self._known[place] = self._card(start, _device(devices, start))
        with card.running:
            return {card.meeting.rank: self._run(card, size, work)}

    def _card(self, start: Start, device: str) -> Card:
        """Return a rank with its device.

        Raises:
            BackendError: TIL811, there is no NCCL.
        """
        try:
            from tileir_nccl.cards import Card
        except (ImportError, RuntimeError) as error:
            message = f"NCCL cannot be loaded: {error}; pip install nccl4py nvidia-nccl-cu13"
            raise BackendError.of("TIL811", message) from error
        with _LOCK:
            if start not in _MEETINGS:
                if start.rank == 0 and start.size > 1:
                    hub_at(start.host, start.port)
                _MEETINGS[start] = Meeting(start.rank, start.size)
            if (start, device) not in _CARDS:
                _CARDS[start, device] = Card(_MEETINGS[start], device, int(device.rpartition(".")[2]))
        if start.size > 1:
            _MEETINGS[start].connect(start.host, start.port)
        return _CARDS[start, device]

    def _run(self, card: Card, size: int, work: Callable[[Transport], T]) -> T:
        """Run work on a rank.

        Raises:
            BackendError: As for :meth:`launch`.
        """
        from tileir_nccl.transport import NCCLTransport

        meeting = card.meeting
        meeting.late, meeting.timeout = self.late, self.timeout
        try:
            self._agree(card, size)
            card.begin()
            end = NCCLTransport(card, self.ordered)
            result = work(end)
            card.busy = False
            if end.waits:
                card.settle()
            meeting.check(())
            return result
        except DisagreementError:
            raise
        except BaseException as error:
            failure = card.failure(error)
            if isinstance(error, Exception):
                raise failure from error
            raise  # an interrupting user need not be told of a failure

    def _agree(self, card: Card, size: int) -> None:
        """Check, once per turn, that all ranks run programs for this number of ranks.

        Raises:
            DisagreementError: TIL815, they do not; TIL813, others were started.
            LostError: TIL814 or TIL816, one does not come.
        """
        meeting, known = card.meeting, f"{size} ranks"
        agreed = card.agreed.get(meeting.turn, frozenset())
        if known in agreed:
            return
        sizes = meeting.share("size", str(size), range(meeting.size))
        targets = meeting.share("target", repr(default_context().device(card.device).target), range(meeting.size))
        for rank, other in enumerate(sizes):
            if other != sizes[0]:
                message = f"rank {rank} differs from rank 0 in the number of ranks; all ranks must run one program"
                raise DisagreementError.of("TIL815", message)
        if size != meeting.size:
            message = f"the program is for {size} ranks, and {meeting.size} were started"
            raise DisagreementError.of("TIL813", f"{message}: torchrun --nproc-per-node {size}")
        card.alike = len(set(targets)) == 1
        card.agreed = {meeting.turn: agreed | {known}}


def _device(devices: Sequence[str], start: Start) -> str:
    """Return the device of a rank.

    Raises:
        BackendError: TIL813, its host has too few.
    """
    if len(devices) == 1 and "CUDA_VISIBLE_DEVICES" in os.environ:
        return devices[0]  # the launcher of the rank chose it
    if start.local >= len(devices):
        message = f"rank {start.rank} is number {start.local} of its host, which has {len(devices)} cards"
        raise BackendError.of("TIL813", f"{message}; start no more ranks there")
    return devices[start.local]


def _cards() -> tuple[str, ...]:
    """Return the ids of the cards of this host.

    Raises:
        BackendError: TIL811, there is none.

    """
    found = tuple(each.id for each in default_context().devices() if each.backend == "cuda")
    if not found:
        reasons = default_context().failures().get("cuda")
        because = "" if reasons is None else f": {reasons.diagnostics[0].message}"
        raise BackendError.of("TIL811", f"NCCL needs NVIDIA GPUs, and there is none{because}")
    return found


def started(communicator: MPI.Comm | None = None) -> Start | None:
    """Return this process's place among others; None for a single process."""
    named = os.environ
    if communicator is not None or any(named.get(name, "1") not in {"0", "1"} for name in _MPI):
        return _of_mpi(communicator)
    if int(named.get("WORLD_SIZE", "1")) == 1 or "RANK" not in named:
        return None
    host, port = named.get("MASTER_ADDR", LOOPBACK), int(named.get("MASTER_PORT", "29500"))
    rank, port = int(named["RANK"]), int(named.get("TILEIR_PORT", port + 1))  # PyTorch listens on the other port
    return Start(rank, int(named["WORLD_SIZE"]), int(named.get("LOCAL_RANK", rank)), host, port)


@cache
def _key() -> int:
    from mpi4py import MPI

    key: int = MPI.Comm.Create_keyval()
    return key


def _of_mpi(communicator: MPI.Comm | None) -> Start | None:
    """Return this process's place in a communicator, which all of its processes call on first use.

    Raises:
        BackendError: TIL811, there is no MPI.
    """
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        message = f"MPI started this process, and mpi4py cannot be loaded: {error}"
        raise BackendError.of("TIL811", message) from error
    ranks = MPI.COMM_WORLD if communicator is None else communicator
    if ranks.size == 1:
        return None
    known: Any = ranks.Get_attr(_key())
    found: Start | None = known
    if found is None:
        local = ranks.Split_type(MPI.COMM_TYPE_SHARED)
        host = LOOPBACK if local.size == ranks.size else socket.gethostname()
        host, port = ranks.bcast((host, hub_at(host, 0)) if ranks.rank == 0 else None, 0)
        found = Start(ranks.rank, ranks.size, local.rank, host, port)
        local.Free()
        ranks.Set_attr(_key(), found)
    return found
