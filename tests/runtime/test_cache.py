from __future__ import annotations

import threading
import time

import pytest

from strategies.processes import in_forked_child
from tileir.runtime.cache import Cache


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
