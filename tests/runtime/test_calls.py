from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from strategies.processes import in_forked_child
from tileir.core.errors import BackendError
from tileir.runtime.events import PendingEvent, Scheduler
from tileir.runtime.interface import Event
from tileir.runtime.plans.calls import Calls


def waits(calls: Calls, reads: Sequence[object], writes: Sequence[object]) -> tuple[PendingEvent, Sequence[Event]]:
    """Add a call that is not done, and return its event and what it would wait for."""
    event, seen = PendingEvent(), list[Event]()

    def start(after: Sequence[Event]) -> PendingEvent:
        seen.extend(after)
        return event

    calls.add(reads, writes, (), start)  # type: ignore[arg-type]
    return event, seen


def test_calls_on_other_arrays_do_not_wait() -> None:
    calls, room = Calls(), np.zeros(8)
    waits(calls, [room[:2]], [room[2:4]])
    assert waits(calls, [room[4:6]], [room[6:]])[1] == []
    assert waits(calls, [room[:2]], [np.zeros(1)])[1] == []


@pytest.mark.parametrize(("reads", "writes"), [(slice(2, 4), None), (None, slice(0, 1)), (None, slice(3, 4))])
def test_calls_that_share_arrays_wait(reads: slice | None, writes: slice | None) -> None:
    calls, room = Calls(), np.zeros(8)
    first, _ = waits(calls, [room[:2]], [room[2:4]])
    _, after = waits(calls, [] if reads is None else [room[reads]], [] if writes is None else [room[writes]])
    assert [event.done for event in after] == [False]
    first.complete()
    assert all(event.done for event in after)


def test_what_is_done_is_forgotten() -> None:
    calls, room = Calls(), np.zeros(8)
    event, _ = waits(calls, [], [room])
    assert calls
    event.complete()
    assert not calls
    assert waits(calls, [room], [])[1] == []


def test_a_failure_passes_to_who_reads_and_not_to_who_overwrites() -> None:
    calls, room, other = Calls(), np.zeros(8), np.zeros(8)
    scheduler, gate = Scheduler("test"), PendingEvent()
    calls.add([], [room], [gate], lambda after: scheduler.submit(lambda: None, after))
    reader = calls.add([room], [other], (), lambda after: scheduler.submit(lambda: None, after))
    writer = calls.add([], [room], (), lambda after: scheduler.submit(lambda: None, after))
    gate.fail(ValueError("broken"))
    with pytest.raises(ValueError, match="broken"):
        reader.wait()
    writer.wait()
    scheduler.close()


def test_settling_waits_for_what_shares_arrays() -> None:
    calls, room = Calls(), np.zeros(8)
    scheduler = Scheduler("test")
    seen: list[int] = []
    calls.add([], [room], (), lambda after: scheduler.submit(lambda: seen.append(1), after))
    calls.settle([room], [])
    assert seen == [1]
    calls.add([room], [], (), lambda after: scheduler.submit(lambda: seen.append(2), after))
    calls.settle([], [room])
    assert seen == [1, 2]
    scheduler.close()


def test_a_call_that_failed_is_told_when_its_result_is_needed() -> None:
    calls, room = Calls(), np.zeros(8)
    event, _ = waits(calls, [], [room])
    pending = tuple(calls.pending)
    event.fail(ValueError("broken"))
    calls.pending = list(pending)
    calls.wait()
    calls.settle([], [room])
    with pytest.raises(ValueError, match="broken"):
        calls.settle([room], [])


def test_a_forked_child_learns_that_calls_of_its_parent_are_lost() -> None:
    calls, room = Calls(), np.zeros(8)
    event, _ = waits(calls, [], [room])

    def child() -> bool:
        with pytest.raises(BackendError) as caught:
            event.wait()
        return not calls and caught.value.diagnostics[0].code == "TIL809"

    assert in_forked_child(child)
    event.complete()


class InQueue:
    """An event of a driver's queue."""

    done, duration = False, None

    def wait(self) -> None:
        """Say that somebody waits here."""
        raise AssertionError("the queue has an order of its own")


def test_who_overwrites_follows_in_the_queue_of_the_device() -> None:
    calls, room, end = Calls(), np.zeros(8), InQueue()
    first, _ = waits(calls, [room[:2]], [room[2:]])
    first.ends = (end,)
    _, after = waits(calls, [], [room[:2]])
    assert list(after) == [end]


def test_who_overwrites_waits_for_what_is_in_no_queue_yet() -> None:
    calls, room, postponed = Calls(), np.zeros(8), PendingEvent()
    first, _ = waits(calls, [room[:2]], [room[2:]])
    first.ends = (InQueue(), postponed)
    _, (after,) = waits(calls, [], [room[:2]])
    assert not after.done
    first.fail(ValueError("broken"))
    after.wait()  # it has ended, and whoever overwrites does not fail with it
