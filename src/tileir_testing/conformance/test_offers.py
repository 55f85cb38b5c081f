"""Optional offers of a back end: bound kernels, parts of buffers, sequences, batches, callbacks."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from tileir.runtime import (
    BatchingExecutor,
    BindingKernel,
    Event,
    Kernel,
    PartingExecutor,
    PendingEvent,
    SequencingExecutor,
)
from tileir.runtime.offers import NotifyingEvent, event_mistakes, executor_mistakes, kernel_mistakes
from tileir_testing.subject import INCREMENT, BoomError, Subject, elsewhere, held, numbers


@pytest.fixture(scope="module")
def increment(subject: Subject) -> Kernel:
    return subject.prepared(subject.kernel(INCREMENT))


def test_no_offer_is_misspelt_or_incomplete(subject: Subject, increment: Kernel) -> None:
    event = increment.run([subject.blank(numbers()), subject.upload(numbers())])
    event.wait()
    found = (*executor_mistakes(subject.executor), *kernel_mistakes(increment), *event_mistakes(event))
    assert not found, "; ".join(found)


def test_a_bound_kernel_runs_again_and_again(subject: Subject, increment: Kernel) -> None:
    if not isinstance(increment, BindingKernel):
        pytest.skip("kernels are not bound to buffers")
    source, target = subject.upload(numbers()), subject.blank(numbers())
    forth, back = increment.bind([target, source]), increment.bind([source, target])
    for _ in range(3):
        forth.launch()
        back.run([forth.run()]).wait()
    np.testing.assert_array_equal(subject.download(source, numbers()), numbers(6))


def test_a_bound_kernel_waits_and_fails_like_any_other(subject: Subject, increment: Kernel) -> None:
    if not isinstance(increment, BindingKernel):
        pytest.skip("kernels are not bound to buffers")
    source, target = subject.upload(numbers()), subject.blank(numbers())
    bound = increment.bind([target, source])
    gate, error = PendingEvent(), BoomError("the original")
    with elsewhere() as submit:
        launched = submit(lambda: bound.run([gate]))
        assert held(launched)
        gate.fail(error)
        with pytest.raises(BoomError) as caught:
            launched.result().wait()
    assert caught.value is error
    np.testing.assert_array_equal(subject.download(target, numbers()), np.full(len(numbers()), -1))


def test_parts_lie_in_their_buffer(subject: Subject, increment: Kernel) -> None:
    executor = subject.executor
    if not isinstance(executor, PartingExecutor):
        pytest.skip("buffers have no parts")
    step = -(-numbers().nbytes // executor.part_alignment) * executor.part_alignment
    whole = executor.allocate(3 * step)
    parts = [executor.part(whole, number * step, numbers().nbytes) for number in range(3)]
    for start, part in enumerate(parts):
        assert part.nbytes == numbers().nbytes
        executor.copy(numbers(100 * start), part).wait()
    increment.launch([parts[1], parts[0]])
    expected = np.zeros(3 * step, np.uint8)
    for number, content in enumerate((numbers(), numbers(1), numbers(200))):
        expected[number * step : number * step + content.nbytes] = content.view(np.uint8)
    actual = subject.download(whole, expected).reshape(3, step)[:, : numbers().nbytes]
    np.testing.assert_array_equal(actual, expected.reshape(3, step)[:, : numbers().nbytes])


def test_a_part_keeps_its_buffer_alive(subject: Subject) -> None:
    executor = subject.executor
    if not isinstance(executor, PartingExecutor):
        pytest.skip("buffers have no parts")
    part = executor.part(subject.upload(numbers()), 0, 400)
    others = [subject.upload(numbers(500)) for _ in range(10)]
    np.testing.assert_array_equal(subject.download(part, numbers()[:100]), numbers()[:100])
    assert len(others) == 10


def test_a_sequence_runs_in_its_order(subject: Subject, increment: Kernel) -> None:
    executor = subject.executor
    if not isinstance(executor, SequencingExecutor):
        pytest.skip("launches are not put in sequence")
    between = subject.blank(numbers())
    sequence = executor.sequence([(increment, (between, 0)), (increment, (1, between))])
    for start in (0, 10):
        source, target = numbers(start), np.zeros_like(numbers())
        if sequence.launch([source, target]):
            np.testing.assert_array_equal(target, numbers(start + 2))
        else:
            np.testing.assert_array_equal(target, 0)


def test_a_batch_runs_in_its_order(subject: Subject, increment: Kernel) -> None:
    executor = subject.executor
    if not isinstance(executor, BatchingExecutor) or not isinstance(increment, BindingKernel):
        pytest.skip("programs are not run as one piece of work")
    there, back = subject.blank(numbers()), subject.blank(numbers())
    launches = [increment.bind([back, there]), increment.bind([there, back])]
    for start in (0, 10):
        result = np.zeros_like(numbers())
        executor.run_batch([(numbers(start), there)], launches, [(there, result)])
        np.testing.assert_array_equal(result, numbers(start + 2))


def test_callbacks_come_once_after_success_and_after_failure(subject: Subject, increment: Kernel) -> None:
    source, target = subject.upload(numbers()), subject.blank(numbers())
    failed = PendingEvent()
    failed.fail(BoomError("no"))
    for after in ((), (failed,)):
        event = increment.run([target, source], after)
        if not isinstance(event, NotifyingEvent):
            pytest.skip("events take no callbacks")
        calls: list[bool] = []
        called = threading.Event()

        def callback(calls: list[bool] = calls, event: Event = event, called: threading.Event = called) -> None:
            calls.append(bool(event.done))
            called.set()

        event.then(callback)
        called.wait()
        assert calls == [True]
