"""The kit of transports passes the engine of threads, and finds what is wrong with others."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tileir.core import BackendError
from tileir.runtime.transports import THREADS, Transport
from tileir.testing import check_transport

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.sampled(0)
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_threads_pass(size: int) -> None:
    check_transport(THREADS, size)


class Spoilt:
    """The engine of threads, one of whose methods does something else."""

    name = "spoilt"

    def __init__(self, method: str, wrong: Callable[..., Any]) -> None:
        self.method, self.wrong = method, wrong

    def launch(self, size: int, work: Callable[[Transport], Any]) -> Any:
        def spoilt(end: Transport) -> Any:
            usual = getattr(end, self.method)
            setattr(end, self.method, lambda *args: self.wrong(usual, *args))
            return work(end)

        return THREADS.launch(size, spoilt)


def more(usual: Any, array: Any, how: Any, group: Any) -> Any:
    return usual(array, how, group) + array.dtype.type(1)


def without_nan(usual: Any, array: Any, how: Any, group: Any) -> Any:
    return np.nan_to_num(usual(array, how, group))


def own_part(_: Any, parts: Any, *__: Any) -> Any:
    return parts[0]


def nothing(_: Any, __: Any, parts: Any, ___: Any) -> None:
    for part in parts:
        part[...] = 1


def turned(usual: Any, parts: Any, how: Any, group: Any) -> Any:
    return usual(parts[::-1], how, group[::-1])


def changed(usual: Any, sent: Any, received: Any) -> None:
    usual(sent, received)
    for _, array in received:
        array[-1:] = 1


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("method", "wrong", "told"),
    [
        ("all_reduce", more, "all_reduce of"),
        ("all_reduce", without_nan, "all_reduce of float32 by"),
        ("reduce_scatter", own_part, "could not broadcast input array|cannot reshape array"),  # whichever rank is first
        ("reduce_scatter", turned, "all_reduce of float32 by add|reduce_scatter of float32 by add"),
        ("all_gather", nothing, "all_gather of"),
        ("exchange", changed, "(exchange|all_gather) of bool"),
    ],
)
def test_what_is_wrong_is_found(method: str, wrong: Callable[..., Any], told: str) -> None:
    with pytest.raises((AssertionError, BackendError), match=told):
        check_transport(Spoilt(method, wrong), 3)


@pytest.mark.sampled(0)
def test_engines_whose_ranks_go_on_after_a_failure_are_found() -> None:
    class Deaf:
        name = "deaf"

        def launch(self, size: int, work: Callable[[Transport], Any]) -> Any:
            try:
                return THREADS.launch(size, work)
            except BackendError:
                return {}

    with pytest.raises(AssertionError, match="ranks that fail, or differ, are not refused"):
        check_transport(Deaf(), 2)


@pytest.mark.sampled(0)
def test_the_command_checks_a_transport() -> None:
    command = [sys.executable, "-m", "tileir.testing", "--extension", "transport", "inprocess", "--ranks", "3"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (found.stdout, found.returncode) == ("transport inprocess: all checks passed\n", 0), found.stderr


def test_what_is_no_engine() -> None:
    number: Any = 3
    with pytest.raises(AssertionError, match="the transport is a int without name and launch"):
        check_transport(number, 2)
