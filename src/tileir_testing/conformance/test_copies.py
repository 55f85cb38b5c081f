"""Memory: its size and alignment, copies between all kinds of ends, arrays in place, and maps to the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileir.core import TileError
from tileir.runtime.events import PendingEvent
from tileir_testing.subject import INCREMENT, BoomError, Subject, elsewhere, held, numbers


@pytest.mark.parametrize("size", [0, 1, 3, 64, 1000, 70_001])
def test_memory_has_the_size_that_was_asked_for(subject: Subject, size: int) -> None:
    buffer = subject.executor.allocate(size)
    assert buffer.nbytes == size
    memory = buffer.host()
    if memory is not None:
        assert memory.dtype == np.uint8
        assert memory.shape == (size,)
        assert size == 0 or memory.ctypes.data % 64 == 0


@pytest.mark.parametrize("size", [0, 1, 3, 1000, 70_001])
def test_content_survives_a_round_trip(subject: Subject, size: int) -> None:
    given = np.random.default_rng(size).integers(0, 256, size).astype(np.uint8)
    first, second = subject.upload(given), subject.executor.allocate(size)
    subject.executor.copy(first, second).wait()
    np.testing.assert_array_equal(subject.download(second, given), given)


def test_copies_stop_at_the_shorter_end(subject: Subject) -> None:
    given = np.arange(100, dtype=np.uint8)
    buffer = subject.upload(np.full(60, 200, np.uint8))
    subject.executor.copy(given, buffer).wait()
    host = np.full(100, 7, np.uint8)
    subject.executor.copy(buffer, host).wait()
    np.testing.assert_array_equal(host, np.concatenate([given[:60], np.full(40, 7)]))
    subject.executor.copy(given[:10] + 100, buffer).wait()
    expected = np.concatenate([given[:10] + 100, given[10:60]])
    np.testing.assert_array_equal(subject.download(buffer, expected), expected)


def test_arrays_of_any_dtype_and_shape_are_copied_as_bytes(subject: Subject) -> None:
    given = np.random.default_rng(0).normal(size=(3, 5, 2))
    np.testing.assert_array_equal(subject.download(subject.upload(given), given), given)


def test_arrays_with_gaps_are_refused(subject: Subject) -> None:
    buffer = subject.executor.allocate(64)
    gaps = np.zeros((8, 8), np.uint8)[:, ::2]
    frozen = np.zeros(64, np.uint8)
    frozen.flags.writeable = False
    for source, target in ((gaps, buffer), (buffer, gaps), (buffer, frozen)):
        with pytest.raises(TileError):
            subject.executor.copy(source, target).wait()


def test_memory_is_not_shared(subject: Subject) -> None:
    buffers = [subject.upload(numbers(start)) for start in range(20)]
    for start, buffer in enumerate(buffers):
        np.testing.assert_array_equal(subject.download(buffer, numbers()), numbers(start))


def test_a_wrapped_array_is_used_in_place(subject: Subject) -> None:
    source, target = numbers(), np.zeros_like(numbers())
    ends = [subject.executor.wrap(array) for array in (target, source)]
    if any(end is None for end in ends):
        pytest.skip("this device does not use arrays of the host in place")
    source[:] = numbers(10)
    subject.prepared(subject.kernel(INCREMENT)).launch(ends)
    np.testing.assert_array_equal(target, numbers(11))


def test_arrays_with_gaps_are_not_wrapped(subject: Subject) -> None:
    assert subject.executor.wrap(np.zeros((8, 8), np.float32)[:, ::2]) is None


def test_a_map_shows_the_content_and_takes_changes(subject: Subject) -> None:
    source, target = subject.upload(numbers()), subject.blank(numbers())
    with source.map_current() as memory:
        content = memory.view(np.int32)
        np.testing.assert_array_equal(content, numbers())
        content[:] = numbers(50)
    subject.prepared(subject.kernel(INCREMENT)).launch([target, source])
    with target.map_current() as memory:
        np.testing.assert_array_equal(memory.view(np.int32), numbers(51))


def test_a_map_that_discards_takes_new_content(subject: Subject) -> None:
    buffer = subject.upload(numbers())
    with buffer.map_discard() as memory:
        assert memory.dtype == np.uint8
        assert memory.nbytes == buffer.nbytes
        memory.view(np.int32)[:] = numbers(3)
    np.testing.assert_array_equal(subject.download(buffer, numbers()), numbers(3))


def test_a_map_waits_for_what_it_comes_after(subject: Subject) -> None:
    increment = subject.prepared(subject.kernel(INCREMENT))
    source, target = subject.upload(numbers()), subject.blank(numbers())
    gate = PendingEvent()

    def look() -> Any:
        with target.map_current([launched]) as memory:
            return memory.view(np.int32).copy()

    with elsewhere() as submit:
        pending = submit(lambda: increment.run([target, source], [gate]))
        held(pending)
        gate.complete()
        launched = pending.result()
        np.testing.assert_array_equal(submit(look).result(), numbers(1))


@pytest.mark.parametrize("kind", ["map_current", "map_discard"])
def test_a_map_after_a_failure_raises_it(subject: Subject, kind: str) -> None:
    buffer, gate, error = subject.upload(numbers()), PendingEvent(), BoomError("the original")
    gate.fail(error)
    with pytest.raises(BoomError) as caught, getattr(buffer, kind)([gate]):
        pass
    assert caught.value is error
    np.testing.assert_array_equal(subject.download(buffer, numbers()), numbers())


def test_an_error_inside_a_map_leaves_the_buffer_usable(subject: Subject) -> None:
    buffer = subject.upload(numbers())
    with pytest.raises(BoomError), buffer.map_current():
        raise BoomError
    subject.executor.copy(numbers(4), buffer).wait()
    np.testing.assert_array_equal(subject.download(buffer, numbers()), numbers(4))
