"""Runs whose end is found out when somebody asks."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import attrs
import numpy as np
import pytest

from tileir.runtime.plans.calls import Calls
from tileir.runtime.plans.queued import RunningEvent
from tileir.runtime.plans.submission import Submission

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileir.runtime.interface import Event


@attrs.define(eq=False)
class Command:
    """An event of a driver's queue."""

    duration: float | None = 0.5
    error: Exception | None = None
    asked: int = 0
    ended: threading.Event = attrs.field(factory=threading.Event)

    @property
    def done(self) -> bool:
        """Say whether it has ended."""
        self.asked += 1
        return self.ended.is_set()

    def wait(self) -> None:
        """Block until it ends."""
        assert self.ended.wait(60)
        if self.error is not None:
            raise self.error


@attrs.define(eq=False)
class Run:
    """A run of two commands, and how often its workspace was kept."""

    first: Command = attrs.field(factory=Command)
    last: Command = attrs.field(factory=Command)
    kept: list[str] = attrs.field(factory=list)
    event: RunningEvent = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        submission = Submission((self.first, self.last), (self.last,))
        self.event = RunningEvent.of(submission, lambda: self.kept.append("workspace"))

    def end(self) -> None:
        """Let both commands end."""
        self.first.ended.set()
        self.last.ended.set()


@pytest.fixture
def run() -> Run:
    return Run()


def test_the_device_is_asked_and_no_thread_waits(run: Run) -> None:
    before = {*threading.enumerate()}
    assert (run.event.done, run.event.duration, run.event.failure) == (False, None, None)
    assert {*threading.enumerate()} <= before  # idle threads of other tests may end meanwhile
    run.end()
    assert run.kept == []
    assert run.event.done
    assert run.event.duration == 1.0
    assert run.kept == ["workspace"]
    assert run.event.ends == ()


def test_waiting_ends_it(run: Run) -> None:
    threading.Timer(0.01, run.end).start()
    run.event.wait()
    run.event.wait()
    assert run.event.done
    assert run.kept == ["workspace"]


def test_many_threads_keep_the_workspace_once(run: Run) -> None:
    barrier = threading.Barrier(8)

    def ask() -> None:
        barrier.wait()
        run.event.wait()

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    run.end()
    for thread in threads:
        thread.join()
    assert run.kept == ["workspace"]


def test_a_failure_is_told_when_all_commands_have_ended(run: Run) -> None:
    run.last.error = ValueError("broken")
    run.last.ended.set()
    assert not run.event.done  # the first command may still use the memory
    run.first.ended.set()
    with pytest.raises(ValueError, match="broken"):
        run.event.wait()
    assert run.event.failure is not None
    assert run.kept == []


def test_callbacks_come_without_anybody_asking(run: Run) -> None:
    called = threading.Event()
    run.event.then(called.set)
    assert not called.is_set()
    run.end()
    assert called.wait(60)
    later = threading.Event()
    run.event.then(later.set)
    assert later.is_set()


def test_who_wants_to_know_only_when_somebody_asks_is_told_then(run: Run) -> None:
    told: list[str] = []
    run.event.when_known(lambda: told.append("told"))
    run.end()
    assert told == []
    assert run.event.done
    assert told == ["told"]


def test_an_interrupt_while_waiting_is_no_failure(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: Command) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Command, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run.event.wait()
    run.end()
    run.event.wait()
    assert run.event.failure is None
    assert run.kept == ["workspace"]


def test_calls_let_go_of_the_oldest_runs_that_are_done() -> None:
    calls, runs = Calls(), [Run() for _ in range(3)]
    for run in runs:
        calls.add([], [np.zeros(1)], (), lambda _, run=run: run.event)  # type: ignore[misc]
    asked = runs[2].last.asked
    runs[0].end()
    assert calls
    assert runs[0].kept == ["workspace"]
    assert runs[2].last.asked == asked  # it comes after what is not done
    runs[2].end()
    runs[1].end()
    assert not calls
    assert [run.kept for run in runs] == [["workspace"]] * 3


def test_a_run_that_was_waited_for_is_forgotten() -> None:
    calls, first, last = Calls(), Run(), Run()
    for run in (first, last):
        calls.add([], [np.zeros(1)], (), lambda _, run=run: run.event)  # type: ignore[misc]
    last.end()
    last.event.wait()
    first.end()
    first.event.wait()
    assert not calls


def test_a_call_that_looks_at_an_earlier_run_lets_go_of_it() -> None:
    """Programs with conditions ask, when they are handed over, whether what they wait for is done."""
    calls, first, last = Calls(), Run(), Run()
    room = np.zeros(1)
    calls.add([], [room], (), lambda _: first.event)

    def start(after: Sequence[Event]) -> RunningEvent:
        first.end()  # meanwhile
        assert [event.done for event in after] == [True]
        return last.event

    calls.add([room], [], (), start)
    assert first.kept == ["workspace"]
    last.end()
    assert not calls
