"""Workers for requests: processes with limits of time and memory, so that no request can hang or kill the page.

Requests of one lane replace one another: the newest wins, and those before it are given up. A worker that times out,
that ends, or whose request is stale is killed and replaced.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from tileir.core import attrs, fail
from tileir_studio.serve import frames
from tileir_studio.serve.jobs import PATIENT, SHORT, faults_event
from tileir_studio.serve.session import STALE, Event

GRACE: Final = 1.0
"""Seconds for a replaced request to end before its worker is killed: about the start of another worker."""

QUICK_SECONDS: Final = 5.0
"""The time limit of a check of a text."""

_CHUNK: Final = 1 << 20


class StaleError(Exception):
    """A newer request has replaced this one."""


@attrs.frozen
class Limits:
    """Limits of one request: seconds, and bytes of memory, 0 for no limit."""

    seconds: float = 30.0
    memory_bytes: int = 0


@attrs.define(eq=False, repr=False)
class _Worker:
    """A process, started on demand, and again after each end."""

    folder: Path
    memory_bytes: int
    lock: asyncio.Lock = attrs.field(factory=asyncio.Lock, init=False)
    _process: asyncio.subprocess.Process | None = attrs.field(default=None, init=False)
    _number: int = attrs.field(default=0, init=False)
    _is_warm: bool = attrs.field(default=False, init=False)

    async def answers(
        self, request: Mapping[str, Any], replaced: asyncio.Event, seconds: float, first_seconds: float
    ) -> AsyncIterator[Event]:
        """Yield the events of a request; the last one reports a limit or an end, if there was any.

        Args:
            request: The request.
            replaced: Is set once there is a newer one.
            seconds: Its time limit.
            first_seconds: Its time limit where the process has answered none yet, and loads modules for it.

        Raises:
            StaleError: A newer request came.
        """
        finished, allowed = False, seconds
        try:
            process = await self._started()
            assert process.stdin is not None
            assert process.stdout is not None
            allowed = seconds if self._is_warm else first_seconds
            deadline = asyncio.get_running_loop().time() + allowed
            self._number += 1
            process.stdin.write(frames.encoded({**request, frames.NUMBER: self._number}))
            given_up = partial(process.stdin.write, frames.encoded({frames.GIVEN_UP: self._number}))
            while True:
                left = deadline - asyncio.get_running_loop().time()
                message, pictures = await _next(process.stdout, replaced, left, given_up)
                if message["event"] == frames.DONE:
                    finished = self._is_warm = True
                    return
                if message["event"] == STALE and replaced.is_set():
                    finished = True
                    await frames.received(process.stdout)  # DONE
                    raise StaleError
                yield Event(message["event"], message["view"], pictures)
        except TimeoutError:
            yield faults_event(fail("TIL911", f"this took more than {allowed:g} s and was stopped; {_SMALLER}"))
        except (asyncio.IncompleteReadError, ConnectionError):
            yield faults_event(fail("TIL911", await self._end()))
        finally:
            if not finished:
                await self.stop()

    async def _started(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tileir_studio.serve.worker", str(self.folder), str(self.memory_bytes)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=_CHUNK,
                start_new_session=os.name == "posix",  # a group of its own, which stop() kills
            )
            assert self._process.stdout is not None
            await frames.received(self._process.stdout)  # READY: no request pays for the start
            self._is_warm = False
        return self._process

    async def _end(self) -> str:
        """Return a sentence on the process, which ended by itself."""
        code = 0 if self._process is None else await self._process.wait()
        if code >= 0:
            how = f"with exit code {code}"
        else:
            how = f"by {signal.Signals(-code).name}" if -code in set(signal.Signals) else f"by signal {-code}"
        return f"the process that works on this ended {how}; another one takes its place. {_REPORT}"

    @property
    def number(self) -> int:
        """Process id; 0 where there is none."""
        process = self._process
        return 0 if process is None or process.returncode is not None else process.pid

    async def stop(self) -> None:
        """Kill the process and its children."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            if os.name == "posix":
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
        if process.stdin is not None:
            process.stdin.close()
        if process.stdout is not None:
            # Drain the pipe: asyncio waits for its end, which comes behind a full buffer.
            with suppress(RuntimeError, ConnectionError):  # another task reads it; it broke
                await process.stdout.read()
        await process.wait()


_SMALLER: Final = "make the program or its arrays smaller, or give it more with --time-limit"


async def _next(
    reader: asyncio.StreamReader, replaced: asyncio.Event, seconds: float, given_up: Callable[[], object]
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the next message; where a newer request comes first, tell the worker, and wait for ``GRACE`` seconds.

    Raises:
        TimeoutError: None came in time.
        StaleError: A newer request came, and no message after it.
    """
    reading = asyncio.ensure_future(frames.received(reader))
    waiting = asyncio.ensure_future(replaced.wait())
    try:
        await asyncio.wait((reading, waiting), timeout=max(0.0, seconds), return_when=asyncio.FIRST_COMPLETED)
        if waiting.done() and not reading.done():
            given_up()
            await asyncio.wait((reading,), timeout=GRACE)
            if not reading.done():
                raise StaleError
        if not reading.done():
            raise TimeoutError
        return reading.result()
    finally:
        for task in (reading, waiting):
            task.cancel()
        await asyncio.gather(reading, waiting, return_exceptions=True)


_REPORT: Final = (
    "If the arrays fit the memory of this machine, this is a defect of tileir or of a driver: please report it"
)


_LANES: Final = 1000
"""The most lanes whose last turn is remembered."""


@attrs.frozen(eq=False, repr=False)
class _Lane:
    """The newest request of a lane."""

    turn: int
    replaced: asyncio.Event


@attrs.define(eq=False)
class Workshop:
    """Three workers: for checks of texts, which are short, for patient requests, and for all others.

    Attributes:
        folder: Where uploads are.
        limits: The limits of each request.
    """

    folder: Path
    limits: Limits = Limits()
    _quick: _Worker = attrs.field(init=False)
    _patient: _Worker = attrs.field(init=False)
    _thorough: _Worker = attrs.field(init=False)
    _lanes: OrderedDict[str, _Lane] = attrs.field(factory=OrderedDict, init=False)

    def __attrs_post_init__(self) -> None:
        self._quick = _Worker(self.folder, self.limits.memory_bytes)
        self._patient = _Worker(self.folder, self.limits.memory_bytes)
        self._thorough = _Worker(self.folder, self.limits.memory_bytes)

    async def ask(self, request: Mapping[str, Any], lane: str, turn: int | None = None) -> AsyncIterator[Event]:
        """Yield the events of a request, as soon as there are any.

        Args:
            request: As :func:`tileir_studio.serve.jobs.answer` reads it.
            lane: Requests of one lane replace one another.
            turn: The newer a request, the higher, since connections may overtake one another; None for the newest.

        Raises:
            StaleError: There is a newer request of the lane.
        """
        replaced = self._enter(lane, turn)
        short = request.get("job") in SHORT
        worker = self._quick if short else self._patient if request.get("job") in PATIENT else self._thorough
        seconds = min(QUICK_SECONDS, self.limits.seconds) if short else self.limits.seconds
        async with worker.lock:
            if replaced.is_set():
                raise StaleError
            events_of = worker.answers(request, replaced, seconds, self.limits.seconds)
            async with aclosing(events_of) as events:  # type: ignore[type-var]
                async for event in events:
                    yield event

    def _enter(self, name: str, turn: int | None) -> asyncio.Event:
        """Return an event that is set once the lane has a newer request; set that of the request before."""
        older = self._lanes.pop(name, None)
        replaced = asyncio.Event()
        if older is None or turn is None or turn > older.turn:
            if older is not None:
                older.replaced.set()
                turn = older.turn + 1 if turn is None else turn
            self._lanes[name] = _Lane(turn or 0, replaced)
        else:
            self._lanes[name] = older
            replaced.set()
        while len(self._lanes) > _LANES:
            self._lanes.popitem(last=False)
        return replaced

    @property
    def processes(self) -> tuple[int, ...]:
        """The ids of the processes that check texts and that run programs; 0 for a missing one."""
        return self._quick.number, self._thorough.number

    async def close(self) -> None:
        """End all processes."""
        for worker in (self._quick, self._patient, self._thorough):
            await worker.stop()
