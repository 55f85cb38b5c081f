from __future__ import annotations

import contextlib
import gc

from tileir.core.collection import collection_paused


def test_the_collector_pauses_and_goes_on() -> None:
    assert gc.isenabled()
    with contextlib.suppress(KeyError), collection_paused():
        assert not gc.isenabled()
        raise KeyError
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with collection_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()
