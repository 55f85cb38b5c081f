from __future__ import annotations

import threading

import pytest

from strategies.devices import executor
from tileir.runtime.events import PendingEvent


def test_mapped_bytes_are_the_memory_itself() -> None:
    buffer = executor().allocate(8)
    with buffer.map_discard() as content:
        content[:] = range(8)
    with buffer.map_current() as content:
        assert bytes(content) == bytes(range(8))
    assert bytes(buffer.host()) == bytes(range(8))


def test_mapping_waits_for_events() -> None:
    buffer, event = executor().allocate(1), PendingEvent()
    buffer.host()[0] = 1

    def work() -> None:
        buffer.host()[0] = 2
        event.complete()

    threading.Timer(0.01, work).start()
    with buffer.map_current([event]) as content:
        assert content[0] == 2


def test_mapping_raises_what_an_event_failed_with() -> None:
    error, event = ValueError("broken"), PendingEvent()
    event.fail(error)
    with pytest.raises(ValueError, match="broken") as caught, executor().allocate(1).map_discard([event]):
        pass
    assert caught.value is error
