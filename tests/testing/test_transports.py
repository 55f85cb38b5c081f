"""The kit of transports passes the engine of threads, and finds what is wrong with others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tileir.core import BackendError
from tileir.runtime.transports import THREADS, Transport
from tileir.testing import check_transport
from tileir_testing.transports import check_failure

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_threads_pass(size: int) -> None:
    check_transport(THREADS, size)
    check_failure(THREADS, size)


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


@pytest.mark.parametrize(
    ("method", "wrong", "told"),
    [
        ("all_reduce", more, "all_reduce by"),
        ("all_reduce", without_nan, "loses NaN"),
        ("reduce_scatter", own_part, "reduce_scatter by|all_reduce by"),
        ("all_gather", nothing, "all_gather gives"),
    ],
)
def test_what_is_wrong_is_found(method: str, wrong: Callable[..., Any], told: str) -> None:
    with pytest.raises(BackendError, match=told):
        check_transport(Spoilt(method, wrong), 2)


def test_what_is_no_engine() -> None:
    number: Any = 3
    with pytest.raises(AssertionError, match="the transport is a int without name and launch"):
        check_transport(number, 2)
