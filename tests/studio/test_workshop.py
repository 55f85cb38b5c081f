"""Workers that hang, fill the memory or die: the request says so, and the next one works."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from studio.conversation import MATMUL, SIZES
from tileir_studio.serve import workshop as workshops
from tileir_studio.serve.workshop import Limits, StaleError, Workshop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from pathlib import Path

    from tileir_studio.serve.session import Event

    Work = Callable[[Workshop], Coroutine[Any, Any, None]]

pytestmark = pytest.mark.skipif(os.name != "posix", reason="limits and signals are those of POSIX")

CHECK = {"job": "check", "text": MATMUL}
RUN = {"job": "run", "text": MATMUL, "values": SIZES}
ENDLESS = {
    "job": "run",
    "text": "function (A[N]) -> (S) { S[] = >(A[i] * A[j]); }",
    "values": {"A": "f64[16777216]"},
}
"""A maximum of 2**48 products, none of whose signs is known."""

GREEDY = {
    "job": "run",
    "text": "function (A[N]) -> (B) { B[i, j : N, N] = =(A[i] * A[j]); }",
    "values": {"A": "f32[60000]"},
}
"""14 GB of results."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Work], None]]:
    """Run tests in one workshop: each process takes seconds to start, and a test may end one that others began."""
    with asyncio.Runner() as runner:
        workshop = Workshop(tmp_path_factory.mktemp("workshop"))
        yield lambda work: runner.run(work(workshop))
        runner.run(workshop.close())


def in_workshop(work: Work, folder: Path, limits: Limits | None = None) -> None:
    async def everything() -> None:
        workshop = Workshop(folder, limits or Limits())
        try:
            await work(workshop)
        finally:
            await workshop.close()

    asyncio.run(everything())


async def asked(workshop: Workshop, request: dict[str, Any], lane: str = "a") -> list[Event]:
    return [event async for event in workshop.ask(request, lane)]


async def works(workshop: Workshop) -> None:
    assert [event.name for event in await asked(workshop, RUN)] == ["ran"]


def told(events: list[Event], code: str) -> str:
    assert events[-1].name == "faults"
    (fault,) = events[-1].view
    assert fault["code"] == code
    return str(fault["message"])


def test_a_hang_is_stopped(shared: Callable[[Work], None]) -> None:
    async def work(workshop: Workshop) -> None:
        await works(workshop)
        workshop.limits = Limits(seconds=1)
        message = told(await asked(workshop, ENDLESS), "TIL911")
        assert "took more than 1 s" in message
        assert "--time-limit" in message
        workshop.limits = Limits()
        await works(workshop)

    shared(work)


def test_a_process_that_loads_modules_has_more_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workshops, "QUICK_SECONDS", 0.0)

    async def work(workshop: Workshop) -> None:
        for _ in range(2):  # the second time in a process anew
            assert [event.name for event in await asked(workshop, CHECK)] == ["checked"]
            assert "took more than 0 s" in told(await asked(workshop, CHECK), "TIL911")

    in_workshop(work, tmp_path)


def test_what_needs_too_much_memory_is_refused(tmp_path: Path) -> None:
    async def work(workshop: Workshop) -> None:
        assert "memory" in told(await asked(workshop, GREEDY), "TIL708")
        await works(workshop)

    in_workshop(work, tmp_path, Limits(memory_bytes=2 << 30))


@pytest.mark.parametrize(("number", "name"), [(signal.SIGSEGV, "SIGSEGV"), (signal.SIGKILL, "SIGKILL")])
def test_a_crash_is_told(shared: Callable[[Work], None], number: signal.Signals, name: str) -> None:
    async def work(workshop: Workshop) -> None:
        await works(workshop)
        process = workshop.processes[1]
        os.kill(process, signal.SIGSTOP)  # so that the request cannot end before
        pending = asyncio.ensure_future(asked(workshop, RUN))
        await asyncio.sleep(0.1)
        os.kill(process, number)
        os.kill(process, signal.SIGCONT)
        message = told(await pending, "TIL911")
        assert name in message
        assert "please report it" in message
        await works(workshop)

    shared(work)


def test_a_worker_that_dies_between_requests_is_replaced(shared: Callable[[Work], None]) -> None:
    async def work(workshop: Workshop) -> None:
        await works(workshop)
        os.kill(workshop.processes[1], signal.SIGKILL)
        while workshop.processes[1]:
            await asyncio.sleep(0.01)
        await works(workshop)

    shared(work)


def test_the_newest_request_wins(shared: Callable[[Work], None]) -> None:
    async def work(workshop: Workshop) -> None:
        await works(workshop)
        first = asyncio.ensure_future(asked(workshop, ENDLESS))
        await asyncio.sleep(0.2)
        second = asyncio.ensure_future(asked(workshop, ENDLESS))
        await asyncio.sleep(0)
        last = asyncio.ensure_future(asked(workshop, RUN))
        for stale in (first, second):
            with pytest.raises(StaleError):
                await stale
        assert [event.name for event in await last] == ["ran"]

    shared(work)


def test_other_lanes_wait_their_turn(shared: Callable[[Work], None]) -> None:
    async def work(workshop: Workshop) -> None:
        both = await asyncio.gather(asked(workshop, RUN, "a"), asked(workshop, RUN, "b"))
        assert [[event.name for event in events] for events in both] == [["ran"], ["ran"]]

    shared(work)


def test_a_look_at_the_text_does_not_wait_for_a_run(shared: Callable[[Work], None]) -> None:
    async def work(workshop: Workshop) -> None:
        running = asyncio.ensure_future(asked(workshop, ENDLESS, "run"))
        await asyncio.sleep(0.1)
        assert [event.name for event in await asked(workshop, {"job": "check", "text": MATMUL}, "check")] == ["checked"]
        assert not running.done()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    shared(work)


def test_what_nobody_waits_for_is_stopped(shared: Callable[[Work], None]) -> None:
    async def work(workshop: Workshop) -> None:
        await works(workshop)
        process = workshop.processes[1]
        running = asyncio.ensure_future(asked(workshop, ENDLESS))
        await asyncio.sleep(0.2)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)
        await works(workshop)

    shared(work)


def test_a_request_that_was_overtaken_is_stale(shared: Callable[[Work], None]) -> None:
    async def work(workshop: Workshop) -> None:
        assert [event.name async for event in workshop.ask(RUN, "turns", 7)] == ["ran"]
        for turn in (6, 7):
            with pytest.raises(StaleError):
                await asyncio.wait_for(anext(aiter(workshop.ask(RUN, "turns", turn))), 60)
        assert [event.name async for event in workshop.ask(RUN, "turns", 8)] == ["ran"]

    shared(work)
