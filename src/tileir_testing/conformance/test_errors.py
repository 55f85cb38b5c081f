"""Refusals: wrong kernels, libraries and calls get a diagnostic, and never harm the process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tileir.core import BackendError, TileError
from tileir_testing.spoilt import SPOILERS
from tileir_testing.subject import INCREMENT, Subject, numbers


def code_of(caught: pytest.ExceptionInfo[TileError]) -> str:
    return caught.value.diagnostics[0].code


@pytest.mark.parametrize("sizes", [(), (4000,), (4000, 4000, 4000), (4000, 3999), (0, 4000)], ids=str)
def test_buffers_that_do_not_fit_are_refused(subject: Subject, sizes: tuple[int, ...]) -> None:
    kernel = subject.prepared(subject.kernel(INCREMENT))
    buffers = [subject.executor.allocate(size) for size in sizes]
    for run in (kernel.launch, lambda given: kernel.run(given).wait()):
        with pytest.raises(TileError) as caught:
            run(buffers)
        assert code_of(caught) == "TIL706"


def test_larger_buffers_are_fine(subject: Subject) -> None:
    source, target = subject.upload(np.append(numbers(), numbers())), subject.executor.allocate(10_000)
    subject.prepared(subject.kernel(INCREMENT)).launch([target, source])
    np.testing.assert_array_equal(subject.download(target, numbers()), numbers(1))


def test_a_closed_executor_says_so(subject: Subject) -> None:
    executor = subject.fresh_executor()
    library = subject.compiler.build([subject.kernel(INCREMENT)])
    kernel = executor.prepare(library, 0)
    buffers = [executor.allocate(4000), executor.allocate(4000)]
    executor.copy(numbers(), buffers[1]).wait()
    executor.close()
    attempts: list[Callable[[], object]] = [
        lambda: kernel.launch(buffers),
        lambda: kernel.run(buffers).wait(),
        lambda: executor.copy(numbers(), buffers[0]).wait(),
    ]
    for attempt in attempts:
        with pytest.raises(BackendError) as caught:
            attempt()
        assert code_of(caught) == "TIL807"


def test_closing_waits_for_all_work(subject: Subject) -> None:
    executor = subject.fresh_executor()
    kernel = executor.prepare(subject.compiler.build([subject.kernel(INCREMENT)]), 0)
    one, other = executor.allocate(4000), executor.allocate(4000)
    events = [executor.copy(numbers(), one)]
    for _ in range(10):
        events.append(kernel.run([other, one], events[-1:]))
        one, other = other, one
    executor.close()
    assert all(event.done for event in events)
    executor.close()


def test_an_unknown_form_of_code_is_refused(subject: Subject) -> None:
    library = subject.compiler.build([subject.kernel(INCREMENT)])
    with pytest.raises(BackendError) as caught:
        library.listing("no such form")
    assert code_of(caught) == "TIL806"


@pytest.mark.parametrize("index", [1, 7, -1, 2**70, None, "0", 0.0], ids=str)
def test_kernels_that_a_library_lacks_are_refused(subject: Subject, index: Any) -> None:
    library = subject.compiler.build([subject.kernel(INCREMENT)])
    with pytest.raises(TileError) as caught:
        subject.executor.prepare(library, index)
    assert code_of(caught) == "TIL707"


@pytest.mark.parametrize("size", [-1, -(2**70), None, "1", 0.5], ids=str)
def test_memory_of_no_size_is_refused(subject: Subject, size: Any) -> None:
    with pytest.raises(TileError) as caught:
        subject.executor.allocate(size)
    assert code_of(caught) == "TIL707"


@pytest.mark.parametrize("spoiler", SPOILERS)
def test_spoilt_libraries_are_refused_or_harmless(spoiler: str, request: pytest.FixtureRequest) -> None:
    """A process of its own loads them, since a system may end one that loads broken code."""
    command = [sys.executable, "-m", "tileir_testing.spoilt", request.config.getoption("--backend"), spoiler]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, capture_output=True, check=False, text=True, env=environment)
    *_, last = [done.stdout, *done.stdout.splitlines()]
    problem = f"ended by signal {-done.returncode}" if done.returncode < 0 else done.stderr
    assert done.returncode == 0, f"{last}: {problem}; tileir.runtime.checks.checked_parts tells such parts"


def test_parts_of_something_else_are_refused(subject: Subject) -> None:
    with pytest.raises(BackendError) as caught:
        subject.compiler.load([subject.kernel(INCREMENT)], {"a part of something else": b"\0" * 100})
    assert code_of(caught) == "TIL806"
