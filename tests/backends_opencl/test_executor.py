"""Memory, copies and launches on a real driver."""

from __future__ import annotations

import gc
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import pytest

from strategies.opencl_device import ADD_ONE, NUMBERS, SLOW, by_hand, device, new_executor
from strategies.processes import in_forked_child
from tileir.core.errors import ArgumentError, BackendError
from tileir.runtime.events import PendingEvent, failure_of
from tileir.runtime.interface import Options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tileir.runtime.interface import Event
    from tileir_opencl.run.executor import OpenCLExecutor
    from tileir_opencl.run.kernels import OpenCLKernel


def test_a_launch_waits_for_the_copy_that_fills_its_input(executor: OpenCLExecutor, add_one: OpenCLKernel) -> None:
    source, destination = executor.allocate(NUMBERS.nbytes), executor.allocate(NUMBERS.nbytes)
    result = np.zeros_like(NUMBERS)
    copied = executor.copy(NUMBERS, source)
    launched = add_one.run([source, destination], [copied])
    executor.copy(destination, result, [launched]).wait()
    np.testing.assert_array_equal(result, NUMBERS + 1)


def test_a_long_chain_runs_in_its_order(executor: OpenCLExecutor, add_one: OpenCLKernel) -> None:
    one, other = executor.allocate(NUMBERS.nbytes), executor.allocate(NUMBERS.nbytes)
    slow = executor.prepare(by_hand(SLOW), 0)
    event = slow.run([one, one], [executor.copy(NUMBERS, one)])
    for step in range(300):
        event = add_one.run([one, other] if step % 2 == 0 else [other, one], [event])
    result = np.zeros_like(NUMBERS)
    executor.copy(one, result, [event]).wait()
    np.testing.assert_allclose(result, np.full_like(NUMBERS, 302), rtol=1e-5)


def test_what_waits_for_nothing_overtakes_what_waits(executor: OpenCLExecutor, add_one: OpenCLKernel) -> None:
    buffers = [executor.allocate(NUMBERS.nbytes) for _ in range(4)]
    gate = PendingEvent()
    waiting = add_one.run(buffers[:2], [gate])
    following = add_one.run(buffers[:2], [waiting])
    add_one.run(buffers[2:]).wait()
    executor.copy(NUMBERS, buffers[2]).wait()
    assert not waiting.done
    assert not following.done
    gate.complete()
    following.wait()
    assert waiting.done


def test_a_failed_event_of_others_poisons_all_that_follows(executor: OpenCLExecutor, add_one: OpenCLKernel) -> None:
    one, other = executor.allocate(NUMBERS.nbytes), executor.allocate(NUMBERS.nbytes)
    gate, error = PendingEvent(), ValueError("the original")
    first = add_one.run([one, other], [gate])
    second = add_one.run([other, one], [first])
    third = executor.copy(one, np.zeros_like(NUMBERS), [second])
    gate.fail(error)
    later = add_one.run([one, other], [third])
    for event in (first, second, third, later):
        with pytest.raises(ValueError, match="the original") as caught:
            event.wait()
        assert caught.value is error
        assert event.done
        assert event.duration is None


@pytest.mark.parametrize("profile", [False, True])
def test_profiling_tells_how_long_the_device_was_busy(profile: bool) -> None:
    executor = new_executor(Options(profile=profile))
    slow = executor.prepare(by_hand(SLOW), 0)
    memory = executor.allocate(NUMBERS.nbytes)
    event = slow.run([memory, memory], [executor.copy(NUMBERS, memory)])
    event.wait()
    assert (event.duration or 0) > 0 if profile else event.duration is None
    executor.close()


def test_bound_launches_run_again_and_again(executor: OpenCLExecutor, add_one: OpenCLKernel) -> None:
    memory = executor.allocate(NUMBERS.nbytes)
    executor.copy(NUMBERS, memory).wait()
    bound = add_one.bind([memory, memory])
    event = bound.run()
    for _ in range(9):
        event = bound.run([event])
    event.wait()
    bound.launch()
    with memory.map_current() as view:
        np.testing.assert_array_equal(view.view(np.float32), NUMBERS + 11)


def test_mapped_memory_is_read_and_changed(executor: OpenCLExecutor, add_one: OpenCLKernel) -> None:
    one, other = executor.allocate(NUMBERS.nbytes), executor.allocate(NUMBERS.nbytes)
    with one.map_discard() as view:
        view.view(np.float32)[:] = NUMBERS
    launched = add_one.run([one, other])
    with other.map_current([launched]) as view:
        np.testing.assert_array_equal(view.view(np.float32), NUMBERS + 1)
        view.view(np.float32)[0] = 42
    with other.map_current() as view:
        assert view.view(np.float32)[0] == 42
    assert other.host() is None


def test_mapping_waits_for_events_and_passes_their_errors_on(executor: OpenCLExecutor) -> None:
    failed = PendingEvent()
    failed.fail(ValueError("no"))
    with pytest.raises(ValueError, match="no"), executor.allocate(4).map_current([failed]):
        pass


def test_empty_memory_is_allocated_copied_and_mapped(executor: OpenCLExecutor) -> None:
    nothing = executor.allocate(0)
    executor.copy(np.empty(0, np.float32), nothing).wait()
    with nothing.map_discard() as view:
        assert view.nbytes == 0


def test_copies_go_between_buffers_arrays_and_memory_of_others(executor: OpenCLExecutor) -> None:
    another = new_executor()
    one, other = executor.allocate(NUMBERS.nbytes), another.allocate(NUMBERS.nbytes)
    result, short = np.zeros_like(NUMBERS), np.zeros(3, np.float32)
    first = executor.copy(NUMBERS, one)
    second = executor.copy(one, other, [first])
    another.copy(other, result, [second]).wait()
    another.copy(other, short).wait()
    executor.copy(NUMBERS[5:8].copy(), short).wait()
    np.testing.assert_array_equal(result, NUMBERS)
    np.testing.assert_array_equal(short, NUMBERS[5:8])
    another.close()


def test_arrays_in_copies_stay_alive(executor: OpenCLExecutor) -> None:
    memory = executor.allocate(NUMBERS.nbytes)
    gate = PendingEvent()
    event = executor.copy(NUMBERS + 3, memory, [gate])
    gc.collect()
    gate.complete()
    event.wait()
    with memory.map_current() as view:
        np.testing.assert_array_equal(view.view(np.float32), NUMBERS + 3)


@pytest.mark.parametrize(
    ("source", "destination", "words"),
    [
        (np.zeros((4, 4))[:, 1], np.zeros(4), "gaps"),
        (np.zeros(4), np.broadcast_to(np.zeros(1), (4,)), "gaps"),
        (np.zeros(4), np.frombuffer(bytes(32), np.float64), "read-only"),
    ],
)
def test_arrays_that_cannot_be_copied(
    executor: OpenCLExecutor, source: np.ndarray, destination: np.ndarray, words: str
) -> None:
    with pytest.raises(ArgumentError, match=words) as caught:
        executor.copy(source, destination)
    assert [d.code for d in caught.value.diagnostics] == ["TIL706"]


def test_buffers_that_do_not_fit_are_refused_before_anything_runs(
    executor: OpenCLExecutor, add_one: OpenCLKernel
) -> None:
    enough, small = executor.allocate(NUMBERS.nbytes), executor.allocate(8)
    for buffers in ([enough, small], [enough], [enough] * 3, [enough, NUMBERS]):
        with pytest.raises(ArgumentError) as caught:
            add_one.run(buffers)  # type: ignore[arg-type]
        assert [d.code for d in caught.value.diagnostics] == ["TIL706"]
    with pytest.raises(ArgumentError):
        add_one.bind([small, enough])


def test_many_threads_launch_one_kernel(executor: OpenCLExecutor, add_one: OpenCLKernel) -> None:
    results: list[bool] = []

    def work(number: int) -> None:
        memory = executor.allocate(NUMBERS.nbytes)
        event = executor.copy(NUMBERS + number, memory)
        for _ in range(20):
            event = add_one.run([memory, memory], [event])
        result = np.zeros_like(NUMBERS)
        executor.copy(memory, result, [event]).wait()
        results.append(bool((result == NUMBERS + number + 20).all()))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 8


def test_a_closed_executor_says_so(executor: OpenCLExecutor, add_one: OpenCLKernel) -> None:
    memory = executor.allocate(NUMBERS.nbytes)
    executor.close()
    executor.close()
    uses: list[Callable[[], object]] = [
        lambda: executor.allocate(4),
        lambda: executor.copy(NUMBERS, memory),
        lambda: executor.prepare(by_hand(ADD_ONE), 0),
        lambda: add_one.run([memory, memory]),
    ]
    if executor.shares:
        uses.append(lambda: executor.wrap(NUMBERS))
    for use in uses:
        with pytest.raises(BackendError, match="was closed") as caught:
            use()
        assert [d.code for d in caught.value.diagnostics] == ["TIL807"]


def test_closing_waits_for_work_that_waits_for_others(add_one: OpenCLKernel) -> None:
    made = new_executor()
    kernel = made.prepare(by_hand(ADD_ONE), 0)
    memory, gate = made.allocate(NUMBERS.nbytes), PendingEvent()
    event = kernel.run([memory, memory], [gate])
    threading.Timer(0.05, gate.complete).start()
    made.close()
    assert event.done


def test_a_forked_child_gets_an_error_instead_of_a_crash(executor: OpenCLExecutor, add_one: OpenCLKernel) -> None:
    memory = executor.allocate(NUMBERS.nbytes)
    slow = executor.prepare(by_hand(SLOW.replace("2000", "200000")), 0)
    event = slow.run([memory, memory])

    def refused() -> bool:
        for use in (lambda: executor.allocate(4), lambda: add_one.run([memory, memory]), new_executor):
            try:
                use()
            except BackendError as error:
                if [d.code for d in error.diagnostics] != ["TIL809"]:
                    return False
            else:
                return False
        executor.close()
        return event.done and failure_of(event) is not None

    assert in_forked_child(refused)
    event.wait()
    add_one.launch([memory, memory])
    assert device().backend == "opencl"


class OthersBuffer:
    """Memory of a device that the driver knows nothing of, and that the host sees only while it is mapped."""

    def __init__(self, content: np.ndarray) -> None:
        self.content = content.view(np.uint8)
        self.nbytes = content.nbytes

    def host(self) -> None:
        return None

    @contextmanager
    def map_current(self, after: Sequence[Event] = ()) -> Iterator[np.ndarray]:
        assert not after
        yield self.content


def test_copies_between_strangers_go_through_the_host(executor: OpenCLExecutor) -> None:
    source, destination = OthersBuffer(NUMBERS.copy()), OthersBuffer(np.zeros_like(NUMBERS))
    ours, gate = executor.allocate(NUMBERS.nbytes), PendingEvent()
    first = executor.copy(source, ours, [gate])
    second = executor.copy(ours, destination, [first])
    array = np.zeros_like(NUMBERS)
    third = executor.copy(destination, array, [second])
    assert not third.done
    gate.complete()
    third.wait()
    np.testing.assert_array_equal(array, NUMBERS)
    np.testing.assert_array_equal(destination.content.view(np.float32), NUMBERS)
