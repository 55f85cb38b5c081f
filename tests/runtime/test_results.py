"""Memory of results comes back when nothing refers to it any more, and not before."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

import tileir
from strategies.processes import in_forked_child
from tileir.runtime.results import LEAST, ResultPool

F32 = np.dtype(np.float32)


def address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])


@pytest.mark.parametrize("shape", [(1024, 1024), (3, 500, 1001), (1 << 20,)])
@pytest.mark.parametrize("dtype", ["float32", "int8", "complex128"])
def test_memory_comes_back_with_the_last_view(shape: tuple[int, ...], dtype: str) -> None:
    rooms, kind = ResultPool(), np.dtype(dtype)
    array = rooms.empty(shape, kind)
    assert (array.shape, array.dtype) == (shape, kind)
    assert array.flags.carray
    array[...] = 1
    place, view = address(array), array.T[1:2]
    del array
    assert rooms.kept_bytes == 0
    other = rooms.empty(shape, kind)
    other[...] = 2
    assert (view == 1).all()
    del view
    assert rooms.kept_bytes > 0
    assert address(rooms.empty(shape, kind)) == place
    assert address(other) != place


def test_who_shares_memory_keeps_it() -> None:
    rooms = ResultPool()
    capsule = rooms.empty((LEAST,), F32).__dlpack__()
    buffer = rooms.empty((LEAST,), F32).data
    shared = np.from_dlpack(rooms.empty((LEAST,), F32))
    assert rooms.kept_bytes == 0
    del buffer, shared
    assert rooms.kept_bytes == 8 * LEAST
    del capsule
    assert rooms.kept_bytes == 12 * LEAST


def test_small_and_huge_arrays_are_those_of_numpy() -> None:
    rooms = ResultPool(4 * LEAST)
    for size in (0, 1, LEAST // 4 - 1, LEAST + 1):
        assert rooms.empty((size,), F32).base is None
    assert rooms.kept_bytes == 0


def test_what_is_kept_is_bounded_and_the_oldest_goes() -> None:
    rooms = ResultPool(10 * LEAST)
    arrays = [rooms.empty((LEAST,), F32) for _ in range(4)]
    places = [address(array) for array in arrays]
    while arrays:
        del arrays[0]
    assert rooms.kept_bytes == 8 * LEAST
    assert [address(rooms.empty((LEAST,), F32)) for _ in range(1)] == places[3:]
    assert rooms.trim() == 8 * LEAST
    assert rooms.trim() == 0


def test_threads_never_share_memory() -> None:
    rooms, wrong = ResultPool(), list[int]()

    def work(number: int) -> None:
        for turn in range(200):
            array = rooms.empty((LEAST // 4,), F32)
            array[::1024] = number * 1000 + turn
            if not (array[::1024] == number * 1000 + turn).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    assert not wrong
    assert rooms.kept_bytes <= 8 * LEAST


def test_results_of_calls_come_back() -> None:
    double = tileir.jit("function (A) -> (B) { B = A * 2; }")
    a = np.arange(1 << 20, dtype=np.float32)
    tileir.trim()
    first = double(a)
    place = address(first)
    second = double(first)
    np.testing.assert_array_equal(second, a * 4)
    del first
    assert address(double(second)) == place
    np.testing.assert_array_equal(second, a * 4)
    del second
    assert tileir.trim() >= 8 << 20


def test_a_forked_child_is_not_kept_waiting() -> None:
    rooms = ResultPool()
    with rooms._lock:
        assert in_forked_child(lambda: rooms.empty((LEAST,), F32).shape == (LEAST,))
