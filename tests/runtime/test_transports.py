"""Transports: the engine of threads, and what every engine gets from the interface."""

from __future__ import annotations

import logging
import re
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tileir.core import Aggregation, BackendError
from tileir.runtime import transports
from tileir.runtime.transports import THREADS, DisagreementError, Threads, Transport, agree

if TYPE_CHECKING:
    from collections.abc import Callable


def launched(size: int, work: Callable[[Transport], Any]) -> list[Any]:
    found = THREADS.launch(size, work)
    assert list(found) == list(range(size))
    return list(found.values())


def test_ranks_know_who_they_are() -> None:
    assert launched(3, lambda end: (end.rank, end.size, end.shares_memory)) == [(rank, 3, True) for rank in range(3)]


def test_messages_arrive_in_the_order_in_which_they_are_sent() -> None:
    def work(end: Transport) -> list[float]:
        other = 1 - end.rank
        sent = [np.full(2, 10 * end.rank + number) for number in range(3)]
        received = [np.empty(2, np.int64) for _ in range(3)]
        end.exchange([(other, array) for array in sent], [(other, received[0]), (other, received[1])])
        for array in sent:
            array[...] = -1
        end.exchange([], [(other, received[2])])
        return [int(array[0]) for array in received]

    assert launched(2, work) == [[10, 11, 12], [0, 1, 2]]


@pytest.mark.parametrize("how", [Aggregation.SUM, Aggregation.PROD, Aggregation.MAX, Aggregation.MIN])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_merges_of_all_ranks(how: Aggregation, size: int) -> None:
    arrays = np.random.default_rng(0).integers(-4, 5, (size, 3, 4))
    ufunc = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[how.value]
    expected = ufunc.reduce(arrays, axis=0)
    group = tuple(range(size))
    for result in launched(size, lambda end: end.all_reduce(arrays[end.rank], how, group)):
        np.testing.assert_array_equal(result, expected)
    rows = [np.ascontiguousarray(each) for each in np.array_split(expected, size)]
    parts = launched(
        size,
        lambda end: end.reduce_scatter(
            [np.ascontiguousarray(each) for each in np.array_split(arrays[end.rank], size)], how, group
        ),
    )
    for result, right in zip(parts, rows, strict=True):
        np.testing.assert_array_equal(result, right)


def test_sums_of_floats_have_the_same_bits_on_all_ranks() -> None:
    arrays = np.random.default_rng(1).standard_normal((3, 100)).astype(np.float32)
    expected = (arrays[0] + arrays[1]) + arrays[2]
    for result in launched(3, lambda end: end.all_reduce(arrays[end.rank], Aggregation.SUM, (0, 1, 2))):
        np.testing.assert_array_equal(result, expected)


def test_groups_leave_other_ranks_alone() -> None:
    def work(end: Transport) -> list[int]:
        group = (0, 2) if end.rank % 2 == 0 else (1, 3)
        parts = [np.empty(rank + 1, np.int64) for rank in group]
        end.all_gather(np.full(end.rank + 1, end.rank), parts, group)
        return [int(number) for part in parts for number in part]

    assert launched(4, work) == [[0, 2, 2, 2], [1, 1, 3, 3, 3, 3]] * 2


def test_a_rank_that_fails_stops_those_that_wait_for_it() -> None:
    def work(end: Transport) -> None:
        if end.rank == 1:
            raise ValueError("no room")
        end.exchange([], [(1, np.empty(1))])

    with pytest.raises(BackendError, match="rank 1 failed, and so the others stopped: ValueError: no room") as caught:
        THREADS.launch(3, work)
    assert caught.value.diagnostics[0].code == "TIL814"
    assert isinstance(caught.value.__cause__, ValueError)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("tileir rank")]


def test_ranks_that_differ_are_refused_on_every_rank() -> None:
    def work(end: Transport) -> str:
        with pytest.raises(DisagreementError, match=r"TIL815.: rank 2 differs from rank 0 in the mesh; all ranks must"):
            agree(end, {"the program": "alike", "the mesh": f"x={3 + end.rank // 2}"})
        agree(end, {"the program": "alike"})
        return end.place

    assert launched(3, work) == ["the start of a program"] * 3
    with pytest.raises(DisagreementError, match=r"TIL815.: rank 1 differs from rank 0 in the program and the mesh"):
        THREADS.launch(2, lambda end: agree(end, {"the program": str(end.rank), "the mesh": str(end.rank)}))


@pytest.mark.parametrize("other", [{"the array": "alike"}, {"the program": "alike", "the mesh": "", "more": ""}, {}])
def test_ranks_that_make_other_calls_are_refused(other: dict[str, str]) -> None:
    """Calls compare different texts, of different numbers, and yet no message is cut short."""
    with pytest.raises(DisagreementError, match=r"TIL815.: rank 1 makes another call than rank 0; all ranks must make"):
        THREADS.launch(2, lambda end: agree(end, other if end.rank else {"the program": "alike"}))


def received(end: Transport, other: int) -> None:
    end.place = "the sum 'S'"
    end.exchange([], [(other, np.empty(1))])


def test_a_rank_that_is_late_is_named() -> None:
    told: set[str] = set()
    heard = threading.Event()

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.add(re.sub(r"for \d+ s", "for a while", record.getMessage()))
            if len(told) == 2:
                heard.set()

    def work(end: Transport) -> None:
        if end.rank < 2:
            received(end, end.rank + 1)
        else:
            heard.wait()
        if end.rank > 0:
            end.exchange([(end.rank - 1, np.zeros(1))], [])

    log, listener = logging.getLogger("tileir.distributed"), Listener()
    log.addHandler(listener)
    Threads(late=0.02).launch(3, work)
    log.removeHandler(listener)
    assert told == {
        "rank 1 waits in the sum 'S' for a while: rank 2 is late, and does not wait for others",
        "rank 0 waits in the sum 'S' for a while: rank 1 is in the sum 'S'",
    }


@pytest.mark.parametrize(
    ("leaves", "message"),
    [
        (True, "TIL814.: rank 1 has ended, and rank 0 waits in the sum 'S'"),
        (False, "TIL816.: rank 0 waits in the sum 'S' for 0 s: rank 1 is late, and does not wait for others"),
    ],
)
def test_a_rank_that_others_wait_for_in_vain_ends_all(
    monkeypatch: pytest.MonkeyPatch, leaves: bool, message: str
) -> None:
    monkeypatch.setattr(transports, "GRACE", 0.02)
    started = threading.Event()

    def work(end: Transport) -> None:
        if end.rank == 0:
            received(end, 1)
        elif not leaves:
            started.wait()

    with pytest.raises(BackendError, match=message):
        Threads(timeout=0.02).launch(2, work)
    started.set()
