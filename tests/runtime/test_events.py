from __future__ import annotations

import threading
import time
import traceback
import weakref
from functools import partial
from typing import TYPE_CHECKING

import attrs
import pytest

from strategies.processes import in_forked_child
from tileir.core.errors import BackendError
from tileir.runtime import events
from tileir.runtime.events import PendingEvent, Scheduler, all_ended

if TYPE_CHECKING:
    from collections.abc import Callable


@attrs.define(eq=False)
class ForeignEvent:
    """An event of another executor, of which only the protocol is known."""

    flag: threading.Event = attrs.field(factory=threading.Event)
    error: Exception | None = None
    duration: float | None = None

    @property
    def done(self) -> bool:
        return self.flag.is_set()

    def wait(self) -> None:
        assert self.flag.wait(60)
        if self.error is not None:
            raise self.error


def test_an_event_completes_once() -> None:
    event = PendingEvent()
    seen: list[int] = []
    event.then(lambda: seen.append(1))
    assert not event.done
    event.complete(0.5)
    event.fail(ValueError())
    event.then(lambda: seen.append(2))
    event.wait()
    assert (event.done, event.duration, seen) == (True, 0.5, [1, 2])


def test_tasks_run_in_the_order_of_their_events() -> None:
    scheduler = Scheduler("test")
    gate = PendingEvent()
    order: list[str] = []
    last = scheduler.submit(lambda: order.append("last"), [gate])
    first = scheduler.submit(lambda: order.append("first"))
    first.wait()
    assert order == ["first"]
    assert not last.done
    gate.complete()
    last.wait()
    assert order == ["first", "last"]
    assert last.duration is not None
    scheduler.close()


def test_a_failure_reaches_all_that_depends_on_it() -> None:
    scheduler = Scheduler("test")
    error = ValueError("broken")

    def fail() -> None:
        raise error

    ran: list[int] = []
    failed = scheduler.submit(fail)
    middle = scheduler.submit(lambda: ran.append(1), [failed])
    end = scheduler.submit(lambda: ran.append(2), [middle, completed()])
    for event in (failed, middle, end):
        with pytest.raises(ValueError, match="broken") as caught:
            event.wait()
        assert caught.value is error
    assert ran == []
    assert end.duration is None
    scheduler.close()


def test_every_waiter_gets_the_error_as_it_was() -> None:
    scheduler = Scheduler("test")

    def fail() -> None:
        raise ValueError("broken")

    failed = scheduler.submit(fail)
    dependent = scheduler.submit(lambda: None, [failed])
    seen: list[tuple[BaseException, list[str]]] = []
    for event in (failed, dependent, failed):
        try:
            raise KeyError("handled by the waiter")
        except KeyError:
            with pytest.raises(ValueError, match="broken") as caught:
                event.wait()
        names = [entry.name for entry in traceback.extract_tb(caught.value.__traceback__)]
        seen.append((caught.value, names))
    assert len({id(error) for error, _ in seen}) == 1
    assert seen[0][0].__context__ is None
    assert all(names.count("fail") == 1 and names[-1] == "fail" for _, names in seen)
    assert seen[0][1] == seen[2][1]  # it does not grow
    scheduler.close()


def test_independent_tasks_run_at_the_same_time() -> None:
    scheduler = Scheduler("test", threads=2)
    meeting = threading.Barrier(2)
    first, second = scheduler.submit(lambda: meeting.wait(60)), scheduler.submit(lambda: meeting.wait(60))
    first.wait()
    second.wait()
    scheduler.close()


def test_tasks_that_wait_hold_no_thread() -> None:
    scheduler = Scheduler("test")
    gates = [PendingEvent() for _ in range(20)]
    waiting = [scheduler.submit(lambda: None, [gate]) for gate in gates]
    scheduler.submit(lambda: None).wait()
    for gate in reversed(gates):
        gate.complete()
    for event in waiting:
        event.wait()
    scheduler.close()


def test_no_more_threads_than_were_asked_for() -> None:
    scheduler = Scheduler("test-few", threads=3)
    most: list[int] = []

    def work() -> None:
        time.sleep(0.001)
        most.append(sum(thread.name == "test-few" for thread in threading.enumerate()))

    for event in [scheduler.submit(work) for _ in range(30)]:
        event.wait()
    assert max(most) <= 3
    scheduler.close()


def test_idle_threads_keep_no_memory() -> None:
    scheduler = Scheduler("test")
    buffer = ForeignEvent()
    alive = weakref.ref(buffer)
    scheduler.submit(partial(repr, buffer)).wait()
    del buffer
    deadline = time.monotonic() + 60
    while alive() is not None and time.monotonic() < deadline:
        time.sleep(0.001)
    assert alive() is None
    scheduler.close()


def test_a_task_may_close_its_scheduler() -> None:
    scheduler = Scheduler("test")
    scheduler.submit(scheduler.close).wait()


def test_an_event_with_callbacks_needs_no_thread() -> None:
    @attrs.define(eq=False)
    class Telling(ForeignEvent):
        callbacks: list[Callable[[], None]] = attrs.field(factory=list)

        def then(self, callback: Callable[[], None]) -> None:
            self.callbacks.append(callback)

    scheduler, telling, before = Scheduler("test"), Telling(), {*threading.enumerate()}
    event = scheduler.submit(lambda: None, [telling])
    assert {*threading.enumerate()} <= before
    telling.flag.set()
    telling.callbacks[0]()
    event.wait()
    scheduler.close()


def completed() -> PendingEvent:
    event = PendingEvent()
    event.complete()
    return event


def test_events_of_others_are_waited_for() -> None:
    scheduler = Scheduler("test")
    good, bad, done = ForeignEvent(), ForeignEvent(error=KeyError("theirs")), ForeignEvent()
    done.flag.set()
    after_good = scheduler.submit(lambda: None, [good, done])
    after_bad = scheduler.submit(lambda: None, [bad])
    time.sleep(0.02)
    assert not after_good.done
    good.flag.set()
    bad.flag.set()
    after_good.wait()
    with pytest.raises(KeyError, match="theirs"):
        after_bad.wait()
    scheduler.close()


def test_closing_waits_and_refuses_more() -> None:
    scheduler = Scheduler("test")
    ran: list[int] = []

    def work() -> None:
        time.sleep(0.02)
        ran.append(1)

    scheduler.submit(work)
    scheduler.close()
    assert ran == [1]
    with pytest.raises(BackendError) as error:
        scheduler.submit(lambda: None)
    assert error.value.diagnostics[0].code == "TIL807"


def test_an_idle_thread_ends_and_another_one_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "IDLE_SECONDS", 0.01)
    scheduler = Scheduler("test-idle")
    scheduler.submit(lambda: None).wait()
    while any(thread.name == "test-idle" for thread in threading.enumerate()):
        time.sleep(0.005)
    scheduler.submit(lambda: None).wait()
    scheduler.close()


def test_many_threads_submit_at_once() -> None:
    scheduler = Scheduler("test")
    total: list[int] = []

    def submit() -> None:
        previous: list[PendingEvent] = []
        for _ in range(50):
            previous = [scheduler.submit(lambda: total.append(1), previous)]
        previous[0].wait()

    threads = [threading.Thread(target=submit) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(total) == 200
    scheduler.close()


def test_a_forked_child_starts_anew() -> None:
    scheduler = Scheduler("test")
    gate = PendingEvent()
    scheduler.submit(lambda: None).wait()
    waiting = scheduler.submit(lambda: None, [gate])

    def child() -> bool:
        ran: list[int] = []
        scheduler.submit(lambda: ran.append(1)).wait()
        with pytest.raises(BackendError) as lost:
            waiting.wait()
        return ran == [1] and lost.value.diagnostics[0].code == "TIL809"

    assert in_forked_child(child)
    gate.complete()
    waiting.wait()
    scheduler.close()


def test_an_event_for_the_end_of_several() -> None:
    events = [PendingEvent() for _ in range(3)]
    end = all_ended(events)
    events[0].fail(ValueError())
    events[2].complete()
    assert not end.done
    events[1].complete()
    end.wait()
    all_ended([]).wait()


def test_an_idle_scheduler_has_run_all_that_it_could() -> None:
    scheduler, gate = Scheduler("test", 2), PendingEvent()
    ran: list[int] = []
    scheduler.wait_until_idle()  # nothing ever ran
    first = scheduler.submit(partial(time.sleep, 0.05))
    for number in range(3):
        scheduler.submit(partial(ran.append, number), [first])
    late = scheduler.submit(partial(ran.append, 3), [gate])
    scheduler.wait_until_idle()
    assert sorted(ran) == [0, 1, 2]
    assert not late.done
    gate.complete()
    scheduler.close()
    assert sorted(ran) == [0, 1, 2, 3]


def test_threads_that_are_there_do_the_work_where_no_other_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a Python that ends, from 3.12 on."""
    scheduler = Scheduler("test", threads=3)
    begin = PendingEvent()
    first = scheduler.submit(begin.wait)

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    done: list[int] = []
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        others = [scheduler.submit(partial(done.append, number), [first]) for number in range(3)]
        begin.complete()
        for event in others:
            event.wait()
        scheduler.wait_until_idle()
    assert done == [0, 1, 2]
    scheduler.close()


def test_without_any_thread_that_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    scheduler = Scheduler("test", threads=3)
    with pytest.raises(RuntimeError, match="can't create new thread"):
        scheduler.submit(int)
    scheduler.close()
