from __future__ import annotations

import threading
from contextlib import nullcontext

import pytest

from tileir.core.process.cancellation import CancelledError, cancelled_if, checkpoint


def test_work_goes_on_where_nobody_said_anything() -> None:
    checkpoint()
    with cancelled_if(lambda: False):
        checkpoint()


def test_work_that_is_given_up_stops_at_the_next_checkpoint_inside() -> None:
    with pytest.raises(CancelledError), cancelled_if(lambda: True):
        checkpoint()
    checkpoint()


@pytest.mark.parametrize("outer", [False, True])
@pytest.mark.parametrize("inner", [False, True])
def test_what_is_given_up_around_is_given_up_inside(outer: bool, inner: bool) -> None:
    with cancelled_if(lambda: outer):
        with cancelled_if(lambda: inner), pytest.raises(CancelledError) if outer or inner else nullcontext():
            checkpoint()
        with pytest.raises(CancelledError) if outer else nullcontext():
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
