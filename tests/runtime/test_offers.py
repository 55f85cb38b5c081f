"""Warnings about operations that a back end seems to offer, but does not."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tileir.runtime.context import Context
from tileir.runtime.discovery import Registry
from tileir.runtime.interface import Backend, DeviceInfo
from tileir.runtime.offers import event_mistakes, executor_mistakes, is_asynchronous, kernel_mistakes


class Plain:
    """As little as an executor must have."""

    def allocate(self, nbytes: int) -> Any: ...

    def wrap(self, array: Any) -> None: ...

    def prepare(self, library: Any, index: int) -> Any: ...

    def copy(self, source: Any, destination: Any, after: Any = ()) -> Any: ...

    def close(self) -> None: ...


class Misspelt(Plain):
    asynchronus = True

    def sequences(self, launches: Any) -> Any: ...


class Batching(Plain):
    asynchronous = True

    def run_batch(self, inputs: Any, launches: Any, outputs: Any) -> None: ...


class Repeating(Plain):
    repeats = True


def context_of(executor: Plain) -> Context:
    def devices() -> list[DeviceInfo]:
        return [DeviceInfo("mine.0", "Mine", "mine")]

    backend: Backend[Any] = Backend("mine", devices, lambda *_: None, lambda *_: executor)  # type: ignore[arg-type]
    return Context(registry=Registry.of(backend), disk_cache=None)


@pytest.mark.parametrize(
    ("executor", "messages"),
    [
        (Plain(), []),
        (
            Misspelt(),
            [
                "Misspelt has 'asynchronus', which is not used; did you mean 'asynchronous'?",
                "Misspelt has 'sequences', which is not used; did you mean 'sequence'?",
            ],
        ),
        (Batching(), ["Batching has 'run_batch', not used without 'batches': see BatchingExecutor"]),
        (Repeating(), ["Repeating has 'repeats', not used without 'sequence': see RepeatingExecutor"]),
    ],
)
def test_an_executor_is_looked_at_when_it_is_made(
    executor: Plain, messages: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert list(executor_mistakes(executor)) == messages
    context = context_of(executor)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            context.executor(context.device("mine"))
    assert [record.getMessage() for record in caplog.records] == messages


def test_only_what_says_so_is_asynchronous() -> None:
    found: list[bool] = [is_asynchronous(each) for each in (Plain(), Misspelt(), Batching())]
    assert found == [False, False, True]


def test_kernels_and_events() -> None:
    class Kernel:
        def binds(self) -> None: ...

    class Event:
        def than(self) -> None: ...

    assert list(kernel_mistakes(Kernel())) == ["Kernel has 'binds', which is not used; did you mean 'bind'?"]
    assert list(event_mistakes(Event())) == []  # three letters of four are too few to tell
