from __future__ import annotations

import threading
import time

import pytest

from strategies.processes import in_forked_child
from tileir.runtime.caches.cache import Cache


def test_values_are_kept_and_the_oldest_dropped() -> None:
    cache: Cache[int, object] = Cache(2)
    first = cache.get(1, object)
    cache.get(2, object)
    assert cache.get(1, object) is first
    cache.get(3, object)
    assert len(cache) == 2
    assert cache.get(1, object) is first
    cache.clear()
    assert cache.get(1, object) is not first


def test_a_failure_is_not_kept() -> None:
    cache: Cache[str, int] = Cache(1)

    def fail() -> int:
        raise ValueError

    with pytest.raises(ValueError):
        cache.get("a", fail)
    assert cache.get("a", lambda: 1) == 1


def test_concurrent_requests_share_one_making() -> None:
    cache: Cache[str, int] = Cache(4)
    calls = []

    def make() -> int:
        calls.append(1)
        time.sleep(0.02)
        return 7

    threads = [threading.Thread(target=lambda: cache.get("a", make)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1


def test_a_forked_child_makes_what_a_thread_of_the_parent_was_making() -> None:
    cache: Cache[str, int] = Cache(4)
    cache.get("made", lambda: 1)
    making, finish = threading.Event(), threading.Event()

    def make() -> int:
        making.set()
        finish.wait()
        return 2

    other = threading.Thread(target=lambda: cache.get("a", make))
    other.start()
    making.wait()
    try:
        assert in_forked_child(lambda: cache.get("a", lambda: 3) == 3 and cache.get("made", lambda: 4) == 1)
    finally:
        finish.set()
        other.join()
    assert cache.get("a", lambda: 5) == 2


def test_what_could_not_be_made_takes_no_place() -> None:
    cache: Cache[str, int] = Cache(2)
    cache.get("kept", lambda: 1)

    def fail() -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.get("a", fail)
    assert len(cache) == 1
    cache.get("b", lambda: 2)
    assert cache.get("kept", lambda: 3) == 1


def test_those_who_wait_make_what_the_first_one_could_not() -> None:
    cache: Cache[str, int] = Cache(2)
    making, finish, found = threading.Event(), threading.Event(), []

    def fail() -> int:
        making.set()
        finish.wait()
        raise ValueError

    def first() -> None:
        with pytest.raises(ValueError):
            cache.get("a", fail)

    threads = [threading.Thread(target=first)]
    threads[0].start()
    making.wait()
    threads += [threading.Thread(target=lambda: found.append(cache.get("a", object))) for _ in range(3)]  # type: ignore[arg-type]
    for thread in threads[1:]:
        thread.start()
    finish.set()
    for thread in threads:
        thread.join()
    assert len(set(map(id, found))) == 1
    assert cache.get("a", lambda: 5) is found[0]


def test_none_is_a_value() -> None:
    cache: Cache[str, None] = Cache(1)
    calls: list[int] = []
    for _ in range(2):
        assert cache.get("a", lambda: calls.append(1)) is None
    assert calls == [1]


def test_all_values_may_be_forgotten() -> None:
    cache: Cache[int, int] = Cache(3)
    for number in range(5):
        assert cache.get(number, lambda number=number: number) == number  # type: ignore[misc]
    assert len(cache) == 3
    assert cache.get(2, lambda: 7) == 2, "those used last stay"
    assert cache.get(1, lambda: 7) == 7
    assert cache.get(3, lambda: 8) == 8, "it was the one not used for longest"
    cache.clear()
    assert len(cache) == 0


def test_a_value_is_there_once_it_is_made() -> None:
    cache: Cache[str, bool] = Cache(2)
    assert "a" not in cache
    assert cache.get("a", lambda: "a" in cache) is False
    assert "a" in cache
    assert "b" not in cache
