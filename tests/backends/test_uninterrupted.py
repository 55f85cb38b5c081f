"""Interrupts at chosen moments of work that must come to its end."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from tileir_llvm.run.uninterrupted import uninterrupted

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _interrupts_raise() -> Iterator[None]:
    """Handle interrupts where whoever started the tests lets them be ignored, as shells do behind ``&``."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def test_work_returns_what_it_returns_and_raises_what_it_raises() -> None:
    def fail() -> None:
        raise LookupError("own")

    assert uninterrupted(lambda: 7) == 7
    with pytest.raises(LookupError, match="own"):
        uninterrupted(fail)


def test_the_main_thread_works_in_another_one_and_others_in_their_own() -> None:
    assert uninterrupted(threading.current_thread) is not threading.current_thread()
    found: list[bool] = []
    other = threading.Thread(target=lambda: found.append(uninterrupted(threading.current_thread) is other))
    other.start()
    other.join()
    assert found == [True]


@pytest.mark.parametrize("count", [1, 2, 5])
def test_interrupts_raise_when_the_work_is_done(count: int) -> None:
    steps: list[str] = []

    def work() -> None:
        for _ in range(count):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            time.sleep(0.02)
        steps.append("done")

    with pytest.raises(KeyboardInterrupt):
        uninterrupted(work)
    assert steps == ["done"]


def test_the_first_interrupt_stops_what_can_be_stopped() -> None:
    stopped = threading.Lock()
    stopped.acquire()

    def work() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        stopped.acquire()

    with pytest.raises(KeyboardInterrupt):
        uninterrupted(work, stopped.release)


def test_an_interrupt_after_the_start_waits_for_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start
    begun, steps = threading.Event(), []

    def work() -> None:
        begun.set()
        steps.append("done")

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        begun.wait()
        interrupt()

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        uninterrupted(work)
    assert steps == ["done"]


def test_an_interrupt_before_the_start_leaves_nothing_to_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading.Thread, "start", lambda _: interrupt())
    with pytest.raises(KeyboardInterrupt):
        uninterrupted(lambda: pytest.fail("nobody may do it later"))


def test_without_further_threads_the_main_thread_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert uninterrupted(threading.current_thread) is threading.main_thread()


def test_other_exceptions_of_handlers_are_raised_too(monkeypatch: pytest.MonkeyPatch) -> None:
    class Alarm(BaseException):
        pass

    def handler(*_: object) -> None:
        raise Alarm

    old = signal.signal(signal.SIGINT, handler)
    try:
        with pytest.raises(Alarm):
            uninterrupted(lambda: signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT))
    finally:
        with suppress(Alarm):
            signal.signal(signal.SIGINT, old)
