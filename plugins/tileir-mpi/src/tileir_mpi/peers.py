"""Notices between ranks beside a program: failures, exits, and places of waiting.

Notices use a separate communicator, and are checked while waiting, so that no rank waits for one that does not come.
"""

from __future__ import annotations

import enum
import logging
import time
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final

import attrs
import numpy as np
from mpi4py import MPI

from tileir.core import BackendError
from tileir.runtime.transports import LostError, within

LOG: Final = logging.getLogger("tileir_mpi")

GRACE: Final = 2.0
"""Seconds in which messages from before a rank's exit still arrive."""


class Notice(enum.IntEnum):
    """Kinds of notices; the value is the tag of the message."""

    FAILED = 1
    ENDED = 2
    ASKED = 3
    ANSWERED = 4


@attrs.define(eq=False)
class Peers:
    """Ranks of a communicator, as one of them knows them.

    Attributes:
        notices: Communicator of notices.
        rank: Number of this rank.
        size: Number of ranks.
        data: Communicator of programs' messages, made anew after a failure; None before.
        groups: Communicators of groups of ranks.
        turn: Number of failures of programs.
        calls: Number of calls; equal on all ranks, unless one caught an error that others did not see.
        stepping: Texts of the programs that all ranks run in steps, since the last failure.
        compared: Whether ranks have compared their programs' numbers of ranks, since the last failure.
        failed: Failed ranks and their errors, by turn.
        ended: Time when each rank was first known to have ended.
        answers: Program and place of waiting ranks, of those that answered.
        place: Place where this rank waits.
        channel: Number of its current program.
        kept: Abandoned requests, with their buffers: MPI may still use them.
    """

    notices: MPI.Intracomm
    rank: int
    size: int
    data: MPI.Intracomm | None = None
    groups: dict[tuple[int, ...], MPI.Intracomm] = attrs.field(factory=dict)
    turn: int = 0
    calls: int = 0
    stepping: frozenset[str] = frozenset()
    compared: bool = False
    failed: dict[int, tuple[int, str]] = attrs.field(factory=dict)
    ended: dict[int, float] = attrs.field(factory=dict)
    answers: dict[int, tuple[int, str]] = attrs.field(factory=dict)
    place: str = ""
    channel: int = 0
    kept: list[Any] = attrs.field(factory=list)

    @property
    def others(self) -> tuple[int, ...]:
        """The other ranks."""
        return tuple(rank for rank in range(self.size) if rank != self.rank)

    def tell(self, ranks: Iterable[int], notice: Notice, text: str = "") -> None:
        """Send a notice to ranks without waiting."""
        content = np.frombuffer(f"{self.turn} {text}".encode(), np.uint8)
        for rank in ranks:
            self.kept.append((self.notices.Isend([content, MPI.BYTE], rank, notice), content))

    def read(self) -> None:
        """Process all notices that have arrived, and answer questions."""
        status = MPI.Status()
        while self.notices.Iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG, status):
            rank, content = status.Get_source(), bytearray(status.Get_count(MPI.BYTE))
            self.notices.Recv([content, MPI.BYTE], rank, status.Get_tag())
            turn, _, text = content.decode().partition(" ")
            match Notice(status.Get_tag()):
                case Notice.FAILED:
                    self.failed.setdefault(int(turn), (rank, text))
                case Notice.ENDED:
                    self.ended[rank] = time.monotonic()
                case Notice.ASKED:
                    self.tell([rank], Notice.ANSWERED, f"{self.channel} {self.place}")
                case Notice.ANSWERED:
                    channel, _, place = text.partition(" ")
                    self.answers[rank] = int(channel), place

    def check(self, group: Iterable[int]) -> None:
        """Read notices.

        Raises:
            LostError: TIL814, a rank failed, or one of a group that this one waits for has ended.
        """
        self.read()
        if self.turn in self.failed:
            rank, error = self.failed[self.turn]
            raise LostError.of("TIL814", f"rank {rank} failed, and so the others stopped: {error}")
        now = time.monotonic()
        for rank in group:
            if now - self.ended.get(rank, now) > GRACE:
                raise LostError.of("TIL814", f"rank {rank} has ended, and rank {self.rank} waits in {self.place}")

    def fail(self, error: str) -> None:
        """Notify the others that this rank failed, unless another was first; this begins the next turn."""
        self.read()
        if self.turn not in self.failed:
            self.failed[self.turn] = self.rank, error
            self.tell(self.others, Notice.FAILED, error)
        self.turn += 1
        self.stepping, self.compared = frozenset(), False
        self.kept += [self.data, *self.groups.values()]
        self.data = None
        self.groups.clear()


PEERS: Final[list[Peers]] = []
"""Peers of all communicators on which programs ran."""


@cache
def _key() -> int:
    key: int = MPI.Comm.Create_keyval()
    return key


def peers_of(communicator: MPI.Comm, late: float, timeout: float | None) -> Peers:
    """Return the ranks of a communicator; all of them call this on its first use.

    Args:
        communicator: The ranks.
        late: Seconds of waiting after which missing ranks are logged.
        timeout: Seconds after which this one gives up; None for never.

    Raises:
        BackendError: TIL813, it has two groups of ranks, or none.
        LostError: TIL816, a rank has not come.
    """
    if not isinstance(communicator, MPI.Intracomm) or communicator == MPI.COMM_NULL:
        message = f"programs run on the ranks of an MPI.Intracomm, not of a {type(communicator).__name__}"
        raise BackendError.of("TIL813", message)
    known: Any = communicator.Get_attr(_key())
    found: Peers | None = known
    if found is None:
        _met(communicator, late, timeout)
        found = Peers(communicator.Dup(), communicator.rank, communicator.size)
        communicator.Set_attr(_key(), found)
        PEERS.append(found)
    return found


def _met(communicator: MPI.Intracomm, late: float, timeout: float | None) -> None:
    """Wait until all ranks have come: each broadcasts a byte, so that missing ranks are known."""
    buffers = np.zeros((communicator.size, 1), np.uint8)
    requests = [communicator.Ibcast([buffer, MPI.BYTE], rank) for rank, buffer in enumerate(buffers)]
    patience = within(late, timeout)

    def look(waited: float) -> None:
        nonlocal patience
        if waited >= patience:
            patience = within(2 * patience, timeout)
            missing = [str(rank) for rank, request in enumerate(requests) if not request.Test()]
            message = (
                f"rank {communicator.rank} waits in the start of a program for {waited:.0f} s: "
                f"rank {' and '.join(missing)} is late, and has run none yet"
            )
            if timeout is not None and waited >= timeout:
                _KEPT.append((requests, buffers))
                raise LostError.of("TIL816", message)
            LOG.warning("%s", message)

    poll(lambda: all(request.Test() for request in requests), look)


_KEPT: Final[list[Any]] = []
"""Abandoned requests, with their buffers."""


def poll(done: Callable[[], bool], meanwhile: Callable[[float], None]) -> None:
    """Poll until a condition holds: quickly at first, and later with less processor time.

    Args:
        done: The condition, which also drives MPI's progress.
        meanwhile: Called between polls with the seconds of waiting; its errors end the wait.
    """
    for _ in range(50):
        if done():
            return
    start = time.monotonic()
    while not done():
        waited = time.monotonic() - start
        meanwhile(waited)
        time.sleep(0 if waited < 0.002 else 1e-4 if waited < 1 else 1e-3)
