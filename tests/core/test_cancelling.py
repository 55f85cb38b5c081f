from __future__ import annotations

import threading

import pytest

from tileir.core.cancelling import CancelledError, cancelled_if, checkpoint


def test_work_goes_on_where_nobody_said_anything() -> None:
    checkpoint()
    with cancelled_if(lambda: False):
        checkpoint()


def test_work_that_is_given_up_stops_at_the_next_checkpoint_inside() -> None:
    with pytest.raises(CancelledError), cancelled_if(lambda: True):
        checkpoint()
    checkpoint()


def test_the_innermost_decides() -> None:
    with cancelled_if(lambda: True), cancelled_if(lambda: False):
        checkpoint()


def test_other_threads_go_on() -> None:
    done: list[bool] = []

    def work() -> None:
        checkpoint()
        done.append(True)

    with cancelled_if(lambda: True):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert done == [True]


def test_it_is_no_fault() -> None:
    assert not issubclass(CancelledError, Exception)
