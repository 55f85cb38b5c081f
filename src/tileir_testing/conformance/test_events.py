"""Events: launches and copies wait for others, report their end, and pass errors on."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from tileir.runtime import Buffer, Event, Kernel, PendingEvent
from tileir_testing.subject import INCREMENT, SIZE, BoomError, Gate, Subject, elsewhere, held, numbers

each_gate = pytest.mark.parametrize("gate_type", [PendingEvent, Gate], ids=["with then", "without then"])


@pytest.fixture(scope="module")
def increment(subject: Subject) -> Kernel:
    return subject.prepared(subject.kernel(INCREMENT))


@each_gate
def test_a_launch_waits_for_what_it_comes_after(
    subject: Subject, increment: Kernel, gate_type: type[PendingEvent | Gate]
) -> None:
    check_waits(
        subject, gate_type(), lambda source, target, after: increment.run([target, source], after), numbers(501)
    )


@each_gate
def test_a_copy_waits_for_what_it_comes_after(subject: Subject, gate_type: type[PendingEvent | Gate]) -> None:
    check_waits(subject, gate_type(), subject.executor.copy, numbers(500))


def check_waits(
    subject: Subject,
    gate: PendingEvent | Gate,
    begin: Callable[[Buffer, Buffer, list[Event]], Event],
    expected: np.ndarray[Any, Any],
) -> None:
    """Check that copying or launching from a source waits for a gate, after which the source has other content."""
    source, target = subject.upload(numbers()), subject.blank(numbers())
    with elsewhere() as submit:
        begun = submit(lambda: begin(source, target, [gate]))
        waited = held(begun)
        subject.executor.copy(numbers(500), source).wait()
        gate.complete()
        begun.result().wait()
    np.testing.assert_array_equal(subject.download(target, numbers()), expected)
    assert waited, "an event was done before what it comes after"


def test_a_chain_runs_in_its_order(subject: Subject, increment: Kernel) -> None:
    one, other = subject.upload(numbers()), subject.blank(numbers())
    result = np.zeros(SIZE, np.int32)
    events: list[Event] = []
    for _ in range(20):
        events.append(increment.run([other, one], events[-1:]))
        one, other = other, one
    events.append(subject.executor.copy(one, result, events[-1:]))
    events[-1].wait()
    np.testing.assert_array_equal(result, numbers(20))
    assert all(event.done for event in events)


def test_a_launch_may_come_after_many(subject: Subject, increment: Kernel) -> None:
    sources = [subject.upload(numbers(start)) for start in range(8)]
    targets = [subject.blank(numbers()) for _ in sources]
    first = [increment.run([target, source]) for source, target in zip(sources, targets, strict=True)]
    first[0].wait()
    after = [*first, *first]  # done ones and repeated ones as well
    second = [increment.run([source, target], after) for source, target in zip(sources, targets, strict=True)]
    for start, (event, buffer) in enumerate(zip(second, sources, strict=True)):
        event.wait()
        np.testing.assert_array_equal(subject.download(buffer, numbers()), numbers(start + 2))


def test_events_of_another_executor_count_as_well(subject: Subject, increment: Kernel) -> None:
    executor = subject.fresh_executor()
    try:
        source = executor.allocate(numbers().nbytes)
        host = np.zeros(SIZE, np.int32)
        here = executor.copy(numbers(7), source)
        there = executor.copy(source, host, [here])
        buffer, target = subject.blank(numbers()), subject.blank(numbers())
        filled = subject.executor.copy(host, buffer, [there])
        increment.run([target, buffer], [filled]).wait()
        np.testing.assert_array_equal(subject.download(target, numbers()), numbers(8))
    finally:
        executor.close()


@each_gate
def test_a_failure_reaches_everyone_who_waits(
    subject: Subject, increment: Kernel, gate_type: type[PendingEvent | Gate]
) -> None:
    source, target = subject.upload(numbers()), subject.blank(numbers())
    host = numbers(77)
    error, gate = BoomError("the original"), gate_type()
    with elsewhere() as submit:
        launched = submit(lambda: increment.run([target, source], [gate]))
        held(launched)
        gate.fail(error)
        first = launched.result()
        events = [first, increment.run([source, target], [first]), subject.executor.copy(target, host, [first])]
        events.append(subject.executor.copy(host, source, [events[1]]))
    for event in [*events, *events]:
        with pytest.raises(BoomError) as caught:
            event.wait()
        assert caught.value is error, "a waiter got another error than the original one"
        assert event.done
    np.testing.assert_array_equal(host, numbers(77))
    np.testing.assert_array_equal(subject.download(target, numbers()), np.full(SIZE, -1))
    np.testing.assert_array_equal(subject.download(source, numbers()), numbers())


def test_a_failure_harms_nothing_else(subject: Subject, increment: Kernel) -> None:
    gate = PendingEvent()
    gate.fail(BoomError("once"))
    source, target = subject.upload(numbers()), subject.blank(numbers())
    failed = increment.run([target, source], [gate])
    with pytest.raises(BoomError):
        failed.wait()
    increment.run([target, source]).wait()
    np.testing.assert_array_equal(subject.download(target, numbers()), numbers(1))


def test_many_threads_wait_for_one_event(subject: Subject, increment: Kernel) -> None:
    source, target = subject.upload(numbers()), subject.blank(numbers())
    barrier = threading.Barrier(8)

    def wait() -> bool:
        barrier.wait()
        event.wait()
        return event.done

    event = increment.run([target, source])
    with ThreadPoolExecutor(8) as pool:
        assert all(future.result() for future in [pool.submit(wait) for _ in range(8)])


def test_submitted_calls_follow_one_another(subject: Subject) -> None:
    arrays = [np.full((64, 3), start, np.int32) for start in range(6)]
    executable = subject.compile("function (A[N, M]) -> (O) { S[i : N] = +(A[i, j]); O = A + 1; }", {"A": arrays[0]})
    gate = PendingEvent()
    calls = [
        executable.submit(one, out=other, after=[gate] if number == 0 else [])
        for number, (one, other) in enumerate(itertools.pairwise(arrays))
    ]
    assert not any(call.done for call in calls)
    gate.complete()
    calls[-1].wait()
    for number, array in enumerate(arrays):
        np.testing.assert_array_equal(array, number)


def test_a_failure_reaches_submitted_calls(subject: Subject) -> None:
    arrays = [np.full(64, start, np.float32) for start in (1, 2, 3)]
    executable = subject.compile("function (A) -> (O) { O = A * 5; }", {"A": arrays[0]})
    gate, error = PendingEvent(), BoomError("the original")
    calls = [executable.submit(arrays[0], out=arrays[1], after=[gate]), executable.submit(arrays[1], out=arrays[2])]
    gate.fail(error)
    for call in calls:
        with pytest.raises(BoomError) as caught:
            call.wait()
        assert caught.value is error
    np.testing.assert_array_equal(arrays[2], 3)
    np.testing.assert_array_equal(executable(arrays[0]), arrays[0] * 5)


def test_durations_are_seconds_or_unknown(subject: Subject, increment: Kernel) -> None:
    source, target = subject.upload(numbers()), subject.blank(numbers())
    for event in (increment.run([target, source]), subject.executor.copy(source, target)):
        event.wait()
        assert event.done
        assert event.duration is None or event.duration >= 0.0
