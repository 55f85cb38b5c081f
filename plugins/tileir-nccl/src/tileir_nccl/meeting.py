"""Notices between ranks beside NCCL, by TCP: agreements, failures, exits, and places of waiting.

A hub, in the process of rank 0, forwards messages. Each rank reads them in a separate thread, so that it answers while
a card keeps it waiting, and a broken connection of a rank is noticed at once.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import attrs

from tileir.core import BackendError
from tileir.runtime.transports import LostError, within

GRACE: Final = 1.0
"""Seconds in which messages from before a rank's exit still arrive."""

_PATIENCE: Final = 0.05
"""Seconds between attempts to reach the hub."""

_LONGEST: Final = 60.0
"""Maximum seconds for which the hub outlives its rank's program, for ranks that have not ended."""


class Hub:
    """Forwarder of messages between ranks, which keeps those for ranks that have not come yet."""

    def __init__(self, host: str, port: int) -> None:
        try:
            self._server = socket.create_server((host, port))
        except OSError as error:
            message = f"ranks cannot meet at {host}, port {port} ({error}); set TILEIR_PORT to one that is free"
            raise BackendError.of("TIL811", message) from error
        self._lock = threading.Condition()
        self._ends: dict[int, socket.socket] = {}
        self._gone: set[int] = set()
        self._held: dict[int, list[bytes]] = defaultdict(list)
        threading.Thread(target=self._accept, name="tileir-nccl-hub", daemon=True).start()

    @property
    def port(self) -> int:
        """Port of the hub."""
        port: int = self._server.getsockname()[1]
        return port

    def _accept(self) -> None:
        while True:
            end, _ = self._server.accept()
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(end,), name="tileir-nccl-hub", daemon=True).start()

    def _serve(self, end: socket.socket) -> None:
        """Forward a rank's messages, and finally its exit."""
        rank, others = -1, []
        try:
            with end.makefile("rb") as lines:
                hello = json.loads(lines.readline())
                rank, others = int(hello["from"]), [int(other) for other in hello["to"]]
                with self._lock:
                    self._ends[rank] = end
                    for line in self._held.pop(rank, ()):
                        end.sendall(line)
                for line in lines:
                    self._pass_on(line)
        except (OSError, ValueError, KeyError):  # it broke off, or is a stranger
            pass
        self._pass_on(_line({"from": rank, "to": others, "kind": "ended"}))
        with self._lock:
            self._gone.add(rank)
            self._lock.notify_all()

    def stay(self, seconds: float) -> bool:
        """Forward messages until all ranks that came have ended, with a time limit; return whether they have."""
        with self._lock:
            return self._lock.wait_for(lambda: self._ends.keys() <= self._gone, seconds)

    def _pass_on(self, line: bytes) -> None:
        with self._lock:
            for rank in json.loads(line)["to"]:
                if rank not in self._ends:
                    self._held[rank].append(line)
                    continue
                try:
                    self._ends[rank].sendall(line)
                except OSError:
                    continue  # it has ended, which others are told


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


@attrs.define(eq=False)
class Meeting:
    """Connection of one rank.

    Attributes:
        rank: Number of this rank.
        size: Number of ranks.
        late: Seconds of waiting after which late ranks are reported.
        timeout: Seconds of waiting after which a rank gives up; None for never.
        place: Place of this rank.
        count: Number of its collectives so far.
        turn: Number of failures of programs.
        stop: Called with a turn, in the reading thread, when a rank has failed in it.
    """

    rank: int
    size: int
    late: float = 60.0
    timeout: float | None = None
    place: str = "the start of a program"
    count: int = 0
    turn: int = 0
    stop: Callable[[int], None] = lambda _: None
    _failed: dict[int, tuple[int, str, str]] = attrs.field(factory=dict, init=False)
    _ended: dict[int, float] = attrs.field(factory=dict, init=False)
    _answers: dict[int, tuple[int, str]] = attrs.field(factory=dict, init=False)
    _shared: dict[str, dict[int, str]] = attrs.field(factory=lambda: defaultdict(dict), init=False)
    _changed: threading.Condition = attrs.field(factory=threading.Condition, init=False)
    _sending: threading.Lock = attrs.field(factory=threading.Lock, init=False)
    _end: socket.socket | None = attrs.field(default=None, init=False)

    def connect(self, host: str, port: int) -> None:
        """Connect to the hub, once; it may start later than this rank.

        Raises:
            LostError: TIL816, it does not come.
        """
        if self._end is not None:
            return
        start = time.monotonic()
        limit = self.late if self.timeout is None else self.timeout
        while True:
            try:
                self._end = socket.create_connection((host, port), timeout=limit)
                break
            except OSError as error:
                waited = time.monotonic() - start
                if waited > limit:
                    message = f"rank {self.rank} waits for rank 0 at {host}, port {port}, for {waited:.0f} s: {error}"
                    raise LostError.of("TIL816", message) from error
                time.sleep(_PATIENCE)
        self._end.settimeout(None)
        self._end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._tell("hello", self.others)
        atexit.register(self.leave)  # before MPI ends, which waits for all processes
        threading.Thread(
            target=self._read, args=(self._end,), name=f"tileir-nccl-rank-{self.rank}", daemon=True
        ).start()

    @property
    def others(self) -> list[int]:
        """The other ranks."""
        return [rank for rank in range(self.size) if rank != self.rank]

    def share(self, key: str, text: str, group: Sequence[int]) -> list[str]:
        """Return the texts of all ranks of a group, each of which passes its own.

        Raises:
            LostError: TIL814 or TIL816, another one failed, has ended, or does not come.
        """
        name = f"{self.turn} {key}"
        others = [rank for rank in group if rank != self.rank]
        self._tell("shared", others, key=name, text=text)
        wait = Lateness(self)
        with self._changed:
            while missing := [rank for rank in others if rank not in self._shared[name]]:
                self.check(missing)
                wait.look(missing)
                self._changed.wait(0.1)
            found = {**self._shared.pop(name, {}), self.rank: text}
        return [found[rank] for rank in group]

    def check(self, ranks: Iterable[int], turn: int | None = None) -> None:
        """Check notices of a turn, by default this one.

        Raises:
            LostError: The error by which this rank gave up; TIL814, one failed, or one that this one waits for has
                ended.
        """
        turn = self.turn if turn is None else turn
        if turn in self._failed:
            rank, code, error = self._failed[turn]
            if rank == self.rank:
                raise LostError.of(code, error)
            raise LostError.of("TIL814", f"rank {rank} failed, and so the others stopped: {error}")
        now = time.monotonic()
        for rank in ranks:
            if now - self._ended.get(rank, now) > GRACE:
                raise LostError.of("TIL814", f"rank {rank} has ended, and rank {self.rank} waits in {self.place}")

    def fail(self, error: str) -> None:
        """Notify the others that this rank failed, unless another was first; this begins the next turn."""
        first, _, error = self._failed.setdefault(self.turn, (self.rank, "TIL814", error))
        if first == self.rank:
            self._tell("failed", self.others, key=str(self.turn), text=error)
        self.turn += 1

    def give_up(self, code: str, error: str) -> None:
        """Make this rank stop waiting, with its own error; the others are notified when it fails by that."""
        self._failed.setdefault(self.turn, (self.rank, code, error))

    def ask(self, ranks: Sequence[int]) -> None:
        """Ask ranks for their places."""
        self._answers.clear()
        self._tell("asked", ranks)

    def described(self, ranks: Sequence[int]) -> str:
        """Return the places of ranks that were asked."""
        found = []
        for rank in ranks:
            count, place = self._answers.get(rank, (self.count, ""))
            if not place:
                found.append(f"rank {rank} does not answer")
            elif count < self.count or place != self.place:
                found.append(f"rank {rank} is late, and has come to {place}")
        return "; ".join(found) or "all others are there, and messages are on their way"

    def leave(self) -> None:
        """End the connection, after sending pending messages."""
        atexit.unregister(self.leave)
        end, self._end = self._end, None
        if end is not None:
            with contextlib.suppress(OSError):  # the hub has ended
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _tell(self, kind: str, ranks: Sequence[int], **content: object) -> None:
        end = self._end
        if end is None or (not ranks and kind != "hello"):
            return
        try:
            with self._sending:
                end.sendall(_line({"from": self.rank, "to": list(ranks), "kind": kind, **content}))
        except OSError:
            self._ended.setdefault(0, time.monotonic())  # the hub is in its process

    def _read(self, end: socket.socket) -> None:
        try:
            with end.makefile("rb") as lines:
                for line in lines:
                    self._take(json.loads(line))
        except (OSError, ValueError):
            pass
        with self._changed:
            self._ended.setdefault(0, time.monotonic())
            self._changed.notify_all()

    def _take(self, message: dict[str, Any]) -> None:
        rank = message["from"]
        if message["kind"] == "asked":
            self._tell("answered", [rank], key=str(self.count), text=self.place)
            return
        with self._changed:
            match message["kind"]:
                case "shared":
                    self._shared[message["key"]][rank] = message["text"]
                case "failed":
                    self._failed.setdefault(int(message["key"]), (rank, "TIL814", message["text"]))
                case "ended":
                    self._ended[rank] = time.monotonic()
                case "answered":
                    self._answers[rank] = int(message["key"]), message["text"]
            self._changed.notify_all()
        turn = self.turn
        if turn in self._failed:
            self.stop(turn)


_HUBS: Final[dict[tuple[str, int], Hub]] = {}
"""Hubs of this process, by address."""


def hub_at(host: str, port: int) -> int:
    """Start a hub if there is none, at any port for 0, and return its port; it lives until the last rank ends.

    Raises:
        BackendError: TIL811, the port is not free.
    """
    if (host, port) not in _HUBS:
        made = Hub(host, port)
        port = made.port
        _HUBS[host, port] = made
        atexit.register(made.stay, _LONGEST)  # others may still exchange messages
    return port


@attrs.define(eq=False)
class Lateness:
    """Patience of a rank with others, which it asks for their places before it reports them as late."""

    meeting: Meeting
    begun: float = attrs.field(factory=time.monotonic)
    patience: float = attrs.field(init=False)
    asked: float | None = None

    def __attrs_post_init__(self) -> None:
        self.patience = within(self.meeting.late, self.meeting.timeout)

    def look(self, ranks: Sequence[int]) -> None:
        """Report late ranks when it is time.

        Raises:
            LostError: TIL816, the time is over.
        """
        now, meeting = time.monotonic(), self.meeting
        waited = now - self.begun
        if waited < self.patience:
            return
        if self.asked is None:
            self.asked = now
            meeting.ask(ranks)
        elif now - self.asked > GRACE:
            self.asked, self.patience = None, within(2 * self.patience, meeting.timeout)
            where = f"rank {meeting.rank} waits in {meeting.place} for {waited:.0f} s"
            message = f"{where}: {meeting.described(ranks)}"
            if meeting.timeout is not None and waited >= meeting.timeout:
                raise LostError.of("TIL816", message)
            import logging  # few programs need it

            logging.getLogger("tileir_nccl").warning("%s", message)
